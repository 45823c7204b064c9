// Blocks of a cluster, which run at once: their barrier, and their stores to each other's shared memory.
#pragma once

#include "block.h"

#define __cluster_dims__(...)  // the launch says how many blocks a cluster has

namespace emulator {

inline constexpr char CLUSTER_ARRIVE[] = "fw_cluster_arrive";
inline constexpr char CLUSTER_WAIT[] = "fw_cluster_wait";
inline constexpr char STORE_TO_BLOCK[] = "fw_store_to_block";
inline constexpr char OF_BLOCK[] = "fw_of_block";

// Each thread of the cluster arrives once a phase, at this same site. Stricter than the hardware, which forgets exited threads.
void cluster_arrive(Site site);

// Waits until all threads of the cluster have arrived; those that have not arrived may not wait.
void cluster_wait(Site site);

// What the block of this rank has where `own` lies in the block's own shared memory.
unsigned char* place_in_block(Site site, const void* own, unsigned bytes, unsigned rank);

}  // namespace emulator

inline void fw_cluster_arrive(emulator::Place place = emulator::Place::here()) {
  emulator::cluster_arrive({emulator::CLUSTER_ARRIVE, place});
}

inline void fw_cluster_wait(emulator::Place place = emulator::Place::here()) {
  emulator::cluster_wait({emulator::CLUSTER_WAIT, place});
}

inline float* fw_of_block(float* own, unsigned rank, unsigned bytes, emulator::Place place = emulator::Place::here()) {
  return reinterpret_cast<float*>(emulator::place_in_block({emulator::OF_BLOCK, place}, own, bytes, rank));
}

inline void fw_store_to_block(float* own, unsigned rank, float value, emulator::Place place = emulator::Place::here()) {
  *reinterpret_cast<float*>(emulator::place_in_block({emulator::STORE_TO_BLOCK, place}, own, sizeof value, rank)) = value;
}
