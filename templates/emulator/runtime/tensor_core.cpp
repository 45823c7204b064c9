#include "../tensor_core.h"

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

struct Mma {
  float* d;
  const unsigned* a;
  unsigned b[2];
};

// Column of a 16-bit element `half` of a lane's register in a fragment of 16 elements along k.
unsigned column_in_fragment(unsigned lane, unsigned upper, unsigned half) { return lane % 4 * 2 + upper * 8 + half; }

template <float (*widen)(unsigned short)>
void complete_mma(void* const* lanes) {
  require_full_warp("mma.m16n8k16", lanes);
  float a[16][16], b[16][8], d[16][8];  // [m][k], [k][n], [m][n]
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane) {
    const Mma& mma = *static_cast<const Mma*>(lanes[lane]);
    const unsigned group = lane / 4;
    for (unsigned half = 0; half < 2; ++half) {
      for (unsigned r = 0; r < 4; ++r)
        a[group + r % 2 * 8][column_in_fragment(lane, r / 2, half)] = widen((unsigned short)(mma.a[r] >> 16 * half));
      for (unsigned r = 0; r < 2; ++r)
        b[column_in_fragment(lane, r, half)][group] = widen((unsigned short)(mma.b[r] >> 16 * half));
    }
    for (unsigned r = 0; r < 4; ++r) d[group + r / 2 * 8][lane % 4 * 2 + r % 2] = mma.d[r];
  }
  for (unsigned m = 0; m < 16; ++m)
    for (unsigned k = 0; k < 16; ++k)
      for (unsigned n = 0; n < 8; ++n) d[m][n] += a[m][k] * b[k][n];
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane)
    for (unsigned r = 0; r < 4; ++r)
      static_cast<Mma*>(lanes[lane])->d[r] = d[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2];
}

}  // namespace

void ldmatrix_x4(Site site, unsigned (&result)[4], unsigned address) {
  Ldmatrix argument{shared_access(site.operation, address, 16), result};
  const bool transposed = site.operation == LDMATRIX_TRANS;
  warp_collective(site, FULL_MASK, &argument, transposed ? complete_ldmatrix<true> : complete_ldmatrix<false>);
}

void mma_m16n8k16(Site site, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  Mma argument{d, a, {b0, b1}};
  const bool is_bf16 = site.operation == MMA_BF16;
  warp_collective(site, FULL_MASK, &argument,
                  is_bf16 ? complete_mma<fw_bf16_bits_to_f32> : complete_mma<fw_f16_bits_to_f32>);
}

}  // namespace emulator
