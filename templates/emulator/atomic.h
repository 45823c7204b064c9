// Atomic functions. Blocks run on several OS threads, so these are atomic for the host as well.
#pragma once

#include "bits.h"

namespace emulator {

// Replaces *address by update(*address); returns the old value. Bits is an unsigned integer of T's size.
template <class Bits, class T, class Update>
inline T atomic_update(T* address, Update update) {
  Bits* bits = reinterpret_cast<Bits*>(address);
  Bits old = __atomic_load_n(bits, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(bits, &old, bit_cast<Bits>(update(bit_cast<T>(old))), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
  return bit_cast<T>(old);
}

}  // namespace emulator

inline float atomicAdd(float* address, float value) {
  return emulator::atomic_update<unsigned>(address, [=](float old) { return old + value; });
}
inline double atomicAdd(double* address, double value) {
  return emulator::atomic_update<unsigned long long>(address, [=](double old) { return old + value; });
}

#define FW_EMULATOR_ATOMICS(T, Bits)                                                                                 \
  inline T atomicAdd(T* address, T value) { return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST); }           \
  inline T atomicAnd(T* address, T value) { return __atomic_fetch_and(address, value, __ATOMIC_SEQ_CST); }           \
  inline T atomicOr(T* address, T value) { return __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST); }             \
  inline T atomicXor(T* address, T value) { return __atomic_fetch_xor(address, value, __ATOMIC_SEQ_CST); }           \
  inline T atomicExch(T* address, T value) { return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST); }         \
  inline T atomicMin(T* address, T value) {                                                                          \
    return emulator::atomic_update<Bits>(address, [=](T old) { return old < value ? old : value; });                 \
  }                                                                                                                  \
  inline T atomicMax(T* address, T value) {                                                                          \
    return emulator::atomic_update<Bits>(address, [=](T old) { return old > value ? old : value; });                 \
  }                                                                                                                  \
  inline T atomicCAS(T* address, T expected, T desired) {                                                            \
    __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);             \
    return expected;                                                                                                 \
  }
FW_EMULATOR_ATOMICS(int, unsigned)
FW_EMULATOR_ATOMICS(unsigned, unsigned)
FW_EMULATOR_ATOMICS(unsigned long long, unsigned long long)
#undef FW_EMULATOR_ATOMICS

inline void fw_add_vector(float* to, const float (&x)[4]) {
  if (reinterpret_cast<unsigned long long>(to) % 16 != 0) emulator::fail("fw_add_vector: the address is not a multiple of 16");
  for (int i = 0; i < 4; ++i) atomicAdd(to + i, x[i]);
}
