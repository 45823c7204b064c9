// Flags in device memory, as primitives.cuh has them for a GPU.
#pragma once

#include "block.h"

// Nobody but the kernels of the run writes memory here, so a flag without the value would be waited for forever.
template <class Flag>
inline void fw_wait_flag(const Flag* flag, long long value) {
  if (*flag != value) emulator::fail("fw_wait_flag: the flag is %lld, waited for is %lld; nobody sets it", (long long)*flag, value);
}

template <class Flag>
inline void fw_set_flag(Flag* flag, long long value) {
  *flag = Flag(value);
}

// Turns of blocks that run at once: a thread waits until so many have passed.
namespace emulator {

inline constexpr char WAIT_TURN[] = "fw_wait_turn";

// Suspends until the word is no smaller than `turn`.
void wait_turn(Site site, const unsigned* passed, unsigned turn);

}  // namespace emulator

inline void fw_wait_turn(const unsigned* passed, unsigned turn, emulator::Place place = emulator::Place::here()) {
  emulator::wait_turn({emulator::WAIT_TURN, place}, passed, turn);
}

inline void fw_pass_turn(unsigned* passed) { ++*passed; }

// A value for a GPU of the node, and the flag that tells that it has come.
inline void fw_send(float* to, float value) {
  to[0] = value;
  reinterpret_cast<unsigned&>(to[1]) = 1;
}

// The run is the only GPU: what others send is there already.
inline unsigned long long fw_deadline() { return 0; }
inline float fw_receive(const float* from, int rank, unsigned long long, unsigned*) {
  if (reinterpret_cast<const unsigned&>(from[1]) == 0) emulator::fail("fw_receive: GPU %d has sent nothing, and nobody else runs", rank);
  return from[0];
}
