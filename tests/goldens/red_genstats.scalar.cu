// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [8, 48, 7, 7] stride [2352, 1, 336, 48]
// t1_relu_fwd = POINTWISE(IN_0=t0) RELU_FWD compute FLOAT -> virtual FLOAT [8, 48, 7, 7] stride [2352, 1, 336, 48]
// t2_genstats, t3_genstats = GENSTATS(X=t1_relu_fwd) compute FLOAT -> output FLOAT [1, 48, 1, 1] stride [48, 1, 48, 48], output FLOAT [1, 48, 1, 1] stride [48, 1, 48, 48]

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

FW_INLINE float fw_relu(float x, float lower, float upper, float slope) {
  if (x < lower) return slope == 0.0f ? lower : fmaf(slope, x - lower, lower);  // 0·∞ is not the clip
  return x > upper ? upper : x;  // NaN passes
}

FW_INLINE float fw_sum(float a, float x) { return a + x; }

FW_INLINE float fw_square(float x) { return x * x; }

extern "C" __global__ void __launch_bounds__(512, 2)
fw_reduction(const fw_f16* __restrict__ p_t0, float* __restrict__ p_t2_genstats, float* __restrict__ p_t3_genstats) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) acc0[e] = 0.0f;
  float acc1[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) acc1[e] = 0.0f;

  const unsigned kept = (unsigned)(blockIdx.x) * 8 + threadIdx.x;
  const unsigned i1 = kept * 8;
  const unsigned last = kept < 6 ? 392 : 0;
  unsigned next = (unsigned)(blockIdx.y) * 256 + threadIdx.y;
  for (; next + 192 < last; next += 256)
#pragma unroll
  for (unsigned g = 0; g < 4; ++g) {
    const unsigned r = next + g * 64;
    const unsigned i0 = r;
    const unsigned o_t0 = i0 * 48 + i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float t1_relu_fwd = fw_relu(t0, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
      acc0[e] = fw_sum(acc0[e], t1_relu_fwd);
      acc1[e] = fw_sum(acc1[e], fw_square(t1_relu_fwd));
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 64) {  // what is left of the last group
    const unsigned i0 = r;
    const unsigned o_t0 = i0 * 48 + i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float t1_relu_fwd = fw_relu(t0, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
      acc0[e] = fw_sum(acc0[e], t1_relu_fwd);
      acc1[e] = fw_sum(acc1[e], fw_square(t1_relu_fwd));
    }
  }
  // acc0: one result for every kept vector, from all threads of the block
#pragma unroll
  for (int e = 0; e < 8; ++e) shared[lane * 8 + e] = acc0[e];
#pragma unroll 1
  for (unsigned half = 32; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const unsigned mine = lane * 8 + e;
        shared[mine] = fw_sum(shared[mine], shared[mine + half * 64]);
      }
    }
  }
  if (threadIdx.y == 0 && kept < 6) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[lane * 8 + e];
      p_t2_genstats[i1 + e * 1] = fw_to_f32(total);
    }
  }
  __syncthreads();
  // acc1: one result for every kept vector, from all threads of the block
#pragma unroll
  for (int e = 0; e < 8; ++e) shared[lane * 8 + e] = acc1[e];
#pragma unroll 1
  for (unsigned half = 32; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const unsigned mine = lane * 8 + e;
        shared[mine] = fw_sum(shared[mine], shared[mine + half * 64]);
      }
    }
  }
  if (threadIdx.y == 0 && kept < 6) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[lane * 8 + e];
      p_t3_genstats[i1 + e * 1] = fw_to_f32(total);
    }
  }
  __syncthreads();
}
