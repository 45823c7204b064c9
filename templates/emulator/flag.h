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
