// fusewright 0.1.0, engine config: scalar threads=256
// t0 = input BFLOAT16 [2, 24, 5, 7] stride [1400, 1, 280, 40]
// t1 = input FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t2_add = POINTWISE(IN_0=t0, IN_1=t1) ADD compute FLOAT -> output BFLOAT16 [2, 24, 5, 7] stride [1400, 1, 280, 40]
// t3_relu_fwd = POINTWISE(IN_0=t2_add) RELU_FWD compute FLOAT -> output INT8 [2, 24, 5, 7] stride [840, 1, 168, 24]

//@ FW_INLINE

//@ fw_bf16_bits

//@ fw_wait_for_previous_launch

//@ fw_f32

//@ fw_i32

//@ fw_i8

//@ fw_bf16

//@ fw_vector

//@ fw_pack_bf16

//@ fw_add

//@ fw_relu

extern "C" __global__ void __launch_bounds__(32)
fw_pointwise(const fw_bf16* __restrict__ p_t0,
  const float* __restrict__ p_t1,
  fw_bf16* __restrict__ p_t2_add,
  signed char* __restrict__ p_t3_relu_fwd) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 210) {
    const unsigned i0 = vector / 3;
    const unsigned i1 = vector % 3 * 8;
    const unsigned o_t0 = i0 * 40 + i1;
    const unsigned o_t1 = i1;
    const unsigned o_t2_add = i0 * 40 + i1;
    const unsigned o_t3_relu_fwd = i0 * 24 + i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
    float v_t1[8];
    fw_load_vector(p_t1 + o_t1, v_t1);
    float w_t2_add[8];
    fw_vector<signed char, 8> w_t3_relu_fwd;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float t1 = v_t1[e];
      const float t2_add = fw_value(fw_to_bf16(fw_add(t0, t1)));
      const float t3_relu_fwd = fw_relu(t2_add, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
      w_t2_add[e] = t2_add;
      w_t3_relu_fwd.at[e] = fw_to_i8(t3_relu_fwd);
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t2_add + o_t2_add), fw_pack_bf16(w_t2_add));
    fw_store_vector(p_t3_relu_fwd + o_t3_relu_fwd, w_t3_relu_fwd);
  }
}
