// fusewright 0.1.0, engine config: scalar threads=256
// t0 = input BFLOAT16 [2, 24, 5, 7] stride [1400, 1, 280, 40]
// t1 = input FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t2_add = POINTWISE(IN_0=t0, IN_1=t1) ADD compute FLOAT -> output BFLOAT16 [2, 24, 5, 7] stride [1400, 1, 280, 40]
// t3_relu_fwd = POINTWISE(IN_0=t2_add) RELU_FWD compute FLOAT -> output INT8 [2, 24, 5, 7] stride [840, 1, 168, 24]

#define FW_INLINE __device__ __forceinline__

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

FW_INLINE int fw_value(int x) { return x; }
FW_INLINE int fw_to_i32(int x) { return x; }
FW_INLINE int fw_to_i32(long long x) { return x < -2147483647 - 1 ? -2147483647 - 1 : x > 2147483647 ? 2147483647 : int(x); }
FW_INLINE int fw_to_i32(float x) { return __float2int_rn(x); }  // saturates; NaN gives 0

FW_INLINE int fw_value(signed char x) { return x; }
FW_INLINE signed char fw_to_i8(int x) { return (signed char)(x < -128 ? -128 : x > 127 ? 127 : x); }
FW_INLINE signed char fw_to_i8(float x) { return fw_to_i8(fw_to_i32(x)); }

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

FW_INLINE float fw_add(float x, float b) { return x + b; }
FW_INLINE int fw_add(int x, int b) { return int(unsigned(x) + unsigned(b)); }

FW_INLINE float fw_relu(float x, float lower, float upper, float slope) {
  if (x < lower) return slope == 0.0f ? lower : fmaf(slope, x - lower, lower);  // 0·∞ is not the clip
  return x > upper ? upper : x;  // NaN passes
}

extern "C" __global__ void __launch_bounds__(256)
fw_pointwise(const fw_bf16* __restrict__ p_t0, const float* __restrict__ p_t1, fw_bf16* __restrict__ p_t2_add, signed char* __restrict__ p_t3_relu_fwd) {
  fw_wait_for_previous_launch();
  const unsigned vector = (unsigned)(blockIdx.x) * 256 + threadIdx.x;
  if (vector < 210) {
    const unsigned i0 = vector / 3;
    const unsigned i1 = vector % 3 * 8;
    const unsigned o_t0 = i0 * 40 + i1;
    const unsigned o_t1 = i1;
    const unsigned o_t2_add = i0 * 40 + i1;
    const unsigned o_t3_relu_fwd = i0 * 24 + i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
    float v_t1[8];
    fw_load_vector(p_t1 + o_t1, v_t1);
    float w_t2_add[8];
    fw_vector<signed char, 8> w_t3_relu_fwd;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float t1 = v_t1[e];
      const float t2_add = fw_value(fw_to_bf16(fw_add(t0, t1)));
      const float t3_relu_fwd = fw_relu(t2_add, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
      w_t2_add[e] = t2_add;
      w_t3_relu_fwd.at[e] = fw_to_i8(t3_relu_fwd);
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t2_add + o_t2_add), fw_pack_bf16(w_t2_add));
    fw_store_vector(p_t3_relu_fwd + o_t3_relu_fwd, w_t3_relu_fwd);
  }
}
