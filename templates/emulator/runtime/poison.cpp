#include "poison.h"

namespace emulator {

namespace {

unsigned char guard_byte(std::size_t offset) { return offset % 2 == 0 ? 0xc5 : 0xff; }

}  // namespace

void fill_guard(unsigned char* begin, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) begin[i] = guard_byte(i);
}

std::size_t first_damage(const unsigned char* begin, std::size_t bytes) {
  std::size_t i = 0;
  while (i < bytes && begin[i] == guard_byte(i)) ++i;
  return i;
}

}  // namespace emulator
