// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input BFLOAT16 [5, 65528, 1, 1] stride [65528, 1, 65528, 65528]
// t1 = input BFLOAT16 [5, 65528, 1, 1] stride [65528, 1, 65528, 65528]
// t2 = input FLOAT [5, 1, 1, 1] stride [1, 1, 1, 1]
// t3 = input FLOAT [5, 1, 1, 1] stride [1, 1, 1, 1]
// t4 = input BFLOAT16 [1, 65528, 1, 1] stride [65528, 1, 65528, 65528]
// t8_sub = POINTWISE(IN_0=t1, IN_1=t2) SUB compute FLOAT -> virtual FLOAT [5, 65528, 1, 1] stride [65528, 1, 1, 1]
// t9_mul = POINTWISE(IN_0=t8_sub, IN_1=t3) MUL compute FLOAT -> virtual FLOAT [5, 65528, 1, 1] stride [65528, 1, 1, 1]
// t10_mul = POINTWISE(IN_0=t0, IN_1=t9_mul) MUL compute FLOAT -> virtual FLOAT [5, 65528, 1, 1] stride [65528, 1, 1, 1]
// t11_reduction_add = REDUCTION(X=t0) ADD compute FLOAT -> virtual FLOAT [1, 65528, 1, 1] stride [65528, 1, 1, 1]
// t12_reduction_add = REDUCTION(X=t10_mul) ADD compute FLOAT -> virtual FLOAT [1, 65528, 1, 1] stride [65528, 1, 1, 1]
// t7_identity = POINTWISE(IN_0=t11_reduction_add) IDENTITY compute FLOAT -> output BFLOAT16 [1, 65528, 1, 1] stride [65528, 1, 65528, 65528]
// t6_identity = POINTWISE(IN_0=t12_reduction_add) IDENTITY compute FLOAT -> output BFLOAT16 [1, 65528, 1, 1] stride [65528, 1, 65528, 65528]
// t13_mul = POINTWISE(IN_0=t0, IN_1=t4) MUL compute FLOAT -> virtual FLOAT [5, 65528, 1, 1] stride [65528, 1, 1, 1]
// t14_reduction_avg = REDUCTION(X=t13_mul) AVG compute FLOAT -> virtual FLOAT [5, 1, 1, 1] stride [1, 1, 1, 1]
// t15_mul = POINTWISE(IN_0=t10_mul, IN_1=t4) MUL compute FLOAT -> virtual FLOAT [5, 65528, 1, 1] stride [65528, 1, 1, 1]
// t16_reduction_avg = REDUCTION(X=t15_mul) AVG compute FLOAT -> virtual FLOAT [5, 1, 1, 1] stride [1, 1, 1, 1]
// t17_mul = POINTWISE(IN_0=t0, IN_1=t4) MUL compute FLOAT -> virtual FLOAT [5, 65528, 1, 1] stride [65528, 1, 1, 1]
// t18_sub = POINTWISE(IN_0=t17_mul, IN_1=t14_reduction_avg) SUB compute FLOAT -> virtual FLOAT [5, 65528, 1, 1] stride [65528, 1, 1, 1]
// t19_mul = POINTWISE(IN_0=t9_mul, IN_1=t16_reduction_avg) MUL compute FLOAT -> virtual FLOAT [5, 65528, 1, 1] stride [65528, 1, 1, 1]
// t20_sub = POINTWISE(IN_0=t18_sub, IN_1=t19_mul) SUB compute FLOAT -> virtual FLOAT [5, 65528, 1, 1] stride [65528, 1, 1, 1]
// t5_mul = POINTWISE(IN_0=t20_sub, IN_1=t3) MUL compute FLOAT -> output BFLOAT16 [5, 65528, 1, 1] stride [65528, 1, 65528, 65528]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_bf16_bits

//@ fw_shared_address

//@ fw_wait_for_previous_launch

//@ fw_cluster

//@ fw_f32

//@ fw_bf16

//@ fw_vector

//@ fw_pack_bf16

//@ fw_sub

//@ fw_mul

//@ fw_identity

//@ fw_sum

//@ fw_lanes_total

//@ fw_warps_total

//@ fw_tree

//@ program
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(512, 1)
fw_rows(const fw_bf16* __restrict__ p_t1,
  const float* __restrict__ p_t2,
  const float* __restrict__ p_t3,
  const fw_bf16* __restrict__ p_t0,
  const fw_bf16* __restrict__ p_t4,
  fw_bf16* __restrict__ p_t5_mul) {
  fw_cluster_arrive();
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned warp = threadIdx.x / 32;
  const unsigned rank = blockIdx.x % 4, thread = rank * 512 + threadIdx.x;
  const unsigned row = blockIdx.x / 4;
  float p_t14_reduction_avg[1];
  float p_t16_reduction_avg[1];
  {
    float acc0[1] = {0.0f};
    float acc1[1] = {0.0f};
    const unsigned i0 = row;
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const unsigned r = thread + g * 2048;
      if (r >= 8191) continue;
      const unsigned i1 = r * 8;
      const unsigned o_t0 = i0 * 65528 + i1;
      const unsigned o_t1 = i0 * 65528 + i1;
      const unsigned o_t2 = i0;
      const unsigned o_t3 = i0;
      const unsigned o_t4 = i1;
      float v_t1[8];
      fw_load_vector(p_t1 + o_t1, v_t1);
      const float t2 = fw_value(p_t2[o_t2]);
      const float t3 = fw_value(p_t3[o_t3]);
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
      float v_t4[8];
      fw_load_vector(p_t4 + o_t4, v_t4);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t1 = v_t1[e];
        const float t0 = v_t0[e];
        const float t4 = v_t4[e];
        const float t8_sub = fw_sub(t1, t2);
        const float t9_mul = fw_mul(t8_sub, t3);
        const float t10_mul = fw_mul(t0, t9_mul);
        const float t13_mul = fw_mul(t0, t4);
        const float t15_mul = fw_mul(t10_mul, t4);
        acc0[0] = fw_sum(acc0[0], t13_mul);
        acc1[0] = fw_sum(acc1[0], t15_mul);
      }
    }
    acc0[0] = fw_lanes_total<16, 1>(acc0[0], [](float a, float b) { return fw_sum(a, b); });
    acc1[0] = fw_lanes_total<16, 1>(acc1[0], [](float a, float b) { return fw_sum(a, b); });
    if (threadIdx.x % 32 == 0) {
      shared[0 + threadIdx.y * 16 + warp] = acc0[0];
      shared[16 + threadIdx.y * 16 + warp] = acc1[0];
    }
    __syncthreads();
    acc0[0] = fw_warps_total<16>(shared + 0 + threadIdx.y * 16, [](float a, float b) { return fw_sum(a, b); });
    acc1[0] = fw_warps_total<16>(shared + 16 + threadIdx.y * 16, [](float a, float b) { return fw_sum(a, b); });
    fw_cluster_wait();
    if (threadIdx.x < 4) fw_store_to_block(shared + 32 + rank, threadIdx.x, acc0[0]);
    if (threadIdx.x < 4) fw_store_to_block(shared + 36 + rank, threadIdx.x, acc1[0]);
    fw_cluster_arrive();
    fw_cluster_wait();
    acc0[0] = fw_warps_total<4>(shared + 32, [](float a, float b) { return fw_sum(a, b); });
    acc1[0] = fw_warps_total<4>(shared + 36, [](float a, float b) { return fw_sum(a, b); });
    {
      const float total = acc0[0];
      p_t14_reduction_avg[0] = total / 65528.0f;
    }
    {
      const float total = acc1[0];
      p_t16_reduction_avg[0] = total / 65528.0f;
    }
  }
  {
    const unsigned i0 = row;
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const unsigned r = thread + g * 2048;
      if (r >= 8191) continue;
      const unsigned i1 = r * 8;
      const unsigned o_t0 = i0 * 65528 + i1;
      const unsigned o_t1 = i0 * 65528 + i1;
      const unsigned o_t2 = i0;
      const unsigned o_t3 = i0;
      const unsigned o_t4 = i1;
      const unsigned o_t5_mul = i0 * 65528 + i1;
      const unsigned o_t14_reduction_avg = 0;
      const unsigned o_t16_reduction_avg = 0;
      float v_t1[8];
      fw_load_vector(p_t1 + o_t1, v_t1);
      const float t2 = fw_value(p_t2[o_t2]);
      const float t3 = fw_value(p_t3[o_t3]);
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
      float v_t4[8];
      fw_load_vector(p_t4 + o_t4, v_t4);
      const float t14_reduction_avg = fw_value(p_t14_reduction_avg[o_t14_reduction_avg]);
      const float t16_reduction_avg = fw_value(p_t16_reduction_avg[o_t16_reduction_avg]);
      float w_t5_mul[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t1 = v_t1[e];
        const float t0 = v_t0[e];
        const float t4 = v_t4[e];
        const float t8_sub = fw_sub(t1, t2);
        const float t9_mul = fw_mul(t8_sub, t3);
        const float t17_mul = fw_mul(t0, t4);
        const float t18_sub = fw_sub(t17_mul, t14_reduction_avg);
        const float t19_mul = fw_mul(t9_mul, t16_reduction_avg);
        const float t20_sub = fw_sub(t18_sub, t19_mul);
        const float t5_mul = fw_mul(t20_sub, t3);
        w_t5_mul[e] = t5_mul;
      }
      fw_store_vector(reinterpret_cast<unsigned*>(p_t5_mul + o_t5_mul), fw_pack_bf16(w_t5_mul));
    }
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256, 4)
fw_reduction_1(const fw_bf16* __restrict__ p_t1,
  const float* __restrict__ p_t2,
  const float* __restrict__ p_t3,
  const fw_bf16* __restrict__ p_t0,
  float* __restrict__ p_t11_reduction_add,
  float* __restrict__ p_t12_reduction_add) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  float acc1[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};

  const unsigned kept = blockIdx.x * 256 + threadIdx.x;
  const unsigned i1 = kept * 8;
  const unsigned last = kept < 8191 ? 5 : 0;
  unsigned next = blockIdx.y * 4 + threadIdx.y;
  for (; next + 3 < last; next += 4) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g;
      const unsigned i0 = r;
      const unsigned o_t0 = i0 * 65528 + i1;
      const unsigned o_t1 = i0 * 65528 + i1;
      const unsigned o_t2 = i0;
      const unsigned o_t3 = i0;
      float v_t1[8];
      fw_load_vector(p_t1 + o_t1, v_t1);
      const float t2 = fw_value(p_t2[o_t2]);
      const float t3 = fw_value(p_t3[o_t3]);
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t1 = v_t1[e];
        const float t0 = v_t0[e];
        const float t8_sub = fw_sub(t1, t2);
        const float t9_mul = fw_mul(t8_sub, t3);
        const float t10_mul = fw_mul(t0, t9_mul);
        acc0[e] = fw_sum(acc0[e], t0);
        acc1[e] = fw_sum(acc1[e], t10_mul);
      }
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 1) {  // what is left of the last group
    const unsigned i0 = r;
    const unsigned o_t0 = i0 * 65528 + i1;
    const unsigned o_t1 = i0 * 65528 + i1;
    const unsigned o_t2 = i0;
    const unsigned o_t3 = i0;
    float v_t1[8];
    fw_load_vector(p_t1 + o_t1, v_t1);
    const float t2 = fw_value(p_t2[o_t2]);
    const float t3 = fw_value(p_t3[o_t3]);
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t1 = v_t1[e];
      const float t0 = v_t0[e];
      const float t8_sub = fw_sub(t1, t2);
      const float t9_mul = fw_mul(t8_sub, t3);
      const float t10_mul = fw_mul(t0, t9_mul);
      acc0[e] = fw_sum(acc0[e], t0);
      acc1[e] = fw_sum(acc1[e], t10_mul);
    }
  }
  // acc0: one result for every kept vector, from all threads of the block
  fw_tree<8>(shared, acc0, lane, threadIdx.y, 1, 256, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 8191) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[e * 256 + lane];
      p_t11_reduction_add[i1 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
  // acc1: one result for every kept vector, from all threads of the block
  fw_tree<8>(shared, acc1, lane, threadIdx.y, 1, 256, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 8191) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[e * 256 + lane];
      p_t12_reduction_add[i1 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
}

//@ program
extern "C" __global__ void __launch_bounds__(64)
fw_pointwise_2(const float* __restrict__ p_t11_reduction_add,
  const float* __restrict__ p_t12_reduction_add,
  fw_bf16* __restrict__ p_t7_identity,
  fw_bf16* __restrict__ p_t6_identity) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 64 + threadIdx.x;
  if (vector < 8191) {
    const unsigned i0 = vector * 8;
    const unsigned o_t6_identity = i0;
    const unsigned o_t7_identity = i0;
    const unsigned o_t11_reduction_add = i0;
    const unsigned o_t12_reduction_add = i0;
    float v_t11_reduction_add[8];
    fw_load_vector(p_t11_reduction_add + o_t11_reduction_add, v_t11_reduction_add);
    float v_t12_reduction_add[8];
    fw_load_vector(p_t12_reduction_add + o_t12_reduction_add, v_t12_reduction_add);
    float w_t7_identity[8];
    float w_t6_identity[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t11_reduction_add = v_t11_reduction_add[e];
      const float t12_reduction_add = v_t12_reduction_add[e];
      const float t7_identity = fw_identity(t11_reduction_add);
      const float t6_identity = fw_identity(t12_reduction_add);
      w_t7_identity[e] = t7_identity;
      w_t6_identity[e] = t6_identity;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t7_identity + o_t7_identity), fw_pack_bf16(w_t7_identity));
    fw_store_vector(reinterpret_cast<unsigned*>(p_t6_identity + o_t6_identity), fw_pack_bf16(w_t6_identity));
  }
}
