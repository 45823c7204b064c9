// Device primitives of sm_90a: tensor maps, mbarriers, the tensor memory accelerator (TMA), wgmma. No template syntax.
// Sections as in primitives.cuh; the emulator brings its own versions. Shared addresses, also of mbarriers, are those of
// fw_shared_address.

//@ primitive fw_tensor_map
// A tensor map as the driver encodes it, by value in the parameters.
struct alignas(64) fw_tensor_map {
  unsigned char bytes[128];
};

//@ primitive fw_elect
// True in one lane of a converged warp. The assembler then knows that a single thread takes the branch.
__device__ __forceinline__ bool fw_elect() {
  unsigned elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
  return elected;
}

//@ primitive fw_mbarrier
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

//@ primitive fw_cluster: fw_shared_address
// The barrier of a cluster's blocks: what was stored before an arrival is seen after the wait. A block may have begun, or not have ended, only between
// two of its barriers.
__device__ __forceinline__ void fw_cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void fw_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Stores where the block of this rank has what lies at `own` in the block's own shared memory.
__device__ __forceinline__ void fw_store_to_block(float* own, unsigned rank, float value) {
  unsigned address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(fw_shared_address(own)), "r"(rank));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

//@ primitive fw_of_block
// Where the block of this rank has the `bytes` bytes that lie at `own` in the block's own shared memory.
__device__ __forceinline__ float* fw_of_block(float* own, unsigned rank, unsigned bytes) {
  unsigned long long of_block;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(of_block) : "l"(own), "r"(rank));
  return reinterpret_cast<float*>(of_block);
}

//@ primitive fw_coordinate
// An index of any type as a coordinate of a box, which is a signed number of 32 bits: engines take no graph with larger ones.
template <typename Index>
__device__ __forceinline__ int fw_coordinate(Index index) {
  return int(index);
}

//@ primitive fw_tma_load: fw_tensor_map fw_mbarrier fw_coordinate
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

//@ primitive fw_multicast: fw_tma_load
// The same to the same place of each block of the cluster whose bit of `mask` is set, where an mbarrier at the same place counts its bytes.
#define FW_TMA_MULTICAST(rank, coordinates, ...)                                                                       \
  asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {" \
               coordinates "}], [%2], %3;" ::"r"(destination), "l"(map), "r"(barrier), "h"((unsigned short)mask), __VA_ARGS__ : "memory")
template <typename C0, typename C1>
__device__ __forceinline__ void fw_tma_load_multicast(unsigned destination, const fw_tensor_map* map, unsigned barrier,
                                                      unsigned mask, C0 c0, C1 c1) {
  FW_TMA_MULTICAST("2d", "%4, %5", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)));
}
template <typename C0, typename C1, typename C2>
__device__ __forceinline__ void fw_tma_load_multicast(unsigned destination, const fw_tensor_map* map, unsigned barrier,
                                                      unsigned mask, C0 c0, C1 c1, C2 c2) {
  FW_TMA_MULTICAST("3d", "%4, %5, %6", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)), "r"(fw_coordinate(c2)));
}
// Arrives at the mbarrier that the block of this rank has where the own block has `barrier`. What the thread has read before may be written after;
// of what it has written the other block knows nothing.
__device__ __forceinline__ void fw_mbarrier_arrive_at(unsigned barrier, unsigned rank) {
  asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier), "r"(rank) : "memory");
}

//@ primitive fw_tma_load_im2col: fw_tma_load
// The same of a box that walks pixels: coordinates of its first channel, its first pixel, innermost axis first, and its image;
// then how many pixels a tap moves along each axis. Pixels outside the image, and after the last image's, are zeros.
#define FW_TMA_LOAD_IM2COL(rank, coordinates, taps, ...)                                                               \
  asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {" \
               coordinates "}], [%2], {" taps "};" ::"r"(destination), "l"(map), "r"(barrier), __VA_ARGS__ : "memory")
template <typename C0, typename C1, typename C2, typename T0>
__device__ __forceinline__ void fw_tma_load_im2col(unsigned destination, const fw_tensor_map* map, unsigned barrier,
                                                   C0 c0, C1 c1, C2 c2, T0 t0) {
  FW_TMA_LOAD_IM2COL("3d", "%3, %4, %5", "%6", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)), "r"(fw_coordinate(c2)),
                     "h"((unsigned short)t0));
}
template <typename C0, typename C1, typename C2, typename C3, typename T0, typename T1>
__device__ __forceinline__ void fw_tma_load_im2col(unsigned destination, const fw_tensor_map* map, unsigned barrier,
                                                   C0 c0, C1 c1, C2 c2, C3 c3, T0 t0, T1 t1) {
  FW_TMA_LOAD_IM2COL("4d", "%3, %4, %5, %6", "%7, %8", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)),
                     "r"(fw_coordinate(c2)), "r"(fw_coordinate(c3)), "h"((unsigned short)t0), "h"((unsigned short)t1));
}
template <typename C0, typename C1, typename C2, typename C3, typename C4, typename T0, typename T1, typename T2>
__device__ __forceinline__ void fw_tma_load_im2col(unsigned destination, const fw_tensor_map* map, unsigned barrier,
                                                   C0 c0, C1 c1, C2 c2, C3 c3, C4 c4, T0 t0, T1 t1, T2 t2) {
  FW_TMA_LOAD_IM2COL("5d", "%3, %4, %5, %6, %7", "%8, %9, %10", "r"(fw_coordinate(c0)), "r"(fw_coordinate(c1)),
                     "r"(fw_coordinate(c2)), "r"(fw_coordinate(c3)), "r"(fw_coordinate(c4)), "h"((unsigned short)t0),
                     "h"((unsigned short)t1), "h"((unsigned short)t2));
}

//@ primitive fw_tma_store: fw_tensor_map fw_coordinate
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

//@ primitive fw_fence_async
// Lets TMA stores and wgmma see what the thread has written to shared memory; each writer calls it before the barrier.
__device__ __forceinline__ void fw_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

//@ primitive fw_named_barrier
// Barrier ID, 1 to 15, of THREADS threads of the block: whole warps.
template <int ID, int THREADS>
__device__ __forceinline__ void fw_named_barrier() {
  static_assert(ID >= 1 && ID <= 15 && THREADS > 0 && THREADS % 32 == 0, "0 is __syncthreads; warps come whole");
  asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

//@ primitive fw_set_registers
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

//@ primitive fw_stmatrix
// Stores four 8x8 matrices of 16-bit elements; lanes 8m to 8m + 7 give the addresses of the rows of matrix m.
__device__ __forceinline__ void fw_stmatrix_x4(unsigned address, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(address), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}
__device__ __forceinline__ void fw_stmatrix_x4_trans(unsigned address, unsigned r0, unsigned r1, unsigned r2,
                                                     unsigned r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(address), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}

//@ fw_matrix_descriptor: FW_INLINE
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

//@ primitive fw_wgmma: fw_matrix_descriptor
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

// The same with several fragments in one statement: `words` are FW_WORDs, four for each fragment, which products name by number, the first
// word's being 2: FW_PRODUCT_OF("m64n64k16.f32.f16.f16", 2, 3, 4, 5, "acc0, acc1, …", plus_b, scale, tail).
#define FW_PRODUCTS_OF(descriptor_b, accumulate, products, ...)                                                        \
  asm volatile("{\n.reg .pred p;\n.reg .b64 b;\nsetp.ne.b32 p, %1, 0;\nwgmma.fence.sync.aligned;\n" products          \
               "wgmma.commit_group.sync.aligned;\n}" ::"l"(descriptor_b), "r"(int(accumulate)), __VA_ARGS__ : "memory")
#define FW_WORD(word) "r"(word)
#define FW_PRODUCT_OF(shape, a0, a1, a2, a3, registers, plus_b, scale, tail)                                           \
  "add.s64 b, %0, " #plus_b ";\nwgmma.mma_async.sync.aligned." shape " {" registers "}, {%" #a0 ", %" #a1 ", %" #a2   \
  ", %" #a3 "}, b, " scale tail ";\n"

// Waits for all groups of products but the latest PENDING ones: their accumulators may be used, their operands changed.
template <int PENDING>
__device__ __forceinline__ void fw_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

//@ primitive fw_half_accumulators
// Accumulators of products whose shape says f16, two columns in a register: n/4 registers. A fragment of 16 rows by 8
// columns is two, the upper rows before the lower ones.
#define FW_ACCUMULATORS_half(count) asm volatile(".reg .b32 acc<" #count ">;")
template <int A>
__device__ __forceinline__ void fw_take_half(float (&x)[4]) {
  asm volatile("{\n.reg .b16 lo, hi;\nmov.b32 {lo, hi}, acc%4;\ncvt.f32.f16 %0, lo;\ncvt.f32.f16 %1, hi;\n"
               "mov.b32 {lo, hi}, acc%5;\ncvt.f32.f16 %2, lo;\ncvt.f32.f16 %3, hi;\n}"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "n"(A), "n"(A + 1));
}

//@ primitive fw_keep
// Fragments of the accumulators to memory and back, each at a byte of it; the compiler's middle end sees one statement.
#define FW_KEEP(at, fragments) asm volatile(fragments ::"l"(at) : "memory")
#define FW_TO(byte, a, b, c, d) "st.v4.f32 [%0+" #byte "], {acc" #a ", acc" #b ", acc" #c ", acc" #d "};"
#define FW_FROM(byte, a, b, c, d) "ld.v4.f32 {acc" #a ", acc" #b ", acc" #c ", acc" #d "}, [%0+" #byte "];"

// The same, added to the accumulators.
#define FW_PLUS(byte, a, b, c, d)                                                                                      \
  "{.reg .f32 x<4>;ld.v4.f32 {x0, x1, x2, x3}, [%0+" #byte "];add.f32 acc" #a ", acc" #a ", x0;add.f32 acc" #b         \
  ", acc" #b ", x1;add.f32 acc" #c ", acc" #c ", x2;add.f32 acc" #d ", acc" #d ", x3;}"

//@ primitive fw_keep_half: fw_half_accumulators fw_keep
// The same of accumulators in FP16, which memory holds as FP32.
#define FW_HALVES "{.reg .b16 lo, hi; .reg .f32 x<4>;"
#define FW_TO_HALF(byte, a, b) FW_HALVES                                                                              \
  "mov.b32 {lo, hi}, acc" #a "; cvt.f32.f16 x0, lo; cvt.f32.f16 x1, hi;"                                               \
  "mov.b32 {lo, hi}, acc" #b "; cvt.f32.f16 x2, lo; cvt.f32.f16 x3, hi; st.v4.f32 [%0+" #byte "], {x0, x1, x2, x3};}"
#define FW_FROM_HALF(byte, a, b) FW_HALVES                                                                            \
  "ld.v4.f32 {x0, x1, x2, x3}, [%0+" #byte "]; cvt.rn.f16.f32 lo, x0; cvt.rn.f16.f32 hi, x1; mov.b32 acc" #a ", {lo, hi};" \
  "cvt.rn.f16.f32 lo, x2; cvt.rn.f16.f32 hi, x3; mov.b32 acc" #b ", {lo, hi};}"

//@ fw_put_half_rows: FW_INLINE fw_half_accumulators
// A fragment of them as FP32 to a tile whose rows lie `PITCH` elements apart; `at` is the lane's first element.
template <int A, int PITCH>
FW_INLINE void fw_put_half_rows(float* at) {
  struct alignas(8) Pair { float x, y; };
  float x[4];
  fw_take_half<A>(x);
  *reinterpret_cast<Pair*>(at) = {x[0], x[1]};
  *reinterpret_cast<Pair*>(at + 8 * PITCH) = {x[2], x[3]};
}

//@ fw_put_half_columns: FW_INLINE fw_half_accumulators
// The same to a tile whose columns lie `PITCH` elements apart.
template <int A, int PITCH>
FW_INLINE void fw_put_half_columns(float* at) {
  float x[4];
  fw_take_half<A>(x);
  at[0] = x[0], at[PITCH] = x[1], at[8] = x[2], at[PITCH + 8] = x[3];
}
