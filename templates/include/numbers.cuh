// Numbers that a launch tells. No template syntax.

//@ fw_quotient: FW_INLINE
// x / divisor of a divisor above 1, by a multiplier (low word) and a shift (high word) that the host prepared: exact for all x of 32 bits
// (Granlund, Montgomery: Division by invariant integers using multiplication, figure 4.1). Longer numbers are divided by the chip's own routine.
FW_INLINE unsigned fw_quotient(unsigned x, int, long long reciprocal) {
  const unsigned part = unsigned((unsigned long long)x * unsigned(reciprocal) >> 32);
  return (part + ((x - part) >> 1)) >> unsigned(reciprocal >> 32);
}
FW_INLINE unsigned fw_quotient(int x, int divisor, long long reciprocal) { return fw_quotient(unsigned(x), divisor, reciprocal); }
template <typename Divisor>
FW_INLINE unsigned long long fw_quotient(unsigned long long x, Divisor divisor, long long) { return x / (unsigned long long)divisor; }

//@ fw_remainder: fw_quotient
template <typename Index, typename Divisor>
FW_INLINE Index fw_remainder(Index x, Divisor divisor, long long reciprocal) {
  return x - Index(fw_quotient(x, divisor, reciprocal)) * Index(divisor);
}
