// Barriers in shared memory that count arrivals and bytes (`mbarrier`).
#pragma once

#include "block.h"

namespace emulator {

inline constexpr char MBARRIER_INIT[] = "fw_mbarrier_init";
inline constexpr char MBARRIER_EXPECT[] = "fw_mbarrier_expect";
inline constexpr char MBARRIER_ARRIVE[] = "fw_mbarrier_arrive";
inline constexpr char MBARRIER_ARRIVE_AT[] = "fw_mbarrier_arrive_at";
inline constexpr char MBARRIER_WAIT[] = "fw_mbarrier_wait";

void mbarrier_init(unsigned address, unsigned count);

// From here on TMA loads and other threads may use the barriers that were initialised.
void mbarrier_fence();

// One arrival, and so many bytes more to wait for in this phase.
void mbarrier_arrive(const char* operation, unsigned address, unsigned bytes);

// One arrival at the barrier that another block of the cluster has at this address.
void mbarrier_arrive_at(Site site, unsigned address, unsigned rank);

// Waits until the current phase does not have this parity.
void mbarrier_wait(Site site, unsigned address, unsigned parity);

}  // namespace emulator

inline void fw_mbarrier_init(unsigned barrier, unsigned count) { emulator::mbarrier_init(barrier, count); }

inline void fw_mbarrier_init_fence() { emulator::mbarrier_fence(); }

inline void fw_mbarrier_expect(unsigned barrier, unsigned bytes) {
  emulator::mbarrier_arrive(emulator::MBARRIER_EXPECT, barrier, bytes);
}

inline void fw_mbarrier_arrive(unsigned barrier) { emulator::mbarrier_arrive(emulator::MBARRIER_ARRIVE, barrier, 0); }

inline void fw_mbarrier_arrive_at(unsigned barrier, unsigned rank, emulator::Place place = emulator::Place::here()) {
  emulator::mbarrier_arrive_at({emulator::MBARRIER_ARRIVE_AT, place}, barrier, rank);
}

inline void fw_mbarrier_wait(unsigned barrier, unsigned parity, emulator::Place place = emulator::Place::here()) {
  emulator::mbarrier_wait({emulator::MBARRIER_WAIT, place}, barrier, parity);
}
