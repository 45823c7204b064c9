// fusewright 0.1.0, engine config: surface70 tile_m=32 tile_n=32
// t0 = input BFLOAT16 [1, 33, 24] stride [792, 24, 1]
// t1 = input BFLOAT16 [1, 24, 64] stride [1536, 64, 1]
// t3 = input BFLOAT16 [1, 33, 1] stride [33, 1, 1]
// t2_matmul = MATMUL(A=t0, B=t1) compute FLOAT -> virtual FLOAT [1, 33, 64] stride [2112, 64, 1]
// t4_cmp_gt = POINTWISE(IN_0=t2_matmul, IN_1=t3) CMP_GT compute FLOAT -> output BOOLEAN [1, 33, 64] stride [2112, 64, 1]

#ifndef FW_EMULATOR
#define FW_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
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

#define FW_INLINE __device__ __forceinline__

FW_INLINE int fw_to_bool(int x) { return x != 0; }
FW_INLINE int fw_to_bool(long long x) { return x != 0; }
FW_INLINE int fw_to_bool(float x) { return x != 0.0f; }  // NaN is true
FW_INLINE int fw_bit(const unsigned char* bits, long long index) { return bits[index >> 3] >> (index & 7) & 1; }

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

FW_INLINE int fw_cmp_gt(float x, float b) { return x > b; }
FW_INLINE int fw_cmp_gt(int x, int b) { return x > b; }

extern "C" __global__ void __launch_bounds__(256, 2)
fw_matmul(const fw_bf16* __restrict__ p_t0, const fw_bf16* __restrict__ p_t1, const fw_bf16* __restrict__ p_t3, unsigned char* __restrict__ p_t4_cmp_gt) {
  FW_SHARED(shared_bytes);
  float* const tile_a = reinterpret_cast<float*>(shared_bytes);  // [k][m], rows padded
  float* const tile_b = tile_a + 32 * 33;  // [k][n], rows padded

  const unsigned b = blockIdx.x / 4;
  const unsigned m0 = blockIdx.x % 4 % 2 * 32;
  const unsigned n0 = blockIdx.x % 4 / 2 * 32;

  // mainloop fusion: one element of each operand, zero outside the matrix
  const auto operand_a = [&](unsigned m, unsigned k) -> float {
    if (m >= 33 || k >= 24) return 0;
    const float t0 = fw_value(p_t0[m * 24 + k]);
    return t0;
  };
  const auto operand_b = [&](unsigned k, unsigned n) -> float {
    if (n >= 64 || k >= 24) return 0;
    const float t1 = fw_value(p_t1[k * 64 + n]);
    return t1;
  };

  const unsigned row = threadIdx.x / 16;
  const unsigned column = threadIdx.x % 16;
  float sums[2][2] = {};
#pragma unroll 1
  for (unsigned k0 = 0; k0 < 24; k0 += 32) {
#pragma unroll 2
    for (unsigned i = threadIdx.x; i < 32 * 32; i += 256) {
      const unsigned m = i / 32, k = i % 32;
      tile_a[k * 33 + m] = operand_a(m0 + m, k0 + k);
    }
#pragma unroll 2
    for (unsigned i = threadIdx.x; i < 32 * 32; i += 256) {
      const unsigned n = i % 32, k = i / 32;
      tile_b[k * 33 + n] = operand_b(k0 + k, n0 + n);
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned k = 0; k < 32; ++k) {
      float left[2], right[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) left[i] = tile_a[k * 33 + i * 16 + row];
#pragma unroll
      for (int j = 0; j < 2; ++j) right[j] = tile_b[k * 33 + j * 16 + column];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
      }
    }
    __syncthreads();
  }

  // the accumulators go through shared memory, so that the epilogue is one rolled loop with coalesced accesses
  float* const tile_c = reinterpret_cast<float*>(shared_bytes);  // [m][n]
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      tile_c[(i * 16 + row) * 32 + j * 16 + column] = sums[i][j];
    }
  }
  __syncthreads();

  // epilogue fusion
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < 32 * 32; i += 256) {
    const unsigned m_in = i / 32, n_in = i % 32;
    const unsigned m = m0 + m_in, n = n0 + n_in;
    int w_t4_cmp_gt = 0;
    if (m < 33 && n < 64) {
      const float accumulator = tile_c[m_in * 32 + n_in];
      const float t2_matmul = accumulator;
      const float t3 = fw_value(p_t3[m]);
      const int t4_cmp_gt = fw_cmp_gt(t2_matmul, t3);
      w_t4_cmp_gt = fw_to_bool(t4_cmp_gt);
    }
    const unsigned bits_t4_cmp_gt = __ballot_sync(0xffffffffu, w_t4_cmp_gt);
    if (threadIdx.x % 8 == 0 && m < 33 && n < 64) p_t4_cmp_gt[(m * 64 + n) >> 3] = (unsigned char)(bits_t4_cmp_gt >> (threadIdx.x & 31));
  }
}
