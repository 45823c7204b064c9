// Parts of a block: an elected lane, barriers of some warps, registers of a warpgroup.
#pragma once

#include "block.h"

namespace emulator {

inline constexpr char ELECT[] = "fw_elect";
inline constexpr char NAMED_BARRIER[] = "fw_named_barrier";
inline constexpr char DECREASE_REGISTERS[] = "fw_decrease_registers";
inline constexpr char INCREASE_REGISTERS[] = "fw_increase_registers";

// True in one lane of the warp.
bool elect(Site site);

// Waits until `threads` threads of the block are at the barrier of this number.
void named_barrier(Site site, unsigned id, unsigned threads);

// Registers are not counted, but all warps of a warpgroup have to come by.
void set_registers(Site site, unsigned count);

}  // namespace emulator

inline bool fw_elect(emulator::Place place = emulator::Place::here()) {
  return emulator::elect({emulator::ELECT, place});
}

template <int ID, int THREADS>
inline void fw_named_barrier(emulator::Place place = emulator::Place::here()) {
  static_assert(ID >= 1 && ID <= 15 && THREADS > 0 && THREADS % 32 == 0, "0 is __syncthreads; warps come whole");
  emulator::named_barrier({emulator::NAMED_BARRIER, place}, ID, THREADS);
}

template <int N>
inline void fw_decrease_registers(emulator::Place place = emulator::Place::here()) {
  static_assert(N >= 24 && N <= 256 && N % 8 == 0, "24 to 256 in steps of 8");
  emulator::set_registers({emulator::DECREASE_REGISTERS, place}, N);
}

template <int N>
inline void fw_increase_registers(emulator::Place place = emulator::Place::here()) {
  static_assert(N >= 24 && N <= 256 && N % 8 == 0, "24 to 256 in steps of 8");
  emulator::set_registers({emulator::INCREASE_REGISTERS, place}, N);
}
