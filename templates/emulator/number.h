// Conversions and arithmetic of the generated code's number formats: the host's side of the device primitives.
#pragma once

#include "bits.h"

namespace emulator {

constexpr unsigned SIGN = 0x80000000u;
constexpr unsigned INFINITY_BITS = 0x7f800000u;
constexpr unsigned short NAN16 = 0x7fff;  // what PTX `cvt` gives for every NaN, half and bfloat16 alike
constexpr unsigned NAN32 = 0x7fffffffu;   // the same for 32-bit results

}  // namespace emulator

// Exact: scaling by 2^112 moves the exponent from the bias of half (15) to that of float (127), subnormals included.
inline float fw_f16_bits_to_f32(unsigned short bits) {
  const unsigned magnitude = (bits & 0x7fffu) << 13;
  const bool finite = magnitude < 0x7c00u << 13;
  const unsigned scaled = emulator::bit_cast<unsigned>(emulator::bit_cast<float>(magnitude) * 0x1p112f);
  const unsigned value = finite ? scaled : magnitude | emulator::INFINITY_BITS;
  return emulator::bit_cast<float>(value | (bits & 0x8000u) << 16);
}

// Rounds to nearest, ties to even; overflows to infinity.
inline unsigned short fw_f32_to_f16_bits(float x) {
  const unsigned bits = emulator::bit_cast<unsigned>(x);
  const unsigned sign = bits >> 16 & 0x8000u, magnitude = bits & ~emulator::SIGN;
  if (magnitude > emulator::INFINITY_BITS) return emulator::NAN16;
  if (magnitude >= 0x47800000u) return (unsigned short)(sign | 0x7c00u);  // 2^16 and above
  if (magnitude < 0x38800000u) {  // below 2^-14, subnormal: adding 2^-1 leaves units of 2^-24 in the low bits
    const float aligned = emulator::bit_cast<float>(magnitude) + 0.5f;
    return (unsigned short)(sign | (emulator::bit_cast<unsigned>(aligned) - emulator::bit_cast<unsigned>(0.5f)));
  }
  const unsigned rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return (unsigned short)(sign | (rounded - (112u << 23)) >> 13);
}

inline float fw_bf16_bits_to_f32(unsigned short bits) { return emulator::bit_cast<float>(unsigned(bits) << 16); }

// Rounds to nearest, ties to even; overflows to infinity.
inline unsigned short fw_f32_to_bf16_bits(float x) {
  if (x != x) return emulator::NAN16;
  const unsigned bits = emulator::bit_cast<unsigned>(x);
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Two 16-bit values in one word, the first in the low half.
inline unsigned fw_pack_f16x2(float lo, float hi) {
  return fw_f32_to_f16_bits(lo) | unsigned(fw_f32_to_f16_bits(hi)) << 16;
}
inline unsigned fw_pack_bf16x2(float lo, float hi) {
  return fw_f32_to_bf16_bits(lo) | unsigned(fw_f32_to_bf16_bits(hi)) << 16;
}

inline float fw_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// PTX `max.NaN` and `min.NaN`: NaN wins, and +0 is greater than -0.
inline float fw_max_nan(float a, float b) {
  if (a != a || b != b) return emulator::bit_cast<float>(emulator::NAN32);
  if (a == b) return __builtin_signbit(a) ? b : a;
  return a > b ? a : b;
}
inline float fw_min_nan(float a, float b) {
  if (a != a || b != b) return emulator::bit_cast<float>(emulator::NAN32);
  if (a == b) return __builtin_signbit(a) ? a : b;
  return a < b ? a : b;
}

namespace emulator {

// A function of two FP16 or BF16 values on both halves of two words; each result is rounded once.
template <typename Function>
inline unsigned on_f16x2(unsigned x, unsigned b, Function function) {
  const auto value = [](unsigned bits) { return fw_f16_bits_to_f32((unsigned short)bits); };
  return fw_pack_f16x2(function(value(x), value(b)), function(value(x >> 16), value(b >> 16)));
}
template <typename Function>
inline unsigned on_bf16x2(unsigned x, unsigned b, Function function) {
  const auto value = [](unsigned bits) { return fw_bf16_bits_to_f32((unsigned short)bits); };
  return fw_pack_bf16x2(function(value(x), value(b)), function(value(x >> 16), value(b >> 16)));
}
inline float add(float x, float b) { return x + b; }
inline float subtract(float x, float b) { return x - b; }
inline float multiply(float x, float b) { return x * b; }

// E4M3 differs from FP16 by 2^8 in its scale; NaN loses its sign.
inline unsigned f16_bits_of_e4m3(unsigned bits) {
  const unsigned magnitude = bits & 0x7fu;
  if (magnitude == 0x7fu) return NAN16;
  const float value = fw_f16_bits_to_f32((unsigned short)(magnitude << 7)) * 0x1p8f;
  return fw_f32_to_f16_bits(value) | (bits & 0x80u) << 8;
}

}  // namespace emulator

// PTX `add.rn`, `sub.rn`, `mul.rn`, `max.NaN` and `min.NaN` of two values at once.
inline unsigned fw_add_f16x2(unsigned x, unsigned b) { return emulator::on_f16x2(x, b, emulator::add); }
inline unsigned fw_sub_f16x2(unsigned x, unsigned b) { return emulator::on_f16x2(x, b, emulator::subtract); }
inline unsigned fw_mul_f16x2(unsigned x, unsigned b) { return emulator::on_f16x2(x, b, emulator::multiply); }
inline unsigned fw_max_f16x2(unsigned x, unsigned b) { return emulator::on_f16x2(x, b, fw_max_nan); }
inline unsigned fw_min_f16x2(unsigned x, unsigned b) { return emulator::on_f16x2(x, b, fw_min_nan); }
inline unsigned fw_relu_f16x2(unsigned x) { return emulator::on_f16x2(x, 0, fw_max_nan); }
inline unsigned fw_add_bf16x2(unsigned x, unsigned b) { return emulator::on_bf16x2(x, b, emulator::add); }
inline unsigned fw_sub_bf16x2(unsigned x, unsigned b) { return emulator::on_bf16x2(x, b, emulator::subtract); }
inline unsigned fw_mul_bf16x2(unsigned x, unsigned b) { return emulator::on_bf16x2(x, b, emulator::multiply); }
inline unsigned fw_relu_bf16x2(unsigned x) { return emulator::on_bf16x2(x, 0, fw_max_nan); }

// Two E4M3 values as FP16.
inline unsigned fw_f16x2_of_e4m3(unsigned pair) {
  return emulator::f16_bits_of_e4m3(pair & 0xffu) | emulator::f16_bits_of_e4m3(pair >> 8 & 0xffu) << 16;
}

namespace emulator {

// `.ftz`: subnormal numbers are zeros of their sign.
inline float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }

}  // namespace emulator

// PTX `ex2.approx.ftz` and `rcp.approx.ftz`, more exact here than on a GPU.
inline float fw_fast_exp2(float x) { return emulator::flushed(__builtin_exp2f(emulator::flushed(x))); }
inline float fw_fast_reciprocal(float x) { return emulator::flushed(1.0f / emulator::flushed(x)); }
