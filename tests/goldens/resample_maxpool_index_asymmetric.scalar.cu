// fusewright 0.1.0, engine config: scalar threads=256
// t0 = input HALF [2, 24, 8, 9] stride [1728, 1, 216, 24]
// t1_resample, t2_resample = RESAMPLE(X=t0) MAXPOOL NEG_INF_PAD window=[3, 2] stride=[2, 3] pre_padding=[0, 2] post_padding=[2, 1] compute FLOAT -> output HALF [2, 24, 4, 4] stride [384, 1, 96, 24], output INT8 [2, 24, 4, 4] stride [384, 1, 96, 24]

//@ FW_INLINE

//@ fw_f16_bits

//@ fw_wait_for_previous_launch

//@ fw_infinity

//@ fw_i32

//@ fw_i8

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

//@ fw_plane

//@ fw_pool

//@ fw_pool_max

extern "C" __global__ void __launch_bounds__(32, 1)
fw_pointwise(const fw_f16* __restrict__ p_t0, fw_f16* __restrict__ p_t1_resample, signed char* __restrict__ p_t2_resample) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 96) {
    const unsigned i0 = vector / 48;
    const unsigned i1 = vector / 12 % 4;
    const unsigned i2 = vector / 3 % 4;
    const unsigned i3 = vector % 3 * 8;
    const unsigned o_t1_resample = i0 * 384 + i1 * 96 + i2 * 24 + i3;
    const unsigned o_t2_resample = i0 * 384 + i1 * 96 + i2 * 24 + i3;
    const fw_pool<int> pool_t1_resample = {{1, 1, 1, 1, 0}, {8, 4, 3, 2, 0}, {9, 4, 2, 3, 2}};  // pixels, windows, window, stride, padding
    float v_t1_resample[8];
    int at_t1_resample[8];
    fw_pool_max(fw_plane<fw_f16, int>{p_t0 + (int(i0) * 1728 + int(i3)), 0, 216, 24}, pool_t1_resample, fw_point<int>{0, int(i1), int(i2)}, v_t1_resample, at_t1_resample);
    float w_t1_resample[8];
    fw_vector<signed char, 8> w_t2_resample;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t1_resample = v_t1_resample[e];
      const int t2_resample = at_t1_resample[e];
      w_t1_resample[e] = t1_resample;
      w_t2_resample.at[e] = fw_to_i8(t2_resample);
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t1_resample + o_t1_resample), fw_pack_f16(w_t1_resample));
    fw_store_vector(p_t2_resample + o_t2_resample, w_t2_resample);
  }
}
