// Device primitives: everything that needs inline PTX or an architecture switch. No template syntax.
// Sections start with `//@ name: needed sections`; a kernel gets the sections it uses, in this order.
// The emulator brings its own versions, so each section stands inside FW_EMULATOR's #ifndef.

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

//@ fw_fast_exp2
// 2^x to 2 ulp; subnormal results are 0.
#ifndef FW_EMULATOR
__device__ __forceinline__ float fw_fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif

//@ fw_fast_reciprocal
// 1/x to 1 ulp; subnormal results are 0.
#ifndef FW_EMULATOR
__device__ __forceinline__ float fw_fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif

//@ fw_let_next_launch_start
// The next launch of the stream may be put on the chip from here on; it waits for this one's end where it must.
#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_let_next_launch_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif

//@ fw_wait_for_previous_launch
// Until the launch before this one has finished and its memory is visible. Loads of what it wrote must not be marked
// read-only (`const __restrict__`): the compiler might move them up.
#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_wait_for_previous_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#endif
