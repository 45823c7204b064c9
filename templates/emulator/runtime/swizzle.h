// Where 16-byte chunks lie in swizzled shared memory.
#pragma once

namespace emulator {

// Address of the chunk that unswizzled would lie at `address`; `row` is the bytes of a swizzled row, 0 for none. Shared
// addresses and the hardware's agree in the bits used here, since shared memory starts at a multiple of 1024.
inline unsigned swizzled(unsigned address, unsigned row) {
  return row == 0 ? address : address ^ (address >> 3 & (row / 16 - 1) << 4);
}

}  // namespace emulator
