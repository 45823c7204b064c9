// The C interface between a compiled kernel and the program that launches it.
#pragma once

namespace emulator {

// One launch. src/emulator/library.rs holds the same structure; change both together.
struct Request {
  void* const* arguments;  // one pointer to each argument's value
  const char* signature;   // one letter each: p pointer, f float, i int, l long long, t tensor map
  unsigned grid[3];
  unsigned block[3];
  unsigned cluster;  // blocks of a cluster, side by side along x, which divide the grid's; at least 1
  unsigned shared_bytes;
  unsigned os_threads;  // at most this many run blocks; at least 1
  unsigned schedule;    // see Schedule in runtime/scheduler.h
  unsigned error_bytes;
  char* error;  // on failure, a message of at most error_bytes with its final zero
};

// Calls a kernel for the current thread with the arguments of its launch.
using Invoke = void (*)(void* const* arguments);

// Runs all blocks; 0, or 1 with a message in request.error.
int launch(const Request& request, const char* kernel_signature, Invoke invoke);

}  // namespace emulator
