// A thread block as kernels and primitives see it. The runtime behind these declarations is in runtime/.
#pragma once

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace emulator {

constexpr unsigned WARP_SIZE = 32;
constexpr unsigned FULL_MASK = ~0u;

struct Geometry {
  uint3 block_index;
  dim3 block_extent;
  dim3 grid_extent;
  mutable bool vote;  // of __syncthreads_and
};

struct Thread {
  uint3 index;
  unsigned linear;  // rank in the block, x fastest
  const Geometry* geometry;

  unsigned lane() const { return linear % WARP_SIZE; }
};

// The CUDA thread whose fiber runs on this OS thread; a fiber never moves to another one.
extern __thread Thread* current;

// Where an operation is called. As a default argument, the place of the caller's call.
struct Place {
  const char* file;
  int line;

  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

// An operation that threads wait in. Names are compared by address: declare each once, as an inline constant.
struct Site {
  const char* operation;
  Place place;
};

// Runs once when all lanes of a warp collective have come; arguments[lane] is null for lanes that take no part.
using Complete = void (*)(void* const* arguments);

// Waits until each live lane of `mask` is at this same site with this same mask. Lanes that have exited, or that the
// last warp of the block lacks, are not waited for.
void warp_collective(Site site, unsigned mask, void* argument, Complete complete);

// Waits until each thread of the block is at this same site. Stricter than the hardware since sm_70, which forgets
// exited threads: a barrier that not all threads reach is a defect of the kernel.
void block_barrier(Site site);

// Ends the launch with this message, to which the runtime adds block and thread. Does not return.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...);

// First byte of the block's dynamic shared memory, aligned to 1024 bytes.
unsigned char* shared_memory();

// Address in the shared window, as instructions take it, of a generic pointer into shared memory.
unsigned shared_address(const void* pointer);

// The memory behind `bytes` bytes at a shared address, which must be a multiple of `bytes`.
unsigned char* shared_access(const char* operation, unsigned address, unsigned bytes);

// The same where the address must be a multiple of `alignment`.
unsigned char* shared_range(const char* operation, unsigned address, unsigned bytes, unsigned alignment);

}  // namespace emulator
