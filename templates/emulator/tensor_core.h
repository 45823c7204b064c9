// Matrix instructions of a warp: `ldmatrix`, `stmatrix` and `mma.sync`.
#pragma once

#include "block.h"
#include "number.h"

namespace emulator {

inline constexpr char LDMATRIX[] = "ldmatrix.x4";
inline constexpr char LDMATRIX_TRANS[] = "ldmatrix.x4.trans";
inline constexpr char STMATRIX[] = "stmatrix.x4";
inline constexpr char STMATRIX_TRANS[] = "stmatrix.x4.trans";
inline constexpr char MMA_F16[] = "mma.m16n8k16.f16";
inline constexpr char MMA_BF16[] = "mma.m16n8k16.bf16";
inline constexpr char MMA_TF32[] = "mma.m16n8k8.tf32";
inline constexpr char MMA_S8[] = "mma.m16n8k32.s8";

// Loads four 8x8 matrices of 16-bit elements; lanes 8m to 8m + 7 give the addresses of the rows of matrix m. A lane
// gets elements (l / 4, l % 4 * 2 + {0, 1}) of each matrix, or of its transpose.
void ldmatrix_x4(Site site, unsigned (&result)[4], unsigned address);

// Stores what ldmatrix_x4 would load.
void stmatrix_x4(Site site, unsigned address, const unsigned (&value)[4]);

// d += a * b with the PTX fragment layout of the shape whose k has 32 bytes; sums in the order of k, in float. Of FP8 the
// operation's name ends with the types of a and b.
void mma_float(Site site, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]);

// The same for 8-bit integers, sums in int.
void mma_int(Site site, int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]);

// So many of the current thread's accumulators from number `first` on; fails while a product that writes them is not waited
// for.
void* accumulator_registers(unsigned first, unsigned count = 4);

template <typename T, unsigned COUNT = 4>
T (&accumulators(unsigned first))[COUNT] {
  return *static_cast<T(*)[COUNT]>(accumulator_registers(first, COUNT));
}

}  // namespace emulator

// Accumulators are 32-bit registers of the thread, named by number.
#define FW_ACCUMULATORS_float(count) static_assert((count) <= 256, "a thread has at most 255 registers")
#define FW_ACCUMULATORS_int(count) static_assert((count) <= 256, "a thread has at most 255 registers")
#define FW_ACCUMULATORS_half(count) static_assert((count) <= 256, "a thread has at most 255 registers")

#define FW_ZERO(number) *static_cast<int*>(emulator::accumulator_registers(number)) = 0;
#define FW_CLEAR(zeros) zeros
#define FW_ADD(sum, part) \
  *static_cast<float*>(emulator::accumulator_registers(sum)) += *static_cast<float*>(emulator::accumulator_registers(part));
#define FW_SUM(additions) additions

template <int A, typename T>
inline void fw_take(T (&x)[4]) {
  for (int r = 0; r < 4; ++r) x[r] = emulator::accumulators<T>(A)[r];
}

template <int A>
inline void fw_clear_accumulators() {
  for (int r = 0; r < 4; ++r) emulator::accumulators<float>(A)[r] = 0.0f;
}

template <int A>
inline void fw_scale_accumulators(const float (&f)[2]) {
  for (int r = 0; r < 4; ++r) emulator::accumulators<float>(A)[r] *= f[r / 2];
}

template <int A>
inline void fw_take_half(float (&x)[4]) {
  const auto& pairs = emulator::accumulators<unsigned, 2>(A);
  for (int r = 0; r < 4; ++r) x[r] = fw_f16_bits_to_f32((unsigned short)(pairs[r / 2] >> 16 * (r % 2)));
}

#define FW_PAIR(a, b) sum = fmaf(emulator::accumulators<float, 1>(a)[0], emulator::accumulators<float, 1>(b)[0], sum);
#define FW_TELL(told, pairs) \
  {                          \
    float& sum = told;       \
    pairs                    \
  }

#define FW_KEEP(at, fragments) \
  {                            \
    float* const memory = at;  \
    fragments                  \
  }
#define FW_TO(byte, a, b, c, d) \
  for (int r = 0; r < 4; ++r) memory[byte / 4 + r] = emulator::accumulators<float>(a)[r];
#define FW_FROM(byte, a, b, c, d) \
  for (int r = 0; r < 4; ++r) emulator::accumulators<float>(a)[r] = memory[byte / 4 + r];
#define FW_PLUS(byte, a, b, c, d) \
  for (int r = 0; r < 4; ++r) emulator::accumulators<float>(a)[r] += memory[byte / 4 + r];
#define FW_TO_HALF(byte, a, b) fw_take_half<a>(*reinterpret_cast<float(*)[4]>(memory + byte / 4));
#define FW_FROM_HALF(byte, a, b)                                                                        \
  for (int r = 0; r < 2; ++r) {                                                                        \
    const float* const pair = memory + byte / 4 + 2 * r;                                               \
    emulator::accumulators<unsigned, 2>(a)[r] = fw_pack_f16x2(pair[0], pair[1]);                        \
  }

inline void fw_ldmatrix_x4(unsigned (&r)[4], unsigned address, emulator::Place place = emulator::Place::here()) {
  emulator::ldmatrix_x4({emulator::LDMATRIX, place}, r, address);
}

inline void fw_ldmatrix_x4_trans(unsigned (&r)[4], unsigned address, emulator::Place place = emulator::Place::here()) {
  emulator::ldmatrix_x4({emulator::LDMATRIX_TRANS, place}, r, address);
}

// Two fragments of eight columns at once.
inline void fw_ldmatrix_x4(unsigned (&r)[2], unsigned (&s)[2], unsigned address,
                           emulator::Place place = emulator::Place::here()) {
  unsigned four[4];
  emulator::ldmatrix_x4({emulator::LDMATRIX, place}, four, address);
  r[0] = four[0], r[1] = four[1], s[0] = four[2], s[1] = four[3];
}

inline void fw_ldmatrix_x4_trans(unsigned (&r)[2], unsigned (&s)[2], unsigned address,
                                 emulator::Place place = emulator::Place::here()) {
  unsigned four[4];
  emulator::ldmatrix_x4({emulator::LDMATRIX_TRANS, place}, four, address);
  r[0] = four[0], r[1] = four[1], s[0] = four[2], s[1] = four[3];
}

inline void fw_stmatrix_x4(unsigned address, unsigned r0, unsigned r1, unsigned r2, unsigned r3,
                           emulator::Place place = emulator::Place::here()) {
  emulator::stmatrix_x4({emulator::STMATRIX, place}, address, {r0, r1, r2, r3});
}

inline void fw_stmatrix_x4_trans(unsigned address, unsigned r0, unsigned r1, unsigned r2, unsigned r3,
                                 emulator::Place place = emulator::Place::here()) {
  emulator::stmatrix_x4({emulator::STMATRIX_TRANS, place}, address, {r0, r1, r2, r3});
}

template <int A>
inline void fw_mma_f16(const unsigned (&a)[4], const unsigned (&b)[2],
                      emulator::Place place = emulator::Place::here()) {
  emulator::mma_float({emulator::MMA_F16, place}, emulator::accumulators<float>(A), a, b);
}

template <int A>
inline void fw_mma_bf16(const unsigned (&a)[4], const unsigned (&b)[2],
                      emulator::Place place = emulator::Place::here()) {
  emulator::mma_float({emulator::MMA_BF16, place}, emulator::accumulators<float>(A), a, b);
}

template <int A>
inline void fw_mma_tf32(const unsigned (&a)[4], const unsigned (&b)[2],
                      emulator::Place place = emulator::Place::here()) {
  emulator::mma_float({emulator::MMA_TF32, place}, emulator::accumulators<float>(A), a, b);
}

template <int A>
inline void fw_mma_s8(const unsigned (&a)[4], const unsigned (&b)[2],
                      emulator::Place place = emulator::Place::here()) {
  emulator::mma_int({emulator::MMA_S8, place}, emulator::accumulators<int>(A), a, b);
}

// Sums are floats, added up inside the tensor core or outside.
#define FW_MMA_FP8(name, types)                                                                               \
  template <int A>                                                                                            \
  inline void name(const unsigned (&a)[4], const unsigned (&b)[2],                                            \
                   emulator::Place place = emulator::Place::here()) {                                         \
    static constexpr char OPERATION[] = "mma.m16n8k32." types;                                                \
    emulator::mma_float({OPERATION, place}, emulator::accumulators<float>(A), a, b);                          \
  }                                                                                                           \
  template <int A>                                                                                            \
  inline void name##_promoted(const unsigned (&a)[4], const unsigned (&b)[2],                                 \
                              emulator::Place place = emulator::Place::here()) {                              \
    static constexpr char OPERATION[] = "mma.m16n8k32." types;                                                \
    float sums[4] = {};                                                                                       \
    emulator::mma_float({OPERATION, place}, sums, a, b);                                                      \
    for (int r = 0; r < 4; ++r) emulator::accumulators<float>(A)[r] += sums[r];                               \
  }

// Rounds FP32 to the 10 bits of mantissa of TF32, to nearest, ties away from zero (`cvt.rna.tf32.f32`).
template <int N>
inline void fw_round_tf32(unsigned (&x)[N]) {
  for (unsigned& bits : x)
    if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & 0xffffe000u;
}
