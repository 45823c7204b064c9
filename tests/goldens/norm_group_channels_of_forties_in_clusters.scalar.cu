// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [2, 32, 40, 8, 8] stride [81920, 40, 1, 10240, 1280]
// t1 = scalar FLOAT [1, 1, 1, 1, 1] stride [1, 1, 1, 1, 1]
// t3_reduction_avg = REDUCTION(X=t0) AVG compute FLOAT -> virtual FLOAT [2, 32, 1, 1, 1] stride [32, 1, 1, 1, 1]
// t4_sub = POINTWISE(IN_0=t0, IN_1=t3_reduction_avg) SUB compute FLOAT -> virtual FLOAT [2, 32, 40, 8, 8] stride [81920, 2560, 64, 8, 1]
// t5_mul = POINTWISE(IN_0=t4_sub, IN_1=t4_sub) MUL compute FLOAT -> virtual FLOAT [2, 32, 40, 8, 8] stride [81920, 2560, 64, 8, 1]
// t6_reduction_avg = REDUCTION(X=t5_mul) AVG compute FLOAT -> virtual FLOAT [2, 32, 1, 1, 1] stride [32, 1, 1, 1, 1]
// t7_add = POINTWISE(IN_0=t6_reduction_avg, IN_1=t1) ADD compute FLOAT -> virtual FLOAT [2, 32, 1, 1, 1] stride [32, 1, 1, 1, 1]
// t8_sqrt = POINTWISE(IN_0=t7_add) SQRT compute FLOAT -> virtual FLOAT [2, 32, 1, 1, 1] stride [32, 1, 1, 1, 1]
// t9_reciprocal = POINTWISE(IN_0=t8_sqrt) RECIPROCAL compute FLOAT -> virtual FLOAT [2, 32, 1, 1, 1] stride [32, 1, 1, 1, 1]
// t10_sub = POINTWISE(IN_0=t0, IN_1=t3_reduction_avg) SUB compute FLOAT -> virtual FLOAT [2, 32, 40, 8, 8] stride [81920, 2560, 64, 8, 1]
// t11_mul = POINTWISE(IN_0=t10_sub, IN_1=t9_reciprocal) MUL compute FLOAT -> virtual FLOAT [2, 32, 40, 8, 8] stride [81920, 2560, 64, 8, 1]
// t2_identity = POINTWISE(IN_0=t11_mul) IDENTITY compute FLOAT -> output HALF [2, 32, 40, 8, 8] stride [81920, 40, 1, 10240, 1280]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_shared_address

//@ fw_cp_async

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

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(125, 8)
fw_channels(const fw_f16* __restrict__ p_t0, const float t1, fw_f16* __restrict__ p_t2_identity) {
  fw_cluster_arrive();
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned thread = threadIdx.y * 5 + threadIdx.x;
  const unsigned rank = blockIdx.x % 2, first = rank * 25 + threadIdx.y;
  const unsigned kept = blockIdx.x / 2 * 5 + threadIdx.x, channel = blockIdx.x / 2 * 40 + thread;
  float total_t3_reduction_avg = 0.0f;
  float total_t6_reduction_avg = 0.0f;
  unsigned char* const own = shared_bytes + 1248 + thread * 16;
  const auto place = [&](int tensor, int g) { return own + (g * 1 + tensor) * 2000; };
  {
    const unsigned i0 = kept / 160;
    const unsigned i2 = kept / 5 % 32;
    const unsigned i3 = kept % 5 * 8;
#pragma unroll 4
    for (int g = 0; g < 2; ++g) {
      const unsigned r = first + g * 50;
      if (r >= 64) continue;
      const unsigned i1 = r;
      fw_cp_async<16>(fw_shared_address(place(0, g)), p_t0 + (i0 * 81920 + i1 * 1280 + i2 * 40 + i3), true);
    }
  }
  fw_cp_async_commit();
  fw_cp_async_wait<0>();
  fw_cluster_wait();
  {
    float acc0[1];
#pragma unroll
    for (int e = 0; e < 1; ++e) acc0[e] = 0.0f;
#pragma unroll 4
    for (int g = 0; g < 2; ++g) {
      const unsigned r = first + g * 50;
      if (r >= 64) continue;
      float v_t0[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(0, g)), v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        acc0[0] = fw_sum(acc0[0], t0);
      }
    }
    shared[0 + thread] = acc0[0];
    __syncthreads();
    if (thread < 5) {
      {
        float part = shared[0 + thread];
#pragma unroll
        for (int y = 1; y < 25; ++y) part = fw_sum(part, shared[0 + y * 5 + thread]);
        shared[125 + thread] = part;
      }
    }
    __syncthreads();
    if (thread < 1) {
      {
        float part = shared[125 + thread * 5];
#pragma unroll
        for (int x = 1; x < 5; ++x) part = fw_sum(part, shared[125 + thread * 5 + x]);
#pragma unroll
        for (int block = 0; block < 2; ++block) fw_store_to_block(shared + 132 + rank * 1 + thread, block, part);
      }
    }
    fw_cluster_arrive();
    fw_cluster_wait();
  }
  if (thread < 40) {
    {
      float total = shared[132 + thread / 40];
#pragma unroll
      for (int block = 1; block < 2; ++block) total = fw_sum(total, shared[132 + block * 1 + thread / 40]);
      total_t3_reduction_avg = total / 2560.0f;
      if (thread % 40 == 0) shared[134 + thread / 40] = total_t3_reduction_avg;
    }
  }
  __syncthreads();
  const float each_t3_reduction_avg[1] = {shared[134 + threadIdx.x / 5]};
  {
    float acc0[1];
#pragma unroll
    for (int e = 0; e < 1; ++e) acc0[e] = 0.0f;
#pragma unroll 4
    for (int g = 0; g < 2; ++g) {
      const unsigned r = first + g * 50;
      if (r >= 64) continue;
      float v_t0[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(0, g)), v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        const float t3_reduction_avg = fw_value(each_t3_reduction_avg[0]);
        const float t4_sub = fw_sub(t0, t3_reduction_avg);
        const float t5_mul = fw_mul(t4_sub, t4_sub);
        acc0[0] = fw_sum(acc0[0], t5_mul);
      }
    }
    shared[136 + thread] = acc0[0];
    __syncthreads();
    if (thread < 5) {
      {
        float part = shared[136 + thread];
#pragma unroll
        for (int y = 1; y < 25; ++y) part = fw_sum(part, shared[136 + y * 5 + thread]);
        shared[261 + thread] = part;
      }
    }
    __syncthreads();
    if (thread < 1) {
      {
        float part = shared[261 + thread * 5];
#pragma unroll
        for (int x = 1; x < 5; ++x) part = fw_sum(part, shared[261 + thread * 5 + x]);
#pragma unroll
        for (int block = 0; block < 2; ++block) fw_store_to_block(shared + 268 + rank * 1 + thread, block, part);
      }
    }
    fw_cluster_arrive();
    fw_cluster_wait();
  }
  if (thread < 40) {
    {
      float total = shared[268 + thread / 40];
#pragma unroll
      for (int block = 1; block < 2; ++block) total = fw_sum(total, shared[268 + block * 1 + thread / 40]);
      total_t6_reduction_avg = total / 2560.0f;
      if (thread % 40 == 0) shared[270 + thread / 40] = total_t6_reduction_avg;
    }
    {
      const float t6_reduction_avg = fw_value(total_t6_reduction_avg);
      const float t7_add = fw_add(t6_reduction_avg, t1);
      const float t8_sqrt = fw_sqrt(t7_add);
      const float t9_reciprocal = fw_reciprocal(t8_sqrt);
      shared[272 + thread] = t9_reciprocal;
    }
  }
  __syncthreads();
  const float each_t6_reduction_avg[1] = {shared[270 + threadIdx.x / 5]};
  {
    float each_t9_reciprocal[8];
    fw_load_vector(shared + 272 + threadIdx.x * 8, each_t9_reciprocal);
    const unsigned i0 = kept / 160;
    const unsigned i2 = kept / 5 % 32;
    const unsigned i3 = kept % 5 * 8;
#pragma unroll 4
    for (int g = 0; g < 2; ++g) {
      const unsigned r = first + g * 50;
      if (r >= 64) continue;
      const unsigned i1 = r;
      const unsigned o_t2_identity = i0 * 81920 + i1 * 1280 + i2 * 40 + i3;
      float v_t0[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(0, g)), v_t0);
      float w_t2_identity[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        const float t3_reduction_avg = fw_value(each_t3_reduction_avg[0]);
        const float t9_reciprocal = fw_value(each_t9_reciprocal[e]);
        const float t10_sub = fw_sub(t0, t3_reduction_avg);
        const float t11_mul = fw_mul(t10_sub, t9_reciprocal);
        const float t2_identity = fw_identity(t11_mul);
        w_t2_identity[e] = t2_identity;
      }
      fw_store_vector(reinterpret_cast<unsigned*>(p_t2_identity + o_t2_identity), fw_pack_f16(w_t2_identity));
    }
  }
}
