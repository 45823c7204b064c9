// Device primitives: everything that needs inline PTX or an architecture switch. No template syntax.
// Sections start with `//@ name: needed sections`; a kernel gets the sections it uses, in this order.
// `//@ primitive name` says that the emulator brings its own version.

//@ FW_INLINE
#define FW_INLINE __device__ __forceinline__

//@ primitive FW_SHARED
#define FW_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]

//@ primitive fw_f16_bits
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

//@ primitive fw_bf16_bits
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

//@ primitive fw_max_nan
__device__ __forceinline__ float fw_max_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
#else
  return x != x || y != y ? x + y : fmaxf(x, y);
#endif
}

//@ primitive fw_min_nan
__device__ __forceinline__ float fw_min_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
#else
  return x != x || y != y ? x + y : fminf(x, y);
#endif
}

//@ primitive fw_shared_address
__device__ __forceinline__ unsigned fw_shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

//@ primitive fw_load_anew: fw_shared_address
// A vector in shared memory that is read where this stands: the assembler would read what does not change once, and spill it.
template <int N>
__device__ __forceinline__ void fw_load_anew(const float* from, float (&values)[N]) {
  const unsigned address = fw_shared_address(from);
#pragma unroll
  for (int e = 0; e < N; e += 2)
    asm volatile("ld.volatile.shared.v2.f32 {%0, %1}, [%2];" : "=f"(values[e]), "=f"(values[e + 1]) : "r"(address + 4 * e));
}
template <>
__device__ __forceinline__ void fw_load_anew<4>(const float* from, float (&values)[4]) {
  asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3]) : "r"(fw_shared_address(from)));
}

//@ primitive fw_wait_flag
// Waits until a flag that others write, also another GPU, has a value; what they wrote before is seen from then on.
template <typename Flag>
__device__ __forceinline__ void fw_wait_flag(const Flag* flag, long long value) {
  while (*(const volatile Flag*)flag != value) __nanosleep(200);
  __threadfence_system();
}

//@ primitive fw_set_flag
// Writes a flag that others wait for; they see all that was written before.
template <typename Flag>
__device__ __forceinline__ void fw_set_flag(Flag* flag, long long value) {
  __threadfence_system();
  *(volatile Flag*)flag = Flag(value);
  __threadfence_system();
}

//@ primitive fw_turn
// Waits until so many have passed before; what these wrote is seen from then on. Passing tells those behind that the warp has written.
__device__ __forceinline__ void fw_wait_turn(const unsigned* passed, unsigned turn) {
  unsigned seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(passed) : "memory");
  } while (seen < turn);
}
__device__ __forceinline__ void fw_pass_turn(unsigned* passed) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(passed) : "memory");
}

//@ primitive fw_add_vector
// Adds to four floats of device memory, whose address is a multiple of 16; on sm_90.
__device__ __forceinline__ void fw_add_vector(float* to, const float (&x)[4]) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
               "f"(x[3]) : "memory");
}

//@ primitive fw_send
// Sends a value to a GPU of the node, perhaps this one: the word and its flag at once, so that neither is seen without the other.
__device__ __forceinline__ void fw_send(float* to, float value) {
  const unsigned long long word = 1ull << 32 | __float_as_uint(value);
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

//@ primitive fw_receive
// When a GPU that has sent nothing yet is no longer waited for: ten seconds from now, in nanoseconds.
__device__ __forceinline__ unsigned long long fw_now() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
__device__ __forceinline__ unsigned long long fw_deadline() { return fw_now() + 10ull * 1000 * 1000 * 1000; }

// A value that the GPU of a rank sends; NaN where it sends none until the deadline, of which the host then learns.
__device__ __forceinline__ float fw_receive(const float* from, int rank, unsigned long long deadline, unsigned* absent_rank) {
  unsigned long long word;
  do {
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
    if (word >> 32 != 0) return __uint_as_float(unsigned(word));
  } while (fw_now() < deadline);
  *(volatile unsigned*)absent_rank = unsigned(rank) + 1;
  __threadfence_system();
  return __uint_as_float(0x7fffffffu);
}

//@ fw_swizzled: FW_INLINE
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

//@ primitive fw_cp_async: fw_shared_address
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

//@ primitive fw_ldmatrix_x4
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

//@ primitive fw_accumulators
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

//@ primitive fw_tell: fw_accumulators
// A number that stays finite while accumulators are, unless a product of two overflows; the compiler's middle end sees one statement.
#define FW_PAIR(a, b) "fma.rn.f32 %0, acc" #a ", acc" #b ", %0;"
#define FW_TELL(told, pairs) asm volatile(pairs : "+f"(told))

//@ fw_put_rows: FW_INLINE fw_accumulators
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

//@ fw_put_columns: FW_INLINE fw_accumulators
// The same to a tile whose columns lie `PITCH` elements apart.
template <int A, int PITCH, typename T>
FW_INLINE void fw_put_columns(T* at) {
  T x[4];
  fw_take<A>(x);
  at[0] = x[0], at[PITCH] = x[1], at[8] = x[2], at[PITCH + 8] = x[3];
}

//@ fw_staged: FW_INLINE
// Element of a row of 64 accumulators whose chunks of four are exchanged, so that fragments are written, and vectors of
// eight read, without bank conflicts: chunk c of row r lies at c ^ (r & 7) ^ (c >> 3).
FW_INLINE unsigned fw_staged(unsigned row, unsigned column) {
  return (column / 4 ^ (row & 7) ^ column >> 5) * 4 + column % 4;
}

//@ fw_boxed: FW_INLINE
// Byte of a box of lines of ROW bytes whose chunks of 16 are exchanged as TMA exchanges them.
template <unsigned ROW>
FW_INLINE unsigned fw_boxed(unsigned line, unsigned byte) {
  return line * ROW + (byte ^ (line * ROW >> 3 & (ROW - 16)));
}

//@ fw_load_staged: FW_INLINE fw_staged
template <typename T, int N>
FW_INLINE void fw_load_staged(const T* piece, unsigned row, unsigned column, T (&values)[N]) {
  constexpr int CHUNK = N < 4 ? N : 4;
  struct alignas(sizeof(T) * CHUNK) Chunk { T at[CHUNK]; };
#pragma unroll
  for (int first = 0; first < N; first += CHUNK) {
    const Chunk chunk = *reinterpret_cast<const Chunk*>(piece + row * 64 + fw_staged(row, column + first));
#pragma unroll
    for (int e = 0; e < CHUNK; ++e) values[first + e] = chunk.at[e];
  }
}

//@ primitive fw_mma_f16: fw_accumulators
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

//@ primitive fw_mma_bf16: fw_accumulators
template <int A>
__device__ __forceinline__ void fw_mma_bf16(const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {acc%6, acc%7, acc%8, acc%9}, {%0, %1, %2, %3}, {%4, %5}, {acc%6, acc%7, acc%8, acc%9};"
               ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "n"(A), "n"(A + 1), "n"(A + 2), "n"(A + 3));
}

//@ primitive fw_mma_tf32: fw_accumulators
template <int A>
__device__ __forceinline__ void fw_mma_tf32(const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {acc%6, acc%7, acc%8, acc%9}, {%0, %1, %2, %3}, {%4, %5}, {acc%6, acc%7, acc%8, acc%9};"
               ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "n"(A), "n"(A + 1), "n"(A + 2), "n"(A + 3));
}

//@ primitive fw_round_tf32
// Rounds FP32 to TF32, to nearest; the tensor core alone would cut the bits off.
template <int N>
__device__ __forceinline__ void fw_round_tf32(unsigned (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i]) : "f"(__uint_as_float(x[i])));
}

//@ fw_as_tf32: FW_INLINE fw_round_tf32
FW_INLINE float fw_as_tf32(float x) {
  unsigned bits[1] = {__float_as_uint(x)};
  fw_round_tf32(bits);
  return __uint_as_float(bits[0]);
}

//@ primitive fw_mma_s8: fw_accumulators
template <int A>
__device__ __forceinline__ void fw_mma_s8(const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {acc%6, acc%7, acc%8, acc%9}, {%0, %1, %2, %3}, {%4, %5}, {acc%6, acc%7, acc%8, acc%9};"
               ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "n"(A), "n"(A + 1), "n"(A + 2), "n"(A + 3));
#else
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {acc%2, acc%3}, {%0}, {%1}, {acc%2, acc%3};"
                 ::"r"(a[2 * half]), "r"(b[half]), "n"(A), "n"(A + 1));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {acc%2, acc%3}, {%0}, {%1}, {acc%2, acc%3};"
                 ::"r"(a[2 * half + 1]), "r"(b[half]), "n"(A + 2), "n"(A + 3));
  }
#endif
}

//@ primitive fw_mma_fp8: fw_accumulators
// Two functions for FP8 types of A and B: `name` as above, and `name##_promoted`, where the tensor core adds up one product of
// fragments and an FP32 addition the sums. From sm_90 to sm_110 the assembler does so by itself: it multiplies as FP16.
#define FW_MMA_FP8(name, types)                                                                                        \
  template <int A>                                                                                                     \
  __device__ __forceinline__ void name(const unsigned (&a)[4], const unsigned (&b)[2]) {                               \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." types ".f32 {acc%6, acc%7, acc%8, acc%9}, {%0, %1, %2, %3}, {%4, %5}, {acc%6, acc%7, acc%8, acc%9};" \
                 ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "n"(A), "n"(A + 1), "n"(A + 2), "n"(A + 3)); \
  }                                                                                                                    \
  template <int A>                                                                                                     \
  __device__ __forceinline__ void name##_promoted(const unsigned (&a)[4], const unsigned (&b)[2]) {                    \
    if (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200) return name<A>(a, b);                                            \
    asm volatile("{\n.reg .f32 sum<4>;\n"                                                                              \
                 "mma.sync.aligned.m16n8k32.row.col.f32." types ".f32 {sum0, sum1, sum2, sum3}, {%0, %1, %2, %3}, {%4, %5}, {%6, %6, %6, %6};\n" \
                 "add.f32 acc%7, acc%7, sum0;\nadd.f32 acc%8, acc%8, sum1;\n"                                          \
                 "add.f32 acc%9, acc%9, sum2;\nadd.f32 acc%10, acc%10, sum3;\n}"                                       \
                 ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f), "n"(A), "n"(A + 1), "n"(A + 2), "n"(A + 3)); \
  }

//@ fw_mma_e4m3_e4m3: fw_mma_fp8
FW_MMA_FP8(fw_mma_e4m3_e4m3, "e4m3.e4m3")

//@ fw_mma_e4m3_e5m2: fw_mma_fp8
FW_MMA_FP8(fw_mma_e4m3_e5m2, "e4m3.e5m2")

//@ fw_mma_e5m2_e4m3: fw_mma_fp8
FW_MMA_FP8(fw_mma_e5m2_e4m3, "e5m2.e4m3")

//@ fw_mma_e5m2_e5m2: fw_mma_fp8
FW_MMA_FP8(fw_mma_e5m2_e5m2, "e5m2.e5m2")

//@ primitive fw_fast_exp2
// 2^x to 2 ulp; subnormal results are 0.
__device__ __forceinline__ float fw_fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//@ primitive fw_fast_reciprocal
// 1/x to 1 ulp; subnormal results are 0.
__device__ __forceinline__ float fw_fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//@ primitive fw_let_next_launch_start
// The next launch of the stream may be put on the chip from here on; it waits for this one's end where it must.
__device__ __forceinline__ void fw_let_next_launch_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

//@ primitive fw_prefetch
// Asks for the line of an address, which is read later.
__device__ __forceinline__ void fw_prefetch(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

//@ primitive fw_wait_for_previous_launch
// Until the launch before this one has finished and its memory is visible. ptxas would move loads of read-only memory
// (`const __restrict__`) above that; it moves none above an exit, even if no launch takes it: grids have one layer.
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
