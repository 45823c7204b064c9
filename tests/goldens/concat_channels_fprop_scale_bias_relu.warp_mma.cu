// fusewright 0.1.0, engine config: warp_mma tile_m=16 tile_n=64 tile_k=64 warp_m=16 warp_n=16 stages=5 fragments=1
// t0 = input HALF [2, 8, 8, 7] stride [448, 1, 56, 8]
// t1 = input HALF [2, 16, 8, 7] stride [896, 1, 112, 16]
// t2 = input HALF [2, 8, 8, 7] stride [448, 1, 56, 8]
// t4 = input HALF [1, 32, 1, 1] stride [32, 1, 32, 32]
// t6 = input HALF [1, 32, 1, 1] stride [32, 1, 32, 32]
// t9 = input HALF [24, 32, 3, 3] stride [288, 1, 96, 32]
// t3_concatenate = CONCATENATE(INPUT=t0, INPUT=t1, INPUT=t2) axis=1 -> virtual HALF [2, 32, 8, 7] stride [1792, 1, 224, 32]
// t5_mul = POINTWISE(IN_0=t3_concatenate, IN_1=t4) MUL compute FLOAT -> virtual HALF [2, 32, 8, 7] stride [1792, 1, 224, 32]
// t7_add = POINTWISE(IN_0=t5_mul, IN_1=t6) ADD compute FLOAT -> virtual HALF [2, 32, 8, 7] stride [1792, 1, 224, 32]
// t8_relu_fwd = POINTWISE(IN_0=t7_add) RELU_FWD compute FLOAT -> virtual HALF [2, 32, 8, 7] stride [1792, 1, 224, 32]
// t10_conv_fprop = CONV_FPROP(X=t8_relu_fwd, W=t9) pre_padding=[1, 1] post_padding=[1, 1] stride=[1, 1] dilation=[1, 1] compute FLOAT -> output HALF [2, 24, 8, 7] stride [1344, 1, 168, 24]

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
#define FW_ADD(sum, part) "add.f32 acc" #sum ", acc" #sum ", acc" #part ";"
#define FW_SUM(additions) asm volatile(additions)
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

extern "C" __global__ void __launch_bounds__(128, 4)
fw_convolution_forward(const fw_f16* __restrict__ p_t0, const fw_f16* __restrict__ p_t1, const fw_f16* __restrict__ p_t2, const fw_f16* __restrict__ p_t4, const fw_f16* __restrict__ p_t6, const fw_f16* __restrict__ p_t9, fw_f16* __restrict__ p_t10_conv_fprop) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(8);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned shared_a = shared, shared_b = shared + 2048;  // tiles of stage 0
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned warp_m = warp % 1 * 16, warp_n = warp / 1 * 16;
  // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
  const unsigned block = blockIdx.x;
  const unsigned block_m = block % 7u, block_n = block / 7u;
  const unsigned m0 = (unsigned)(block_m) * 16, n0 = (unsigned)(block_n) * 64;

  // mainloop fusion of A, t8_relu_fwd: 8 elements, zero outside
  const auto operand_a = [&](unsigned m, unsigned k) -> fw_vector<unsigned, 4> {
    const unsigned img = m / 56;
    const unsigned p = m / 7 % 8;
    const unsigned q = m % 7;
    const unsigned r = k / 96;
    const unsigned s = k / 32 % 3;
    const unsigned ci = k % 32;
    const int h = int(p) + int(r) - 1;
    const int w = int(q) + int(s) - 1;
    float out[8];
    if (!(k < 288 && h >= 0 && h < 8 && w >= 0 && w < 7)) return {};
    const unsigned o_t0 = img * 448 + h * 56 + w * 8 + ci;
    const unsigned o_t1 = img * 896 + h * 112 + w * 16 + ci;
    const unsigned o_t2 = img * 448 + h * 56 + w * 8 + ci;
    const unsigned o_t4 = ci;
    const unsigned o_t6 = ci;
    float v_t4[8];
    fw_load_vector(p_t4 + o_t4, v_t4);
    float v_t6[8];
    fw_load_vector(p_t6 + o_t6, v_t6);
    float v_t3_concatenate[8];
    if (ci < 8) fw_load_vector(p_t0 + o_t0, v_t3_concatenate);
    else if (ci < 24) fw_load_vector(p_t1 + (o_t1 - 8), v_t3_concatenate);
    else fw_load_vector(p_t2 + (o_t2 - 24), v_t3_concatenate);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t4 = v_t4[e];
      const float t6 = v_t6[e];
      const float t3_concatenate = v_t3_concatenate[e];
      const float t5_mul = fw_value(fw_to_f16(fw_mul(t3_concatenate, t4)));
      const float t7_add = fw_value(fw_to_f16(fw_add(t5_mul, t6)));
      const float t8_relu_fwd = fw_relu(t7_add, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
      out[e] = t8_relu_fwd;
    }
    return fw_pack_f16(out);
  };
  fw_vector<unsigned, 4> fetched_a[1];
  const auto fetch_a = [&](unsigned k0) {
#pragma unroll
    for (unsigned pass = 0; pass < 1; ++pass) {
      const unsigned i = pass * 128 + threadIdx.x;
      const unsigned row = i / 8, piece = i % 8;
      fetched_a[pass] = operand_a(m0 + row, k0 + piece * 8);
    }
  };
  const auto place_a = [&](unsigned stage) {
#pragma unroll
    for (unsigned pass = 0; pass < 1; ++pass) {
      const unsigned i = pass * 128 + threadIdx.x;
      const unsigned row = i / 8, piece = i % 8;
      const unsigned at = shared_a + stage * 10240 + fw_swizzled<128>(row, piece * 16);
      *reinterpret_cast<fw_vector<unsigned, 4>*>(shared_bytes + (at - shared)) = fetched_a[pass];
    }
  };

  // operand B, t9: 16 bytes at a time straight to shared memory, zeros outside
  const auto copy_b = [&](unsigned stage, unsigned k0) {
#pragma unroll
    for (unsigned pass = 0; pass < 4; ++pass) {
      const unsigned i = pass * 128 + threadIdx.x;
      const unsigned row = i / 8, piece = i % 8;
      const unsigned n = n0 + row, k = k0 + piece * 8;
      const unsigned ko = n;
      const unsigned r = k / 96;
      const unsigned s = k / 32 % 3;
      const unsigned ci = k % 32;
      const unsigned o_t9 = ko * 288 + r * 96 + s * 32 + ci;
      fw_cp_async<16>(shared_b + stage * 10240 + fw_swizzled<128>(row, piece * 16), p_t9 + o_t9, n < 24 && k < 288);
    }
  };

  // where the lane's rows of fragments lie in a tile
  const unsigned lane_a = shared_a + (warp_m + lane % 16) * 128, phase_a = fw_phase<128>(lane % 16);
  const unsigned lane_b = shared_b + (warp_n + lane % 8 + lane / 16 * 8) * 128, phase_b = fw_phase<128>(lane % 8 + lane / 16 * 8);

  // 16 elements of k: 1 fragments of 16 rows, 2 of 8 columns
  const auto load_fragments = [&](unsigned stage, unsigned part, unsigned (&left)[1][4], unsigned (&right)[2][2]) {
    const unsigned at_a = lane_a + stage * 10240 + (part * 32 + lane / 16 * 16 ^ phase_a);
#pragma unroll
    for (unsigned i = 0; i < 1; ++i) fw_ldmatrix_x4(left[i], at_a + i * 2048);
    const unsigned at_b = lane_b + stage * 10240 + (part * 32 + lane / 8 % 2 * 16 ^ phase_b);
#pragma unroll
    for (unsigned j = 0; j < 2; j += 2) fw_ldmatrix_x4(right[j], right[j + 1], at_b + j * 1024);
  };
  FW_CLEAR(
    FW_ZERO(0) FW_ZERO(1) FW_ZERO(2) FW_ZERO(3) FW_ZERO(4) FW_ZERO(5) FW_ZERO(6) FW_ZERO(7));
  const auto multiply = [&](const unsigned (&left)[1][4], const unsigned (&right)[2][2]) {
    fw_mma_f16<0>(left[0], right[0]);
    fw_mma_f16<4>(left[0], right[1]);
  };
  constexpr int first = 0, steps = 5;
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
          copy_b(filled, k0);
        }
      }
      if (step < 0) continue;
      unsigned left[1][4], right[2][2];
      load_fragments(stage, part, left, right);
      multiply(left, right);
    }
    if (fills) place_a(filled);
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
  for (unsigned i = threadIdx.x; i < 128; i += 128) {
    const unsigned line = i / 8, piece = i % 8 * 8;
    const unsigned m = m0 + line;
    const unsigned n = n0 + piece;
    if (!(n < 24)) continue;
    const unsigned img = m / 56;
    const unsigned p = m / 7 % 8;
    const unsigned q = m % 7;
    const unsigned ko = n;

    const float* const tile_at = tile_c + line * 72 + piece;
    const unsigned o_t10_conv_fprop = img * 1344 + p * 168 + q * 24 + ko;
    float acc[8];
    fw_load_vector(tile_at, acc);
    float w_t10_conv_fprop[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t10_conv_fprop = acc[e];
      w_t10_conv_fprop[e] = t10_conv_fprop;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t10_conv_fprop + o_t10_conv_fprop), fw_pack_f16(w_t10_conv_fprop));
  }
}
