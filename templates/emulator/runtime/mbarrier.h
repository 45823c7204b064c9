// Barriers in shared memory as the runtime sees them (see ../mbarrier.h).
#pragma once

#include <cstdint>
#include <string>

namespace emulator {

// The 64 bits of a barrier.
struct Mbarrier {
  static constexpr unsigned TAG = 2;  // of neither poison nor zeros
  static constexpr unsigned MAX_COUNT = (1u << 20) - 1, MAX_BYTES = (1u << 20) - 1;

  std::uint64_t tag : 2;
  std::uint64_t phase : 1;    // its parity
  std::uint64_t count : 20;   // arrivals in a phase
  std::uint64_t missing : 20;  // arrivals
  std::int64_t bytes : 21;    // expected less those that have landed
};
static_assert(sizeof(Mbarrier) == 8, "the size of an mbarrier");

// The barrier at this address; fails unless it is initialised.
Mbarrier& mbarrier_at(const char* operation, unsigned address);

// Counts bytes that have landed.
void complete_bytes(const char* operation, unsigned address, unsigned bytes);

// What the current phase of a barrier lacks.
std::string describe_missing(unsigned address);

}  // namespace emulator
