// fusewright 0.1.0, engine config: scalar threads=256
// t0 = input HALF [2, 48, 6, 10] stride [2880, 60, 10, 1]
// t1 = input FLOAT [1, 48, 6, 10] stride [2880, 60, 10, 1]
// t3 = input FLOAT [1, 48, 1, 1] stride [48, 1, 48, 48]
// t2_add = POINTWISE(IN_0=t0, IN_1=t1) ADD compute FLOAT -> virtual FLOAT [2, 48, 6, 10] stride [2880, 60, 10, 1]
// t4_add = POINTWISE(IN_0=t2_add, IN_1=t3) ADD compute FLOAT -> virtual FLOAT [2, 48, 6, 10] stride [2880, 60, 10, 1]
// t5_relu_fwd = POINTWISE(IN_0=t4_add) RELU_FWD compute FLOAT -> output HALF [2, 48, 6, 10] stride [2880, 1, 480, 48]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_wait_for_previous_launch

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ fw_raw

//@ fw_store_words

//@ fw_pack_f16

//@ fw_add

//@ fw_relu

extern "C" __global__ void __launch_bounds__(256)
fw_transposed(const fw_f16* __restrict__ p_t0,
  const float* __restrict__ p_t1,
  const float* __restrict__ p_t3,
  fw_f16* __restrict__ p_t5_relu_fwd) {
  FW_SHARED(shared_bytes);
  fw_wait_for_previous_launch();
  const unsigned block = blockIdx.x;
  const unsigned i0 = block;
  const unsigned first_across = 0;
  const unsigned first_along = 0;
  fw_raw<fw_f16, 4> brought_t0[4];
#pragma unroll
  for (unsigned step = 0; step < 4; ++step) {
    const unsigned number = threadIdx.x + step * 256;
    const unsigned along = number / 16;
    const unsigned across = number % 16 * 4;
    const unsigned i2 = first_along + along;
    const unsigned i1 = first_across + across;
    if (!(i2 < 48 && i1 < 60)) continue;
    brought_t0[step] = *reinterpret_cast<const fw_raw<fw_f16, 4>*>(p_t0 + (i0 * 2880 + i1 + i2 * 60));
  }
  fw_raw<float, 4> brought_t1[4];
#pragma unroll
  for (unsigned step = 0; step < 4; ++step) {
    const unsigned number = threadIdx.x + step * 256;
    const unsigned along = number / 16;
    const unsigned across = number % 16 * 4;
    const unsigned i2 = first_along + along;
    const unsigned i1 = first_across + across;
    if (!(i2 < 48 && i1 < 60)) continue;
    brought_t1[step] = *reinterpret_cast<const fw_raw<float, 4>*>(p_t1 + (i1 + i2 * 60));
  }
  fw_f16* const tile_t0 = reinterpret_cast<fw_f16*>(shared_bytes + 0);
#pragma unroll
  for (unsigned step = 0; step < 4; ++step) {
    const unsigned number = threadIdx.x + step * 256;
    const unsigned along = number / 16;
    const unsigned across = number % 16 * 4;
    fw_store_words(tile_t0 + along * 66 + across, brought_t0[step]);
  }
  float* const tile_t1 = reinterpret_cast<float*>(shared_bytes + 8448);
#pragma unroll
  for (unsigned step = 0; step < 4; ++step) {
    const unsigned number = threadIdx.x + step * 256;
    const unsigned along = number / 16;
    const unsigned across = number % 16 * 4;
    fw_store_words(tile_t1 + along * 65 + across, brought_t1[step]);
  }
  __syncthreads();
#pragma unroll
  for (unsigned step = 0; step < 2; ++step) {
    const unsigned number = threadIdx.x + step * 256;
    const unsigned along = number % 8 * 8;
    const unsigned across = number / 8;
    const unsigned i2 = first_along + along;
    const unsigned i1 = first_across + across;
    if (!(i2 < 48 && i1 < 60)) continue;
    const unsigned o_t3 = i2;
    const unsigned o_t5_relu_fwd = i0 * 2880 + i1 * 48 + i2;
    float v_t3[8];
    fw_load_vector(p_t3 + o_t3, v_t3);
    float w_t5_relu_fwd[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = fw_value(tile_t0[(along + e) * 66 + across]);
      const float t1 = fw_value(tile_t1[(along + e) * 65 + across]);
      const float t3 = v_t3[e];
      const float t2_add = fw_add(t0, t1);
      const float t4_add = fw_add(t2_add, t3);
      const float t5_relu_fwd = fw_relu(t4_add, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
      w_t5_relu_fwd[e] = t5_relu_fwd;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t5_relu_fwd + o_t5_relu_fwd), fw_pack_f16(w_t5_relu_fwd));
  }
}
