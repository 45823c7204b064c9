// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [4, 24, 6, 5] stride [720, 1, 120, 24]
// t1 = input FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t2_mul = POINTWISE(IN_0=t0, IN_1=t1) MUL compute FLOAT -> output BFLOAT16 [4, 24, 6, 5] stride [720, 1, 120, 24]
// t3_reduction_add = REDUCTION(X=t2_mul) ADD compute FLOAT -> output FLOAT [4, 1, 6, 5] stride [30, 1, 5, 1]

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
__device__ __forceinline__ float fw_bf16_bits_to_f32(unsigned short bits) { return __uint_as_float(unsigned(bits) << 16); }
__device__ __forceinline__ unsigned short fw_f32_to_bf16_bits(float x) {
#if __CUDA_ARCH__ >= 800
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#else
  const unsigned u = __float_as_uint(x);
  return x != x ? 0x7fff : (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
}
__device__ __forceinline__ unsigned fw_pack_bf16x2(float lo, float hi) {
#if __CUDA_ARCH__ >= 800
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
#else
  return fw_f32_to_bf16_bits(lo) | unsigned(fw_f32_to_bf16_bits(hi)) << 16;
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

struct fw_bf16 { unsigned short bits; };
FW_INLINE float fw_value(fw_bf16 x) { return fw_bf16_bits_to_f32(x.bits); }
FW_INLINE fw_bf16 fw_to_bf16(float x) { return {fw_f32_to_bf16_bits(x)}; }
FW_INLINE fw_bf16 fw_to_bf16(int x) {  // what float cannot hold is cut with a sticky bit: rounding twice would be wrong
  const bool fits = -16777216 <= x && x <= 16777216;
  return fw_to_bf16(fits ? float(x) : float(x >> 8 | ((x & 255) != 0)) * 256.0f);
}
template <int N>
struct alignas(N < 8 ? 2 * N : 16) fw_bf16_pairs { unsigned at[N / 2]; };
template <int N>
FW_INLINE void fw_load_vector(const fw_bf16* from, float (&values)[N]) {  // one shift or one mask an element
  const fw_bf16_pairs<N> raw = *reinterpret_cast<const fw_bf16_pairs<N>*>(from);
#pragma unroll
  for (int e = 0; e < N; ++e) values[e] = __uint_as_float(e % 2 ? raw.at[e / 2] & 0xffff0000u : raw.at[e / 2] << 16);
}
FW_INLINE void fw_load_vector(const fw_bf16* from, float (&values)[1]) { values[0] = fw_value(*from); }

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

template <int N>
FW_INLINE fw_vector<unsigned, N / 2> fw_pack_bf16(const float (&values)[N]) {
  fw_vector<unsigned, N / 2> raw;
#pragma unroll
  for (int e = 0; e < N / 2; ++e) raw.at[e] = fw_pack_bf16x2(values[2 * e], values[2 * e + 1]);
  return raw;
}

FW_INLINE float fw_mul(float x, float b) { return x * b; }
FW_INLINE int fw_mul(int x, int b) { return int(unsigned(x) * unsigned(b)); }

FW_INLINE float fw_sum(float a, float x) { return a + x; }

extern "C" __global__ void __launch_bounds__(256, 4)
fw_reduction(const fw_f16* __restrict__ p_t0, const float* __restrict__ p_t1, fw_bf16* __restrict__ p_t2_mul, float* __restrict__ p_t3_reduction_add) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[1];
#pragma unroll
  for (int e = 0; e < 1; ++e) acc0[e] = 0.0f;

  const unsigned kept = (unsigned)(blockIdx.x) * 64 + threadIdx.y;
  const unsigned i0 = kept;
  const unsigned last = kept < 120 ? 3 : 0;
  unsigned next = (unsigned)(blockIdx.y) * 16 + threadIdx.x;
  for (; next + 12 < last; next += 16)
#pragma unroll
  for (unsigned g = 0; g < 4; ++g) {
    const unsigned r = next + g * 4;
    const unsigned i1 = r * 8;
    const unsigned o_t0 = i0 * 24 + i1;
    const unsigned o_t1 = i1;
    const unsigned o_t2_mul = i0 * 24 + i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
    float v_t1[8];
    fw_load_vector(p_t1 + o_t1, v_t1);
    float w_t2_mul[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float t1 = v_t1[e];
      const float t2_mul = fw_value(fw_to_bf16(fw_mul(t0, t1)));
      w_t2_mul[e] = t2_mul;
      acc0[0] = fw_sum(acc0[0], t2_mul);
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t2_mul + o_t2_mul), fw_pack_bf16(w_t2_mul));
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 4) {  // what is left of the last group
    const unsigned i1 = r * 8;
    const unsigned o_t0 = i0 * 24 + i1;
    const unsigned o_t1 = i1;
    const unsigned o_t2_mul = i0 * 24 + i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
    float v_t1[8];
    fw_load_vector(p_t1 + o_t1, v_t1);
    float w_t2_mul[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float t1 = v_t1[e];
      const float t2_mul = fw_value(fw_to_bf16(fw_mul(t0, t1)));
      w_t2_mul[e] = t2_mul;
      acc0[0] = fw_sum(acc0[0], t2_mul);
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t2_mul + o_t2_mul), fw_pack_bf16(w_t2_mul));
  }
  // acc0: one result for every kept element, from all threads of the block
#pragma unroll
  for (int e = 0; e < 1; ++e) shared[lane * 1 + e] = acc0[e];
#pragma unroll 1
  for (unsigned half = 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
#pragma unroll
      for (int e = 0; e < 1; ++e) {
        const unsigned mine = lane * 1 + e;
        shared[mine] = fw_sum(shared[mine], shared[mine + half * 1]);
      }
    }
  }
  if (threadIdx.x == 0 && kept < 120) {
#pragma unroll
    for (int e = 0; e < 1; ++e) {
      const float total = shared[lane * 1 + e];
      p_t3_reduction_add[i0] = fw_to_f32(total);
    }
  }
  __syncthreads();
}
