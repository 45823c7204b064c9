// fusewright 0.1.0, engine config: scalar threads=256
// t0 = input HALF [2, 24, 5, 7] stride [840, 1, 168, 24]
// t1 = input HALF [2, 24, 5, 7] stride [840, 1, 168, 24]
// t2_cmp_ge = POINTWISE(IN_0=t0, IN_1=t1) CMP_GE compute FLOAT -> virtual BOOLEAN [2, 24, 5, 7] stride [840, 1, 168, 24]
// t3_cmp_gt = POINTWISE(IN_0=t0, IN_1=t1) CMP_GT compute FLOAT -> virtual BOOLEAN [2, 24, 5, 7] stride [840, 1, 168, 24]
// t4_logical_and = POINTWISE(IN_0=t3_cmp_gt, IN_1=t2_cmp_ge) LOGICAL_AND compute BOOLEAN -> output BOOLEAN [2, 24, 5, 7] stride [840, 1, 168, 24]
// t5_binary_select = POINTWISE(IN_0=t0, IN_1=t1, IN_2=t4_logical_and) BINARY_SELECT compute FLOAT -> output HALF [2, 24, 5, 7] stride [840, 1, 168, 24]

//@ FW_INLINE

//@ fw_f16_bits

//@ fw_wait_for_previous_launch

//@ fw_f32

//@ fw_bool

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

//@ fw_cmp_gt

//@ fw_cmp_ge

//@ fw_logical_and

//@ fw_select

extern "C" __global__ void __launch_bounds__(32)
fw_pointwise(const fw_f16* __restrict__ p_t0,
  const fw_f16* __restrict__ p_t1,
  unsigned char* __restrict__ p_t4_logical_and,
  fw_f16* __restrict__ p_t5_binary_select) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 210) {
    const unsigned i0 = vector * 8;
    const unsigned o_t0 = i0;
    const unsigned o_t1 = i0;
    const unsigned o_t4_logical_and = i0;
    const unsigned o_t5_binary_select = i0;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
    float v_t1[8];
    fw_load_vector(p_t1 + o_t1, v_t1);
    unsigned w_t4_logical_and = 0;
    float w_t5_binary_select[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float t1 = v_t1[e];
      const int t2_cmp_ge = fw_to_bool(fw_cmp_ge(t0, t1));
      const int t3_cmp_gt = fw_to_bool(fw_cmp_gt(t0, t1));
      const int t4_logical_and = fw_to_bool(fw_logical_and(fw_to_bool(t3_cmp_gt), fw_to_bool(t2_cmp_ge)));
      const float t5_binary_select = fw_select(fw_to_bool(fw_to_f32(t4_logical_and)), t0, t1);
      w_t4_logical_and |= unsigned(fw_to_bool(t4_logical_and)) << e;
      w_t5_binary_select[e] = t5_binary_select;
    }
    p_t4_logical_and[o_t4_logical_and >> 3] = (unsigned char)w_t4_logical_and;
    fw_store_vector(reinterpret_cast<unsigned*>(p_t5_binary_select + o_t5_binary_select), fw_pack_f16(w_t5_binary_select));
  }
}
