// fusewright 0.1.0, engine config: scalar threads=256
// t0 = input HALF [2, 24, 5, 7] stride [840, 1, 168, 24]
// t1 = input HALF [2, 24, 5, 7] stride [840, 1, 168, 24]
// t2_cmp_ge = POINTWISE(IN_0=t0, IN_1=t1) CMP_GE compute FLOAT -> virtual BOOLEAN [2, 24, 5, 7] stride [840, 1, 168, 24]
// t3_cmp_gt = POINTWISE(IN_0=t0, IN_1=t1) CMP_GT compute FLOAT -> virtual BOOLEAN [2, 24, 5, 7] stride [840, 1, 168, 24]
// t4_logical_and = POINTWISE(IN_0=t3_cmp_gt, IN_1=t2_cmp_ge) LOGICAL_AND compute BOOLEAN -> output BOOLEAN [2, 24, 5, 7] stride [840, 1, 168, 24]
// t5_binary_select = POINTWISE(IN_0=t0, IN_1=t1, IN_2=t4_logical_and) BINARY_SELECT compute FLOAT -> output HALF [2, 24, 5, 7] stride [840, 1, 168, 24]

#define FW_INLINE __device__ __forceinline__

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

FW_INLINE int fw_to_bool(int x) { return x != 0; }
FW_INLINE int fw_to_bool(long long x) { return x != 0; }
FW_INLINE int fw_to_bool(float x) { return x != 0.0f; }  // NaN is true
FW_INLINE int fw_bit(const unsigned char* bits, long long index) { return bits[index >> 3] >> (index & 7) & 1; }

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

template <int N>
FW_INLINE fw_vector<unsigned, N / 2> fw_pack_f16(const float (&values)[N]) {
  fw_vector<unsigned, N / 2> raw;
#pragma unroll
  for (int e = 0; e < N / 2; ++e) raw.at[e] = fw_pack_f16x2(values[2 * e], values[2 * e + 1]);
  return raw;
}

FW_INLINE int fw_cmp_gt(float x, float b) { return x > b; }
FW_INLINE int fw_cmp_gt(int x, int b) { return x > b; }

FW_INLINE int fw_cmp_ge(float x, float b) { return x >= b; }
FW_INLINE int fw_cmp_ge(int x, int b) { return x >= b; }

FW_INLINE int fw_logical_and(int x, int b) { return x != 0 && b != 0; }

FW_INLINE float fw_select(int t, float x, float b) { return t ? x : b; }
FW_INLINE int fw_select(int t, int x, int b) { return t ? x : b; }

extern "C" __global__ void __launch_bounds__(256)
fw_pointwise(const fw_f16* __restrict__ p_t0, const fw_f16* __restrict__ p_t1, unsigned char* __restrict__ p_t4_logical_and, fw_f16* __restrict__ p_t5_binary_select) {
  fw_wait_for_previous_launch();
  const unsigned vector = (unsigned)(blockIdx.x) * 256 + threadIdx.x;
  if (vector < 210) {
    const unsigned i0 = vector * 8;
    const unsigned o_t0 = i0;
    const unsigned o_t1 = i0;
    const unsigned o_t4_logical_and = i0;
    const unsigned o_t5_binary_select = i0;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
    float v_t1[8];
    fw_load_vector(p_t1 + o_t1, v_t1);
    unsigned w_t4_logical_and = 0;
    float w_t5_binary_select[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float t1 = v_t1[e];
      const int t2_cmp_ge = fw_to_bool(fw_cmp_ge(t0, t1));
      const int t3_cmp_gt = fw_to_bool(fw_cmp_gt(t0, t1));
      const int t4_logical_and = fw_to_bool(fw_logical_and(fw_to_bool(t3_cmp_gt), fw_to_bool(t2_cmp_ge)));
      const float t5_binary_select = fw_select(fw_to_bool(fw_to_f32(t4_logical_and)), t0, t1);
      w_t4_logical_and |= unsigned(fw_to_bool(t4_logical_and)) << e;
      w_t5_binary_select[e] = t5_binary_select;
    }
    p_t4_logical_and[o_t4_logical_and >> 3] = (unsigned char)w_t4_logical_and;
    fw_store_vector(reinterpret_cast<unsigned*>(p_t5_binary_select + o_t5_binary_select), fw_pack_f16(w_t5_binary_select));
  }
}
