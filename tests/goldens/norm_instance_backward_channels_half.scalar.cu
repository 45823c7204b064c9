// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [3, 64, 13, 11] stride [9152, 1, 704, 64]
// t1 = input HALF [3, 64, 13, 11] stride [9152, 1, 704, 64]
// t2 = input FLOAT [1, 64, 1, 1] stride [64, 1, 64, 64]
// t3 = input FLOAT [3, 64, 1, 1] stride [64, 1, 64, 64]
// t4 = input FLOAT [3, 64, 1, 1] stride [64, 1, 64, 64]
// t8_sub = POINTWISE(IN_0=t1, IN_1=t3) SUB compute FLOAT -> virtual FLOAT [3, 64, 13, 11] stride [9152, 143, 11, 1]
// t9_mul = POINTWISE(IN_0=t8_sub, IN_1=t4) MUL compute FLOAT -> virtual FLOAT [3, 64, 13, 11] stride [9152, 143, 11, 1]
// t10_mul = POINTWISE(IN_0=t0, IN_1=t9_mul) MUL compute FLOAT -> virtual FLOAT [3, 64, 13, 11] stride [9152, 143, 11, 1]
// t11_reduction_add = REDUCTION(X=t0) ADD compute FLOAT -> virtual FLOAT [1, 64, 1, 1] stride [64, 1, 1, 1]
// t12_reduction_add = REDUCTION(X=t10_mul) ADD compute FLOAT -> virtual FLOAT [1, 64, 1, 1] stride [64, 1, 1, 1]
// t7_identity = POINTWISE(IN_0=t11_reduction_add) IDENTITY compute FLOAT -> output FLOAT [1, 64, 1, 1] stride [64, 1, 64, 64]
// t6_identity = POINTWISE(IN_0=t12_reduction_add) IDENTITY compute FLOAT -> output FLOAT [1, 64, 1, 1] stride [64, 1, 64, 64]
// t13_mul = POINTWISE(IN_0=t0, IN_1=t2) MUL compute FLOAT -> virtual FLOAT [3, 64, 13, 11] stride [9152, 143, 11, 1]
// t14_reduction_avg = REDUCTION(X=t13_mul) AVG compute FLOAT -> virtual FLOAT [3, 64, 1, 1] stride [64, 1, 1, 1]
// t15_mul = POINTWISE(IN_0=t10_mul, IN_1=t2) MUL compute FLOAT -> virtual FLOAT [3, 64, 13, 11] stride [9152, 143, 11, 1]
// t16_reduction_avg = REDUCTION(X=t15_mul) AVG compute FLOAT -> virtual FLOAT [3, 64, 1, 1] stride [64, 1, 1, 1]
// t17_mul = POINTWISE(IN_0=t0, IN_1=t2) MUL compute FLOAT -> virtual FLOAT [3, 64, 13, 11] stride [9152, 143, 11, 1]
// t18_sub = POINTWISE(IN_0=t17_mul, IN_1=t14_reduction_avg) SUB compute FLOAT -> virtual FLOAT [3, 64, 13, 11] stride [9152, 143, 11, 1]
// t19_mul = POINTWISE(IN_0=t9_mul, IN_1=t16_reduction_avg) MUL compute FLOAT -> virtual FLOAT [3, 64, 13, 11] stride [9152, 143, 11, 1]
// t20_sub = POINTWISE(IN_0=t18_sub, IN_1=t19_mul) SUB compute FLOAT -> virtual FLOAT [3, 64, 13, 11] stride [9152, 143, 11, 1]
// t5_mul = POINTWISE(IN_0=t20_sub, IN_1=t4) MUL compute FLOAT -> output HALF [3, 64, 13, 11] stride [9152, 1, 704, 64]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_shared_address

//@ fw_cp_async

//@ fw_prefetch

//@ fw_wait_for_previous_launch

//@ fw_cluster

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

//@ fw_sub

//@ fw_mul

//@ fw_identity

//@ fw_sum

//@ fw_lanes_total

//@ fw_tree

//@ program
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128, 6)
fw_channels(const float* __restrict__ p_t3,
  const float* __restrict__ p_t4,
  const float* __restrict__ p_t2,
  const fw_f16* __restrict__ p_t1,
  const fw_f16* __restrict__ p_t0,
  fw_f16* __restrict__ p_t5_mul) {
  fw_cluster_arrive();
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned thread = threadIdx.y * 2 + threadIdx.x, warp = thread / 32;
  const unsigned rank = blockIdx.x % 2, first = rank * 64 + threadIdx.y;
  const unsigned kept = blockIdx.x / 2 * 2 + threadIdx.x, channel = blockIdx.x / 2 * 16 + thread;
  if (thread < 16) {  // what is read later
    const unsigned i0 = channel / 64;
    const unsigned i1 = channel % 64;
    fw_prefetch(p_t2 + (i1));
    fw_prefetch(p_t3 + (i0 * 64 + i1));
    fw_prefetch(p_t4 + (i0 * 64 + i1));
  }
  float total_t14_reduction_avg = 0.0f;
  float total_t16_reduction_avg = 0.0f;
  unsigned char* const own = shared_bytes + 1088 + thread * 16;
  const auto place = [&](int tensor, int g) { return own + (g * 2 + tensor) * 2048; };
  {
    const unsigned i0 = kept / 8;
    const unsigned i2 = kept % 8 * 8;
#pragma unroll 4
    for (int g = 0; g < 2; ++g) {
      const unsigned r = first + g * 128;
      if (r >= 143) continue;
      const unsigned i1 = r;
      fw_cp_async<16>(fw_shared_address(place(0, g)), p_t0 + (i0 * 9152 + i1 * 64 + i2), true);
      fw_cp_async<16>(fw_shared_address(place(1, g)), p_t1 + (i0 * 9152 + i1 * 64 + i2), true);
    }
  }
  fw_cp_async_commit();
  fw_cp_async_wait<0>();
  fw_cluster_wait();
  if (thread < 16) {
    {
      const unsigned i0 = channel / 64;
      const unsigned i1 = channel % 64;
      const unsigned o_t2 = i1;
      const unsigned o_t3 = i0 * 64 + i1;
      const unsigned o_t4 = i0 * 64 + i1;
      const float t3 = fw_value(p_t3[o_t3]);
      const float t4 = fw_value(p_t4[o_t4]);
      const float t2 = fw_value(p_t2[o_t2]);
      shared[224 + thread] = t2;
      shared[240 + thread] = t3;
      shared[256 + thread] = t4;
    }
  }
  __syncthreads();
  {
    float each_t2[8];
    fw_load_vector(shared + 224 + threadIdx.x * 8, each_t2);
    float each_t3[8];
    fw_load_vector(shared + 240 + threadIdx.x * 8, each_t3);
    float each_t4[8];
    fw_load_vector(shared + 256 + threadIdx.x * 8, each_t4);
    float acc0[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) acc0[e] = 0.0f;
    float acc1[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) acc1[e] = 0.0f;
#pragma unroll 4
    for (int g = 0; g < 2; ++g) {
      const unsigned r = first + g * 128;
      if (r >= 143) continue;
      float v_t1[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(1, g)), v_t1);
      float v_t0[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(0, g)), v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t1 = v_t1[e];
        const float t3 = fw_value(each_t3[e]);
        const float t4 = fw_value(each_t4[e]);
        const float t0 = v_t0[e];
        const float t2 = fw_value(each_t2[e]);
        const float t8_sub = fw_sub(t1, t3);
        const float t9_mul = fw_mul(t8_sub, t4);
        const float t10_mul = fw_mul(t0, t9_mul);
        const float t13_mul = fw_mul(t0, t2);
        const float t15_mul = fw_mul(t10_mul, t2);
        acc0[e] = fw_sum(acc0[e], t13_mul);
        acc1[e] = fw_sum(acc1[e], t15_mul);
      }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      acc0[e] = fw_lanes_total<16, 2>(acc0[e], [](float a, float b) { return fw_sum(a, b); });
      if (thread % 32 < 2) shared[0 + warp * 16 + threadIdx.x * 8 + e] = acc0[e];
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      acc1[e] = fw_lanes_total<16, 2>(acc1[e], [](float a, float b) { return fw_sum(a, b); });
      if (thread % 32 < 2) shared[112 + warp * 16 + threadIdx.x * 8 + e] = acc1[e];
    }
    __syncthreads();
    if (thread < 16) {
      {
        float part = shared[0 + thread];
#pragma unroll
        for (int w = 1; w < 4; ++w) part = fw_sum(part, shared[0 + w * 16 + thread]);
#pragma unroll
        for (int block = 0; block < 2; ++block) fw_store_to_block(shared + 64 + rank * 16 + thread, block, part);
      }
      {
        float part = shared[112 + thread];
#pragma unroll
        for (int w = 1; w < 4; ++w) part = fw_sum(part, shared[112 + w * 16 + thread]);
#pragma unroll
        for (int block = 0; block < 2; ++block) fw_store_to_block(shared + 176 + rank * 16 + thread, block, part);
      }
    }
    fw_cluster_arrive();
    fw_cluster_wait();
  }
  if (thread < 16) {
    {
      float total = shared[64 + thread];
#pragma unroll
      for (int block = 1; block < 2; ++block) total = fw_sum(total, shared[64 + block * 16 + thread]);
      total_t14_reduction_avg = total / 143.0f;
      shared[96 + thread] = total_t14_reduction_avg;
    }
    {
      float total = shared[176 + thread];
#pragma unroll
      for (int block = 1; block < 2; ++block) total = fw_sum(total, shared[176 + block * 16 + thread]);
      total_t16_reduction_avg = total / 143.0f;
      shared[208 + thread] = total_t16_reduction_avg;
    }
    {
      const unsigned i0 = channel / 64;
      const unsigned i1 = channel % 64;
      const unsigned o_t2 = i1;
      const unsigned o_t3 = i0 * 64 + i1;
      const unsigned o_t4 = i0 * 64 + i1;
      const float t3 = fw_value(p_t3[o_t3]);
      const float t4 = fw_value(p_t4[o_t4]);
      const float t2 = fw_value(p_t2[o_t2]);
      shared[224 + thread] = t2;
      shared[240 + thread] = t3;
      shared[256 + thread] = t4;
    }
  }
  __syncthreads();
  float each_t14_reduction_avg[8];
  fw_load_vector(shared + 96 + threadIdx.x * 8, each_t14_reduction_avg);
  float each_t16_reduction_avg[8];
  fw_load_vector(shared + 208 + threadIdx.x * 8, each_t16_reduction_avg);
  {
    float each_t2[8];
    fw_load_vector(shared + 224 + threadIdx.x * 8, each_t2);
    float each_t3[8];
    fw_load_vector(shared + 240 + threadIdx.x * 8, each_t3);
    float each_t4[8];
    fw_load_vector(shared + 256 + threadIdx.x * 8, each_t4);
    const unsigned i0 = kept / 8;
    const unsigned i2 = kept % 8 * 8;
#pragma unroll 4
    for (int g = 0; g < 2; ++g) {
      const unsigned r = first + g * 128;
      if (r >= 143) continue;
      const unsigned i1 = r;
      const unsigned o_t5_mul = i0 * 9152 + i1 * 64 + i2;
      float v_t1[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(1, g)), v_t1);
      float v_t0[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(0, g)), v_t0);
      float w_t5_mul[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t1 = v_t1[e];
        const float t3 = fw_value(each_t3[e]);
        const float t4 = fw_value(each_t4[e]);
        const float t0 = v_t0[e];
        const float t2 = fw_value(each_t2[e]);
        const float t14_reduction_avg = fw_value(each_t14_reduction_avg[e]);
        const float t16_reduction_avg = fw_value(each_t16_reduction_avg[e]);
        const float t8_sub = fw_sub(t1, t3);
        const float t9_mul = fw_mul(t8_sub, t4);
        const float t17_mul = fw_mul(t0, t2);
        const float t18_sub = fw_sub(t17_mul, t14_reduction_avg);
        const float t19_mul = fw_mul(t9_mul, t16_reduction_avg);
        const float t20_sub = fw_sub(t18_sub, t19_mul);
        const float t5_mul = fw_mul(t20_sub, t4);
        w_t5_mul[e] = t5_mul;
      }
      fw_store_vector(reinterpret_cast<unsigned*>(p_t5_mul + o_t5_mul), fw_pack_f16(w_t5_mul));
    }
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(512, 2)
fw_reduction_1(const fw_f16* __restrict__ p_t1,
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

  const unsigned kept = blockIdx.x * 8 + threadIdx.x;
  const unsigned i2 = kept * 8;
  const unsigned last = kept < 8 ? 429 : 0;
  unsigned next = blockIdx.y * 256 + threadIdx.y;
  for (; next + 192 < last; next += 256) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g * 64;
      const unsigned i0 = r / 143;
      const unsigned i1 = r % 143;
      const unsigned o_t0 = i0 * 9152 + i1 * 64 + i2;
      const unsigned o_t1 = i0 * 9152 + i1 * 64 + i2;
      const unsigned o_t3 = i0 * 64 + i2;
      const unsigned o_t4 = i0 * 64 + i2;
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
    const unsigned i0 = r / 143;
    const unsigned i1 = r % 143;
    const unsigned o_t0 = i0 * 9152 + i1 * 64 + i2;
    const unsigned o_t1 = i0 * 9152 + i1 * 64 + i2;
    const unsigned o_t3 = i0 * 64 + i2;
    const unsigned o_t4 = i0 * 64 + i2;
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
  fw_tree<8>(shared, acc0, lane, threadIdx.y, 64, 8, 512, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 8) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[e * 512 + lane];
      p_t11_reduction_add[i2 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
  // acc1: one result for every kept vector, from all threads of the block
  fw_tree<8>(shared, acc1, lane, threadIdx.y, 64, 8, 512, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 8) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[e * 512 + lane];
      p_t12_reduction_add[i2 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
}

//@ program
extern "C" __global__ void __launch_bounds__(32)
fw_pointwise_2(const float* __restrict__ p_t11_reduction_add,
  const float* __restrict__ p_t12_reduction_add,
  float* __restrict__ p_t7_identity,
  float* __restrict__ p_t6_identity) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 16) {
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
