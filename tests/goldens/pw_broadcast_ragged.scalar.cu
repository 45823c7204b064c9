// fusewright 0.1.0, engine config: scalar threads=256
// t0 = input HALF [2, 3, 1001] stride [3003, 1001, 1]
// t1 = input HALF [1, 3, 1] stride [3, 1, 1]
// t3 = input HALF [1, 1, 1001] stride [1001, 1001, 1]
// t2_mul = POINTWISE(IN_0=t0, IN_1=t1) MUL compute FLOAT -> virtual FLOAT [2, 3, 1001] stride [3003, 1001, 1]
// t4_add = POINTWISE(IN_0=t2_mul, IN_1=t3) ADD compute FLOAT -> output HALF [2, 3, 1001] stride [3003, 1001, 1]

//@ FW_INLINE

//@ fw_f16_bits

//@ fw_wait_for_previous_launch

//@ fw_f16

//@ fw_add

//@ fw_mul

extern "C" __global__ void __launch_bounds__(64)
fw_pointwise(const fw_f16* __restrict__ p_t0,
  const fw_f16* __restrict__ p_t1,
  const fw_f16* __restrict__ p_t3,
  fw_f16* __restrict__ p_t4_add) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 64 + threadIdx.x;
  if (vector < 6006) {
    const unsigned i0 = vector / 3003;
    const unsigned i1 = vector / 1001 % 3;
    const unsigned i2 = vector % 1001;
    const unsigned o_t0 = i0 * 3003 + i1 * 1001 + i2;
    const unsigned o_t1 = i1;
    const unsigned o_t3 = i2;
    const unsigned o_t4_add = i0 * 3003 + i1 * 1001 + i2;
    const float t1 = fw_value(p_t1[o_t1]);
    const float t0 = fw_value(p_t0[o_t0]);
    const float t3 = fw_value(p_t3[o_t3]);
    const float t2_mul = fw_mul(t0, t1);
    const float t4_add = fw_add(t2_mul, t3);
    p_t4_add[o_t4_add] = fw_to_f16(t4_add);
  }
}
