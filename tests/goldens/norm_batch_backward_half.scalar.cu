// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [3, 24, 5, 7] stride [840, 1, 168, 24]
// t1 = input HALF [3, 24, 5, 7] stride [840, 1, 168, 24]
// t2 = input FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t3 = input FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t4 = input FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t13 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t8_sub = POINTWISE(IN_0=t1, IN_1=t3) SUB compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t9_mul = POINTWISE(IN_0=t8_sub, IN_1=t4) MUL compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t10_mul = POINTWISE(IN_0=t0, IN_1=t9_mul) MUL compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t11_reduction_add = REDUCTION(X=t0) ADD compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t12_reduction_add = REDUCTION(X=t10_mul) ADD compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t7_identity = POINTWISE(IN_0=t11_reduction_add) IDENTITY compute FLOAT -> output FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t6_identity = POINTWISE(IN_0=t12_reduction_add) IDENTITY compute FLOAT -> output FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t14_mul = POINTWISE(IN_0=t11_reduction_add, IN_1=t2) MUL compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t15_div = POINTWISE(IN_0=t14_mul, IN_1=t13) DIV compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t16_mul = POINTWISE(IN_0=t12_reduction_add, IN_1=t2) MUL compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t17_div = POINTWISE(IN_0=t16_mul, IN_1=t13) DIV compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t18_mul = POINTWISE(IN_0=t0, IN_1=t2) MUL compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t19_sub = POINTWISE(IN_0=t18_mul, IN_1=t15_div) SUB compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t20_mul = POINTWISE(IN_0=t9_mul, IN_1=t17_div) MUL compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t21_sub = POINTWISE(IN_0=t19_sub, IN_1=t20_mul) SUB compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t5_mul = POINTWISE(IN_0=t21_sub, IN_1=t4) MUL compute FLOAT -> output HALF [3, 24, 5, 7] stride [840, 1, 168, 24]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_wait_for_previous_launch

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

//@ fw_sub

//@ fw_mul

//@ fw_div

//@ fw_identity

//@ fw_sum

//@ fw_tree

//@ program
extern "C" __global__ void __launch_bounds__(256, 4)
fw_reduction(const fw_f16* __restrict__ p_t1,
  const float* __restrict__ p_t3,
  const float* __restrict__ p_t4,
  const fw_f16* __restrict__ p_t0,
  float* __restrict__ p_t11_reduction_add,
  float* __restrict__ p_t12_reduction_add) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  float acc1[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};

  const unsigned kept = blockIdx.x * 4 + threadIdx.x;
  const unsigned i1 = kept * 8;
  const unsigned last = kept < 3 ? 105 : 0;
  unsigned next = blockIdx.y * 256 + threadIdx.y;
  for (; next + 192 < last; next += 256) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g * 64;
      const unsigned i0 = r;
      const unsigned o_t0 = i0 * 24 + i1;
      const unsigned o_t1 = i0 * 24 + i1;
      const unsigned o_t3 = i1;
      const unsigned o_t4 = i1;
      float v_t1[8];
      fw_load_vector(p_t1 + o_t1, v_t1);
      float v_t3[8];
      fw_load_vector(p_t3 + o_t3, v_t3);
      float v_t4[8];
      fw_load_vector(p_t4 + o_t4, v_t4);
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t1 = v_t1[e];
        const float t3 = v_t3[e];
        const float t4 = v_t4[e];
        const float t0 = v_t0[e];
        const float t8_sub = fw_sub(t1, t3);
        const float t9_mul = fw_mul(t8_sub, t4);
        const float t10_mul = fw_mul(t0, t9_mul);
        acc0[e] = fw_sum(acc0[e], t0);
        acc1[e] = fw_sum(acc1[e], t10_mul);
      }
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 64) {  // what is left of the last group
    const unsigned i0 = r;
    const unsigned o_t0 = i0 * 24 + i1;
    const unsigned o_t1 = i0 * 24 + i1;
    const unsigned o_t3 = i1;
    const unsigned o_t4 = i1;
    float v_t1[8];
    fw_load_vector(p_t1 + o_t1, v_t1);
    float v_t3[8];
    fw_load_vector(p_t3 + o_t3, v_t3);
    float v_t4[8];
    fw_load_vector(p_t4 + o_t4, v_t4);
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t1 = v_t1[e];
      const float t3 = v_t3[e];
      const float t4 = v_t4[e];
      const float t0 = v_t0[e];
      const float t8_sub = fw_sub(t1, t3);
      const float t9_mul = fw_mul(t8_sub, t4);
      const float t10_mul = fw_mul(t0, t9_mul);
      acc0[e] = fw_sum(acc0[e], t0);
      acc1[e] = fw_sum(acc1[e], t10_mul);
    }
  }
  // acc0: one result for every kept vector, from all threads of the block
  fw_tree<8>(shared, acc0, lane, threadIdx.y, 64, 4, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 3) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[e * 256 + lane];
      p_t11_reduction_add[i1 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
  // acc1: one result for every kept vector, from all threads of the block
  fw_tree<8>(shared, acc1, lane, threadIdx.y, 64, 4, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 3) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[e * 256 + lane];
      p_t12_reduction_add[i1 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
}

//@ program
extern "C" __global__ void __launch_bounds__(32)
fw_pointwise_1(const float* __restrict__ p_t11_reduction_add,
  const float* __restrict__ p_t12_reduction_add,
  float* __restrict__ p_t7_identity,
  float* __restrict__ p_t6_identity) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 6) {
    const unsigned i0 = vector * 4;
    const unsigned o_t6_identity = i0;
    const unsigned o_t7_identity = i0;
    const unsigned o_t11_reduction_add = i0;
    const unsigned o_t12_reduction_add = i0;
    float v_t11_reduction_add[4];
    fw_load_vector(p_t11_reduction_add + o_t11_reduction_add, v_t11_reduction_add);
    float v_t12_reduction_add[4];
    fw_load_vector(p_t12_reduction_add + o_t12_reduction_add, v_t12_reduction_add);
    fw_vector<float, 4> w_t7_identity;
    fw_vector<float, 4> w_t6_identity;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t11_reduction_add = v_t11_reduction_add[e];
      const float t12_reduction_add = v_t12_reduction_add[e];
      const float t7_identity = fw_identity(t11_reduction_add);
      const float t6_identity = fw_identity(t12_reduction_add);
      w_t7_identity.at[e] = fw_to_f32(t7_identity);
      w_t6_identity.at[e] = fw_to_f32(t6_identity);
    }
    fw_store_vector(p_t7_identity + o_t7_identity, w_t7_identity);
    fw_store_vector(p_t6_identity + o_t6_identity, w_t6_identity);
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(32, 1)
fw_pointwise_2(const fw_f16* __restrict__ p_t1,
  const float* __restrict__ p_t3,
  const float* __restrict__ p_t4,
  const fw_f16* __restrict__ p_t0,
  const float* __restrict__ p_t11_reduction_add,
  const float* __restrict__ p_t12_reduction_add,
  const float* __restrict__ p_t2,
  const float t13,
  fw_f16* __restrict__ p_t5_mul) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 315) {
    const unsigned i0 = vector / 3;
    const unsigned i1 = vector % 3 * 8;
    const unsigned o_t0 = i0 * 24 + i1;
    const unsigned o_t1 = i0 * 24 + i1;
    const unsigned o_t2 = i1;
    const unsigned o_t3 = i1;
    const unsigned o_t4 = i1;
    const unsigned o_t5_mul = i0 * 24 + i1;
    const unsigned o_t11_reduction_add = i1;
    const unsigned o_t12_reduction_add = i1;
    float v_t1[8];
    fw_load_vector(p_t1 + o_t1, v_t1);
    float v_t3[8];
    fw_load_vector(p_t3 + o_t3, v_t3);
    float v_t4[8];
    fw_load_vector(p_t4 + o_t4, v_t4);
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
    float v_t11_reduction_add[8];
    fw_load_vector(p_t11_reduction_add + o_t11_reduction_add, v_t11_reduction_add);
    float v_t12_reduction_add[8];
    fw_load_vector(p_t12_reduction_add + o_t12_reduction_add, v_t12_reduction_add);
    float v_t2[8];
    fw_load_vector(p_t2 + o_t2, v_t2);
    float w_t5_mul[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t1 = v_t1[e];
      const float t3 = v_t3[e];
      const float t4 = v_t4[e];
      const float t0 = v_t0[e];
      const float t11_reduction_add = v_t11_reduction_add[e];
      const float t12_reduction_add = v_t12_reduction_add[e];
      const float t2 = v_t2[e];
      const float t8_sub = fw_sub(t1, t3);
      const float t9_mul = fw_mul(t8_sub, t4);
      const float t14_mul = fw_mul(t11_reduction_add, t2);
      const float t15_div = fw_div(t14_mul, t13);
      const float t16_mul = fw_mul(t12_reduction_add, t2);
      const float t17_div = fw_div(t16_mul, t13);
      const float t18_mul = fw_mul(t0, t2);
      const float t19_sub = fw_sub(t18_mul, t15_div);
      const float t20_mul = fw_mul(t9_mul, t17_div);
      const float t21_sub = fw_sub(t19_sub, t20_mul);
      const float t5_mul = fw_mul(t21_sub, t4);
      w_t5_mul[e] = t5_mul;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t5_mul + o_t5_mul), fw_pack_f16(w_t5_mul));
  }
}
