// Byte patterns that make wrong accesses visible.
#pragma once

#include <cstddef>

namespace emulator {

// Memory that nobody has written: NaN in every floating-point format.
constexpr unsigned char POISON = 0xff;

// Fills memory around a buffer with a pattern that is a NaN as half, bfloat16 and float, and differs from POISON, so
// that copies of poison are noticed.
void fill_guard(unsigned char* begin, std::size_t bytes);

// Offset of the first byte that no longer holds the pattern, or `bytes`.
std::size_t first_damage(const unsigned char* begin, std::size_t bytes);

}  // namespace emulator
