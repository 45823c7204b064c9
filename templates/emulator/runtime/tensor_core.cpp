#include "../tensor_core.h"

#include <algorithm>
#include <cstring>

#include "../number.h"
#include "scheduler.h"

namespace emulator {

namespace {

// Matrix instructions are `.aligned`: the whole warp executes them.
void require_full_warp(const char* operation, void* const* lanes) {
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane)
    if (!lanes[lane]) fail("%s needs all 32 lanes, but lane %u does not exist or has exited", operation, lane);
}

struct Ldmatrix {
  const unsigned char* row;
  unsigned* result;
};

// One 16-bit element of matrix m.
unsigned element(void* const* lanes, unsigned m, unsigned row, unsigned column) {
  unsigned short value;
  std::memcpy(&value, static_cast<const Ldmatrix*>(lanes[m * 8 + row])->row + 2 * column, sizeof value);
  return value;
}

template <bool transposed>
void complete_ldmatrix(void* const* lanes) {
  require_full_warp(transposed ? LDMATRIX_TRANS : LDMATRIX, lanes);
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane)
    for (unsigned m = 0; m < 4; ++m) {
      const unsigned line = lane / 4, first = lane % 4 * 2;
      const unsigned lo = transposed ? element(lanes, m, first, line) : element(lanes, m, line, first);
      const unsigned hi = transposed ? element(lanes, m, first + 1, line) : element(lanes, m, line, first + 1);
      static_cast<Ldmatrix*>(lanes[lane])->result[m] = lo | hi << 16;
    }
}

struct Stmatrix {
  unsigned char* row;
  const unsigned* value;
};

template <bool transposed>
void complete_stmatrix(void* const* lanes) {
  require_full_warp(transposed ? STMATRIX_TRANS : STMATRIX, lanes);
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane)
    for (unsigned m = 0; m < 4; ++m)
      for (unsigned half = 0; half < 2; ++half) {
        const unsigned line = lane / 4, place = lane % 4 * 2 + half;
        const unsigned row = transposed ? place : line, column = transposed ? line : place;
        const auto value = (unsigned short)(static_cast<const Stmatrix*>(lanes[lane])->value[m] >> 16 * half);
        std::memcpy(static_cast<const Stmatrix*>(lanes[m * 8 + row])->row + 2 * column, &value, sizeof value);
      }
}

template <typename Sum>
struct Mma {
  Sum* d;
  const unsigned* a;
  const unsigned* b;
};

// Elements of one register of a fragment, in the order of k.
struct F16 {
  static constexpr unsigned BITS = 16;
  using Sum = float;
  static Sum widen(unsigned bits) { return fw_f16_bits_to_f32((unsigned short)bits); }
};
struct Bf16 {
  static constexpr unsigned BITS = 16;
  using Sum = float;
  static Sum widen(unsigned bits) { return fw_bf16_bits_to_f32((unsigned short)bits); }
};
// The tensor core ignores the bits of FP32 below those of TF32.
struct Tf32 {
  static constexpr unsigned BITS = 32;
  using Sum = float;
  static Sum widen(unsigned bits) {
    const unsigned kept = bits & 0xffffe000u;
    Sum value;
    std::memcpy(&value, &kept, sizeof value);
    return value;
  }
};
struct E5m2 {
  static constexpr unsigned BITS = 8;
  using Sum = float;
  static Sum widen(unsigned bits) { return fw_f16_bits_to_f32((unsigned short)(bits << 8)); }
};
// As a half with the same fields its exponent would be 8 too small.
struct E4m3 {
  static constexpr unsigned BITS = 8;
  using Sum = float;
  static Sum widen(unsigned bits) {
    if ((bits & 0x7f) == 0x7f) return __builtin_nanf("");
    return fw_f16_bits_to_f32((unsigned short)((bits & 0x80) << 8 | (bits & 0x7f) << 7)) * 256;
  }
};
struct S8 {
  static constexpr unsigned BITS = 8;
  using Sum = int;
  static Sum widen(unsigned bits) { return (signed char)bits; }
};

// The fragments of a warp as matrices: a row of A, and a column of B, has eight registers of k elements.
template <typename Left, typename Right = Left>
void complete_mma(void* const* lanes) {
  using Sum = typename Left::Sum;
  constexpr unsigned BITS = Left::BITS, PER_REGISTER = 32 / BITS, K = 8 * PER_REGISTER;
  require_full_warp("mma.sync", lanes);
  Sum a[16][K], b[K][8], d[16][8];  // [m][k], [k][n], [m][n]
  const auto spread = [](unsigned bits, unsigned lane, unsigned upper, auto&& put) {
    for (unsigned e = 0; e < PER_REGISTER; ++e) {
      const unsigned k = (upper * 4 + lane % 4) * PER_REGISTER + e;
      put(k, unsigned(bits >> BITS * e & ((1ull << BITS) - 1)));
    }
  };
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane) {
    const Mma<Sum>& mma = *static_cast<const Mma<Sum>*>(lanes[lane]);
    const unsigned group = lane / 4;
    for (unsigned r = 0; r < 4; ++r) {
      spread(mma.a[r], lane, r / 2, [&](unsigned k, unsigned bits) { a[group + r % 2 * 8][k] = Left::widen(bits); });
      d[group + r / 2 * 8][lane % 4 * 2 + r % 2] = mma.d[r];
    }
    for (unsigned r = 0; r < 2; ++r) spread(mma.b[r], lane, r, [&](unsigned k, unsigned bits) { b[k][group] = Right::widen(bits); });
  }
  for (unsigned m = 0; m < 16; ++m)
    for (unsigned k = 0; k < K; ++k)
      for (unsigned n = 0; n < 8; ++n) d[m][n] += a[m][k] * b[k][n];
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane)
    for (unsigned r = 0; r < 4; ++r)
      static_cast<Mma<Sum>*>(lanes[lane])->d[r] = d[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2];
}

// Of a product whose sums are floats.
Complete completion(const char* operation) {
  const struct {
    const char* operation;
    Complete complete;
  } KINDS[] = {
      {MMA_F16, complete_mma<F16>},
      {MMA_BF16, complete_mma<Bf16>},
      {MMA_TF32, complete_mma<Tf32>},
      {"mma.m16n8k32.e4m3.e4m3", complete_mma<E4m3>},
      {"mma.m16n8k32.e4m3.e5m2", complete_mma<E4m3, E5m2>},
      {"mma.m16n8k32.e5m2.e4m3", complete_mma<E5m2, E4m3>},
      {"mma.m16n8k32.e5m2.e5m2", complete_mma<E5m2>},
  };
  for (const auto& kind : KINDS)
    if (!std::strcmp(kind.operation, operation)) return kind.complete;
  fail("there is no %s", operation);
}

}  // namespace

void ldmatrix_x4(Site site, unsigned (&result)[4], unsigned address) {
  Ldmatrix argument{shared_access(site.operation, address, 16), result};
  const bool transposed = site.operation == LDMATRIX_TRANS;
  warp_collective(site, FULL_MASK, &argument, transposed ? complete_ldmatrix<true> : complete_ldmatrix<false>);
}

void stmatrix_x4(Site site, unsigned address, const unsigned (&value)[4]) {
  Stmatrix argument{shared_access(site.operation, address, 16), value};
  const bool transposed = site.operation == STMATRIX_TRANS;
  warp_collective(site, FULL_MASK, &argument, transposed ? complete_stmatrix<true> : complete_stmatrix<false>);
  std::vector<unsigned>& rows = current_fiber().unfenced_rows;
  if (std::find(rows.begin(), rows.end(), address) == rows.end()) rows.push_back(address);
}

void* accumulator_registers(unsigned first, unsigned count) {
  require_no_product(current_block->warp_of(current_fiber()), first, count);
  return &current_fiber().accumulators[first];
}

void mma_float(Site site, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  Mma<float> argument{d, a, b};
  warp_collective(site, FULL_MASK, &argument, completion(site.operation));
}

void mma_int(Site site, int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  Mma<int> argument{d, a, b};
  warp_collective(site, FULL_MASK, &argument, complete_mma<S8>);
}

}  // namespace emulator
