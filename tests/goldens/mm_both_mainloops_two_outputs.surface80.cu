// fusewright 0.1.0, engine config: surface80 tile_m=16 tile_n=64 tile_k=64 warp_m=16 warp_n=16 stages=5 fragments=1
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
__device__ __forceinline__ unsigned fw_shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}
#endif

// Byte of a row in shared memory whose 16-byte chunks are exchanged so that eight rows of one column, or a row of
// eight columns, lie in different banks. Rows have 32 or 64 bytes, or a multiple of 128.
template <unsigned ROW_BYTES>
FW_INLINE unsigned fw_phase(unsigned row) {
  static_assert(ROW_BYTES == 32 || ROW_BYTES == 64 || ROW_BYTES % 128 == 0, "rows of lines, or whole parts of one");
  return (ROW_BYTES == 32 ? row >> 2 & 1 : ROW_BYTES == 64 ? row >> 1 & 3 : row & 7) << 4;
}
template <unsigned ROW_BYTES>
FW_INLINE unsigned fw_swizzled(unsigned row, unsigned byte) {
  return row * ROW_BYTES + (byte ^ fw_phase<ROW_BYTES>(row));
}

#ifndef FW_EMULATOR
// Copies 4, 8 or 16 bytes to shared memory, zeros if the predicate does not hold. Before sm_80 at once.
template <unsigned BYTES>
__device__ __forceinline__ void fw_cp_async(unsigned shared_address, const void* global, bool predicate) {
#if __CUDA_ARCH__ >= 800
  const unsigned size = predicate ? BYTES : 0;
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address), "l"(global), "r"(size) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address), "l"(global), "n"(BYTES), "r"(size) : "memory");
#else
#pragma unroll
  for (unsigned word = 0; word < BYTES / 4; ++word) {
    const unsigned bits = predicate ? static_cast<const unsigned*>(global)[word] : 0;
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared_address + 4 * word), "r"(bits) : "memory");
  }
#endif
}
__device__ __forceinline__ void fw_cp_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int PENDING>
__device__ __forceinline__ void fw_cp_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}
#endif

#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_ldmatrix_x4(unsigned (&r)[4], unsigned shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address));
}
__device__ __forceinline__ void fw_ldmatrix_x4_trans(unsigned (&r)[4], unsigned shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address));
}
__device__ __forceinline__ void fw_ldmatrix_x4(unsigned (&r)[2], unsigned (&s)[2], unsigned shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(s[0]), "=r"(s[1]) : "r"(shared_address));
}
__device__ __forceinline__ void fw_ldmatrix_x4_trans(unsigned (&r)[2], unsigned (&s)[2], unsigned shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(s[0]), "=r"(s[1]) : "r"(shared_address));
}
#endif

#ifndef FW_EMULATOR
// The accumulators of a thread are PTX registers `acc0`, `acc1`, … of the kernel: declared once at its top, named by
// number. The compiler's middle end does not see them, which halves the time of a compile.
#define FW_ACCUMULATORS_float(count) asm volatile(".reg .f32 acc<" #count ">;")
#define FW_ACCUMULATORS_int(count) asm volatile(".reg .s32 acc<" #count ">;")
#define FW_ZERO(number) "mov.b32 acc" #number ", 0;"
#define FW_CLEAR(zeros) asm volatile(zeros)
template <int A>
__device__ __forceinline__ void fw_take(float (&x)[4]) {
  asm volatile("mov.b32 %0, acc%4; mov.b32 %1, acc%5; mov.b32 %2, acc%6; mov.b32 %3, acc%7;"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "n"(A), "n"(A + 1), "n"(A + 2), "n"(A + 3));
}
template <int A>
__device__ __forceinline__ void fw_take(int (&x)[4]) {
  asm volatile("mov.b32 %0, acc%4; mov.b32 %1, acc%5; mov.b32 %2, acc%6; mov.b32 %3, acc%7;"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "n"(A), "n"(A + 1), "n"(A + 2), "n"(A + 3));
}
#endif

// A fragment of the accumulators, 16 rows by 8 columns, to a tile whose rows lie `PITCH` elements apart; `at` is the
// lane's first element.
template <int A, int PITCH, typename T>
FW_INLINE void fw_put_rows(T* at) {
  struct alignas(8) Pair { T x, y; };
  T x[4];
  fw_take<A>(x);
  *reinterpret_cast<Pair*>(at) = {x[0], x[1]};
  *reinterpret_cast<Pair*>(at + 8 * PITCH) = {x[2], x[3]};
}

#ifndef FW_EMULATOR
// acc[A..A+3] += a · b, fragments of 16 by 8 with 32 bytes of k.
template <int A>
__device__ __forceinline__ void fw_mma_f16(const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {acc%6, acc%7, acc%8, acc%9}, {%0, %1, %2, %3}, {%4, %5}, {acc%6, acc%7, acc%8, acc%9};"
               ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "n"(A), "n"(A + 1), "n"(A + 2), "n"(A + 3));
#else
#pragma unroll
  for (int half = 0; half < 2; ++half)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {acc%3, acc%4, acc%5, acc%6}, {%0, %1}, {%2}, {acc%3, acc%4, acc%5, acc%6};"
                 ::"r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]), "n"(A), "n"(A + 1), "n"(A + 2), "n"(A + 3));
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

extern "C" __global__ void __launch_bounds__(128, 4)
fw_matmul(const fw_f16* __restrict__ p_t0, const float* __restrict__ p_t1, const signed char* __restrict__ p_t3, const fw_f16* __restrict__ p_t7, float* __restrict__ p_t8_add, fw_f16* __restrict__ p_t9_gelu_fwd) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(8);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned shared_a = shared, shared_b = shared + 2048;  // tiles of stage 0
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned warp_m = warp % 1 * 16, warp_n = warp / 1 * 16;
// neighbouring blocks share rows and columns of tiles, so that operands stay in L2
  const unsigned b = blockIdx.x / 10u;
  const unsigned block = blockIdx.x % 10u;
  const unsigned band = block / 10u, inside_band = block % 10u;
  const unsigned band_rows = min(5u, 5u - band * 5u);
  const unsigned block_m = band * 5u + inside_band % band_rows, block_n = inside_band / band_rows;
  const unsigned m0 = (unsigned)(block_m) * 16, n0 = (unsigned)(block_n) * 64;

  // mainloop fusion of A, t5_relu_fwd: 2 elements, zero outside
  const auto operand_a = [&](unsigned m, unsigned k) -> fw_vector<fw_f16, 2> {
    fw_vector<fw_f16, 2> out = {};
    if (!(m < 70 && k < 50)) return out;
    const unsigned o_t0 = b * 3500 + m * 50 + k;
    const unsigned o_t1 = m;
    float v_t0[2];
    fw_load_vector(p_t0 + o_t0, v_t0);
    const float t1 = fw_value(p_t1[o_t1]);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float t0 = v_t0[e];
      const float t2_mul = fw_mul(t0, t1);
      const float t5_relu_fwd = fw_value(fw_to_f16(fw_relu(t2_mul, 0.0f, __uint_as_float(0x7f800000u), 0.0f)));
      out.at[e] = fw_to_f16(t5_relu_fwd);
    }
    return out;
  };
  fw_vector<fw_f16, 2> fetched_a[4];
  const auto fetch_a = [&](unsigned k0) {
#pragma unroll
    for (unsigned pass = 0; pass < 4; ++pass) {
      const unsigned i = pass * 128 + threadIdx.x;
      const unsigned row = i / 32, piece = i % 32;
      fetched_a[pass] = operand_a(m0 + row, k0 + piece * 2);
    }
  };
  const auto place_a = [&](unsigned stage) {
#pragma unroll
    for (unsigned pass = 0; pass < 4; ++pass) {
      const unsigned i = pass * 128 + threadIdx.x;
      const unsigned row = i / 32, piece = i % 32;
      const unsigned at = shared_a + stage * 10240 + fw_swizzled<128>(row, piece * 4);
      *reinterpret_cast<fw_vector<fw_f16, 2>*>(shared_bytes + (at - shared)) = fetched_a[pass];
    }
  };

  // mainloop fusion of B, t4_identity: 2 elements, zero outside
  const auto operand_b = [&](unsigned k, unsigned n) -> fw_vector<fw_f16, 2> {
    fw_vector<fw_f16, 2> out = {};
    if (!(n < 66 && k < 50)) return out;
    const unsigned o_t3 = k * 66 + n;
    int v_t3[2];
    fw_load_vector(p_t3 + o_t3, v_t3);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int t3 = v_t3[e];
      const float t4_identity = fw_value(fw_to_f16(fw_identity(fw_to_f32(t3))));
      out.at[e] = fw_to_f16(t4_identity);
    }
    return out;
  };
  fw_vector<fw_f16, 2> fetched_b[16];
  const auto fetch_b = [&](unsigned k0) {
#pragma unroll
    for (unsigned pass = 0; pass < 16; ++pass) {
      const unsigned i = pass * 128 + threadIdx.x;
      const unsigned row = i / 32, piece = i % 32;
      fetched_b[pass] = operand_b(k0 + row, n0 + piece * 2);
    }
  };
  const auto place_b = [&](unsigned stage) {
#pragma unroll
    for (unsigned pass = 0; pass < 16; ++pass) {
      const unsigned i = pass * 128 + threadIdx.x;
      const unsigned row = i / 32, piece = i % 32;
      const unsigned at = shared_b + stage * 10240 + fw_swizzled<128>(row, piece * 4);
      *reinterpret_cast<fw_vector<fw_f16, 2>*>(shared_bytes + (at - shared)) = fetched_b[pass];
    }
  };

  // where the lane's rows of fragments lie in a tile
  const unsigned lane_a = shared_a + (warp_m + lane % 16) * 128, phase_a = fw_phase<128>(lane % 16);
  const unsigned lane_b = shared_b + lane % 16 * 128, phase_b = fw_phase<128>(lane % 16);

  // 16 elements of k: 1 fragments of 16 rows, 2 of 8 columns
  const auto load_fragments = [&](unsigned stage, unsigned part, unsigned (&left)[1][4], unsigned (&right)[2][2]) {
    const unsigned at_a = lane_a + stage * 10240 + (part * 32 + lane / 16 * 16 ^ phase_a);
#pragma unroll
    for (unsigned i = 0; i < 1; ++i) fw_ldmatrix_x4(left[i], at_a + i * 2048);
    const unsigned at_b = lane_b + stage * 10240 + part * 2048;
#pragma unroll
    for (unsigned j = 0; j < 2; j += 2) fw_ldmatrix_x4_trans(right[j], right[j + 1], at_b + ((warp_n + j * 8 + lane / 16 * 8) * 2 ^ phase_b));
  };
  FW_CLEAR(
    FW_ZERO(0) FW_ZERO(1) FW_ZERO(2) FW_ZERO(3) FW_ZERO(4) FW_ZERO(5) FW_ZERO(6) FW_ZERO(7));
  const auto multiply = [&](const unsigned (&left)[1][4], const unsigned (&right)[2][2]) {
    fw_mma_f16<0>(left[0], right[0]);
    fw_mma_f16<4>(left[0], right[1]);
  };
  constexpr int first = 0, steps = 1;
  unsigned stage = 1, filled = 0;  // stage 0 is multiplied after the first 4 steps
// tiles are loaded 4 steps ahead, so the first steps only load
#pragma unroll 1
  for (int step = -4; step < steps; ++step) {
    const bool fills = step + 4 < steps;
#pragma unroll
    for (unsigned part = 0; part < 4; ++part) {
      if (part == 0) {
if (fills) {
          const unsigned k0 = (unsigned)(first + step + 4) * 64;
          fetch_a(k0);
        }
      }
      if (part == 2) {
if (fills) {
          const unsigned k0 = (unsigned)(first + step + 4) * 64;
          fetch_b(k0);
        }
      }
      if (step < 0) continue;
      unsigned left[1][4], right[2][2];
      load_fragments(stage, part, left, right);
      multiply(left, right);
    }
    if (fills) place_a(filled);
    if (fills) place_b(filled);
    fw_cp_async_commit();
    fw_cp_async_wait<3>();
    __syncthreads();
    stage = stage + 1 == 5 ? 0 : stage + 1;
    filled = filled + 1 == 5 ? 0 : filled + 1;
  }
  fw_cp_async_wait<0>();
  __syncthreads();

  // the accumulators go through shared memory, so that the epilogue is one rolled loop with coalesced accesses
  float* const tile_c = reinterpret_cast<float*>(shared_bytes);  // [m][n], rows padded
  float* const lane_c = tile_c + (warp_m + lane / 4) * 72 + warp_n + lane % 4 * 2;
  fw_put_rows<0, 72>(lane_c + 0);
  fw_put_rows<4, 72>(lane_c + 8);
  __syncthreads();

  // epilogue fusion
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < 512; i += 128) {
    const unsigned line = i / 32, piece = i % 32 * 2;
    const unsigned m = m0 + line;
    const unsigned n = n0 + piece;
    if (!(m < 70 && n < 66)) continue;

    const float* const tile_at = tile_c + line * 72 + piece;
    const unsigned o_t7 = n;
    const unsigned o_t8_add = b * 4620 + m * 66 + n;
    const unsigned o_t9_gelu_fwd = b * 4620 + m * 66 + n;
    float v_t7[2];
    fw_load_vector(p_t7 + o_t7, v_t7);
    float acc[2];
    fw_load_vector(tile_at, acc);
    fw_vector<float, 2> w_t8_add;
    float w_t9_gelu_fwd[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float t7 = v_t7[e];
      const float t6_matmul = acc[e];
      const float t8_add = fw_add(t6_matmul, t7);
      const float t9_gelu_fwd = fw_gelu(t8_add);
      w_t8_add.at[e] = fw_to_f32(t8_add);
      w_t9_gelu_fwd[e] = t9_gelu_fwd;
    }
    fw_store_vector(p_t8_add + o_t8_add, w_t8_add);
    fw_store_vector(reinterpret_cast<unsigned*>(p_t9_gelu_fwd + o_t9_gelu_fwd), fw_pack_f16(w_t9_gelu_fwd));
  }
}
