// The CUDA language: function and variable attributes, vector types, built-in variables, barriers.
#pragma once

#include "block.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))

#if !defined(__clang__)
#define __builtin_assume(condition) ((void)0)
#endif

#define threadIdx (static_cast<const uint3&>(::emulator::current->index))
#define blockIdx (::emulator::current->geometry->block_index)
#define blockDim (::emulator::current->geometry->block_extent)
#define gridDim (::emulator::current->geometry->grid_extent)
#define warpSize 32

// Dynamic shared memory is declared by this macro alone; `__shared__` is not defined here.
#define FW_SHARED(name) unsigned char* const name = ::emulator::shared_memory()

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;

// One family of vector types; alignments are CUDA's: the whole vector's for 2 and 4 elements, at most 16 bytes.
#define FW_EMULATOR_VECTORS(name, scalar)                                                                            \
  struct name##1 {                                                                                                   \
    scalar x;                                                                                                        \
  };                                                                                                                 \
  struct alignas(2 * sizeof(scalar)) name##2 {                                                                       \
    scalar x, y;                                                                                                     \
  };                                                                                                                 \
  struct alignas(4 * sizeof(scalar) < 16 ? 4 * sizeof(scalar) : 16) name##4 {                                        \
    scalar x, y, z, w;                                                                                               \
  };                                                                                                                 \
  inline name##1 make_##name##1(scalar x) { return {x}; }                                                            \
  inline name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }                                               \
  inline name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; }                                  \
  inline name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

#define FW_EMULATOR_VECTOR3(name, scalar)                                                                            \
  struct name##3 {                                                                                                   \
    scalar x, y, z;                                                                                                  \
  };

FW_EMULATOR_VECTOR3(char, signed char)
FW_EMULATOR_VECTOR3(uchar, unsigned char)
FW_EMULATOR_VECTOR3(short, short)
FW_EMULATOR_VECTOR3(ushort, unsigned short)
FW_EMULATOR_VECTOR3(int, int)
FW_EMULATOR_VECTOR3(longlong, long long)
FW_EMULATOR_VECTOR3(ulonglong, unsigned long long)
FW_EMULATOR_VECTOR3(float, float)
FW_EMULATOR_VECTOR3(double, double)

FW_EMULATOR_VECTORS(char, signed char)
FW_EMULATOR_VECTORS(uchar, unsigned char)
FW_EMULATOR_VECTORS(short, short)
FW_EMULATOR_VECTORS(ushort, unsigned short)
FW_EMULATOR_VECTORS(int, int)
FW_EMULATOR_VECTORS(uint, unsigned int)
FW_EMULATOR_VECTORS(longlong, long long)
FW_EMULATOR_VECTORS(ulonglong, unsigned long long)
FW_EMULATOR_VECTORS(float, float)
FW_EMULATOR_VECTORS(double, double)

#undef FW_EMULATOR_VECTORS
#undef FW_EMULATOR_VECTOR3

namespace emulator {
inline constexpr char SYNCTHREADS[] = "__syncthreads";
inline constexpr char SYNCTHREADS_AND[] = "__syncthreads_and";
}

inline void __syncthreads(emulator::Place place = emulator::Place::here()) {
  emulator::block_barrier({emulator::SYNCTHREADS, place});
}

// Whether the predicate holds for all threads. The last barrier keeps the next vote off.
inline int __syncthreads_and(int predicate, emulator::Place place = emulator::Place::here()) {
  bool& all = emulator::current->geometry->vote;
  const emulator::Site site{emulator::SYNCTHREADS_AND, place};
  all = true;
  emulator::block_barrier(site);
  if (!predicate) all = false;
  emulator::block_barrier(site);
  const bool result = all;
  emulator::block_barrier(site);
  return result;
}

// Fibers of one OS thread see each other's stores in order; these order them for other blocks.
// Launches run one after the other.
inline void fw_let_next_launch_start() {}
inline void fw_prefetch(const void*) {}
inline void fw_wait_for_previous_launch() {}

inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Loads and stores with cache hints.
template <class T>
inline T __ldg(const T* pointer) {
  return *pointer;
}
template <class T>
inline T __ldcg(const T* pointer) {
  return *pointer;
}
template <class T>
inline T __ldcs(const T* pointer) {
  return *pointer;
}
template <class T>
inline void __stcg(T* pointer, T value) {
  *pointer = value;
}
template <class T>
inline void __stcs(T* pointer, T value) {
  *pointer = value;
}
