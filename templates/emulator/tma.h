// Boxes of tensors between global and shared memory (`cp.async.bulk.tensor`).
#pragma once

#include "block.h"
#include "tensor_map.h"

namespace emulator {

inline constexpr char TMA_PREFETCH[] = "fw_tma_prefetch";
inline constexpr char TMA_LOAD[] = "fw_tma_load";
inline constexpr char TMA_LOAD_MULTICAST[] = "fw_tma_load_multicast";
inline constexpr char TMA_LOAD_IM2COL[] = "fw_tma_load_im2col";
inline constexpr char TMA_STORE[] = "fw_tma_store";

// Fails unless the map lies as the hardware takes it.
void check_map(const char* operation, const fw_tensor_map* map);

// Fails for an index that no coordinate of 32 bits holds.
[[noreturn]] void refuse_coordinate(unsigned long long index);

// Starts a copy of the box at these coordinates, innermost first and as many as the map's rank, to shared memory.
void start_load(Site site, unsigned destination, const fw_tensor_map* map, unsigned barrier, const int* coordinates,
                unsigned rank);

// The same to each block of the cluster whose bit is set, counted by what each has at this barrier.
void start_multicast(Site site, unsigned destination, const fw_tensor_map* map, unsigned barrier, unsigned mask,
                     const int* coordinates, unsigned rank);

// The same of a box that walks pixels from these coordinates on, each moved by `taps`, innermost axis first.
void start_walk(Site site, unsigned destination, const fw_tensor_map* map, unsigned barrier, const int* coordinates,
                unsigned rank, const int* taps);

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

// An index of any type as a coordinate of a box, which is a signed number of 32 bits.
template <class Index>
inline int fw_coordinate(Index index) {
  const int coordinate = int(index);
  const bool is_signed = Index(-1) < Index(0);
  if (Index(coordinate) != index || (coordinate < 0 && !is_signed)) emulator::refuse_coordinate(index);
  return coordinate;
}

#define FW_EMULATOR_TMA(rank, coordinates, types, ...)                                                          \
  template <types>                                                                                             \
  inline void fw_tma_load(unsigned destination, const fw_tensor_map* map, unsigned barrier, __VA_ARGS__,       \
                          emulator::Place place = emulator::Place::here()) {                                   \
    const int at[] = {coordinates};                                                                            \
    emulator::start_load({emulator::TMA_LOAD, place}, destination, map, barrier, at, rank);                    \
  }                                                                                                            \
  template <types>                                                                                             \
  inline void fw_tma_load_multicast(unsigned destination, const fw_tensor_map* map, unsigned barrier,          \
                                    unsigned mask, __VA_ARGS__, emulator::Place place = emulator::Place::here()) { \
    const int at[] = {coordinates};                                                                            \
    emulator::start_multicast({emulator::TMA_LOAD_MULTICAST, place}, destination, map, barrier, mask, at, rank); \
  }                                                                                                            \
  template <types>                                                                                             \
  inline void fw_tma_store(const fw_tensor_map* map, unsigned source, __VA_ARGS__,                             \
                           emulator::Place place = emulator::Place::here()) {                                  \
    const int at[] = {coordinates};                                                                            \
    emulator::start_store({emulator::TMA_STORE, place}, map, source, at, rank);                                \
  }
#define FW_EMULATOR_LIST(...) __VA_ARGS__
#define FW_EMULATOR_AT(number) fw_coordinate(c##number)

FW_EMULATOR_TMA(1, FW_EMULATOR_AT(0), class C0, C0 c0)
FW_EMULATOR_TMA(2, FW_EMULATOR_LIST(FW_EMULATOR_AT(0), FW_EMULATOR_AT(1)), FW_EMULATOR_LIST(class C0, class C1), C0 c0, C1 c1)
FW_EMULATOR_TMA(3, FW_EMULATOR_LIST(FW_EMULATOR_AT(0), FW_EMULATOR_AT(1), FW_EMULATOR_AT(2)),
                FW_EMULATOR_LIST(class C0, class C1, class C2), C0 c0, C1 c1, C2 c2)
FW_EMULATOR_TMA(4, FW_EMULATOR_LIST(FW_EMULATOR_AT(0), FW_EMULATOR_AT(1), FW_EMULATOR_AT(2), FW_EMULATOR_AT(3)),
                FW_EMULATOR_LIST(class C0, class C1, class C2, class C3), C0 c0, C1 c1, C2 c2, C3 c3)
FW_EMULATOR_TMA(5, FW_EMULATOR_LIST(FW_EMULATOR_AT(0), FW_EMULATOR_AT(1), FW_EMULATOR_AT(2), FW_EMULATOR_AT(3),
                                    FW_EMULATOR_AT(4)),
                FW_EMULATOR_LIST(class C0, class C1, class C2, class C3, class C4), C0 c0, C1 c1, C2 c2, C3 c3, C4 c4)

#undef FW_EMULATOR_AT
#undef FW_EMULATOR_LIST
#undef FW_EMULATOR_TMA

#define FW_EMULATOR_IM2COL(rank, coordinates, offsets, types, ...)                                                \
  template <types>                                                                                             \
  inline void fw_tma_load_im2col(unsigned destination, const fw_tensor_map* map, unsigned barrier,             \
                                 __VA_ARGS__, emulator::Place place = emulator::Place::here()) {               \
    const int at[] = {coordinates}, taps[] = {offsets};                                                        \
    emulator::start_walk({emulator::TMA_LOAD_IM2COL, place}, destination, map, barrier, at, rank, taps);       \
  }
#define FW_EMULATOR_LIST(...) __VA_ARGS__
#define FW_EMULATOR_AT(number) fw_coordinate(c##number)

FW_EMULATOR_IM2COL(3, FW_EMULATOR_LIST(FW_EMULATOR_AT(0), FW_EMULATOR_AT(1), FW_EMULATOR_AT(2)), FW_EMULATOR_AT(3),
                   FW_EMULATOR_LIST(class C0, class C1, class C2, class C3), C0 c0, C1 c1, C2 c2, C3 c3)
FW_EMULATOR_IM2COL(4, FW_EMULATOR_LIST(FW_EMULATOR_AT(0), FW_EMULATOR_AT(1), FW_EMULATOR_AT(2), FW_EMULATOR_AT(3)),
                   FW_EMULATOR_LIST(FW_EMULATOR_AT(4), FW_EMULATOR_AT(5)),
                   FW_EMULATOR_LIST(class C0, class C1, class C2, class C3, class C4, class C5), C0 c0, C1 c1, C2 c2,
                   C3 c3, C4 c4, C5 c5)
FW_EMULATOR_IM2COL(5, FW_EMULATOR_LIST(FW_EMULATOR_AT(0), FW_EMULATOR_AT(1), FW_EMULATOR_AT(2), FW_EMULATOR_AT(3),
                                       FW_EMULATOR_AT(4)),
                   FW_EMULATOR_LIST(FW_EMULATOR_AT(5), FW_EMULATOR_AT(6), FW_EMULATOR_AT(7)),
                   FW_EMULATOR_LIST(class C0, class C1, class C2, class C3, class C4, class C5, class C6, class C7),
                   C0 c0, C1 c1, C2 c2, C3 c3, C4 c4, C5 c5, C6 c6, C7 c7)

#undef FW_EMULATOR_AT
#undef FW_EMULATOR_LIST
#undef FW_EMULATOR_IM2COL

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
