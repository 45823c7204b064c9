// Byte patterns that make wrong accesses visible.
#pragma once

#include <cstddef>

namespace emulator {

// Memory that nobody has written: NaN in every floating-point format.
constexpr unsigned char POISON = 0xff;

// The same as numbers: 5.3 as half, 3.2e3 as bfloat16 and float, 3.2 and 5 as FP8. Kernels that look for NaN compute
// anew what came of POISON, but not what came of these.
constexpr unsigned char FINITE_POISON = 0x45;

// Fills memory around a buffer with a pattern that is a NaN as half, bfloat16 and float, and differs from POISON, so
// that copies of poison are noticed.
void fill_guard(unsigned char* begin, std::size_t bytes);

// Offset of the first byte that no longer holds the pattern, or `bytes`.
std::size_t first_damage(const unsigned char* begin, std::size_t bytes);

}  // namespace emulator
