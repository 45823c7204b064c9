// Device primitives: everything that needs inline PTX or an architecture switch. No template syntax.
// Sections start with `//@ name: needed sections`; a kernel gets the sections it uses, in this order.
// The emulator brings its own versions, so each section stands inside FW_EMULATOR's #ifndef.

//@ FW_INLINE
#define FW_INLINE __device__ __forceinline__

//@ FW_SHARED
#ifndef FW_EMULATOR
#define FW_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#endif

//@ fw_f16_bits
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

//@ fw_bf16_bits
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

//@ fw_max_nan
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

//@ fw_min_nan
#ifndef FW_EMULATOR
__device__ __forceinline__ float fw_min_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
#else
  return x != x || y != y ? x + y : fminf(x, y);
#endif
}
#endif

//@ fw_shared_address
#ifndef FW_EMULATOR
__device__ __forceinline__ unsigned fw_shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}
#endif

//@ fw_wait_flag
#ifndef FW_EMULATOR
// Waits until a flag that others write, also another GPU, has a value; what they wrote before is seen from then on.
template <typename Flag>
__device__ __forceinline__ void fw_wait_flag(const Flag* flag, long long value) {
  while (*(const volatile Flag*)flag != value) __nanosleep(200);
  __threadfence_system();
}
#endif

//@ fw_set_flag
#ifndef FW_EMULATOR
// Writes a flag that others wait for; they see all that was written before.
template <typename Flag>
__device__ __forceinline__ void fw_set_flag(Flag* flag, long long value) {
  __threadfence_system();
  *(volatile Flag*)flag = Flag(value);
  __threadfence_system();
}
#endif

//@ fw_swizzled: FW_INLINE
// Byte of a row in shared memory whose 16-byte chunks are exchanged so that eight rows of one column, or a row of
// eight columns, lie in different banks. Rows have 32 or 64 bytes, or a multiple of 128.
template <unsigned ROW_BYTES>
FW_INLINE unsigned fw_swizzled(unsigned row, unsigned byte) {
  static_assert(ROW_BYTES == 32 || ROW_BYTES == 64 || ROW_BYTES % 128 == 0, "rows of lines, or whole parts of one");
  const unsigned phase = ROW_BYTES == 32 ? row >> 2 & 1 : ROW_BYTES == 64 ? row >> 1 & 3 : row & 7;
  return row * ROW_BYTES + (byte ^ phase << 4);
}

//@ fw_cp_async: fw_shared_address
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

//@ fw_ldmatrix_x4
#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_ldmatrix_x4(unsigned (&r)[4], unsigned shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address));
}
__device__ __forceinline__ void fw_ldmatrix_x4_trans(unsigned (&r)[4], unsigned shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address));
}
#endif

//@ fw_mma_f16
#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
  for (int half = 0; half < 2; ++half)
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
}
#endif

//@ fw_mma_bf16
#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

//@ fw_mma_tf32
#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_mma_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

//@ fw_round_tf32
#ifndef FW_EMULATOR
// Rounds FP32 to TF32, to nearest; the tensor core alone would cut the bits off.
template <int N>
__device__ __forceinline__ void fw_round_tf32(unsigned (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i]) : "f"(__uint_as_float(x[i])));
}
#endif

//@ fw_mma_s8
#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_mma_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
  for (int part = 0; part < 4; ++part)
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+r"(d[part % 2 * 2]), "+r"(d[part % 2 * 2 + 1]) : "r"(a[part]), "r"(b[part / 2]));
#endif
}
#endif
