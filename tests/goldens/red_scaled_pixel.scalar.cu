// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [4, 24, 6, 5] stride [720, 1, 120, 24]
// t1 = input FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t2_mul = POINTWISE(IN_0=t0, IN_1=t1) MUL compute FLOAT -> output BFLOAT16 [4, 24, 6, 5] stride [720, 1, 120, 24]
// t3_reduction_add = REDUCTION(X=t2_mul) ADD compute FLOAT -> output FLOAT [4, 1, 6, 5] stride [30, 1, 5, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_bf16_bits

//@ fw_wait_for_previous_launch

//@ fw_f32

//@ fw_f16

//@ fw_bf16

//@ fw_vector

//@ fw_pack_bf16

//@ fw_mul

//@ fw_sum

//@ fw_tree

extern "C" __global__ void __launch_bounds__(256, 4)
fw_reduction(const fw_f16* __restrict__ p_t0,
  const float* __restrict__ p_t1,
  fw_bf16* __restrict__ p_t2_mul,
  float* __restrict__ p_t3_reduction_add) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[1] = {0.0f};

  const unsigned kept = blockIdx.x * 64 + threadIdx.y;
  const unsigned i0 = kept;
  const unsigned last = kept < 120 ? 3 : 0;
  unsigned next = blockIdx.y * 16 + threadIdx.x;
  for (; next + 12 < last; next += 16) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g * 4;
      const unsigned i1 = r * 8;
      const unsigned o_t0 = i0 * 24 + i1;
      const unsigned o_t1 = i1;
      const unsigned o_t2_mul = i0 * 24 + i1;
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
      float v_t1[8];
      fw_load_vector(p_t1 + o_t1, v_t1);
      float w_t2_mul[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        const float t1 = v_t1[e];
        const float t2_mul = fw_value(fw_to_bf16(fw_mul(t0, t1)));
        w_t2_mul[e] = t2_mul;
        acc0[0] = fw_sum(acc0[0], t2_mul);
      }
      fw_store_vector(reinterpret_cast<unsigned*>(p_t2_mul + o_t2_mul), fw_pack_bf16(w_t2_mul));
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 4) {  // what is left of the last group
    const unsigned i1 = r * 8;
    const unsigned o_t0 = i0 * 24 + i1;
    const unsigned o_t1 = i1;
    const unsigned o_t2_mul = i0 * 24 + i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
    float v_t1[8];
    fw_load_vector(p_t1 + o_t1, v_t1);
    float w_t2_mul[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float t1 = v_t1[e];
      const float t2_mul = fw_value(fw_to_bf16(fw_mul(t0, t1)));
      w_t2_mul[e] = t2_mul;
      acc0[0] = fw_sum(acc0[0], t2_mul);
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t2_mul + o_t2_mul), fw_pack_bf16(w_t2_mul));
  }
  // acc0: one result for every kept element, from all threads of the block
  fw_tree<1>(shared, acc0, lane, threadIdx.x, 4, 1, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.x == 0 && kept < 120) {
    const float total = shared[lane];
    p_t3_reduction_add[i0] = fw_to_f32(total);
  }
  __syncthreads();
}
