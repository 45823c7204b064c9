// fusewright 0.1.0, engine config: surface70 tile_m=32 tile_n=32
// t0 = input HALF [2, 70, 50] stride [3500, 50, 1]
// t1 = input FLOAT [1, 70, 1] stride [70, 1, 1]
// t3 = input INT8 [1, 50, 66] stride [3300, 66, 1]
// t7 = input HALF [1, 1, 66] stride [66, 66, 1]
// t2_mul = POINTWISE(IN_0=t0, IN_1=t1) MUL compute FLOAT -> virtual FLOAT [2, 70, 50] stride [3500, 50, 1]
// t4_identity = POINTWISE(IN_0=t3) IDENTITY compute FLOAT -> virtual HALF [1, 50, 66] stride [3300, 66, 1]
// t5_relu_fwd = POINTWISE(IN_0=t2_mul) RELU_FWD compute FLOAT -> virtual HALF [2, 70, 50] stride [3500, 50, 1]
// t6_matmul = MATMUL(A=t5_relu_fwd, B=t4_identity) compute FLOAT -> virtual FLOAT [2, 70, 66] stride [4620, 66, 1]
// t8_add = POINTWISE(IN_0=t6_matmul, IN_1=t7) ADD compute FLOAT -> output FLOAT [2, 70, 66] stride [4620, 66, 1]
// t9_gelu_fwd = POINTWISE(IN_0=t8_add) GELU_FWD compute FLOAT -> output HALF [2, 70, 66] stride [4620, 66, 1]

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

#define FW_INLINE __device__ __forceinline__

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

struct fw_f16 { unsigned short bits; };
FW_INLINE float fw_value(fw_f16 x) { return fw_f16_bits_to_f32(x.bits); }
FW_INLINE fw_f16 fw_to_f16(float x) { return {fw_f32_to_f16_bits(x)}; }
FW_INLINE fw_f16 fw_to_f16(int x) { return fw_to_f16(float(x)); }  // all that is inexact in float overflows here

FW_INLINE float fw_add(float x, float b) { return x + b; }
FW_INLINE int fw_add(int x, int b) { return int(unsigned(x) + unsigned(b)); }

FW_INLINE float fw_mul(float x, float b) { return x * b; }
FW_INLINE int fw_mul(int x, int b) { return int(unsigned(x) * unsigned(b)); }

FW_INLINE float fw_relu(float x, float lower, float upper, float slope) {
  if (x < lower) return slope == 0.0f ? lower : fmaf(slope, x - lower, lower);  // 0·∞ is not the clip
  return x > upper ? upper : x;  // NaN passes
}

// x·s where s vanishes faster than x grows: the limit at infinity is a zero, not NaN.
FW_INLINE float fw_gate(float x, float s) { return s == 0.0f ? copysignf(0.0f, x) : x * s; }

FW_INLINE float fw_normal_cdf(float x) { return 0.5f * erfcf(-0.70710678118654752f * x); }

FW_INLINE float fw_gelu(float x) { return fw_gate(x, fw_normal_cdf(x)); }

FW_INLINE float fw_identity(float x) { return x; }
FW_INLINE int fw_identity(int x) { return x; }
FW_INLINE long long fw_identity(long long x) { return x; }

extern "C" __global__ void __launch_bounds__(256, 2)
fw_matmul(const fw_f16* __restrict__ p_t0, const float* __restrict__ p_t1, const signed char* __restrict__ p_t3, const fw_f16* __restrict__ p_t7, float* __restrict__ p_t8_add, fw_f16* __restrict__ p_t9_gelu_fwd) {
  FW_SHARED(shared_bytes);
  float* const tile_a = reinterpret_cast<float*>(shared_bytes);  // [k][m], rows padded
  float* const tile_b = tile_a + 32 * 33;  // [k][n], rows padded

  const unsigned b = blockIdx.x / 9;
  const unsigned m0 = blockIdx.x % 9 % 3 * 32;
  const unsigned n0 = blockIdx.x % 9 / 3 * 32;

  // mainloop fusion: one element of each operand, zero outside the matrix
  const auto operand_a = [&](unsigned m, unsigned k) -> float {
    if (m >= 70 || k >= 50) return 0;
    const float t0 = fw_value(p_t0[b * 3500 + m * 50 + k]);
    const float t1 = fw_value(p_t1[m]);
    const float t2_mul = fw_mul(t0, t1);
    const float t5_relu_fwd = fw_value(fw_to_f16(fw_relu(t2_mul, 0.0f, __uint_as_float(0x7f800000u), 0.0f)));
    return t5_relu_fwd;
  };
  const auto operand_b = [&](unsigned k, unsigned n) -> float {
    if (n >= 66 || k >= 50) return 0;
    const int t3 = fw_value(p_t3[k * 66 + n]);
    const float t4_identity = fw_value(fw_to_f16(fw_identity(fw_to_f32(t3))));
    return t4_identity;
  };

  const unsigned row = threadIdx.x / 16;
  const unsigned column = threadIdx.x % 16;
  float sums[2][2] = {};
#pragma unroll 1
  for (unsigned k0 = 0; k0 < 50; k0 += 32) {
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
    if (m < 70 && n < 66) {
      const float accumulator = tile_c[m_in * 32 + n_in];
      const float t6_matmul = accumulator;
      const float t7 = fw_value(p_t7[n]);
      const float t8_add = fw_add(t6_matmul, t7);
      const float t9_gelu_fwd = fw_gelu(t8_add);
      p_t8_add[b * 4620 + m * 66 + n] = fw_to_f32(t8_add);
      p_t9_gelu_fwd[b * 4620 + m * 66 + n] = fw_to_f16(t9_gelu_fwd);
    }
  }
}
