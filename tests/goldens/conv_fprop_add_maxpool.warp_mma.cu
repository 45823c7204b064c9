// fusewright 0.1.0, engine config: warp_mma tile_m=16 tile_n=64 tile_k=64 warp_m=16 warp_n=16 stages=5 fragments=1
// t0 = input HALF [2, 24, 14, 12] stride [4032, 1, 288, 24]
// t3 = input HALF [2, 16, 7, 6] stride [672, 1, 96, 16]
// t4 = input HALF [24, 16, 3, 3] stride [144, 1, 48, 16]
// t1_resample, t2_resample = RESAMPLE(X=t0) MAXPOOL NEG_INF_PAD window=[3, 3] stride=[2, 2] pre_padding=[1, 1] post_padding=[1, 1] compute FLOAT -> virtual HALF [2, 24, 7, 6] stride [1008, 1, 144, 24], output INT8 [2, 24, 7, 6] stride [1008, 1, 144, 24]
// t5_conv_fprop = CONV_FPROP(X=t3, W=t4) pre_padding=[1, 1] post_padding=[1, 1] stride=[1, 1] dilation=[1, 1] compute FLOAT -> virtual FLOAT [2, 24, 7, 6] stride [1008, 1, 144, 24]
// t6_add = POINTWISE(IN_0=t5_conv_fprop, IN_1=t1_resample) ADD compute FLOAT -> virtual FLOAT [2, 24, 7, 6] stride [1008, 1, 144, 24]
// t7_relu_fwd = POINTWISE(IN_0=t6_add) RELU_FWD compute FLOAT -> output HALF [2, 24, 7, 6] stride [1008, 1, 144, 24]

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

FW_INLINE float fw_infinity() { return __uint_as_float(0x7f800000u); }

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

FW_INLINE float fw_relu(float x, float lower, float upper, float slope) {
  if (x < lower) return slope == 0.0f ? lower : fmaf(slope, x - lower, lower);  // 0·∞ is not the clip
  return x > upper ? upper : x;  // NaN passes
}

template <typename Index>
struct fw_point { Index z, y, x; };
// A plane of an image: its first pixel, and the elements from a pixel to the next along each axis.
template <typename Storage, typename Index>
struct fw_plane {
  const Storage* first;
  Index z, y, x;
  template <typename Value, int N>
  FW_INLINE void load(fw_point<Index> at, Value (&values)[N]) const {
    fw_load_vector(first + (at.z * z + at.y * y + at.x * x), values);
  }
};

// One axis of a pooling: window w starts at pixel w * stride - padding.
template <typename Index>
struct fw_pool_axis {
  Index pixels, windows, window, stride, padding;
  FW_INLINE Index start(Index w) const { return w * stride - padding; }
  // the positions of a window that are pixels, from the first to one past the last
  FW_INLINE Index begin(Index start) const { return padding > 0 && start < 0 ? -start : 0; }
  FW_INLINE Index end(Index start) const {
    const bool all = (windows - 1) * stride - padding + window <= pixels;
    return all || pixels - start > window ? window : pixels - start;
  }
  FW_INLINE unsigned count(Index w) const {
    const Index n = end(start(w)) - begin(start(w));
    return n > 0 ? unsigned(n) : 0u;
  }
  // the windows that hold a pixel
  FW_INLINE Index first(Index pixel) const {
    const Index at = pixel + padding;
    return at < window ? 0 : (at - window) / stride + 1;
  }
  FW_INLINE Index last(Index pixel) const {
    const Index at = pixel + padding;
    return at < 0 ? -1 : at / stride < windows ? at / stride : windows - 1;
  }
};
template <typename Index>
struct fw_pool {
  fw_pool_axis<Index> z, y, x;
  // Calls visit(pixel, place) for the pixels of a window in scan order; places count padded positions.
  template <typename Visit>
  FW_INLINE void for_each_pixel(fw_point<Index> w, Visit visit) const {
    const Index z0 = z.start(w.z), y0 = y.start(w.y), x0 = x.start(w.x);
    const Index z1 = z.end(z0), y1 = y.end(y0), x1 = x.end(x0);
#pragma unroll 1
    for (Index dz = z.begin(z0); dz < z1; ++dz) {
#pragma unroll 1
      for (Index dy = y.begin(y0); dy < y1; ++dy) {
#pragma unroll 2
        for (Index dx = x.begin(x0); dx < x1; ++dx)
          visit(fw_point<Index>{z0 + dz, y0 + dy, x0 + dx}, int((dz * y.window + dy) * x.window + dx));
      }
    }
  }
  // Calls visit(window, place) for the windows that hold a pixel, in order, with the pixel's place there.
  template <typename Visit>
  FW_INLINE void for_each_window(fw_point<Index> pixel, Visit visit) const {
    const Index z1 = z.last(pixel.z), y1 = y.last(pixel.y), x1 = x.last(pixel.x);
#pragma unroll 1
    for (Index wz = z.first(pixel.z); wz <= z1; ++wz) {
#pragma unroll 1
      for (Index wy = y.first(pixel.y); wy <= y1; ++wy) {
#pragma unroll 1
        for (Index wx = x.first(pixel.x); wx <= x1; ++wx) {
          const Index dz = pixel.z - z.start(wz), dy = pixel.y - y.start(wy), dx = pixel.x - x.start(wx);
          visit(fw_point<Index>{wz, wy, wx}, int((dz * y.window + dy) * x.window + dx));
        }
      }
    }
  }
  // What the sum over a window is divided by; 0 where nothing counts.
  template <bool COUNTS_PADDING>
  FW_INLINE float divisor(fw_point<Index> w) const {
    if (COUNTS_PADDING) return float(unsigned(z.window) * unsigned(y.window) * unsigned(x.window));
    return float(z.count(w.z) * y.count(w.y) * x.count(w.x));
  }
};

// The largest value and its place: the first of equal ones, the first NaN; minus infinity at place 0 without pixels.
template <typename Storage, typename Index, int N>
FW_INLINE void fw_pool_max(fw_plane<Storage, Index> image, fw_pool<Index> pool, fw_point<Index> window, float (&best)[N], int (&places)[N]) {
#pragma unroll
  for (int e = 0; e < N; ++e) best[e] = -fw_infinity(), places[e] = 0;
  pool.for_each_pixel(window, [&](fw_point<Index> pixel, int place) {
    float values[N];
    image.load(pixel, values);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const bool exceeds = !(values[e] <= best[e]) && best[e] == best[e];
      best[e] = exceeds ? values[e] : best[e];
      places[e] = exceeds ? place : places[e];
    }
  });
}

extern "C" __global__ void __launch_bounds__(128, 4)
fw_convolution_forward(const fw_f16* __restrict__ p_t3, const fw_f16* __restrict__ p_t4, const fw_f16* __restrict__ p_t0, fw_f16* __restrict__ p_t7_relu_fwd) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(8);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned shared_a = shared, shared_b = shared + 2048;  // tiles of stage 0
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned warp_m = warp % 1 * 16, warp_n = warp / 1 * 16;
  // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
  const unsigned block = blockIdx.x;
  const unsigned block_m = block % 6u, block_n = block / 6u;
  const unsigned m0 = (unsigned)(block_m) * 16, n0 = (unsigned)(block_n) * 64;

  // operand A, t3: 16 bytes at a time straight to shared memory, zeros outside
  const auto copy_a = [&](unsigned stage, unsigned k0) {
#pragma unroll
    for (unsigned pass = 0; pass < 1; ++pass) {
      const unsigned i = pass * 128 + threadIdx.x;
      const unsigned row = i / 8, piece = i % 8;
      const unsigned m = m0 + row, k = k0 + piece * 8;
      const unsigned img = m / 42;
      const unsigned p = m / 6 % 7;
      const unsigned q = m % 6;
      const unsigned r = k / 48;
      const unsigned s = k / 16 % 3;
      const unsigned ci = k % 16;
      const int h = int(p) + int(r) - 1;
      const int w = int(q) + int(s) - 1;
      const unsigned o_t3 = img * 672 + h * 96 + w * 16 + ci;
      fw_cp_async<16>(shared_a + stage * 10240 + fw_swizzled<128>(row, piece * 16), p_t3 + o_t3, m < 84 && k < 144 && h >= 0 && h < 7 && w >= 0 && w < 6);
    }
  };

  // operand B, t4: 16 bytes at a time straight to shared memory, zeros outside
  const auto copy_b = [&](unsigned stage, unsigned k0) {
#pragma unroll
    for (unsigned pass = 0; pass < 4; ++pass) {
      const unsigned i = pass * 128 + threadIdx.x;
      const unsigned row = i / 8, piece = i % 8;
      const unsigned n = n0 + row, k = k0 + piece * 8;
      const unsigned ko = n;
      const unsigned r = k / 48;
      const unsigned s = k / 16 % 3;
      const unsigned ci = k % 16;
      const unsigned o_t4 = ko * 144 + r * 48 + s * 16 + ci;
      fw_cp_async<16>(shared_b + stage * 10240 + fw_swizzled<128>(row, piece * 16), p_t4 + o_t4, n < 24 && k < 144);
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
  constexpr int first = 0, steps = 3;
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
          copy_a(filled, k0);
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
    if (!(m < 84 && n < 24)) continue;
    const unsigned img = m / 42;
    const unsigned p = m / 6 % 7;
    const unsigned q = m % 6;
    const unsigned ko = n;

    const float* const tile_at = tile_c + line * 72 + piece;
    const unsigned o_t7_relu_fwd = img * 1008 + p * 144 + q * 24 + ko;
    float acc[8];
    fw_load_vector(tile_at, acc);
    const fw_pool<int> pool_t1_resample = {{1, 1, 1, 1, 0}, {14, 7, 3, 2, 1}, {12, 6, 3, 2, 1}};  // pixels, windows, window, stride, padding
    float v_t1_resample[8];
    int at_t1_resample[8];
    fw_pool_max(fw_plane<fw_f16, int>{p_t0 + (int(img) * 4032 + int(ko)), 0, 288, 24}, pool_t1_resample, fw_point<int>{0, int(p), int(q)}, v_t1_resample, at_t1_resample);
    float w_t7_relu_fwd[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t5_conv_fprop = acc[e];
      const float t1_resample = fw_value(fw_to_f16(v_t1_resample[e]));
      const float t6_add = fw_add(t5_conv_fprop, t1_resample);
      const float t7_relu_fwd = fw_relu(t6_add, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
      w_t7_relu_fwd[e] = t7_relu_fwd;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t7_relu_fwd + o_t7_relu_fwd), fw_pack_f16(w_t7_relu_fwd));
  }
}

extern "C" __global__ void __launch_bounds__(256, 1)
fw_pointwise_1(const fw_f16* __restrict__ p_t0, signed char* __restrict__ p_t2_resample) {
  fw_wait_for_previous_launch();
  const unsigned vector = (unsigned)(blockIdx.x) * 256 + threadIdx.x;
  if (vector < 252) {
    const unsigned i0 = vector / 126;
    const unsigned i1 = vector / 18 % 7;
    const unsigned i2 = vector / 3 % 6;
    const unsigned i3 = vector % 3 * 8;
    const unsigned o_t2_resample = i0 * 1008 + i1 * 144 + i2 * 24 + i3;
    const fw_pool<int> pool_t1_resample = {{1, 1, 1, 1, 0}, {14, 7, 3, 2, 1}, {12, 6, 3, 2, 1}};  // pixels, windows, window, stride, padding
    float v_t1_resample[8];
    int at_t1_resample[8];
    fw_pool_max(fw_plane<fw_f16, int>{p_t0 + (int(i0) * 4032 + int(i3)), 0, 288, 24}, pool_t1_resample, fw_point<int>{0, int(i1), int(i2)}, v_t1_resample, at_t1_resample);
    fw_vector<signed char, 8> w_t2_resample;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int t2_resample = at_t1_resample[e];
      w_t2_resample.at[e] = fw_to_i8(t2_resample);
    }
    fw_store_vector(p_t2_resample + o_t2_resample, w_t2_resample);
  }
}
