// Mathematical functions and arithmetic intrinsics of CUDA device code.
//
// The host's mathematical library stands in for CUDA's: both are within a few units in the last place, neither is
// correctly rounded. The fast intrinsics (`__expf`, `__fdividef`, ...) are more exact here than on a GPU.
#pragma once

#include "bits.h"

// Declares a function of the C library for double and float, and its overload for float.
#define FW_EMULATOR_MATH1(name)                 \
  extern "C" double name(double) noexcept;      \
  extern "C" float name##f(float) noexcept;     \
  inline float name(float x) { return name##f(x); }
#define FW_EMULATOR_MATH2(name)                      \
  extern "C" double name(double, double) noexcept;   \
  extern "C" float name##f(float, float) noexcept;   \
  inline float name(float x, float y) { return name##f(x, y); }

FW_EMULATOR_MATH1(acos)
FW_EMULATOR_MATH1(asin)
FW_EMULATOR_MATH1(atan)
FW_EMULATOR_MATH1(cbrt)
FW_EMULATOR_MATH1(ceil)
FW_EMULATOR_MATH1(cos)
FW_EMULATOR_MATH1(cosh)
FW_EMULATOR_MATH1(erf)
FW_EMULATOR_MATH1(erfc)
FW_EMULATOR_MATH1(exp)
FW_EMULATOR_MATH1(exp2)
FW_EMULATOR_MATH1(expm1)
FW_EMULATOR_MATH1(fabs)
FW_EMULATOR_MATH1(floor)
FW_EMULATOR_MATH1(log)
FW_EMULATOR_MATH1(log10)
FW_EMULATOR_MATH1(log1p)
FW_EMULATOR_MATH1(log2)
FW_EMULATOR_MATH1(nearbyint)
FW_EMULATOR_MATH1(rint)
FW_EMULATOR_MATH1(round)
FW_EMULATOR_MATH1(sin)
FW_EMULATOR_MATH1(sinh)
FW_EMULATOR_MATH1(sqrt)
FW_EMULATOR_MATH1(tan)
FW_EMULATOR_MATH1(tanh)
FW_EMULATOR_MATH1(trunc)
FW_EMULATOR_MATH2(atan2)
FW_EMULATOR_MATH2(copysign)
FW_EMULATOR_MATH2(fmax)
FW_EMULATOR_MATH2(fmin)
FW_EMULATOR_MATH2(fmod)
FW_EMULATOR_MATH2(hypot)
FW_EMULATOR_MATH2(pow)
FW_EMULATOR_MATH2(remainder)

#undef FW_EMULATOR_MATH1
#undef FW_EMULATOR_MATH2

extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
extern "C" int abs(int) noexcept;
extern "C" long long llabs(long long) noexcept;
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
inline long long abs(long long x) { return llabs(x); }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float exp10f(float x) { return powf(10.0f, x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }  // NaN becomes 0

inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
inline bool signbit(float x) { return __builtin_signbit(x); }
inline bool signbit(double x) { return __builtin_signbit(x); }

// min and max have the overloads of CUDA; a signed and an unsigned operand compare as unsigned.
#define FW_EMULATOR_MINMAX(result, left, right)                                                              \
  inline result min(left a, right b) { return result(a) < result(b) ? result(a) : result(b); }               \
  inline result max(left a, right b) { return result(a) > result(b) ? result(a) : result(b); }
FW_EMULATOR_MINMAX(int, int, int)
FW_EMULATOR_MINMAX(unsigned, unsigned, unsigned)
FW_EMULATOR_MINMAX(unsigned, int, unsigned)
FW_EMULATOR_MINMAX(unsigned, unsigned, int)
FW_EMULATOR_MINMAX(long, long, long)
typedef unsigned long fw_emulator_ulong;
FW_EMULATOR_MINMAX(fw_emulator_ulong, fw_emulator_ulong, fw_emulator_ulong)
typedef long long fw_emulator_longlong;
typedef unsigned long long fw_emulator_ulonglong;
FW_EMULATOR_MINMAX(fw_emulator_longlong, fw_emulator_longlong, fw_emulator_longlong)
FW_EMULATOR_MINMAX(fw_emulator_ulonglong, fw_emulator_ulonglong, fw_emulator_ulonglong)
FW_EMULATOR_MINMAX(fw_emulator_ulonglong, fw_emulator_longlong, fw_emulator_ulonglong)
FW_EMULATOR_MINMAX(fw_emulator_ulonglong, fw_emulator_ulonglong, fw_emulator_longlong)
#undef FW_EMULATOR_MINMAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

// Bit patterns.
inline unsigned __float_as_uint(float x) { return emulator::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return emulator::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return emulator::bit_cast<float>(x); }
inline float __int_as_float(int x) { return emulator::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return emulator::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return emulator::bit_cast<double>(x); }

// Operations with a stated rounding; the text is compiled without contraction, so plain operators are exact here.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __powf(float x, float y) { return powf(x, y); }

namespace emulator {

// PTX `cvt` to an integer type: `rounded` is integral; saturates, NaN becomes 0. `end` is the type's maximum plus one.
template <class Integer, class Float>
inline Integer saturate(Float rounded, Float begin, Float end) {
  if (rounded != rounded) return 0;
  if (rounded < begin) return Integer(begin);
  if (rounded >= end) return Integer(~(Integer(begin)));  // the maximum: all bits of the minimum flipped
  return Integer(rounded);
}

}  // namespace emulator

#define FW_EMULATOR_TO_INTEGER(name, integer, begin, end)                                                            \
  inline integer __float2##name##_rn(float x) { return emulator::saturate<integer, float>(rintf(x), begin, end); }   \
  inline integer __float2##name##_rz(float x) { return emulator::saturate<integer, float>(truncf(x), begin, end); }  \
  inline integer __float2##name##_rd(float x) { return emulator::saturate<integer, float>(floorf(x), begin, end); }  \
  inline integer __float2##name##_ru(float x) { return emulator::saturate<integer, float>(ceilf(x), begin, end); }   \
  inline integer __double2##name##_rn(double x) { return emulator::saturate<integer, double>(rint(x), begin, end); } \
  inline integer __double2##name##_rz(double x) { return emulator::saturate<integer, double>(trunc(x), begin, end); }
FW_EMULATOR_TO_INTEGER(int, int, -0x1p31f, 0x1p31f)
FW_EMULATOR_TO_INTEGER(uint, unsigned, 0.0f, 0x1p32f)
FW_EMULATOR_TO_INTEGER(ll, long long, -0x1p63f, 0x1p63f)
FW_EMULATOR_TO_INTEGER(ull, unsigned long long, 0.0f, 0x1p64f)
#undef FW_EMULATOR_TO_INTEGER

inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __ull2float_rn(unsigned long long x) { return float(x); }
inline float __double2float_rn(double x) { return float(x); }
inline double __int2double_rn(int x) { return double(x); }
inline double __ll2double_rn(long long x) { return double(x); }

// Integer intrinsics.
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }

inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
  return reversed;
}

template <int N>
inline void fw_load_anew(const float* from, float (&values)[N]) {
  for (int e = 0; e < N; ++e) values[e] = from[e];
}

// Each selector nibble picks one of the eight bytes of (y, x); its high bit asks for that byte's sign, replicated.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> (4 * i) & 0xf;
    unsigned byte = unsigned(bytes >> (8 * (nibble & 7)) & 0xff);
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
