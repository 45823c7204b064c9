// Matrix instructions of a warp: `ldmatrix` and `mma.sync`.
#pragma once

#include "block.h"

namespace emulator {

inline constexpr char LDMATRIX[] = "ldmatrix.x4";
inline constexpr char LDMATRIX_TRANS[] = "ldmatrix.x4.trans";
inline constexpr char MMA_F16[] = "mma.m16n8k16.f16";
inline constexpr char MMA_BF16[] = "mma.m16n8k16.bf16";

// Loads four 8x8 matrices of 16-bit elements; lanes 8m to 8m + 7 give the addresses of the rows of matrix m. A lane
// gets elements (l / 4, l % 4 * 2 + {0, 1}) of each matrix, or of its transpose.
void ldmatrix_x4(Site site, unsigned (&result)[4], unsigned address);

// d += a * b with the PTX fragment layout of m16n8k16; products and sums in float, sums in the order of k.
void mma_m16n8k16(Site site, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);

}  // namespace emulator

inline void fw_ldmatrix_x4(unsigned (&r)[4], unsigned address, emulator::Place place = emulator::Place::here()) {
  emulator::ldmatrix_x4({emulator::LDMATRIX, place}, r, address);
}

inline void fw_ldmatrix_x4_trans(unsigned (&r)[4], unsigned address, emulator::Place place = emulator::Place::here()) {
  emulator::ldmatrix_x4({emulator::LDMATRIX_TRANS, place}, r, address);
}

inline void fw_mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                                emulator::Place place = emulator::Place::here()) {
  emulator::mma_m16n8k16({emulator::MMA_F16, place}, d, a, b0, b1);
}

inline void fw_mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                                 emulator::Place place = emulator::Place::here()) {
  emulator::mma_m16n8k16({emulator::MMA_BF16, place}, d, a, b0, b1);
}
