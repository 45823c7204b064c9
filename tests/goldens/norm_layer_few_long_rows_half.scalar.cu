// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [3, 32840, 1, 1] stride [32840, 1, 32840, 32840]
// t1 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t2 = input HALF [1, 32840, 1, 1] stride [32840, 1, 1, 1]
// t3 = input HALF [1, 32840, 1, 1] stride [32840, 1, 1, 1]
// t7_reduction_avg = REDUCTION(X=t0) AVG compute FLOAT -> virtual FLOAT [3, 1, 1, 1] stride [1, 1, 1, 1]
// t8_sub = POINTWISE(IN_0=t0, IN_1=t7_reduction_avg) SUB compute FLOAT -> virtual FLOAT [3, 32840, 1, 1] stride [32840, 1, 1, 1]
// t9_mul = POINTWISE(IN_0=t8_sub, IN_1=t8_sub) MUL compute FLOAT -> virtual FLOAT [3, 32840, 1, 1] stride [32840, 1, 1, 1]
// t10_reduction_avg = REDUCTION(X=t9_mul) AVG compute FLOAT -> virtual FLOAT [3, 1, 1, 1] stride [1, 1, 1, 1]
// t11_add = POINTWISE(IN_0=t10_reduction_avg, IN_1=t1) ADD compute FLOAT -> virtual FLOAT [3, 1, 1, 1] stride [1, 1, 1, 1]
// t12_sqrt = POINTWISE(IN_0=t11_add) SQRT compute FLOAT -> virtual FLOAT [3, 1, 1, 1] stride [1, 1, 1, 1]
// t13_reciprocal = POINTWISE(IN_0=t12_sqrt) RECIPROCAL compute FLOAT -> virtual FLOAT [3, 1, 1, 1] stride [1, 1, 1, 1]
// t5_identity = POINTWISE(IN_0=t7_reduction_avg) IDENTITY compute FLOAT -> output FLOAT [3, 1, 1, 1] stride [1, 1, 1, 1]
// t6_identity = POINTWISE(IN_0=t13_reciprocal) IDENTITY compute FLOAT -> output FLOAT [3, 1, 1, 1] stride [1, 1, 1, 1]
// t14_sub = POINTWISE(IN_0=t0, IN_1=t7_reduction_avg) SUB compute FLOAT -> virtual FLOAT [3, 32840, 1, 1] stride [32840, 1, 1, 1]
// t15_mul = POINTWISE(IN_0=t14_sub, IN_1=t13_reciprocal) MUL compute FLOAT -> virtual FLOAT [3, 32840, 1, 1] stride [32840, 1, 1, 1]
// t16_mul = POINTWISE(IN_0=t15_mul, IN_1=t2) MUL compute FLOAT -> virtual FLOAT [3, 32840, 1, 1] stride [32840, 1, 1, 1]
// t4_add = POINTWISE(IN_0=t16_mul, IN_1=t3) ADD compute FLOAT -> output HALF [3, 32840, 1, 1] stride [32840, 1, 32840, 32840]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_shared_address

//@ fw_wait_for_previous_launch

//@ fw_cluster

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

//@ fw_add

//@ fw_sub

//@ fw_mul

//@ fw_sqrt

//@ fw_reciprocal

//@ fw_identity

//@ fw_sum

//@ fw_lanes_total

//@ fw_warps_total

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(512, 2)
fw_rows(const fw_f16* __restrict__ p_t0,
  const float t1,
  const fw_f16* __restrict__ p_t2,
  const fw_f16* __restrict__ p_t3,
  float* __restrict__ p_t5_identity,
  float* __restrict__ p_t6_identity,
  fw_f16* __restrict__ p_t4_add) {
  fw_cluster_arrive();
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned warp = threadIdx.x / 32;
  const unsigned rank = blockIdx.x % 4, thread = rank * 512 + threadIdx.x;
  const unsigned row = blockIdx.x / 4;
  float p_t7_reduction_avg[1];
  {
    float acc0[1] = {0.0f};
    const unsigned i0 = row;
#pragma unroll
    for (int g = 0; g < 3; ++g) {
      const unsigned r = thread + g * 2048;
      if (r >= 4105) continue;
      const unsigned i1 = r * 8;
      const unsigned o_t0 = i0 * 32840 + i1;
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        acc0[0] = fw_sum(acc0[0], t0);
      }
    }
    acc0[0] = fw_lanes_total<16, 1>(acc0[0], [](float a, float b) { return fw_sum(a, b); });
    if (threadIdx.x % 32 == 0) {
      shared[0 + threadIdx.y * 16 + warp] = acc0[0];
    }
    __syncthreads();
    acc0[0] = fw_warps_total<16>(shared + 0 + threadIdx.y * 16, [](float a, float b) { return fw_sum(a, b); });
    fw_cluster_wait();
    if (threadIdx.x < 4) fw_store_to_block(shared + 32 + rank, threadIdx.x, acc0[0]);
    fw_cluster_arrive();
    fw_cluster_wait();
    acc0[0] = fw_warps_total<4>(shared + 32, [](float a, float b) { return fw_sum(a, b); });
    {
      const float total = acc0[0];
      p_t7_reduction_avg[0] = total / 32840.0f;
    }
  }
  if (thread == 0) {
    const unsigned i0 = row;
    const unsigned o_t5_identity = i0;
    const unsigned o_t7_reduction_avg = 0;
    const float t7_reduction_avg = fw_value(p_t7_reduction_avg[o_t7_reduction_avg]);
    const float t5_identity = fw_identity(t7_reduction_avg);
    p_t5_identity[o_t5_identity] = fw_to_f32(t5_identity);
  }
  float p_t10_reduction_avg[1];
  {
    float acc0[1] = {0.0f};
    const unsigned i0 = row;
#pragma unroll
    for (int g = 0; g < 3; ++g) {
      const unsigned r = thread + g * 2048;
      if (r >= 4105) continue;
      const unsigned i1 = r * 8;
      const unsigned o_t0 = i0 * 32840 + i1;
      const unsigned o_t7_reduction_avg = 0;
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
      const float t7_reduction_avg = fw_value(p_t7_reduction_avg[o_t7_reduction_avg]);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        const float t8_sub = fw_sub(t0, t7_reduction_avg);
        const float t9_mul = fw_mul(t8_sub, t8_sub);
        acc0[0] = fw_sum(acc0[0], t9_mul);
      }
    }
    acc0[0] = fw_lanes_total<16, 1>(acc0[0], [](float a, float b) { return fw_sum(a, b); });
    if (threadIdx.x % 32 == 0) {
      shared[16 + threadIdx.y * 16 + warp] = acc0[0];
    }
    __syncthreads();
    acc0[0] = fw_warps_total<16>(shared + 16 + threadIdx.y * 16, [](float a, float b) { return fw_sum(a, b); });
    if (threadIdx.x < 4) fw_store_to_block(shared + 36 + rank, threadIdx.x, acc0[0]);
    fw_cluster_arrive();
    fw_cluster_wait();
    acc0[0] = fw_warps_total<4>(shared + 36, [](float a, float b) { return fw_sum(a, b); });
    {
      const float total = acc0[0];
      p_t10_reduction_avg[0] = total / 32840.0f;
    }
  }
  if (thread == 0) {
    const unsigned i0 = row;
    const unsigned o_t6_identity = i0;
    const unsigned o_t10_reduction_avg = 0;
    const float t10_reduction_avg = fw_value(p_t10_reduction_avg[o_t10_reduction_avg]);
    const float t11_add = fw_add(t10_reduction_avg, t1);
    const float t12_sqrt = fw_sqrt(t11_add);
    const float t13_reciprocal = fw_reciprocal(t12_sqrt);
    const float t6_identity = fw_identity(t13_reciprocal);
    p_t6_identity[o_t6_identity] = fw_to_f32(t6_identity);
  }
  {
    const unsigned i0 = row;
#pragma unroll
    for (int g = 0; g < 3; ++g) {
      const unsigned r = thread + g * 2048;
      if (r >= 4105) continue;
      const unsigned i1 = r * 8;
      const unsigned o_t0 = i0 * 32840 + i1;
      const unsigned o_t2 = i1;
      const unsigned o_t3 = i1;
      const unsigned o_t4_add = i0 * 32840 + i1;
      const unsigned o_t7_reduction_avg = 0;
      const unsigned o_t10_reduction_avg = 0;
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
      const float t7_reduction_avg = fw_value(p_t7_reduction_avg[o_t7_reduction_avg]);
      const float t10_reduction_avg = fw_value(p_t10_reduction_avg[o_t10_reduction_avg]);
      float v_t2[8];
      fw_load_vector(p_t2 + o_t2, v_t2);
      float v_t3[8];
      fw_load_vector(p_t3 + o_t3, v_t3);
      float w_t4_add[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        const float t2 = v_t2[e];
        const float t3 = v_t3[e];
        const float t11_add = fw_add(t10_reduction_avg, t1);
        const float t12_sqrt = fw_sqrt(t11_add);
        const float t13_reciprocal = fw_reciprocal(t12_sqrt);
        const float t14_sub = fw_sub(t0, t7_reduction_avg);
        const float t15_mul = fw_mul(t14_sub, t13_reciprocal);
        const float t16_mul = fw_mul(t15_mul, t2);
        const float t4_add = fw_add(t16_mul, t3);
        w_t4_add[e] = t4_add;
      }
      fw_store_vector(reinterpret_cast<unsigned*>(p_t4_add + o_t4_add), fw_pack_f16(w_t4_add));
    }
  }
}
