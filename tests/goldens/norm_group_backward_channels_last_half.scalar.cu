// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [3, 6, 4, 5, 7] stride [840, 4, 1, 168, 24]
// t1 = input HALF [3, 6, 4, 5, 7] stride [840, 4, 1, 168, 24]
// t2 = input FLOAT [3, 6, 1, 1, 1] stride [6, 1, 1, 6, 6]
// t3 = input FLOAT [3, 6, 1, 1, 1] stride [6, 1, 1, 6, 6]
// t4 = input FLOAT [1, 6, 4, 1, 1] stride [24, 4, 1, 24, 24]
// t15 = scalar FLOAT [1, 1, 1, 1, 1] stride [1, 1, 1, 1, 1]
// t8_sub = POINTWISE(IN_0=t1, IN_1=t2) SUB compute FLOAT -> virtual FLOAT [3, 6, 4, 5, 7] stride [840, 140, 35, 7, 1]
// t9_mul = POINTWISE(IN_0=t8_sub, IN_1=t3) MUL compute FLOAT -> virtual FLOAT [3, 6, 4, 5, 7] stride [840, 140, 35, 7, 1]
// t10_mul = POINTWISE(IN_0=t0, IN_1=t9_mul) MUL compute FLOAT -> virtual FLOAT [3, 6, 4, 5, 7] stride [840, 140, 35, 7, 1]
// t11_reduction_add = REDUCTION(X=t0) ADD compute FLOAT -> virtual FLOAT [3, 6, 4, 1, 1] stride [24, 4, 1, 1, 1]
// t12_reduction_add = REDUCTION(X=t10_mul) ADD compute FLOAT -> virtual FLOAT [3, 6, 4, 1, 1] stride [24, 4, 1, 1, 1]
// t13_reduction_add = REDUCTION(X=t11_reduction_add) ADD compute FLOAT -> virtual FLOAT [1, 6, 4, 1, 1] stride [24, 4, 1, 1, 1]
// t14_reduction_add = REDUCTION(X=t12_reduction_add) ADD compute FLOAT -> virtual FLOAT [1, 6, 4, 1, 1] stride [24, 4, 1, 1, 1]
// t7_identity = POINTWISE(IN_0=t13_reduction_add) IDENTITY compute FLOAT -> output FLOAT [1, 6, 4, 1, 1] stride [24, 4, 1, 24, 24]
// t6_identity = POINTWISE(IN_0=t14_reduction_add) IDENTITY compute FLOAT -> output FLOAT [1, 6, 4, 1, 1] stride [24, 4, 1, 24, 24]
// t16_mul = POINTWISE(IN_0=t11_reduction_add, IN_1=t4) MUL compute FLOAT -> virtual FLOAT [3, 6, 4, 1, 1] stride [24, 4, 1, 1, 1]
// t17_reduction_add = REDUCTION(X=t16_mul) ADD compute FLOAT -> virtual FLOAT [3, 6, 1, 1, 1] stride [6, 1, 1, 1, 1]
// t18_div = POINTWISE(IN_0=t17_reduction_add, IN_1=t15) DIV compute FLOAT -> virtual FLOAT [3, 6, 1, 1, 1] stride [6, 1, 1, 1, 1]
// t19_mul = POINTWISE(IN_0=t12_reduction_add, IN_1=t4) MUL compute FLOAT -> virtual FLOAT [3, 6, 4, 1, 1] stride [24, 4, 1, 1, 1]
// t20_reduction_add = REDUCTION(X=t19_mul) ADD compute FLOAT -> virtual FLOAT [3, 6, 1, 1, 1] stride [6, 1, 1, 1, 1]
// t21_div = POINTWISE(IN_0=t20_reduction_add, IN_1=t15) DIV compute FLOAT -> virtual FLOAT [3, 6, 1, 1, 1] stride [6, 1, 1, 1, 1]
// t22_mul = POINTWISE(IN_0=t0, IN_1=t4) MUL compute FLOAT -> virtual FLOAT [3, 6, 4, 5, 7] stride [840, 140, 35, 7, 1]
// t23_sub = POINTWISE(IN_0=t22_mul, IN_1=t18_div) SUB compute FLOAT -> virtual FLOAT [3, 6, 4, 5, 7] stride [840, 140, 35, 7, 1]
// t24_mul = POINTWISE(IN_0=t9_mul, IN_1=t21_div) MUL compute FLOAT -> virtual FLOAT [3, 6, 4, 5, 7] stride [840, 140, 35, 7, 1]
// t25_sub = POINTWISE(IN_0=t23_sub, IN_1=t24_mul) SUB compute FLOAT -> virtual FLOAT [3, 6, 4, 5, 7] stride [840, 140, 35, 7, 1]
// t26_mul = POINTWISE(IN_0=t25_sub, IN_1=t3) MUL compute FLOAT -> virtual FLOAT [3, 6, 4, 5, 7] stride [840, 140, 35, 7, 1]
// t5_identity = POINTWISE(IN_0=t26_mul) IDENTITY compute FLOAT -> output HALF [3, 6, 4, 5, 7] stride [840, 4, 1, 168, 24]

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
  const float* __restrict__ p_t2,
  const float* __restrict__ p_t3,
  const fw_f16* __restrict__ p_t0,
  float* __restrict__ p_t11_reduction_add,
  float* __restrict__ p_t12_reduction_add) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  float acc1[4] = {0.0f, 0.0f, 0.0f, 0.0f};

  const unsigned kept = blockIdx.x * 32 + threadIdx.x;
  const unsigned i0 = kept / 6;
  const unsigned i2 = kept % 6;
  const unsigned i3 = 0;
  const unsigned last = kept < 18 ? 35 : 0;
  unsigned next = blockIdx.y * 32 + threadIdx.y;
  for (; next + 24 < last; next += 32) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g * 8;
      const unsigned i1 = r;
      const unsigned o_t0 = i0 * 840 + i1 * 24 + i2 * 4 + i3;
      const unsigned o_t1 = i0 * 840 + i1 * 24 + i2 * 4 + i3;
      const unsigned o_t2 = i0 * 6 + i2;
      const unsigned o_t3 = i0 * 6 + i2;
      float v_t1[4];
      fw_load_vector(p_t1 + o_t1, v_t1);
      const float t2 = fw_value(p_t2[o_t2]);
      const float t3 = fw_value(p_t3[o_t3]);
      float v_t0[4];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
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
  for (unsigned r = next; r < last; r += 8) {  // what is left of the last group
    const unsigned i1 = r;
    const unsigned o_t0 = i0 * 840 + i1 * 24 + i2 * 4 + i3;
    const unsigned o_t1 = i0 * 840 + i1 * 24 + i2 * 4 + i3;
    const unsigned o_t2 = i0 * 6 + i2;
    const unsigned o_t3 = i0 * 6 + i2;
    float v_t1[4];
    fw_load_vector(p_t1 + o_t1, v_t1);
    const float t2 = fw_value(p_t2[o_t2]);
    const float t3 = fw_value(p_t3[o_t3]);
    float v_t0[4];
    fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
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
  fw_tree<4>(shared, acc0, lane, threadIdx.y, 8, 32, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 18) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float total = shared[e * 256 + lane];
      p_t11_reduction_add[i0 * 24 + i2 * 4 + i3 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
  // acc1: one result for every kept vector, from all threads of the block
  fw_tree<4>(shared, acc1, lane, threadIdx.y, 8, 32, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 18) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float total = shared[e * 256 + lane];
      p_t12_reduction_add[i0 * 24 + i2 * 4 + i3 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
}

//@ program
extern "C" __global__ void __launch_bounds__(256, 4)
fw_reduction_1(const float* __restrict__ p_t11_reduction_add,
  const float* __restrict__ p_t12_reduction_add,
  float* __restrict__ p_t13_reduction_add,
  float* __restrict__ p_t14_reduction_add) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  float acc1[4] = {0.0f, 0.0f, 0.0f, 0.0f};

  const unsigned kept = blockIdx.x * 8 + threadIdx.x;
  const unsigned i1 = kept * 4;
  const unsigned last = kept < 6 ? 3 : 0;
  unsigned next = blockIdx.y * 128 + threadIdx.y;
  for (; next + 96 < last; next += 128) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g * 32;
      const unsigned i0 = r;
      const unsigned o_t11_reduction_add = i0 * 24 + i1;
      const unsigned o_t12_reduction_add = i0 * 24 + i1;
      float v_t11_reduction_add[4];
      fw_load_vector(p_t11_reduction_add + o_t11_reduction_add, v_t11_reduction_add);
      float v_t12_reduction_add[4];
      fw_load_vector(p_t12_reduction_add + o_t12_reduction_add, v_t12_reduction_add);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float t11_reduction_add = v_t11_reduction_add[e];
        const float t12_reduction_add = v_t12_reduction_add[e];
        acc0[e] = fw_sum(acc0[e], t11_reduction_add);
        acc1[e] = fw_sum(acc1[e], t12_reduction_add);
      }
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 32) {  // what is left of the last group
    const unsigned i0 = r;
    const unsigned o_t11_reduction_add = i0 * 24 + i1;
    const unsigned o_t12_reduction_add = i0 * 24 + i1;
    float v_t11_reduction_add[4];
    fw_load_vector(p_t11_reduction_add + o_t11_reduction_add, v_t11_reduction_add);
    float v_t12_reduction_add[4];
    fw_load_vector(p_t12_reduction_add + o_t12_reduction_add, v_t12_reduction_add);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t11_reduction_add = v_t11_reduction_add[e];
      const float t12_reduction_add = v_t12_reduction_add[e];
      acc0[e] = fw_sum(acc0[e], t11_reduction_add);
      acc1[e] = fw_sum(acc1[e], t12_reduction_add);
    }
  }
  // acc0: one result for every kept vector, from all threads of the block
  fw_tree<4>(shared, acc0, lane, threadIdx.y, 32, 8, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 6) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float total = shared[e * 256 + lane];
      p_t13_reduction_add[i1 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
  // acc1: one result for every kept vector, from all threads of the block
  fw_tree<4>(shared, acc1, lane, threadIdx.y, 32, 8, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 6) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float total = shared[e * 256 + lane];
      p_t14_reduction_add[i1 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
}

//@ program
extern "C" __global__ void __launch_bounds__(32)
fw_pointwise_2(const float* __restrict__ p_t13_reduction_add,
  const float* __restrict__ p_t14_reduction_add,
  float* __restrict__ p_t7_identity,
  float* __restrict__ p_t6_identity) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 6) {
    const unsigned i0 = vector * 4;
    const unsigned o_t6_identity = i0;
    const unsigned o_t7_identity = i0;
    const unsigned o_t13_reduction_add = i0;
    const unsigned o_t14_reduction_add = i0;
    float v_t13_reduction_add[4];
    fw_load_vector(p_t13_reduction_add + o_t13_reduction_add, v_t13_reduction_add);
    float v_t14_reduction_add[4];
    fw_load_vector(p_t14_reduction_add + o_t14_reduction_add, v_t14_reduction_add);
    fw_vector<float, 4> w_t7_identity;
    fw_vector<float, 4> w_t6_identity;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t13_reduction_add = v_t13_reduction_add[e];
      const float t14_reduction_add = v_t14_reduction_add[e];
      const float t7_identity = fw_identity(t13_reduction_add);
      const float t6_identity = fw_identity(t14_reduction_add);
      w_t7_identity.at[e] = fw_to_f32(t7_identity);
      w_t6_identity.at[e] = fw_to_f32(t6_identity);
    }
    fw_store_vector(p_t7_identity + o_t7_identity, w_t7_identity);
    fw_store_vector(p_t6_identity + o_t6_identity, w_t6_identity);
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256, 4)
fw_reduction_3(const float* __restrict__ p_t11_reduction_add,
  const float* __restrict__ p_t12_reduction_add,
  const float* __restrict__ p_t4,
  float* __restrict__ p_t17_reduction_add,
  float* __restrict__ p_t20_reduction_add) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[1] = {0.0f};
  float acc1[1] = {0.0f};

  const unsigned kept = blockIdx.x * 256 + threadIdx.y;
  const unsigned i0 = kept / 6;
  const unsigned i1 = kept % 6;
  const unsigned last = kept < 18 ? 1 : 0;
  unsigned next = blockIdx.y * 4 + threadIdx.x;
  for (; next + 3 < last; next += 4) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g;
      const unsigned i2 = r * 4;
      const unsigned o_t4 = i1 * 4 + i2;
      const unsigned o_t11_reduction_add = i0 * 24 + i1 * 4 + i2;
      const unsigned o_t12_reduction_add = i0 * 24 + i1 * 4 + i2;
      float v_t11_reduction_add[4];
      fw_load_vector(p_t11_reduction_add + o_t11_reduction_add, v_t11_reduction_add);
      float v_t12_reduction_add[4];
      fw_load_vector(p_t12_reduction_add + o_t12_reduction_add, v_t12_reduction_add);
      float v_t4[4];
      fw_load_vector(p_t4 + o_t4, v_t4);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float t11_reduction_add = v_t11_reduction_add[e];
        const float t12_reduction_add = v_t12_reduction_add[e];
        const float t4 = v_t4[e];
        const float t16_mul = fw_mul(t11_reduction_add, t4);
        const float t19_mul = fw_mul(t12_reduction_add, t4);
        acc0[0] = fw_sum(acc0[0], t16_mul);
        acc1[0] = fw_sum(acc1[0], t19_mul);
      }
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 1) {  // what is left of the last group
    const unsigned i2 = r * 4;
    const unsigned o_t4 = i1 * 4 + i2;
    const unsigned o_t11_reduction_add = i0 * 24 + i1 * 4 + i2;
    const unsigned o_t12_reduction_add = i0 * 24 + i1 * 4 + i2;
    float v_t11_reduction_add[4];
    fw_load_vector(p_t11_reduction_add + o_t11_reduction_add, v_t11_reduction_add);
    float v_t12_reduction_add[4];
    fw_load_vector(p_t12_reduction_add + o_t12_reduction_add, v_t12_reduction_add);
    float v_t4[4];
    fw_load_vector(p_t4 + o_t4, v_t4);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t11_reduction_add = v_t11_reduction_add[e];
      const float t12_reduction_add = v_t12_reduction_add[e];
      const float t4 = v_t4[e];
      const float t16_mul = fw_mul(t11_reduction_add, t4);
      const float t19_mul = fw_mul(t12_reduction_add, t4);
      acc0[0] = fw_sum(acc0[0], t16_mul);
      acc1[0] = fw_sum(acc1[0], t19_mul);
    }
  }
  // acc0: one result for every kept element, from all threads of the block
  fw_tree<1>(shared, acc0, lane, threadIdx.x, 1, 1, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.x == 0 && kept < 18) {
    const float total = shared[lane];
    p_t17_reduction_add[i0 * 6 + i1] = fw_to_f32(total);
  }
  __syncthreads();
  // acc1: one result for every kept element, from all threads of the block
  fw_tree<1>(shared, acc1, lane, threadIdx.x, 1, 1, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.x == 0 && kept < 18) {
    const float total = shared[lane];
    p_t20_reduction_add[i0 * 6 + i1] = fw_to_f32(total);
  }
  __syncthreads();
}

//@ program
extern "C" __global__ void __launch_bounds__(32)
fw_pointwise_4(const fw_f16* __restrict__ p_t1,
  const float* __restrict__ p_t2,
  const float* __restrict__ p_t3,
  const fw_f16* __restrict__ p_t0,
  const float* __restrict__ p_t4,
  const float* __restrict__ p_t17_reduction_add,
  const float t15,
  const float* __restrict__ p_t20_reduction_add,
  fw_f16* __restrict__ p_t5_identity) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 630) {
    const unsigned i0 = vector / 210;
    const unsigned i1 = vector / 6 % 35;
    const unsigned i2 = vector % 6;
    const unsigned i3 = 0;
    const unsigned o_t0 = i0 * 840 + i1 * 24 + i2 * 4 + i3;
    const unsigned o_t1 = i0 * 840 + i1 * 24 + i2 * 4 + i3;
    const unsigned o_t2 = i0 * 6 + i2;
    const unsigned o_t3 = i0 * 6 + i2;
    const unsigned o_t4 = i2 * 4 + i3;
    const unsigned o_t5_identity = i0 * 840 + i1 * 24 + i2 * 4 + i3;
    const unsigned o_t17_reduction_add = i0 * 6 + i2;
    const unsigned o_t20_reduction_add = i0 * 6 + i2;
    float v_t1[4];
    fw_load_vector(p_t1 + o_t1, v_t1);
    const float t2 = fw_value(p_t2[o_t2]);
    const float t3 = fw_value(p_t3[o_t3]);
    float v_t0[4];
    fw_load_vector(p_t0 + o_t0, v_t0);
    float v_t4[4];
    fw_load_vector(p_t4 + o_t4, v_t4);
    const float t17_reduction_add = fw_value(p_t17_reduction_add[o_t17_reduction_add]);
    const float t20_reduction_add = fw_value(p_t20_reduction_add[o_t20_reduction_add]);
    float w_t5_identity[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t1 = v_t1[e];
      const float t0 = v_t0[e];
      const float t4 = v_t4[e];
      const float t8_sub = fw_sub(t1, t2);
      const float t9_mul = fw_mul(t8_sub, t3);
      const float t18_div = fw_div(t17_reduction_add, t15);
      const float t21_div = fw_div(t20_reduction_add, t15);
      const float t22_mul = fw_mul(t0, t4);
      const float t23_sub = fw_sub(t22_mul, t18_div);
      const float t24_mul = fw_mul(t9_mul, t21_div);
      const float t25_sub = fw_sub(t23_sub, t24_mul);
      const float t26_mul = fw_mul(t25_sub, t3);
      const float t5_identity = fw_identity(t26_mul);
      w_t5_identity[e] = t5_identity;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t5_identity + o_t5_identity), fw_pack_f16(w_t5_identity));
  }
}
