// Asynchronous copies from global to shared memory (`cp.async`).
#pragma once

#include "block.h"

namespace emulator {

// Starts a copy of 4, 8 or 16 bytes into shared memory; a null source fills with zeros.
void start_copy(unsigned destination, const void* source, unsigned bytes);

// Closes the current thread's group of started copies.
void commit_copies();

// Lets all of the current thread's groups land but the `pending` most recent ones.
void wait_copies(unsigned pending);

}  // namespace emulator

inline unsigned fw_shared_address(const void* pointer) { return emulator::shared_address(pointer); }

template <unsigned BYTES>
inline void fw_cp_async(unsigned shared_address, const void* global, bool predicate) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "sizes of cp.async");
  emulator::start_copy(shared_address, predicate ? global : nullptr, BYTES);
}

inline void fw_cp_async_commit() { emulator::commit_copies(); }

template <int PENDING>
inline void fw_cp_async_wait() {
  emulator::wait_copies(PENDING);
}
