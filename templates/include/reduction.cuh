// Reduction operators on float registers. No template syntax. Operators: operations.md section 6.

//@ fw_sum: FW_INLINE
FW_INLINE float fw_sum(float a, float x) { return a + x; }

//@ fw_product: FW_INLINE
FW_INLINE float fw_product(float a, float x) { return a * x; }

//@ fw_smallest: FW_INLINE fw_min_nan
FW_INLINE float fw_smallest(float a, float x) { return fw_min_nan(a, x); }

//@ fw_largest: FW_INLINE fw_max_nan
FW_INLINE float fw_largest(float a, float x) { return fw_max_nan(a, x); }

//@ fw_square: FW_INLINE
FW_INLINE float fw_square(float x) { return x * x; }

//@ fw_one_if_zero: FW_INLINE
FW_INLINE float fw_one_if_zero(float x) { return x == 0.0f ? 1.0f : x; }

//@ fw_multiply_add: FW_INLINE
FW_INLINE int fw_multiply_add(int a, int b, int c) { return int(unsigned(a) * unsigned(b) + unsigned(c)); }  // wraps
