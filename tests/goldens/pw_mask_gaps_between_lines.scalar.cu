// fusewright 0.1.0, engine config: scalar threads=256
// t0 = input FLOAT [2, 30, 20] stride [600, 20, 1]
// t1 = input FLOAT [2, 30, 1] stride [30, 1, 1]
// t2_cmp_le = POINTWISE(IN_0=t0, IN_1=t1) CMP_LE compute FLOAT -> output BOOLEAN [2, 30, 20] stride [900, 29, 1]

#define FW_INLINE __device__ __forceinline__

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

FW_INLINE int fw_to_bool(int x) { return x != 0; }
FW_INLINE int fw_to_bool(long long x) { return x != 0; }
FW_INLINE int fw_to_bool(float x) { return x != 0.0f; }  // NaN is true
FW_INLINE int fw_bit(const unsigned char* bits, long long index) { return bits[index >> 3] >> (index & 7) & 1; }

FW_INLINE int fw_cmp_le(float x, float b) { return x <= b; }
FW_INLINE int fw_cmp_le(int x, int b) { return x <= b; }

extern "C" __global__ void __launch_bounds__(256)
fw_packed(const float* __restrict__ p_t0, const float* __restrict__ p_t1, unsigned char* __restrict__ p_t2_cmp_le) {
  fw_wait_for_previous_launch();
  const unsigned byte = (unsigned)(blockIdx.x) * 256 + threadIdx.x;
  if (byte < 221) {
    unsigned w_t2_cmp_le = 0;
    bool holds_points = false;
    for (unsigned bit = 0; bit < 8; ++bit) {
      const unsigned at = byte * 8 + bit;
      const unsigned i0 = at / 900, r0 = at % 900;
      const unsigned i1 = r0 / 29, r1 = r0 % 29;
      const unsigned i2 = r1;
      if (!(i1 < 30 && i2 < 20)) continue;
      holds_points = true;
      const unsigned o_t0 = i0 * 600 + i1 * 20 + i2;
      const unsigned o_t1 = i0 * 30 + i1;
      const float t1 = fw_value(p_t1[o_t1]);
  #pragma unroll
      for (int e = 0; e < 1; ++e) {
        const float t0 = fw_value(p_t0[o_t0]);
        const int t2_cmp_le = fw_cmp_le(t0, t1);
        w_t2_cmp_le |= unsigned(fw_to_bool(t2_cmp_le)) << bit;
      }
    }
    if (holds_points) {
      p_t2_cmp_le[byte] = (unsigned char)w_t2_cmp_le;
    }
  }
}
