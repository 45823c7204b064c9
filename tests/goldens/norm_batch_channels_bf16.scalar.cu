// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input BFLOAT16 [2, 16, 40, 41] stride [26240, 1, 656, 16]
// t1 = input FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t2 = input FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t3 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t4 = input FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t5 = input FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t6 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t19 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t12_reduction_avg = REDUCTION(X=t0) AVG compute FLOAT -> virtual FLOAT [1, 16, 1, 1] stride [16, 1, 1, 1]
// t13_sub = POINTWISE(IN_0=t0, IN_1=t12_reduction_avg) SUB compute FLOAT -> virtual FLOAT [2, 16, 40, 41] stride [26240, 1640, 41, 1]
// t14_mul = POINTWISE(IN_0=t13_sub, IN_1=t13_sub) MUL compute FLOAT -> virtual FLOAT [2, 16, 40, 41] stride [26240, 1640, 41, 1]
// t15_reduction_avg = REDUCTION(X=t14_mul) AVG compute FLOAT -> virtual FLOAT [1, 16, 1, 1] stride [16, 1, 1, 1]
// t16_add = POINTWISE(IN_0=t15_reduction_avg, IN_1=t3) ADD compute FLOAT -> virtual FLOAT [1, 16, 1, 1] stride [16, 1, 1, 1]
// t17_sqrt = POINTWISE(IN_0=t16_add) SQRT compute FLOAT -> virtual FLOAT [1, 16, 1, 1] stride [16, 1, 1, 1]
// t18_reciprocal = POINTWISE(IN_0=t17_sqrt) RECIPROCAL compute FLOAT -> virtual FLOAT [1, 16, 1, 1] stride [16, 1, 1, 1]
// t8_identity = POINTWISE(IN_0=t12_reduction_avg) IDENTITY compute FLOAT -> output FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t20_mul = POINTWISE(IN_0=t15_reduction_avg, IN_1=t19) MUL compute FLOAT -> virtual FLOAT [1, 16, 1, 1] stride [16, 1, 1, 1]
// t21_sub = POINTWISE(IN_0=t12_reduction_avg, IN_1=t4) SUB compute FLOAT -> virtual FLOAT [1, 16, 1, 1] stride [16, 1, 1, 1]
// t22_mul = POINTWISE(IN_0=t21_sub, IN_1=t6) MUL compute FLOAT -> virtual FLOAT [1, 16, 1, 1] stride [16, 1, 1, 1]
// t10_add = POINTWISE(IN_0=t4, IN_1=t22_mul) ADD compute FLOAT -> output FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t23_sub = POINTWISE(IN_0=t20_mul, IN_1=t5) SUB compute FLOAT -> virtual FLOAT [1, 16, 1, 1] stride [16, 1, 1, 1]
// t24_mul = POINTWISE(IN_0=t23_sub, IN_1=t6) MUL compute FLOAT -> virtual FLOAT [1, 16, 1, 1] stride [16, 1, 1, 1]
// t11_add = POINTWISE(IN_0=t5, IN_1=t24_mul) ADD compute FLOAT -> output FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t9_identity = POINTWISE(IN_0=t18_reciprocal) IDENTITY compute FLOAT -> output FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t25_sub = POINTWISE(IN_0=t0, IN_1=t12_reduction_avg) SUB compute FLOAT -> virtual FLOAT [2, 16, 40, 41] stride [26240, 1640, 41, 1]
// t26_mul = POINTWISE(IN_0=t25_sub, IN_1=t18_reciprocal) MUL compute FLOAT -> virtual FLOAT [2, 16, 40, 41] stride [26240, 1640, 41, 1]
// t27_mul = POINTWISE(IN_0=t26_mul, IN_1=t1) MUL compute FLOAT -> virtual FLOAT [2, 16, 40, 41] stride [26240, 1640, 41, 1]
// t7_add = POINTWISE(IN_0=t27_mul, IN_1=t2) ADD compute FLOAT -> output BFLOAT16 [2, 16, 40, 41] stride [26240, 1, 656, 16]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_bf16_bits

//@ fw_shared_address

//@ fw_cp_async

//@ fw_prefetch

//@ fw_wait_for_previous_launch

//@ fw_cluster

//@ fw_f32

//@ fw_bf16

//@ fw_vector

//@ fw_pack_bf16

//@ fw_add

//@ fw_sub

//@ fw_mul

//@ fw_sqrt

//@ fw_reciprocal

//@ fw_identity

//@ fw_sum

//@ fw_lanes_total

extern "C" __global__ void __cluster_dims__(16, 1, 1) __launch_bounds__(128, 8)
fw_channels(const fw_bf16* __restrict__ p_t0,
  const float* __restrict__ p_t4,
  const float t6,
  const float t3,
  const float t19,
  const float* __restrict__ p_t5,
  const float* __restrict__ p_t1,
  const float* __restrict__ p_t2,
  float* __restrict__ p_t8_identity,
  float* __restrict__ p_t10_add,
  float* __restrict__ p_t11_add,
  float* __restrict__ p_t9_identity,
  fw_bf16* __restrict__ p_t7_add) {
  fw_cluster_arrive();
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned thread = threadIdx.y * 2 + threadIdx.x, warp = thread / 32;
  const unsigned rank = blockIdx.x % 16, first = rank * 64 + threadIdx.y;
  const unsigned kept = blockIdx.x / 16 * 2 + threadIdx.x, channel = blockIdx.x / 16 * 16 + thread;
  if (thread < 16) {  // what is read later
    const unsigned i0 = channel;
    fw_prefetch(p_t1 + (i0));
    fw_prefetch(p_t2 + (i0));
    fw_prefetch(p_t4 + (i0));
    fw_prefetch(p_t5 + (i0));
  }
  float total_t12_reduction_avg = 0.0f;
  float total_t15_reduction_avg = 0.0f;
  unsigned char* const own = shared_bytes + 2880 + thread * 16;
  const auto place = [&](int tensor, int g) { return own + (g * 1 + tensor) * 2048; };
  {
    const unsigned i1 = kept * 8;
#pragma unroll 4
    for (int g = 0; g < 4; ++g) {
      const unsigned r = first + g * 1024;
      if (r >= 3280) continue;
      const unsigned i0 = r;
      fw_cp_async<16>(fw_shared_address(place(0, g)), p_t0 + (i0 * 16 + i1), true);
    }
  }
  fw_cp_async_commit();
  fw_cp_async_wait<0>();
  fw_cluster_wait();
  {
    float acc0[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) acc0[e] = 0.0f;
#pragma unroll 4
    for (int g = 0; g < 4; ++g) {
      const unsigned r = first + g * 1024;
      if (r >= 3280) continue;
      float v_t0[8];
      fw_load_vector(reinterpret_cast<const fw_bf16*>(place(0, g)), v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        acc0[e] = fw_sum(acc0[e], t0);
      }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      acc0[e] = fw_lanes_total<16, 2>(acc0[e], [](float a, float b) { return fw_sum(a, b); });
      if (thread % 32 < 2) shared[0 + warp * 16 + threadIdx.x * 8 + e] = acc0[e];
    }
    __syncthreads();
    if (thread < 16) {
      {
        float part = shared[0 + thread];
#pragma unroll
        for (int w = 1; w < 4; ++w) part = fw_sum(part, shared[0 + w * 16 + thread]);
#pragma unroll
        for (int block = 0; block < 16; ++block) fw_store_to_block(shared + 64 + rank * 16 + thread, block, part);
      }
    }
    fw_cluster_arrive();
    fw_cluster_wait();
  }
  if (thread < 16) {
    {
      float total = shared[64 + thread];
#pragma unroll
      for (int block = 1; block < 16; ++block) total = fw_sum(total, shared[64 + block * 16 + thread]);
      total_t12_reduction_avg = total / 3280.0f;
      shared[320 + thread] = total_t12_reduction_avg;
    }
    if (rank == 0) {
      const unsigned i0 = channel;
      const unsigned o_t4 = i0;
      const unsigned o_t8_identity = i0;
      const unsigned o_t10_add = i0;
      const float t12_reduction_avg = fw_value(total_t12_reduction_avg);
      const float t4 = fw_value(p_t4[o_t4]);
      const float t8_identity = fw_identity(t12_reduction_avg);
      const float t21_sub = fw_sub(t12_reduction_avg, t4);
      const float t22_mul = fw_mul(t21_sub, t6);
      const float t10_add = fw_add(t4, t22_mul);
      p_t8_identity[o_t8_identity] = fw_to_f32(t8_identity);
      p_t10_add[o_t10_add] = fw_to_f32(t10_add);
    }
  }
  __syncthreads();
  float each_t12_reduction_avg[8];
  fw_load_vector(shared + 320 + threadIdx.x * 8, each_t12_reduction_avg);
  {
    float acc0[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) acc0[e] = 0.0f;
#pragma unroll 4
    for (int g = 0; g < 4; ++g) {
      const unsigned r = first + g * 1024;
      if (r >= 3280) continue;
      float v_t0[8];
      fw_load_vector(reinterpret_cast<const fw_bf16*>(place(0, g)), v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        const float t12_reduction_avg = fw_value(each_t12_reduction_avg[e]);
        const float t13_sub = fw_sub(t0, t12_reduction_avg);
        const float t14_mul = fw_mul(t13_sub, t13_sub);
        acc0[e] = fw_sum(acc0[e], t14_mul);
      }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      acc0[e] = fw_lanes_total<16, 2>(acc0[e], [](float a, float b) { return fw_sum(a, b); });
      if (thread % 32 < 2) shared[336 + warp * 16 + threadIdx.x * 8 + e] = acc0[e];
    }
    __syncthreads();
    if (thread < 16) {
      {
        float part = shared[336 + thread];
#pragma unroll
        for (int w = 1; w < 4; ++w) part = fw_sum(part, shared[336 + w * 16 + thread]);
#pragma unroll
        for (int block = 0; block < 16; ++block) fw_store_to_block(shared + 400 + rank * 16 + thread, block, part);
      }
    }
    fw_cluster_arrive();
    fw_cluster_wait();
  }
  if (thread < 16) {
    {
      float total = shared[400 + thread];
#pragma unroll
      for (int block = 1; block < 16; ++block) total = fw_sum(total, shared[400 + block * 16 + thread]);
      total_t15_reduction_avg = total / 3280.0f;
      shared[656 + thread] = total_t15_reduction_avg;
    }
    if (rank == 0) {
      const unsigned i0 = channel;
      const unsigned o_t5 = i0;
      const unsigned o_t9_identity = i0;
      const unsigned o_t11_add = i0;
      const float t15_reduction_avg = fw_value(total_t15_reduction_avg);
      const float t5 = fw_value(p_t5[o_t5]);
      const float t16_add = fw_add(t15_reduction_avg, t3);
      const float t17_sqrt = fw_sqrt(t16_add);
      const float t18_reciprocal = fw_reciprocal(t17_sqrt);
      const float t20_mul = fw_mul(t15_reduction_avg, t19);
      const float t23_sub = fw_sub(t20_mul, t5);
      const float t24_mul = fw_mul(t23_sub, t6);
      const float t11_add = fw_add(t5, t24_mul);
      const float t9_identity = fw_identity(t18_reciprocal);
      p_t11_add[o_t11_add] = fw_to_f32(t11_add);
      p_t9_identity[o_t9_identity] = fw_to_f32(t9_identity);
    }
    {
      const unsigned i0 = channel;
      const unsigned o_t1 = i0;
      const unsigned o_t2 = i0;
      const float t15_reduction_avg = fw_value(total_t15_reduction_avg);
      const float t1 = fw_value(p_t1[o_t1]);
      const float t2 = fw_value(p_t2[o_t2]);
      const float t16_add = fw_add(t15_reduction_avg, t3);
      const float t17_sqrt = fw_sqrt(t16_add);
      const float t18_reciprocal = fw_reciprocal(t17_sqrt);
      shared[672 + thread] = t1;
      shared[688 + thread] = t2;
      shared[704 + thread] = t18_reciprocal;
    }
  }
  __syncthreads();
  float each_t15_reduction_avg[8];
  fw_load_vector(shared + 656 + threadIdx.x * 8, each_t15_reduction_avg);
  {
    float each_t1[8];
    fw_load_vector(shared + 672 + threadIdx.x * 8, each_t1);
    float each_t2[8];
    fw_load_vector(shared + 688 + threadIdx.x * 8, each_t2);
    float each_t18_reciprocal[8];
    fw_load_vector(shared + 704 + threadIdx.x * 8, each_t18_reciprocal);
    const unsigned i1 = kept * 8;
#pragma unroll 4
    for (int g = 0; g < 4; ++g) {
      const unsigned r = first + g * 1024;
      if (r >= 3280) continue;
      const unsigned i0 = r;
      const unsigned o_t7_add = i0 * 16 + i1;
      float v_t0[8];
      fw_load_vector(reinterpret_cast<const fw_bf16*>(place(0, g)), v_t0);
      float w_t7_add[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        const float t12_reduction_avg = fw_value(each_t12_reduction_avg[e]);
        const float t18_reciprocal = fw_value(each_t18_reciprocal[e]);
        const float t1 = fw_value(each_t1[e]);
        const float t2 = fw_value(each_t2[e]);
        const float t25_sub = fw_sub(t0, t12_reduction_avg);
        const float t26_mul = fw_mul(t25_sub, t18_reciprocal);
        const float t27_mul = fw_mul(t26_mul, t1);
        const float t7_add = fw_add(t27_mul, t2);
        w_t7_add[e] = t7_add;
      }
      fw_store_vector(reinterpret_cast<unsigned*>(p_t7_add + o_t7_add), fw_pack_bf16(w_t7_add));
    }
  }
}
