// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [64, 16, 14, 14] stride [3136, 1, 224, 16]
// t1_reduction_max = REDUCTION(X=t0) MAX compute FLOAT -> output FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]

#define FW_INLINE __device__ __forceinline__

#ifndef FW_EMULATOR
#define FW_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#endif

#ifndef FW_EMULATOR
__device__ __forceinline__ unsigned short fw_f32_to_f16_bits(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ __forceinline__ float fw_f16_bits_to_f32(unsigned short bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ __forceinline__ unsigned fw_pack_f16x2(float lo, float hi) {
#if __CUDA_ARCH__ >= 800
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
#else
  return fw_f32_to_f16_bits(lo) | unsigned(fw_f32_to_f16_bits(hi)) << 16;
#endif
}
#endif

#ifndef FW_EMULATOR
__device__ __forceinline__ float fw_max_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
#else
  return x != x || y != y ? x + y : fmaxf(x, y);
#endif
}
#endif

// The next launch of the stream may be put on the chip from here on; it waits for this one's end where it must.
#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_let_next_launch_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif

// Until the launch before this one has finished and its memory is visible. ptxas would move loads of read-only memory
// (`const __restrict__`) above that; it moves none above an exit, even if no launch takes it: grids have one layer.
#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_wait_for_previous_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred never; .reg .u32 layers;\n"
      "griddepcontrol.wait;\n"
      "mov.u32 layers, %nctaid.z;\n"
      "setp.ne.u32 never, layers, 1;\n"
      "@never exit; }" ::: "memory");
#endif
}
#endif

FW_INLINE float fw_value(float x) { return x; }
FW_INLINE float fw_to_f32(float x) { return x; }
FW_INLINE float fw_to_f32(int x) { return float(x); }
FW_INLINE float fw_to_f32(long long x) { return float(x); }

struct fw_f16 { unsigned short bits; };
FW_INLINE float fw_value(fw_f16 x) { return fw_f16_bits_to_f32(x.bits); }
FW_INLINE fw_f16 fw_to_f16(float x) { return {fw_f32_to_f16_bits(x)}; }
FW_INLINE fw_f16 fw_to_f16(int x) { return fw_to_f16(float(x)); }  // all that is inexact in float overflows here

// N consecutive elements, moved in accesses of up to 16 bytes.
template <typename Storage, int N>
struct alignas(sizeof(Storage) * N < 16 ? sizeof(Storage) * N : 16) fw_vector { Storage at[N]; };
template <typename Storage, typename Value, int N>
FW_INLINE void fw_load_vector(const Storage* from, Value (&values)[N]) {
  const fw_vector<Storage, N> raw = *reinterpret_cast<const fw_vector<Storage, N>*>(from);
#pragma unroll
  for (int e = 0; e < N; ++e) values[e] = fw_value(raw.at[e]);
}
template <typename Storage, int N>
FW_INLINE void fw_store_vector(Storage* to, const fw_vector<Storage, N>& raw) {
  *reinterpret_cast<fw_vector<Storage, N>*>(to) = raw;
}

FW_INLINE float fw_largest(float a, float x) { return fw_max_nan(a, x); }

extern "C" __global__ void __launch_bounds__(512, 2)
fw_reduction(const fw_f16* __restrict__ p_t0, float* __restrict__ partial0) {
  fw_wait_for_previous_launch();
  fw_let_next_launch_start();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) acc0[e] = __uint_as_float(0xff800000u);

  const unsigned kept = (unsigned)(blockIdx.x) * 2 + threadIdx.x;
  const unsigned i1 = kept * 8;
  const unsigned last = kept < 2 ? 12544 : 0;
  unsigned next = (unsigned)(blockIdx.y) * 1024 + threadIdx.y;
  for (; next + 768 < last; next += 12288)
#pragma unroll
  for (unsigned g = 0; g < 4; ++g) {
    const unsigned r = next + g * 256;
    const unsigned i0 = r;
    const unsigned o_t0 = i0 * 16 + i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      acc0[e] = fw_largest(acc0[e], t0);
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 256) {  // what is left of the last group
    const unsigned i0 = r;
    const unsigned o_t0 = i0 * 16 + i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      acc0[e] = fw_largest(acc0[e], t0);
    }
  }
  // acc0: one result for every kept vector, from all threads of the block
#pragma unroll
  for (int e = 0; e < 8; ++e) shared[lane * 8 + e] = acc0[e];
#pragma unroll 1
  for (unsigned half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const unsigned mine = lane * 8 + e;
        shared[mine] = fw_largest(shared[mine], shared[mine + half * 16]);
      }
    }
  }
  if (threadIdx.y == 0 && kept < 2) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[lane * 8 + e];
      partial0[(unsigned long long)(blockIdx.y) * 16 + (i1 + e)] = total;
    }
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256)
fw_combine_1(float* __restrict__ partial0, float* __restrict__ p_t1_reduction_max) {
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned k = (unsigned)(blockIdx.x) * 8 + threadIdx.x;
  const unsigned i0 = k;

  fw_wait_for_previous_launch();
  float acc0[1] = {__uint_as_float(0xff800000u)};
  if (k < 16) {
#pragma unroll 8
    for (unsigned split = threadIdx.y; split < 12; split += 32) {
      acc0[0] = fw_largest(acc0[0], partial0[split * 16 + k]);
    }
  }
  // acc0: one result for every kept element, from all threads of the block
#pragma unroll
  for (int e = 0; e < 1; ++e) shared[lane * 1 + e] = acc0[e];
#pragma unroll 1
  for (unsigned half = 16; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
#pragma unroll
      for (int e = 0; e < 1; ++e) {
        const unsigned mine = lane * 1 + e;
        shared[mine] = fw_largest(shared[mine], shared[mine + half * 8]);
      }
    }
  }
  if (threadIdx.y == 0 && k < 16) {
#pragma unroll
    for (int e = 0; e < 1; ++e) {
      const float total = shared[lane * 1 + e];
      p_t1_reduction_max[i0] = fw_to_f32(total);
    }
  }
  __syncthreads();
}
