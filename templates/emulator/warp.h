// Warp collectives: barrier, shuffles, votes.
#pragma once

#include "block.h"

namespace emulator {

inline constexpr char SYNCWARP[] = "__syncwarp";
inline constexpr char SHFL[] = "__shfl_sync";
inline constexpr char SHFL_UP[] = "__shfl_up_sync";
inline constexpr char SHFL_DOWN[] = "__shfl_down_sync";
inline constexpr char SHFL_XOR[] = "__shfl_xor_sync";
inline constexpr char BALLOT[] = "__ballot_sync";
inline constexpr char ANY[] = "__any_sync";
inline constexpr char ALL[] = "__all_sync";

// What a lane gives to a shuffle; `value` becomes the value of lane `source`.
template <class T>
struct Shuffled {
  T value;
  unsigned source;
};

// A lane that takes no part has no value: CUDA leaves the result undefined, here it is poison.
template <class T>
inline void exchange(void* const* lanes) {
  T values[WARP_SIZE];
  __builtin_memset(values, 0xff, sizeof values);
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane)
    if (lanes[lane]) values[lane] = static_cast<Shuffled<T>*>(lanes[lane])->value;
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane)
    if (auto* shuffled = static_cast<Shuffled<T>*>(lanes[lane])) shuffled->value = values[shuffled->source];
}

template <class T>
inline T shuffle(Site site, unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  Shuffled<T> shuffled{value, source};
  warp_collective(site, mask, &shuffled, exchange<T>);
  return shuffled.value;
}

// First lane of the segment of `width` lanes, a power of two, that the current lane is in.
inline unsigned segment(int width) { return current->lane() & ~(unsigned(width) - 1); }

// What a lane gives to a vote; `ballot` becomes the set of lanes whose predicate holds.
struct Vote {
  bool predicate;
  unsigned ballot;
  unsigned voters;
};

inline void count_votes(void* const* lanes) {
  unsigned ballot = 0, voters = 0;
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane)
    if (const auto* vote = static_cast<const Vote*>(lanes[lane])) {
      voters |= 1u << lane;
      ballot |= unsigned(vote->predicate) << lane;
    }
  for (unsigned lane = 0; lane < WARP_SIZE; ++lane)
    if (auto* vote = static_cast<Vote*>(lanes[lane])) *vote = {vote->predicate, ballot, voters};
}

inline Vote vote(Site site, unsigned mask, bool predicate) {
  Vote vote{predicate, 0, 0};
  warp_collective(site, mask, &vote, count_votes);
  return vote;
}

}  // namespace emulator

inline void __syncwarp(unsigned mask = emulator::FULL_MASK, emulator::Place place = emulator::Place::here()) {
  emulator::warp_collective({emulator::SYNCWARP, place}, mask, nullptr, nullptr);
}

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32,
                     emulator::Place place = emulator::Place::here()) {
  const unsigned lane = emulator::segment(width) | (unsigned(source) & (unsigned(width) - 1));
  return emulator::shuffle({emulator::SHFL, place}, mask, value, lane);
}

// The other three leave a lane its own value where the source lies outside its segment.
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                        emulator::Place place = emulator::Place::here()) {
  const unsigned lane = emulator::current->lane();
  const bool inside = lane - emulator::segment(width) >= delta;
  return emulator::shuffle({emulator::SHFL_UP, place}, mask, value, inside ? lane - delta : lane);
}

template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                          emulator::Place place = emulator::Place::here()) {
  const unsigned lane = emulator::current->lane();
  const bool inside = delta < unsigned(width) && lane + delta < emulator::segment(width) + unsigned(width);
  return emulator::shuffle({emulator::SHFL_DOWN, place}, mask, value, inside ? lane + delta : lane);
}

template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                         emulator::Place place = emulator::Place::here()) {
  const unsigned lane = emulator::current->lane(), source = (lane ^ unsigned(lane_mask)) & 31;
  const bool inside = source < emulator::segment(width) + unsigned(width);
  return emulator::shuffle({emulator::SHFL_XOR, place}, mask, value, inside ? source : lane);
}

// `redux.sync.add.u32` of a whole warp.
inline unsigned __reduce_add_sync(unsigned mask, unsigned value, emulator::Place place = emulator::Place::here()) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(mask, value, step, 32, place);
  return value;
}

// The largest value of a warp (`redux.sync.max.u32`), and what keeps the assembler from moving waits.
inline unsigned fw_uniform(unsigned value, emulator::Place place = emulator::Place::here()) {
  for (int step = 16; step > 0; step /= 2)
    value = max(value, __shfl_xor_sync(emulator::FULL_MASK, value, step, 32, place));
  return value;
}
inline void fw_behind(float) {}

inline unsigned __ballot_sync(unsigned mask, int predicate, emulator::Place place = emulator::Place::here()) {
  return emulator::vote({emulator::BALLOT, place}, mask, predicate != 0).ballot;
}

inline int __any_sync(unsigned mask, int predicate, emulator::Place place = emulator::Place::here()) {
  return emulator::vote({emulator::ANY, place}, mask, predicate != 0).ballot != 0;
}

inline int __all_sync(unsigned mask, int predicate, emulator::Place place = emulator::Place::here()) {
  const emulator::Vote vote = emulator::vote({emulator::ALL, place}, mask, predicate != 0);
  return vote.ballot == vote.voters;
}
