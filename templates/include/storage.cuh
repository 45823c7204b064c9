// Storage types of tensors, and conversions between storage and registers. No template syntax.
// Registers hold float for floating types, int for 8- to 32-bit integers and booleans, long long for INT64.
// Conversions round to nearest even; integers and FP8 saturate; NaN becomes 0 in an integer.

//@ fw_infinity: FW_INLINE
FW_INLINE float fw_infinity() { return __uint_as_float(0x7f800000u); }

//@ fw_f32: FW_INLINE
FW_INLINE float fw_value(float x) { return x; }
FW_INLINE float fw_to_f32(float x) { return x; }
FW_INLINE float fw_to_f32(int x) { return float(x); }
FW_INLINE float fw_to_f32(long long x) { return float(x); }

//@ fw_f64: FW_INLINE
FW_INLINE double fw_value(double x) { return x; }
FW_INLINE double fw_to_f64(float x) { return x; }
FW_INLINE double fw_to_f64(int x) { return x; }
FW_INLINE double fw_to_f64(long long x) { return double(x); }
FW_INLINE float fw_to_f32(double x) { return float(x); }

//@ fw_i32: FW_INLINE
FW_INLINE int fw_value(int x) { return x; }
FW_INLINE int fw_to_i32(int x) { return x; }
FW_INLINE int fw_to_i32(long long x) { return x < -2147483647 - 1 ? -2147483647 - 1 : x > 2147483647 ? 2147483647 : int(x); }
FW_INLINE int fw_to_i32(float x) { return __float2int_rn(x); }  // saturates; NaN gives 0

//@ fw_i8: FW_INLINE fw_i32
FW_INLINE int fw_value(signed char x) { return x; }
FW_INLINE signed char fw_to_i8(int x) { return (signed char)(x < -128 ? -128 : x > 127 ? 127 : x); }
FW_INLINE signed char fw_to_i8(long long x) { return fw_to_i8(fw_to_i32(x)); }
FW_INLINE signed char fw_to_i8(float x) { return fw_to_i8(fw_to_i32(x)); }

//@ fw_u8: FW_INLINE fw_i32
FW_INLINE int fw_value(unsigned char x) { return x; }
FW_INLINE unsigned char fw_to_u8(int x) { return (unsigned char)(x < 0 ? 0 : x > 255 ? 255 : x); }
FW_INLINE unsigned char fw_to_u8(long long x) { return fw_to_u8(fw_to_i32(x)); }
FW_INLINE unsigned char fw_to_u8(float x) { return fw_to_u8(fw_to_i32(x)); }

//@ fw_i64: FW_INLINE
FW_INLINE long long fw_value(long long x) { return x; }
FW_INLINE long long fw_to_i64(long long x) { return x; }
FW_INLINE long long fw_to_i64(int x) { return x; }
FW_INLINE long long fw_to_i64(float x) { return x != x ? 0 : __float2ll_rn(x); }

//@ fw_bool: FW_INLINE
FW_INLINE int fw_to_bool(int x) { return x != 0; }
FW_INLINE int fw_to_bool(long long x) { return x != 0; }
FW_INLINE int fw_to_bool(float x) { return x != 0.0f; }  // NaN is true
FW_INLINE int fw_bit(const unsigned char* bits, long long index) { return bits[index >> 3] >> (index & 7) & 1; }
FW_INLINE unsigned fw_bits(const unsigned char* bits, long long index) { return unsigned(bits[index >> 3]) >> (index & 7); }

//@ fw_f16: FW_INLINE fw_f16_bits
struct fw_f16 { unsigned short bits; };
FW_INLINE float fw_value(fw_f16 x) { return fw_f16_bits_to_f32(x.bits); }
FW_INLINE fw_f16 fw_to_f16(float x) { return {fw_f32_to_f16_bits(x)}; }
FW_INLINE fw_f16 fw_to_f16(int x) { return fw_to_f16(float(x)); }  // all that is inexact in float overflows here
FW_INLINE fw_f16 fw_to_f16(long long x) { return fw_to_f16(float(x)); }

//@ fw_bf16: FW_INLINE fw_bf16_bits
struct fw_bf16 { unsigned short bits; };
FW_INLINE float fw_value(fw_bf16 x) { return fw_bf16_bits_to_f32(x.bits); }
FW_INLINE fw_bf16 fw_to_bf16(float x) { return {fw_f32_to_bf16_bits(x)}; }
FW_INLINE fw_bf16 fw_to_bf16(int x) {  // what float cannot hold is cut with a sticky bit: rounding twice would be wrong
  const bool fits = -16777216 <= x && x <= 16777216;
  return fw_to_bf16(fits ? float(x) : float(x >> 8 | ((x & 255) != 0)) * 256.0f);
}
FW_INLINE fw_bf16 fw_to_bf16(long long x) {
  float scale = 1.0f;
  for (; x < -16777216 || x > 16777216; scale *= 256.0f) x = x >> 8 | ((x & 255) != 0);
  return fw_to_bf16(float(x) * scale);
}
template <int N>
struct alignas(N < 8 ? 2 * N : 16) fw_bf16_pairs { unsigned at[N / 2]; };
template <int N>
FW_INLINE void fw_load_vector(const fw_bf16* from, float (&values)[N]) {  // one shift or one mask an element
  const fw_bf16_pairs<N> raw = *reinterpret_cast<const fw_bf16_pairs<N>*>(from);
#pragma unroll
  for (int e = 0; e < N; ++e) values[e] = __uint_as_float(e % 2 ? raw.at[e / 2] & 0xffff0000u : raw.at[e / 2] << 16);
}
FW_INLINE void fw_load_vector(const fw_bf16* from, float (&values)[1]) { values[0] = fw_value(*from); }

//@ primitive fw_f16x2: FW_INLINE
// Pairs of F16 values; each result is rounded once.
#define FW_ON_PAIRS(name, instruction)                                                                     \
  FW_INLINE unsigned name(unsigned x, unsigned b) {                                                        \
    unsigned pair;                                                                                         \
    asm(instruction " %0, %1, %2;" : "=r"(pair) : "r"(x), "r"(b));                                         \
    return pair;                                                                                           \
  }
FW_ON_PAIRS(fw_add_f16x2, "add.rn.f16x2")
FW_ON_PAIRS(fw_sub_f16x2, "sub.rn.f16x2")
FW_ON_PAIRS(fw_mul_f16x2, "mul.rn.f16x2")
#if __CUDA_ARCH__ >= 800
FW_ON_PAIRS(fw_max_f16x2, "max.NaN.f16x2")
FW_ON_PAIRS(fw_min_f16x2, "min.NaN.f16x2")
FW_INLINE unsigned fw_relu_f16x2(unsigned x) { return fw_max_f16x2(x, 0); }
#else
// Halves below zero become zero, NaNs stay: what is more than infinity carries into the sign.
FW_INLINE unsigned fw_relu_f16x2(unsigned x) {
  const unsigned nan = (x & 0x7fff7fffu) + 0x03ff03ffu;
  const unsigned dropped = x & ~nan & 0x80008000u;
  return x & ~(dropped / 0x8000 * 0xffff);
}
#endif
#undef FW_ON_PAIRS

//@ fw_clamp_f16x2: FW_INLINE fw_f16x2
// Halves no further from 0 than those of a limit; NaN as it is.
FW_INLINE unsigned fw_clamp_f16x2(unsigned x, unsigned limit) {
  return fw_max_f16x2(fw_min_f16x2(x, limit), limit | 0x80008000u);
}

//@ primitive fw_bf16x2: FW_INLINE
// Pairs of BF16 values; each result is rounded once.
#define FW_ON_PAIRS(name, instruction, constant)                                                           \
  FW_INLINE unsigned name(unsigned x, unsigned b) {                                                        \
    unsigned pair;                                                                                         \
    asm(instruction ";" : "=r"(pair) : "r"(x), "r"(b), "r"(constant));                                     \
    return pair;                                                                                           \
  }
#if __CUDA_ARCH__ >= 900
FW_ON_PAIRS(fw_add_bf16x2, "add.rn.bf16x2 %0, %1, %2", 0)
FW_ON_PAIRS(fw_sub_bf16x2, "sub.rn.bf16x2 %0, %1, %2", 0)
FW_ON_PAIRS(fw_mul_bf16x2, "mul.rn.bf16x2 %0, %1, %2", 0)
#else
FW_ON_PAIRS(fw_add_bf16x2, "fma.rn.bf16x2 %0, %1, %3, %2", 0x3f803f80u)  // x · 1 + b
FW_ON_PAIRS(fw_sub_bf16x2, "fma.rn.bf16x2 %0, %2, %3, %1", 0xbf80bf80u)  // b · −1 + x
FW_ON_PAIRS(fw_mul_bf16x2, "fma.rn.bf16x2 %0, %1, %2, %3", 0x80008000u)  // x · b − 0
#endif
FW_ON_PAIRS(fw_max_bf16x2, "max.NaN.bf16x2 %0, %1, %2", 0)
#undef FW_ON_PAIRS
FW_INLINE unsigned fw_relu_bf16x2(unsigned x) { return fw_max_bf16x2(x, 0); }

//@ fw_fp8: FW_INLINE fw_f16_bits
// 8-bit floats: by instructions from sm_89 on, elsewhere in integer arithmetic. What is too large becomes the largest, NaN
// the NaN without a sign.
#if __CUDA_ARCH__ >= 890
FW_INLINE float fw_e4m3_bits_to_f32(unsigned char bits) {
  unsigned values;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(values) : "h"((unsigned short)bits));
  return fw_f16_bits_to_f32((unsigned short)values);
}
FW_INLINE unsigned char fw_f32_to_e4m3_bits(float x) {
  unsigned short bits;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(x));
  return (unsigned char)bits;
}
FW_INLINE unsigned char fw_f32_to_e5m2_bits(float x) {
  unsigned short bits;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(x));
  return (unsigned char)bits;
}
#else
// `mantissa` bits of fraction, `bias` of the exponent.
FW_INLINE float fw_fp8_to_f32(unsigned char bits, int mantissa, int bias) {
  const int exponent = (bits & 0x7f) >> mantissa;
  const int fraction = bits & ((1 << mantissa) - 1);
  const float magnitude = exponent == 0
      ? float(fraction) * __uint_as_float(unsigned(128 - bias - mantissa) << 23)
      : __uint_as_float(unsigned(exponent + 127 - bias) << 23 | unsigned(fraction) << (23 - mantissa));
  return bits & 0x80 ? -magnitude : magnitude;
}
FW_INLINE unsigned char fw_f32_to_fp8(float x, int mantissa, int bias, unsigned largest) {
  const unsigned u = __float_as_uint(x);
  const unsigned sign = u >> 24 & 0x80u;
  const unsigned magnitude = u & 0x7fffffffu;
  const int exponent = int(magnitude >> 23) - 127 + bias;
  unsigned code;
  if (exponent >= 1) {
    const int drop = 23 - mantissa;
    const unsigned rounded = magnitude + ((1u << (drop - 1)) - 1u) + (magnitude >> drop & 1u);
    code = (rounded >> drop) - (unsigned(127 - bias) << mantissa);
    code = magnitude > 0x7f000000u || code > largest ? largest : code;
  } else {
    // adding this power of two rounds the subnormal to its last place, to nearest even
    const float anchor = __uint_as_float(unsigned(127 + 1 - bias - mantissa + 23) << 23);
    code = __float_as_uint(__uint_as_float(magnitude) + anchor) - __float_as_uint(anchor);
  }
  return (unsigned char)(sign | code);
}
FW_INLINE float fw_e4m3_bits_to_f32(unsigned char bits) {
  return (bits & 0x7f) == 0x7f ? __uint_as_float(0x7fffffffu) : fw_fp8_to_f32(bits, 3, 7);
}
FW_INLINE unsigned char fw_f32_to_e4m3_bits(float x) { return x != x ? 0x7f : fw_f32_to_fp8(x, 3, 7, 0x7e); }
FW_INLINE unsigned char fw_f32_to_e5m2_bits(float x) { return x != x ? 0x7f : fw_f32_to_fp8(x, 2, 15, 0x7b); }
#endif

//@ fw_fp8x4: FW_INLINE fw_fp8
// Four numbers as FP8, the first in the lowest byte, and the halves of two words in one.
#if __CUDA_ARCH__ >= 890
#define FW_PACK_FP8X4(type)                                                                                           \
  FW_INLINE unsigned fw_pack_##type##x4(float a, float b, float c, float d) {                                         \
    unsigned word;                                                                                                     \
    asm("{\n.reg .b16 lo, hi;\ncvt.rn.satfinite." #type "x2.f32 lo, %2, %1;\ncvt.rn.satfinite." #type              \
        "x2.f32 hi, %4, %3;\nmov.b32 %0, {lo, hi};\n}" : "=r"(word) : "f"(a), "f"(b), "f"(c), "f"(d));               \
    return word;                                                                                                       \
  }
#else
#define FW_PACK_FP8X4(type)                                                                                           \
  FW_INLINE unsigned fw_pack_##type##x4(float a, float b, float c, float d) {                                         \
    const unsigned lo = fw_f32_to_##type##_bits(a) | fw_f32_to_##type##_bits(b) << 8;                                  \
    return lo | unsigned(fw_f32_to_##type##_bits(c) | fw_f32_to_##type##_bits(d) << 8) << 16;                          \
  }
#endif
FW_PACK_FP8X4(e4m3)
FW_PACK_FP8X4(e5m2)
#undef FW_PACK_FP8X4
FW_INLINE unsigned fw_low_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x5410); }
FW_INLINE unsigned fw_high_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x7632); }

//@ fw_e4m3: FW_INLINE fw_fp8
struct fw_e4m3 { unsigned char bits; };
FW_INLINE float fw_value(fw_e4m3 x) { return fw_e4m3_bits_to_f32(x.bits); }
FW_INLINE fw_e4m3 fw_to_e4m3(float x) { return {fw_f32_to_e4m3_bits(x)}; }
FW_INLINE fw_e4m3 fw_to_e4m3(int x) { return fw_to_e4m3(float(x)); }
FW_INLINE fw_e4m3 fw_to_e4m3(long long x) { return fw_to_e4m3(float(x)); }

//@ fw_e5m2: FW_INLINE fw_fp8
// The upper byte of an F16.
struct fw_e5m2 { unsigned char bits; };
FW_INLINE float fw_value(fw_e5m2 x) { return fw_f16_bits_to_f32((unsigned short)(x.bits << 8)); }
FW_INLINE fw_e5m2 fw_to_e5m2(float x) { return {fw_f32_to_e5m2_bits(x)}; }
FW_INLINE fw_e5m2 fw_to_e5m2(int x) { return fw_to_e5m2(float(x)); }
FW_INLINE fw_e5m2 fw_to_e5m2(long long x) { return fw_to_e5m2(float(x)); }

//@ fw_f16x2_of_i8: fw_f16x2
// Pairs of 8-bit integers as F16: 1024 + u, in which u is the lower byte, less what is too much. Here and below the chip's
// own conversions take longer (docs/performance-notes.md).
FW_INLINE unsigned fw_f16x2_of_i8(unsigned pair) {
  return fw_add_f16x2(__byte_perm(pair ^ 0x8080u, 0x64u, 0x4140), 0xe480e480u);  // u = x + 128, less 1152
}

//@ fw_f16x2_of_u8: fw_f16x2
FW_INLINE unsigned fw_f16x2_of_u8(unsigned pair) {
  return fw_add_f16x2(__byte_perm(pair, 0x64u, 0x4140), 0xe400e400u);  // less 1024
}

//@ fw_bf16x2_of_i8: fw_bf16x2
// As BF16, whose fraction has seven bits: 128 + (x & 127), less 128, or 256 where x is negative.
FW_INLINE unsigned fw_bf16x2_of_i8(unsigned pair) {
  const unsigned x = __byte_perm(pair, 0, 0x4140);
  return fw_add_bf16x2((x & 0x7f007fu) | 0x43004300u, (x & 0x800080u) | 0xc300c300u);
}

//@ fw_bf16x2_of_u8: fw_bf16x2
// 128 + (x & 127), less 128 where x is less than that: 0x80 * 0x186 is -128.
FW_INLINE unsigned fw_bf16x2_of_u8(unsigned pair) {
  const unsigned x = __byte_perm(pair, 0, 0x4140);
  return fw_add_bf16x2((x & 0x7f007fu) | 0x43004300u, (~x & 0x800080u) * 0x186u);
}

//@ fw_f16x2_of_e5m2: FW_INLINE
FW_INLINE unsigned fw_f16x2_of_e5m2(unsigned pair) { return __byte_perm(pair, 0, 0x1404); }

//@ primitive fw_f16x2_of_e4m3: fw_f16x2
// One instruction from sm_89 on; before, the same bits below an exponent that is 8 too small, and the one NaN apart.
FW_INLINE unsigned fw_f16x2_of_e4m3(unsigned pair) {
#if __CUDA_ARCH__ >= 890
  unsigned values;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(values) : "h"((unsigned short)pair));
  return values;
#else
  const unsigned x = __byte_perm(pair, 0, 0x1404);
  const unsigned nan = (x & 0x7f007f00u) + 0x01000100u & 0x80008000u;
  return fw_mul_f16x2(x & 0x80008000u | (x & 0x7f007f00u) >> 1, 0x5c005c00u) | nan / 0x8000 * 0x7fff;
#endif
}

//@ fw_bf16x2_of_f16x2: FW_INLINE fw_f16 fw_bf16
FW_INLINE unsigned fw_bf16x2_of_f16x2(unsigned pair) {
  return fw_pack_bf16x2(fw_f16_bits_to_f32((unsigned short)pair), fw_f16_bits_to_f32((unsigned short)(pair >> 16)));
}

//@ fw_bf16x2_of_e5m2: fw_f16x2_of_e5m2 fw_bf16x2_of_f16x2
FW_INLINE unsigned fw_bf16x2_of_e5m2(unsigned pair) { return fw_bf16x2_of_f16x2(fw_f16x2_of_e5m2(pair)); }

//@ fw_bf16x2_of_e4m3: fw_f16x2_of_e4m3 fw_bf16x2_of_f16x2
FW_INLINE unsigned fw_bf16x2_of_e4m3(unsigned pair) { return fw_bf16x2_of_f16x2(fw_f16x2_of_e4m3(pair)); }

//@ fw_vector: FW_INLINE
// N consecutive elements, moved in accesses of up to 16 bytes.
template <typename Storage, int N>
struct alignas(sizeof(Storage) * N < 16 ? sizeof(Storage) * N : 16) fw_vector { Storage at[N]; };
template <typename Storage, typename Value, int N>
FW_INLINE void fw_load_vector(const Storage* from, Value (&values)[N]) {
  const fw_vector<Storage, N> raw = *reinterpret_cast<const fw_vector<Storage, N>*>(from);
#pragma unroll
  for (int e = 0; e < N; ++e) values[e] = fw_value(raw.at[e]);
}
template <typename Storage, int N>
FW_INLINE void fw_store_vector(Storage* to, const fw_vector<Storage, N>& raw) {
  *reinterpret_cast<fw_vector<Storage, N>*>(to) = raw;
}

//@ fw_raw: FW_INLINE fw_vector
// N consecutive elements as they lie in memory, in words where these are whole: the assembler would take elements of 16 bits apart.
template <typename Storage, int N, bool IN_WORDS = sizeof(Storage) * N % 4 == 0>
struct fw_raw : fw_vector<unsigned, sizeof(Storage) * N / 4> {};
template <typename Storage, int N>
struct fw_raw<Storage, N, false> : fw_vector<Storage, N> {};
template <typename Storage, typename Value, int N>
FW_INLINE void fw_load_raw(const fw_raw<Storage, N>& raw, Value (&values)[N]) {
  fw_load_vector(reinterpret_cast<const Storage*>(&raw), values);
}

//@ fw_store_words: FW_INLINE fw_raw
// Elements as they lie in memory, to where no more than their words are aligned.
template <typename Word, int N>
FW_INLINE void fw_store_words(void* to, const fw_vector<Word, N>& words) {
#pragma unroll
  for (int e = 0; e < N; ++e) static_cast<Word*>(to)[e] = words.at[e];
}

//@ fw_byte_column: FW_INLINE fw_vector
// Byte e of each of four pieces of 16 bytes.
FW_INLINE unsigned fw_byte_column(const fw_vector<unsigned, 4> (&pieces)[4], unsigned e) {
  const unsigned word = e / 4, pair = e % 4 | (e % 4 + 4) << 4;
  return __byte_perm(__byte_perm(pieces[0].at[word], pieces[1].at[word], pair),
                     __byte_perm(pieces[2].at[word], pieces[3].at[word], pair), 0x5410);
}

//@ fw_as_word: FW_INLINE fw_vector
// Two elements of 16 bits as 32 bits, the first in the lower half.
FW_INLINE unsigned fw_as_word(const fw_vector<unsigned, 1>& pair) { return pair.at[0]; }
template <typename Storage>
FW_INLINE unsigned fw_as_word(const fw_vector<Storage, 2>& pair) {
  return pair.at[0].bits | unsigned(pair.at[1].bits) << 16;
}

//@ fw_pack_f16: fw_f16 fw_vector
template <int N>
FW_INLINE fw_vector<unsigned, N / 2> fw_pack_f16(const float (&values)[N]) {
  fw_vector<unsigned, N / 2> raw;
#pragma unroll
  for (int e = 0; e < N / 2; ++e) raw.at[e] = fw_pack_f16x2(values[2 * e], values[2 * e + 1]);
  return raw;
}

//@ fw_pack_bf16: fw_bf16 fw_vector
template <int N>
FW_INLINE fw_vector<unsigned, N / 2> fw_pack_bf16(const float (&values)[N]) {
  fw_vector<unsigned, N / 2> raw;
#pragma unroll
  for (int e = 0; e < N / 2; ++e) raw.at[e] = fw_pack_bf16x2(values[2 * e], values[2 * e + 1]);
  return raw;
}
