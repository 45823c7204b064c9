// fusewright 0.1.0, engine config: warpgroup_mma tile_m=64 tile_n=64 stages=6 schedule=ping_pong tma_epilogue=1
// t0 = input HALF [2, 150, 72] stride [10800, 72, 1]
// t1 = input HALF [1, 150, 1] stride [150, 1, 1]
// t3 = input HALF [1, 150, 1] stride [150, 1, 1]
// t7 = input HALF [2, 72, 208] stride [14976, 208, 1]
// t9 = input HALF [2, 1, 208] stride [208, 208, 1]
// t11 = input FLOAT [2, 150, 1] stride [150, 1, 1]
// t13 = input HALF [2, 150, 208] stride [31200, 208, 1]
// t2_mul = POINTWISE(IN_0=t0, IN_1=t1) MUL compute FLOAT -> virtual HALF [2, 150, 72] stride [10800, 72, 1]
// t4_sub = POINTWISE(IN_0=t2_mul, IN_1=t3) SUB compute FLOAT -> virtual HALF [2, 150, 72] stride [10800, 72, 1]
// t5_add = POINTWISE(IN_0=t4_sub, IN_1=t4_sub) ADD compute FLOAT -> virtual HALF [2, 150, 72] stride [10800, 72, 1]
// t6_relu_fwd = POINTWISE(IN_0=t5_add) RELU_FWD compute FLOAT -> virtual HALF [2, 150, 72] stride [10800, 72, 1]
// t8_matmul = MATMUL(A=t6_relu_fwd, B=t7) compute FLOAT -> virtual FLOAT [2, 150, 208] stride [31200, 208, 1]
// t10_add = POINTWISE(IN_0=t8_matmul, IN_1=t9) ADD compute FLOAT -> output FLOAT [2, 150, 208] stride [31200, 208, 1]
// t12_mul = POINTWISE(IN_0=t10_add, IN_1=t11) MUL compute FLOAT -> virtual FLOAT [2, 150, 208] stride [31200, 208, 1]
// t14_add = POINTWISE(IN_0=t12_mul, IN_1=t13) ADD compute FLOAT -> output HALF [2, 150, 208] stride [31200, 208, 1]
// t15_reduction_amax = REDUCTION(X=t14_add) AMAX compute FLOAT -> output FLOAT [1, 1, 1] stride [1, 1, 1]

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

// Byte of a box of lines of ROW bytes whose chunks of 16 are exchanged as TMA exchanges them.
template <unsigned ROW>
FW_INLINE unsigned fw_boxed(unsigned line, unsigned byte) {
  return line * ROW + (byte ^ (line * ROW >> 3 & (ROW - 16)));
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
// One thread copies a box from shared memory; elements outside the tensor are not written. The thread closes a group of
// stores, and lets all but the latest PENDING groups have read shared memory, or have written.
#define FW_TMA_STORE(rank, coordinates, ...)                                                                           \
  asm volatile("cp.async.bulk.tensor." rank ".global.shared::cta.tile.bulk_group [%0, {" coordinates "}], [%1];" ::    \
                   "l"(map), "r"(source), __VA_ARGS__ : "memory")
template <typename C0>
__device__ __forceinline__ void fw_tma_store(const fw_tensor_map* map, unsigned source, C0 c0) {
  FW_TMA_STORE("1d", "%2", "r"(fw_coordinate(c0)));
}
template <typename C0, typename C1>
__device__ __forceinline__ void fw_tma_store(const fw_tensor_map* map, unsigned source, C0 c0, C1 c1) {
  FW_TMA_STORE("2d", "%2, %3", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)));
}
template <typename C0, typename C1, typename C2>
__device__ __forceinline__ void fw_tma_store(const fw_tensor_map* map, unsigned source, C0 c0, C1 c1, C2 c2) {
  FW_TMA_STORE("3d", "%2, %3, %4", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)), "r"(fw_coordinate(c2)));
}
template <typename C0, typename C1, typename C2, typename C3>
__device__ __forceinline__ void fw_tma_store(const fw_tensor_map* map, unsigned source, C0 c0, C1 c1, C2 c2, C3 c3) {
  FW_TMA_STORE("4d", "%2, %3, %4, %5", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)), "r"(fw_coordinate(c2)),
               "r"(fw_coordinate(c3)));
}
template <typename C0, typename C1, typename C2, typename C3, typename C4>
__device__ __forceinline__ void fw_tma_store(const fw_tensor_map* map, unsigned source, C0 c0, C1 c1, C2 c2, C3 c3,
                                             C4 c4) {
  FW_TMA_STORE("5d", "%2, %3, %4, %5, %6", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)), "r"(fw_coordinate(c2)),
               "r"(fw_coordinate(c3)), "r"(fw_coordinate(c4)));
}
__device__ __forceinline__ void fw_tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void fw_tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
template <int PENDING>
__device__ __forceinline__ void fw_tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}
#endif

#ifndef FW_EMULATOR
// Lets TMA stores and wgmma see what the thread has written to shared memory; each writer calls it before the barrier.
__device__ __forceinline__ void fw_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
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

struct fw_f16 { unsigned short bits; };
FW_INLINE float fw_value(fw_f16 x) { return fw_f16_bits_to_f32(x.bits); }
FW_INLINE fw_f16 fw_to_f16(float x) { return {fw_f32_to_f16_bits(x)}; }
FW_INLINE fw_f16 fw_to_f16(int x) { return fw_to_f16(float(x)); }  // all that is inexact in float overflows here

// Pairs of F16 values; each result is rounded once.
#ifdef FW_EMULATOR
template <typename Function>
FW_INLINE unsigned fw_on_f16x2(unsigned x, unsigned b, Function function) {
  const auto value = [](unsigned bits) { return fw_value(fw_f16{(unsigned short)bits}); };
  return fw_pack_f16x2(function(value(x), value(b)), function(value(x >> 16), value(b >> 16)));
}
FW_INLINE unsigned fw_add_f16x2(unsigned x, unsigned b) { return fw_on_f16x2(x, b, [](float x, float b) { return x + b; }); }
FW_INLINE unsigned fw_sub_f16x2(unsigned x, unsigned b) { return fw_on_f16x2(x, b, [](float x, float b) { return x - b; }); }
FW_INLINE unsigned fw_mul_f16x2(unsigned x, unsigned b) { return fw_on_f16x2(x, b, [](float x, float b) { return x * b; }); }
FW_INLINE unsigned fw_relu_f16x2(unsigned x) { return fw_on_f16x2(x, 0, [](float x, float b) { return fw_max_nan(x, b); }); }
#else
#define FW_ON_PAIRS(name, instruction)                                                                     \
  FW_INLINE unsigned name(unsigned x, unsigned b) {                                                        \
    unsigned pair;                                                                                         \
    asm(instruction " %0, %1, %2;" : "=r"(pair) : "r"(x), "r"(b));                                         \
    return pair;                                                                                           \
  }
FW_ON_PAIRS(fw_add_f16x2, "add.rn.f16x2")
FW_ON_PAIRS(fw_sub_f16x2, "sub.rn.f16x2")
FW_ON_PAIRS(fw_mul_f16x2, "mul.rn.f16x2")
FW_ON_PAIRS(fw_max_f16x2, "max.NaN.f16x2")
#undef FW_ON_PAIRS
FW_INLINE unsigned fw_relu_f16x2(unsigned x) { return fw_max_f16x2(x, 0); }
#endif

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

// Two elements of 16 bits as 32 bits, the first in the lower half.
FW_INLINE unsigned fw_as_word(const fw_vector<unsigned, 1>& pair) { return pair.at[0]; }
template <typename Storage>
FW_INLINE unsigned fw_as_word(const fw_vector<Storage, 2>& pair) {
  return pair.at[0].bits | unsigned(pair.at[1].bits) << 16;
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

FW_INLINE float fw_abs(float x) { return fabsf(x); }
FW_INLINE int fw_abs(int x) { return x < 0 ? int(0u - unsigned(x)) : x; }

FW_INLINE float fw_largest(float a, float x) { return fw_max_nan(a, x); }

// One value from the lanes of a warp whose numbers differ in the bits FROM, FROM / 2, … TO; each of them gets it.
template <int FROM, int TO, typename Combine>
FW_INLINE float fw_lanes_total(float x, const Combine& combine) {
#pragma unroll
  for (int distance = FROM; distance >= TO; distance /= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}

#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, " \
  "acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_matmul(const fw_f16* __restrict__ p_t1, const fw_f16* __restrict__ p_t3, const float* __restrict__ p_t11, float* __restrict__ partial0, const __grid_constant__ fw_tensor_map map0, const __grid_constant__ fw_tensor_map map1, const __grid_constant__ fw_tensor_map map2, const __grid_constant__ fw_tensor_map map3, const __grid_constant__ fw_tensor_map map4, const __grid_constant__ fw_tensor_map map5) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(32);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned full = shared + 165888, empty = full + 48;  // an mbarrier each for a stage
  const unsigned turn = empty + 48;  // and one for each consumer
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
    fw_tma_prefetch(&map2);
    fw_tma_prefetch(&map3);
    fw_tma_prefetch(&map4);
    fw_tma_prefetch(&map5);
#pragma unroll 1
    for (unsigned stage = 0; stage < 6; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 1);
      fw_mbarrier_init(empty + 8 * stage, 4);  // warps that multiply what is in it
    }
    fw_mbarrier_init(turn, 4);
    fw_mbarrier_init(turn + 8, 4);
#pragma unroll 1
    for (unsigned set = 0; set < 16; ++set) fw_mbarrier_init(shared + 166048 + 8 * set, 1);
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    // one thread asks for the tiles of A and B, up to 6 ahead
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < 24u; unit += gridDim.x) {
        // a tile of C
        const unsigned number = unit;
        [[maybe_unused]] constexpr int first = 0, steps = 2;
        // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
        const unsigned b = number / 12u;
        const unsigned block = number % 12u;
        const unsigned band = block / 12u, inside_band = block % 12u;
        const unsigned band_rows = min(3u, 3u - band * 3u);
        const unsigned block_m = band * 3u + inside_band % band_rows, block_n = inside_band / band_rows;
        const unsigned m0 = (unsigned)(block_m) * 64, n0 = (unsigned)(block_n) * 64;
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 16384);
          const unsigned tile = shared + stage * 16384;
          const unsigned k0 = (unsigned)(first + step) * 64;
          // A: t6_relu_fwd
          fw_tma_load(tile, &map0, full + 8 * stage, k0, m0, b);
          // B: t7
          fw_tma_load(tile + 8192, &map1, full + 8 * stage, n0, k0, b);
          if (++stage == 6) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1;
    const unsigned boxes_at = shared + 98304 + (warp - 4) * 8192;  // of the warp, of C
    const unsigned rows_at = shared + 163840 + (warp - 4) * 256;  // of one row each
    const unsigned arrived = shared + 166048 + (warp - 4) * 16;  // an mbarrier for each set of them
    unsigned taken = 0;  // sets of boxes so far
    const unsigned skipped = consumer == 0 ? 0 : 2;  // the first tile is the other's
    unsigned stage = skipped % 6, parity = skipped / 6 & 1, turn_parity = consumer == 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x + consumer * gridDim.x; unit < 24u; unit += 2 * gridDim.x) {
      // a tile of C
      const unsigned number = unit;
      [[maybe_unused]] constexpr int first = 0, steps = 2;
      // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
      const unsigned b = number / 12u;
      const unsigned block = number % 12u;
      const unsigned band = block / 12u, inside_band = block % 12u;
      const unsigned band_rows = min(3u, 3u - band * 3u);
      const unsigned block_m = band * 3u + inside_band % band_rows, block_n = inside_band / band_rows;
      const unsigned m0 = (unsigned)(block_m) * 64, n0 = (unsigned)(block_n) * 64;
      const unsigned tile_m0 = m0 + warp % 4 * 16;
      const auto ask_for = [&](unsigned part, unsigned set) {
        if (lane == 0) {
          const unsigned box_n0 = n0 + part % 2 * 32;
          fw_mbarrier_expect(arrived + 8 * set, 1088);
          fw_tma_load(rows_at + set * 128 + 0, &map2, arrived + 8 * set, box_n0, 0, b);
          fw_tma_load(boxes_at + set * 4096 + 2048, &map3, arrived + 8 * set, box_n0, tile_m0 + part / 2 * 64, b);
        }
      };
      ask_for(0, taken % 2);
      ask_for(1, (taken + 1) % 2);
      // mainloop fusion of A, t6_relu_fwd: 2 elements, zero outside
      const auto operand_a = [&](unsigned m, unsigned k, const fw_f16* raw) -> fw_vector<unsigned, 1> {
        // outside, what lies nearest is computed and left: a branch here would keep products from running beside it
        const bool is_inside = m < 150 && k < 72;
        if (m >= 150) m = 149;
        if (k >= 72) k = 70;
        const unsigned o_t1 = m;
        const unsigned o_t3 = m;
        const unsigned t0 = *reinterpret_cast<const unsigned*>(raw);
        const unsigned t1 = p_t1[o_t1].bits * 0x10001u;
        const unsigned t2_mul = fw_mul_f16x2(t0, t1);
        const unsigned t3 = p_t3[o_t3].bits * 0x10001u;
        const unsigned t4_sub = fw_sub_f16x2(t2_mul, t3);
        const unsigned t5_add = fw_add_f16x2(t4_sub, t4_sub);
        const unsigned t6_relu_fwd = fw_relu_f16x2(t5_add);
        return {is_inside ? t6_relu_fwd : 0};
      };
      const auto fill_a = [&](unsigned (&fragment)[4], const unsigned char* raw, unsigned k0, unsigned block, unsigned part) {
    #pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
          // eight rows below lie eight lines further: the exchange of chunks repeats after as many
          const unsigned row = block * 64 + warp % 4 * 16 + lane / 4;
          const unsigned column = part * 16 + lane % 4 * 2;
          const unsigned below = i % 2 * 8, right = i / 2 * 8;
          const unsigned at = fw_boxed<128>(row, (column + right) * 2) + below * 128;
          fragment[i] = fw_as_word(operand_a(m0 + row + below, k0 + column + right, reinterpret_cast<const fw_f16*>(raw + at)));
        }
      };
      unsigned fragment_0_0[4], fragment_1_0[4], fragment_2_0[4], fragment_3_0[4];
      fw_mbarrier_wait(turn + 8 * consumer, turn_parity);
      turn_parity ^= 1;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 16384;
        const unsigned k0 = (unsigned)(first + step) * 64;
        const unsigned char* const raw_a = shared_bytes + (tile - shared);
        const unsigned long long b = fw_matrix_descriptor<128>(tile + 8192, 8192, 1024);
        fw_wgmma_wait<0>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        fill_a(fragment_0_0, raw_a, k0, 0, 0);
        fill_a(fragment_1_0, raw_a, k0, 0, 1);
        fill_a(fragment_2_0, raw_a, k0, 0, 2);
        fill_a(fragment_3_0, raw_a, k0, 0, 3);
        FW_PRODUCTS_A(fragment_0_0, b, step, FW_PRODUCT_A("m64n64k16.f32.f16.f16", FW_ROWS_0, 0, "p", ", 1, 1, 1"));
        FW_PRODUCTS_A(fragment_1_0, b, 1, FW_PRODUCT_A("m64n64k16.f32.f16.f16", FW_ROWS_0, 128, "1", ", 1, 1, 1"));
        FW_PRODUCTS_A(fragment_2_0, b, 1, FW_PRODUCT_A("m64n64k16.f32.f16.f16", FW_ROWS_0, 256, "1", ", 1, 1, 1"));
        FW_PRODUCTS_A(fragment_3_0, b, 1, FW_PRODUCT_A("m64n64k16.f32.f16.f16", FW_ROWS_0, 384, "1", ", 1, 1, 1"));
        if (step == steps - 1 && lane == 0) fw_mbarrier_arrive(turn + 8 * (consumer ^ 1));  // the other's products come next
        multiplied = stage;
        if (++stage == 6) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
      stage += steps;  // those of the other's tile
      parity ^= stage / 6 & 1;
      stage %= 6;

      // epilogue fusion: a warp takes 16 rows and 32 columns at a time, beside boxes of the tensors
#pragma unroll 1
      for (unsigned rows = 0; rows < 1; ++rows) {
        const unsigned warp_m0 = m0 + rows * 64 + warp % 4 * 16;
        float total0[1];
        for (int e = 0; e < 1; ++e) total0[e] = __uint_as_float(0xff800000u);
#pragma unroll 1
        for (unsigned chunk = 0; chunk < 2; ++chunk, ++taken) {
          const unsigned chunk_n0 = n0 + chunk * 32;
          const unsigned part = rows * 2 + chunk, set = taken % 2;
          unsigned char* const box = shared_bytes + (boxes_at - shared) + set * 4096;
          const unsigned char* const row = shared_bytes + (rows_at - shared) + set * 128;
          fw_mbarrier_wait(arrived + 8 * set, taken / 2 & 1);
          if (lane == 0) fw_tma_store_wait_read<1>();  // what the set held before has left
          __syncwarp();
          {
            constexpr unsigned step = 0;
            float sums[4][4];
            switch (part * 1 + step) {
              case 0: fw_take<0>(sums[0]); fw_take<4>(sums[1]); fw_take<8>(sums[2]); fw_take<12>(sums[3]); break;
              case 1: fw_take<16>(sums[0]); fw_take<20>(sums[1]); fw_take<24>(sums[2]); fw_take<28>(sums[3]); break;
            }
#pragma unroll
            for (unsigned j = 0; j < 4; ++j) {
#pragma unroll
              for (unsigned half = 0; half < 2; ++half) {
                const unsigned line = lane / 4 + 8 * half, piece = step * 32 + 8 * j + lane % 4 * 2;
                const unsigned m = warp_m0 + line;
                const unsigned n = chunk_n0 + piece;
                if (!(m < 150 && n < 208)) continue;
                const unsigned o_t11 = b * 150 + m;
                float v_t9[2];
                fw_load_vector(reinterpret_cast<const fw_f16*>(row + 0 + piece * 2), v_t9);
                const float t11 = fw_value(p_t11[o_t11]);
                float v_t13[2];
                fw_load_vector(reinterpret_cast<const fw_f16*>(box + 2048 + fw_boxed<64>(line, piece * 2)), v_t13);
                const float acc[2] = {sums[j][2 * half], sums[j][2 * half + 1]};
                fw_vector<float, 2> w_t10_add;
                float w_t14_add[2];
            #pragma unroll
                for (int e = 0; e < 2; ++e) {
                  const float t9 = v_t9[e];
                  const float t13 = v_t13[e];
                  const float t8_matmul = acc[e];
                  const float t10_add = fw_add(t8_matmul, t9);
                  const float t12_mul = fw_mul(t10_add, t11);
                  const float t14_add = fw_value(fw_to_f16(fw_add(t12_mul, t13)));
                  w_t10_add.at[e] = fw_to_f32(t10_add);
                  w_t14_add[e] = t14_add;
                  total0[0] = fw_largest(total0[0], fw_abs(t14_add));
                }
                fw_store_vector(reinterpret_cast<float*>(box + 0 + fw_boxed<128>(line, piece * 4)), w_t10_add);
                fw_store_vector(reinterpret_cast<unsigned*>(reinterpret_cast<fw_f16*>(box + 3072 + fw_boxed<64>(line, piece * 2))), fw_pack_f16(w_t14_add));
              }
            }
          }
          fw_fence_async();
          __syncwarp();
          if (lane == 0) {
            fw_tma_store(&map4, boxes_at + set * 4096 + 0, chunk_n0, warp_m0, b);
            fw_tma_store(&map5, boxes_at + set * 4096 + 3072, chunk_n0, warp_m0, b);
            fw_tma_store_commit();
          }
        }
        #pragma unroll
        for (unsigned e = 0; e < 1; ++e) {
          const float sum = fw_lanes_total<16, 1>(total0[e], [](float a, float b) { return fw_largest(a, b); });
          if (lane == 0) { if (warp_m0 < 150) partial0[(unsigned long long)(b * 40 + (warp_m0 / 16) * 4 + block_n) * 1 + (0)] = sum; }
        }
      }
    }
    if (lane == 0) fw_tma_store_wait_read<0>();
  }
}

extern "C" __global__ void __launch_bounds__(256)
fw_combine_1(float* __restrict__ partial0, float* __restrict__ p_t15_reduction_amax) {
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned k = (unsigned)(blockIdx.x) * 1 + threadIdx.x;

  fw_wait_for_previous_launch();
  float acc0[1] = {__uint_as_float(0xff800000u)};
  if (k < 1) {
#pragma unroll 8
    for (unsigned split = threadIdx.y; split < 80; split += 256) {
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
      p_t15_reduction_amax[0] = fw_to_f32(total);
    }
  }
  __syncthreads();
}
