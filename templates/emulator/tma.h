// Boxes of tensors between global and shared memory (`cp.async.bulk.tensor`).
#pragma once

#include "block.h"
#include "tensor_map.h"

namespace emulator {

inline constexpr char TMA_PREFETCH[] = "fw_tma_prefetch";
inline constexpr char TMA_LOAD[] = "fw_tma_load";
inline constexpr char TMA_STORE[] = "fw_tma_store";

// Fails unless the map lies as the hardware takes it.
void check_map(const char* operation, const fw_tensor_map* map);

// Starts a copy of the box at these coordinates, innermost first and as many as the map's rank, to shared memory.
void start_load(Site site, unsigned destination, const fw_tensor_map* map, unsigned barrier, const int* coordinates,
                unsigned rank);

// Starts a copy of the box at these coordinates from shared memory.
void start_store(Site site, const fw_tensor_map* map, unsigned source, const int* coordinates, unsigned rank);

// Closes the current thread's group of started stores.
void commit_stores();

// Lets all of the current thread's groups but the `pending` most recent ones read shared memory, and write if `written`.
void wait_stores(unsigned pending, bool written);

// From here on TMA stores may read what the current thread has written by stmatrix. Other writes to shared memory are not
// watched.
void fence_stores();

}  // namespace emulator

inline void fw_tma_prefetch(const fw_tensor_map* map) { emulator::check_map(emulator::TMA_PREFETCH, map); }

#define FW_EMULATOR_TMA(rank, coordinates, ...)                                                                 \
  inline void fw_tma_load(unsigned destination, const fw_tensor_map* map, unsigned barrier, __VA_ARGS__,       \
                          emulator::Place place = emulator::Place::here()) {                                   \
    const int at[] = coordinates;                                                                              \
    emulator::start_load({emulator::TMA_LOAD, place}, destination, map, barrier, at, rank);                    \
  }                                                                                                            \
  inline void fw_tma_store(const fw_tensor_map* map, unsigned source, __VA_ARGS__,                             \
                           emulator::Place place = emulator::Place::here()) {                                  \
    const int at[] = coordinates;                                                                              \
    emulator::start_store({emulator::TMA_STORE, place}, map, source, at, rank);                                \
  }
#define FW_EMULATOR_AT(...) {__VA_ARGS__}

FW_EMULATOR_TMA(1, FW_EMULATOR_AT(c0), int c0)
FW_EMULATOR_TMA(2, FW_EMULATOR_AT(c0, c1), int c0, int c1)
FW_EMULATOR_TMA(3, FW_EMULATOR_AT(c0, c1, c2), int c0, int c1, int c2)
FW_EMULATOR_TMA(4, FW_EMULATOR_AT(c0, c1, c2, c3), int c0, int c1, int c2, int c3)
FW_EMULATOR_TMA(5, FW_EMULATOR_AT(c0, c1, c2, c3, c4), int c0, int c1, int c2, int c3, int c4)

#undef FW_EMULATOR_AT
#undef FW_EMULATOR_TMA

inline void fw_tma_store_commit() { emulator::commit_stores(); }

template <int PENDING>
inline void fw_tma_store_wait_read() {
  emulator::wait_stores(PENDING, false);
}

template <int PENDING>
inline void fw_tma_store_wait() {
  emulator::wait_stores(PENDING, true);
}

inline void fw_fence_async() { emulator::fence_stores(); }
