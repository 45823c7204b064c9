// fusewright 0.1.0, engine config: surface70 tile_m=32 tile_n=32
// t0 = input HALF [3, 70, 20] stride [1400, 20, 1]
// t1 = input HALF [3, 20, 66] stride [1320, 66, 1]
// t2_matmul = MATMUL(A=t0, B=t1) compute FLOAT -> output HALF [3, 70, 66] stride [4620, 66, 1]
// t3_reduction_amax = REDUCTION(X=t2_matmul) AMAX compute FLOAT -> output FLOAT [1, 1, 1] stride [1, 1, 1]

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

// Until the launch before this one has finished and its memory is visible. Loads of what it wrote must not be marked
// read-only (`const __restrict__`): the compiler might move them up.
#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_wait_for_previous_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#endif

#define FW_INLINE __device__ __forceinline__

FW_INLINE float fw_value(float x) { return x; }
FW_INLINE float fw_to_f32(float x) { return x; }
FW_INLINE float fw_to_f32(int x) { return float(x); }
FW_INLINE float fw_to_f32(long long x) { return float(x); }

struct fw_f16 { unsigned short bits; };
FW_INLINE float fw_value(fw_f16 x) { return fw_f16_bits_to_f32(x.bits); }
FW_INLINE fw_f16 fw_to_f16(float x) { return {fw_f32_to_f16_bits(x)}; }
FW_INLINE fw_f16 fw_to_f16(int x) { return fw_to_f16(float(x)); }  // all that is inexact in float overflows here

FW_INLINE float fw_abs(float x) { return fabsf(x); }
FW_INLINE int fw_abs(int x) { return x < 0 ? int(0u - unsigned(x)) : x; }

FW_INLINE float fw_largest(float a, float x) { return fw_max_nan(a, x); }

extern "C" __global__ void __launch_bounds__(256, 2)
fw_matmul(const fw_f16* __restrict__ p_t0, const fw_f16* __restrict__ p_t1, fw_f16* __restrict__ p_t2_matmul, float* __restrict__ partial0) {
  FW_SHARED(shared_bytes);
  float* const tile_a = reinterpret_cast<float*>(shared_bytes);  // [k][m], rows padded
  float* const tile_b = tile_a + 32 * 33;  // [k][n], rows padded

  const unsigned b = blockIdx.x / 9;
  const unsigned m0 = blockIdx.x % 9 % 3 * 32;
  const unsigned n0 = blockIdx.x % 9 / 3 * 32;

  // mainloop fusion: one element of each operand, zero outside the matrix
  const auto operand_a = [&](unsigned m, unsigned k) -> float {
    if (m >= 70 || k >= 20) return 0;
    const float t0 = fw_value(p_t0[b * 1400 + m * 20 + k]);
    return t0;
  };
  const auto operand_b = [&](unsigned k, unsigned n) -> float {
    if (n >= 66 || k >= 20) return 0;
    const float t1 = fw_value(p_t1[b * 1320 + k * 66 + n]);
    return t1;
  };

  const unsigned row = threadIdx.x / 16;
  const unsigned column = threadIdx.x % 16;
  float sums[2][2] = {};
#pragma unroll 1
  for (unsigned k0 = 0; k0 < 20; k0 += 32) {
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
  float* const tile_x = reinterpret_cast<float*>(shared_bytes);  // what is reduced replaces what it came from
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < 32 * 32; i += 256) {
    const unsigned m_in = i / 32, n_in = i % 32;
    const unsigned m = m0 + m_in, n = n0 + n_in;
    if (m < 70 && n < 66) {
      const float accumulator = tile_c[m_in * 32 + n_in];
      const float t2_matmul = fw_value(fw_to_f16(accumulator));
      p_t2_matmul[b * 4620 + m * 66 + n] = fw_to_f16(t2_matmul);
      tile_x[m_in * 32 + n_in] = fw_abs(t2_matmul);
    }
  }
  __syncthreads();

  // one partial result a block for every kept element, in a fixed order
  float total = __uint_as_float(0xff800000u);
  for (unsigned i = threadIdx.x; i < 1024; i += 256) {
    if (m0 + i / 32 < 70 && n0 + i % 32 < 66) total = fw_largest(total, tile_x[i]);
  }
  __syncthreads();
  tile_x[threadIdx.x] = total;
  for (unsigned half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) tile_x[threadIdx.x] = fw_largest(tile_x[threadIdx.x], tile_x[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) partial0[(unsigned long long)(b * 9 + (m0 / 32) * 3 + (n0 / 32)) * 1 + (0)] = tile_x[0];
}

extern "C" __global__ void __launch_bounds__(256)
fw_combine_1(float* partial0, float* __restrict__ p_t3_reduction_amax) {
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned k = (unsigned)(blockIdx.x) * 1 + threadIdx.x;

  fw_wait_for_previous_launch();
  float acc0[1] = {__uint_as_float(0xff800000u)};
  if (k < 1) {
#pragma unroll 8
    for (unsigned split = threadIdx.y; split < 27; split += 256) {
      acc0[0] = fw_largest(acc0[0], partial0[split * 1 + k]);
    }
  }

  // acc0: one result for every kept element, from all threads of the block
#pragma unroll
  for (int e = 0; e < 1; ++e) shared[lane * 1 + e] = acc0[e];
#pragma unroll 1
  for (unsigned half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
#pragma unroll
      for (int e = 0; e < 1; ++e) {
        const unsigned mine = lane * 1 + e;
        shared[mine] = fw_largest(shared[mine], shared[mine + half * 1]);
      }
    }
  }
  if (threadIdx.y == 0 && k < 1) {
#pragma unroll
    for (int e = 0; e < 1; ++e) {
      const float total = shared[lane * 1 + e];
      p_t3_reduction_amax[0] = fw_to_f32(total);
    }
  }
  __syncthreads();
}
