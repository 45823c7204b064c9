// fusewright 0.1.0, engine config: scalar threads=256
// t0 = input FLOAT [2, 30, 20] stride [600, 20, 1]
// t1 = input FLOAT [2, 30, 1] stride [30, 1, 1]
// t2_cmp_le = POINTWISE(IN_0=t0, IN_1=t1) CMP_LE compute FLOAT -> output BOOLEAN [2, 30, 20] stride [900, 29, 1]

//@ FW_INLINE

//@ fw_wait_for_previous_launch

//@ fw_f32

//@ fw_bool

//@ fw_cmp_le

extern "C" __global__ void __launch_bounds__(32)
fw_packed(const float* __restrict__ p_t0, const float* __restrict__ p_t1, unsigned char* __restrict__ p_t2_cmp_le) {
  fw_wait_for_previous_launch();
  const unsigned byte = blockIdx.x * 32 + threadIdx.x;
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
      const float t0 = fw_value(p_t0[o_t0]);
      const int t2_cmp_le = fw_cmp_le(t0, t1);
      w_t2_cmp_le |= unsigned(fw_to_bool(t2_cmp_le)) << bit;
    }
    if (holds_points) {
      p_t2_cmp_le[byte] = (unsigned char)w_t2_cmp_le;
    }
  }
}
