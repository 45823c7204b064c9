// fusewright 0.1.0, engine config: warpgroup_mma tile_m=128 tile_n=16 stages=11 schedule=cooperative
// t0 = input BFLOAT16 [1, 33, 24] stride [792, 24, 1]
// t1 = input BFLOAT16 [1, 24, 64] stride [1536, 64, 1]
// t3 = input BFLOAT16 [1, 33, 1] stride [33, 1, 1]
// t2_matmul = MATMUL(A=t0, B=t1) compute FLOAT -> virtual FLOAT [1, 33, 64] stride [2112, 64, 1]
// t4_cmp_gt = POINTWISE(IN_0=t2_matmul, IN_1=t3) CMP_GT compute FLOAT -> output BOOLEAN [1, 33, 64] stride [2112, 64, 1]

#define FW_INLINE __device__ __forceinline__

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

#ifndef FW_EMULATOR
__device__ __forceinline__ unsigned fw_shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
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

// A tensor map as the driver encodes it, by value in the parameters.
#ifndef FW_EMULATOR
struct alignas(64) fw_tensor_map {
  unsigned char bytes[128];
};
#endif

// True in one lane of a converged warp. The assembler then knows that a single thread takes the branch.
#ifndef FW_EMULATOR
__device__ __forceinline__ bool fw_elect() {
  unsigned elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
  return elected;
}
#endif

#ifndef FW_EMULATOR
// A phase ends when `count` arrivals have come and the bytes expected in it have landed. Once all barriers of the block
// are initialised, their thread fences, and the block synchronises.
__device__ __forceinline__ void fw_mbarrier_init(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void fw_mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives, and lets the phase wait for so many bytes more.
__device__ __forceinline__ void fw_mbarrier_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void fw_mbarrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Waits until the phase of this parity has ended: the first has parity 0, and of a fresh barrier parity 1 has ended.
__device__ __forceinline__ void fw_mbarrier_wait(unsigned barrier, unsigned parity) {
  asm volatile("{\n.reg .pred p;\nWAIT_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
               "@p bra.uni DONE_%=;\nbra.uni WAIT_%=;\nDONE_%=:\n}" ::"r"(barrier), "r"(parity) : "memory");
}
#endif

// An index of any type as a coordinate of a box, which is a signed number of 32 bits: engines take no graph with larger ones.
#ifndef FW_EMULATOR
template <typename Index>
__device__ __forceinline__ int fw_coordinate(Index index) {
  return int(index);
}
#endif

#ifndef FW_EMULATOR
// One thread copies a box to shared memory, and its bytes are counted by the mbarrier; coordinates innermost first.
// Elements outside the tensor are zeros. The destination is a multiple of 128 bytes, or of eight swizzled rows.
__device__ __forceinline__ void fw_tma_prefetch(const fw_tensor_map* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
#define FW_TMA_LOAD(rank, coordinates, ...)                                                                            \
  asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {"   \
               coordinates "}], [%2];" ::"r"(destination), "l"(map), "r"(barrier), __VA_ARGS__ : "memory")
template <typename C0>
__device__ __forceinline__ void fw_tma_load(unsigned destination, const fw_tensor_map* map, unsigned barrier, C0 c0) {
  FW_TMA_LOAD("1d", "%3", "r"(fw_coordinate(c0)));
}
template <typename C0, typename C1>
__device__ __forceinline__ void fw_tma_load(unsigned destination, const fw_tensor_map* map, unsigned barrier, C0 c0,
                                            C1 c1) {
  FW_TMA_LOAD("2d", "%3, %4", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)));
}
template <typename C0, typename C1, typename C2>
__device__ __forceinline__ void fw_tma_load(unsigned destination, const fw_tensor_map* map, unsigned barrier, C0 c0,
                                            C1 c1, C2 c2) {
  FW_TMA_LOAD("3d", "%3, %4, %5", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)), "r"(fw_coordinate(c2)));
}
template <typename C0, typename C1, typename C2, typename C3>
__device__ __forceinline__ void fw_tma_load(unsigned destination, const fw_tensor_map* map, unsigned barrier, C0 c0,
                                            C1 c1, C2 c2, C3 c3) {
  FW_TMA_LOAD("4d", "%3, %4, %5, %6", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)), "r"(fw_coordinate(c2)),
              "r"(fw_coordinate(c3)));
}
template <typename C0, typename C1, typename C2, typename C3, typename C4>
__device__ __forceinline__ void fw_tma_load(unsigned destination, const fw_tensor_map* map, unsigned barrier, C0 c0,
                                            C1 c1, C2 c2, C3 c3, C4 c4) {
  FW_TMA_LOAD("5d", "%3, %4, %5, %6, %7", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)), "r"(fw_coordinate(c2)),
              "r"(fw_coordinate(c3)), "r"(fw_coordinate(c4)));
}
#endif

#ifndef FW_EMULATOR
// Registers a thread has from here on, 24 to 256 in steps of 8; all warps of a warpgroup call it.
template <int N>
__device__ __forceinline__ void fw_decrease_registers() {
  static_assert(N >= 24 && N <= 256 && N % 8 == 0, "24 to 256 in steps of 8");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N) : "memory");
}
template <int N>
__device__ __forceinline__ void fw_increase_registers() {
  static_assert(N >= 24 && N <= 256 && N % 8 == 0, "24 to 256 in steps of 8");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N) : "memory");
}
#endif

// How wgmma finds an operand in shared memory. SWIZZLE: 128, 64 or 32 for rows of so many bytes in tiles that start at
// a multiple of eight rows, 0 for none. Bytes from one part to the next, with e elements in a row:
//
//   storage            | leading_bytes                  | stride_bytes
//   K-major, swizzled  | unused                         | eight rows
//   K-major, none      | 16 bytes of k                  | eight rows
//   MN-major, swizzled | e elements of m or n           | eight rows of k
//   MN-major, none     | eight rows of k                | eight elements of m or n
//
// "None" is made of blocks of eight rows of 16 bytes, 128 bytes in a piece.
template <unsigned SWIZZLE>
FW_INLINE unsigned long long fw_matrix_descriptor(unsigned address, unsigned leading_bytes, unsigned stride_bytes) {
  static_assert(SWIZZLE == 0 || SWIZZLE == 32 || SWIZZLE == 64 || SWIZZLE == 128, "bytes of a row");
  constexpr unsigned long long layout = SWIZZLE == 0 ? 0 : SWIZZLE == 32 ? 3 : SWIZZLE == 64 ? 2 : 1;
  const unsigned low = (address & 0x3ffff) >> 4 | (leading_bytes >> 4 & 0x3fff) << 16;
  return low | (unsigned long long)(stride_bytes >> 4 & 0x3fff) << 32 | layout << 62;
}

#ifndef FW_EMULATOR
// FW_PRODUCTS: a warpgroup starts products and closes their group, in one statement; `products` are FW_PRODUCTs without
// commas between them, for instance the four steps of a block of k:
//
//   FW_PRODUCT("m64n16k16.f32.bf16.bf16", "acc0, acc1, …, acc7", plus_a, plus_b, scale, tail)
//
// Literals all: the shape (64 rows, n columns, 32 bytes of k) with the types of accumulators, A and B; the n/2
// accumulators, consecutive; what is added to the descriptors, in units of 16 bytes; scale "p" to start from zero unless
// `accumulate`, "1" to add always; and a tail: "" for integers, ", 1, 1" for FP8 and TF32, ", 1, 1, ta, tb" for FP16 and
// BF16, where ta and tb are 1 for an operand that is MN-major. FP8 types mix, and so do s8 and u8.
#define FW_PRODUCTS(descriptor_a, descriptor_b, accumulate, products)                                                  \
  asm volatile("{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.ne.b32 p, %2, 0;\nwgmma.fence.sync.aligned;\n" products       \
               "wgmma.commit_group.sync.aligned;\n}" ::"l"(descriptor_a), "l"(descriptor_b), "r"(int(accumulate))      \
               : "memory")
#define FW_PRODUCT(shape, registers, plus_a, plus_b, scale, tail)                                                      \
  "add.s64 a, %0, " #plus_a ";\nadd.s64 b, %1, " #plus_b ";\nwgmma.mma_async.sync.aligned." shape " {" registers      \
  "}, a, b, " scale tail ";\n"

// The same with A from registers, one step of k: `fragment` is an `unsigned[4]`, which must not change before the wait.
// Lane l of warp w holds in fragment[i] 32 bits of row 16 w + l / 4 + 8 (i % 2), from byte 4 (l % 4) + 16 (i / 2) of k.
// No plus_a; for FP16 and BF16 the tail is ", 1, 1, tb".
#define FW_PRODUCTS_A(fragment, descriptor_b, accumulate, products)                                                    \
  asm volatile("{\n.reg .pred p;\n.reg .b64 b;\nsetp.ne.b32 p, %5, 0;\nwgmma.fence.sync.aligned;\n" products          \
               "wgmma.commit_group.sync.aligned;\n}" ::"r"((fragment)[0]), "r"((fragment)[1]), "r"((fragment)[2]),     \
               "r"((fragment)[3]), "l"(descriptor_b), "r"(int(accumulate)) : "memory")
#define FW_PRODUCT_A(shape, registers, plus_b, scale, tail)                                                            \
  "add.s64 b, %4, " #plus_b ";\nwgmma.mma_async.sync.aligned." shape " {" registers "}, {%0, %1, %2, %3}, b, " scale   \
  tail ";\n"

// Waits for all groups of products but the latest PENDING ones: their accumulators may be used, their operands changed.
template <int PENDING>
__device__ __forceinline__ void fw_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
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

FW_INLINE int fw_cmp_gt(float x, float b) { return x > b; }
FW_INLINE int fw_cmp_gt(int x, int b) { return x > b; }

#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_matmul(const fw_bf16* __restrict__ p_t3, unsigned char* __restrict__ p_t4_cmp_gt, const __grid_constant__ fw_tensor_map map0, const __grid_constant__ fw_tensor_map map1) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(8);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned full = shared + 215040, empty = full + 88;  // an mbarrier each for a stage
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
#pragma unroll 1
    for (unsigned stage = 0; stage < 11; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 1);
      fw_mbarrier_init(empty + 8 * stage, 8);  // warps that multiply what is in it
    }
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    // one thread asks for the tiles of A and B, up to 11 ahead
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < 4u; unit += gridDim.x) {
        // a tile of C
        const unsigned number = unit;
        [[maybe_unused]] constexpr int first = 0, steps = 1;
        // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
        const unsigned block = number;
        const unsigned block_m = block % 1u, block_n = block / 1u;
        const unsigned m0 = (unsigned)(block_m) * 128, n0 = (unsigned)(block_n) * 16;
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 18432);
          const unsigned tile = shared + stage * 18432;
          const unsigned k0 = (unsigned)(first + step) * 64;
          // A: t0
          fw_tma_load(tile, &map0, full + 8 * stage, k0, m0);
          // B: t1
          fw_tma_load(tile + 16384, &map1, full + 8 * stage, n0, k0);
          if (++stage == 11) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1;
    float* const piece_c = reinterpret_cast<float*>(shared_bytes + 202752 + (warp - 4) * 1536);  // of 16 rows, 16 columns
    float* const lane_c = piece_c + lane / 4 * 24 + lane % 4 * 2;
    unsigned stage = 0, parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x; unit < 4u; unit += gridDim.x) {
      // a tile of C
      const unsigned number = unit;
      [[maybe_unused]] constexpr int first = 0, steps = 1;
      // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
      const unsigned block = number;
      const unsigned block_m = block % 1u, block_n = block / 1u;
      const unsigned m0 = (unsigned)(block_m) * 128, n0 = (unsigned)(block_n) * 16;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 18432;
        const unsigned long long a = fw_matrix_descriptor<128>(tile + consumer * 8192, 16, 1024);
        const unsigned long long b = fw_matrix_descriptor<32>(tile + 16384, 2048, 256);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_ROWS_0, 0, 0, "p", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_ROWS_0, 2, 32, "1", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_ROWS_0, 4, 64, "1", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_ROWS_0, 6, 96, "1", ", 1, 1, 0, 1"));
        fw_wgmma_wait<1>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        multiplied = stage;
        if (++stage == 11) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);

      // epilogue fusion: a warp takes 16 rows and 16 columns at a time through its own piece of shared memory
#pragma unroll 1
      for (unsigned rows = 0; rows < 1; ++rows) {
        const unsigned warp_m0 = m0 + consumer * 64 + rows * 64 + warp % 4 * 16;
#pragma unroll 1
        for (unsigned chunk = 0; chunk < 1; ++chunk) {
          const unsigned chunk_n0 = n0 + chunk * 16;
          switch (rows * 1 + chunk) {
            case 0: fw_put_rows<0, 24>(lane_c); fw_put_rows<4, 24>(lane_c + 8); break;
          }
          __syncwarp();
#pragma unroll 1
          for (unsigned pass = 0; pass < 1; ++pass) {
            const unsigned i = pass * 32 + lane;
            const unsigned line = i / 2, piece = i % 2 * 8;
            const unsigned m = warp_m0 + line;
            const unsigned n = chunk_n0 + piece;
            if (!(m < 33)) continue;
            const float* const tile_at = piece_c + line * 24 + piece;
            const unsigned o_t3 = m;
            const unsigned o_t4_cmp_gt = m * 64 + n;
            const float t3 = fw_value(p_t3[o_t3]);
            float acc[8];
            fw_load_vector(tile_at, acc);
            unsigned w_t4_cmp_gt = 0;
        #pragma unroll
            for (int e = 0; e < 8; ++e) {
              const float t2_matmul = acc[e];
              const int t4_cmp_gt = fw_cmp_gt(t2_matmul, t3);
              w_t4_cmp_gt |= unsigned(fw_to_bool(t4_cmp_gt)) << e;
            }
            p_t4_cmp_gt[o_t4_cmp_gt >> 3] = (unsigned char)w_t4_cmp_gt;
          }
          __syncwarp();
        }
      }
    }
  }
}
