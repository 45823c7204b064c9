// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [2, 32, 12, 13] stride [4992, 1, 416, 32]
// t1 = input FLOAT [1, 32, 1, 1] stride [32, 1, 32, 32]
// t2 = input FLOAT [1, 32, 1, 1] stride [32, 1, 32, 32]
// t3 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t7 = input HALF [2, 32, 12, 13] stride [4992, 1, 416, 32]
// t10 = input HALF [2, 32, 12, 13] stride [4992, 1, 416, 32]
// t12_reduction_avg = REDUCTION(X=t0) AVG compute FLOAT -> virtual FLOAT [1, 32, 1, 1] stride [32, 1, 1, 1]
// t13_sub = POINTWISE(IN_0=t0, IN_1=t12_reduction_avg) SUB compute FLOAT -> virtual FLOAT [2, 32, 12, 13] stride [4992, 156, 13, 1]
// t14_mul = POINTWISE(IN_0=t13_sub, IN_1=t13_sub) MUL compute FLOAT -> virtual FLOAT [2, 32, 12, 13] stride [4992, 156, 13, 1]
// t15_reduction_avg = REDUCTION(X=t14_mul) AVG compute FLOAT -> virtual FLOAT [1, 32, 1, 1] stride [32, 1, 1, 1]
// t16_add = POINTWISE(IN_0=t15_reduction_avg, IN_1=t3) ADD compute FLOAT -> virtual FLOAT [1, 32, 1, 1] stride [32, 1, 1, 1]
// t17_sqrt = POINTWISE(IN_0=t16_add) SQRT compute FLOAT -> virtual FLOAT [1, 32, 1, 1] stride [32, 1, 1, 1]
// t18_reciprocal = POINTWISE(IN_0=t17_sqrt) RECIPROCAL compute FLOAT -> virtual FLOAT [1, 32, 1, 1] stride [32, 1, 1, 1]
// t5_identity = POINTWISE(IN_0=t12_reduction_avg) IDENTITY compute FLOAT -> output FLOAT [1, 32, 1, 1] stride [32, 1, 32, 32]
// t6_identity = POINTWISE(IN_0=t18_reciprocal) IDENTITY compute FLOAT -> output FLOAT [1, 32, 1, 1] stride [32, 1, 32, 32]
// t19_sub = POINTWISE(IN_0=t0, IN_1=t12_reduction_avg) SUB compute FLOAT -> virtual FLOAT [2, 32, 12, 13] stride [4992, 156, 13, 1]
// t20_mul = POINTWISE(IN_0=t19_sub, IN_1=t18_reciprocal) MUL compute FLOAT -> virtual FLOAT [2, 32, 12, 13] stride [4992, 156, 13, 1]
// t21_mul = POINTWISE(IN_0=t20_mul, IN_1=t1) MUL compute FLOAT -> virtual FLOAT [2, 32, 12, 13] stride [4992, 156, 13, 1]
// t4_add = POINTWISE(IN_0=t21_mul, IN_1=t2) ADD compute FLOAT -> virtual FLOAT [2, 32, 12, 13] stride [4992, 1, 416, 32]
// t8_add = POINTWISE(IN_0=t4_add, IN_1=t7) ADD compute FLOAT -> virtual FLOAT [2, 32, 12, 13] stride [4992, 1, 416, 32]
// t9_relu_fwd = POINTWISE(IN_0=t8_add) RELU_FWD compute FLOAT -> output HALF [2, 32, 12, 13] stride [4992, 1, 416, 32]
// t11_cmp_gt = POINTWISE(IN_0=t9_relu_fwd, IN_1=t10) CMP_GT compute FLOAT -> output BOOLEAN [2, 32, 12, 13] stride [4992, 1, 416, 32]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_shared_address

//@ fw_cp_async

//@ fw_prefetch

//@ fw_wait_for_previous_launch

//@ fw_cluster

//@ fw_f32

//@ fw_bool

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

//@ fw_add

//@ fw_sub

//@ fw_mul

//@ fw_sqrt

//@ fw_reciprocal

//@ fw_relu

//@ fw_cmp_gt

//@ fw_identity

//@ fw_sum

//@ fw_lanes_total

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(128, 8)
fw_channels(const fw_f16* __restrict__ p_t0,
  const float t3,
  const float* __restrict__ p_t1,
  const float* __restrict__ p_t2,
  const fw_f16* __restrict__ p_t7,
  const fw_f16* __restrict__ p_t10,
  float* __restrict__ p_t5_identity,
  float* __restrict__ p_t6_identity,
  fw_f16* __restrict__ p_t9_relu_fwd,
  unsigned char* __restrict__ p_t11_cmp_gt) {
  fw_cluster_arrive();
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned thread = threadIdx.y * 2 + threadIdx.x, warp = thread / 32;
  const unsigned rank = blockIdx.x % 4, first = rank * 64 + threadIdx.y;
  const unsigned kept = blockIdx.x / 4 * 2 + threadIdx.x, channel = blockIdx.x / 4 * 16 + thread;
  if (thread < 16) {  // what is read later
    const unsigned i0 = channel;
    fw_prefetch(p_t1 + (i0));
    fw_prefetch(p_t2 + (i0));
  }
  float total_t12_reduction_avg = 0.0f;
  float total_t15_reduction_avg = 0.0f;
  unsigned char* const own = shared_bytes + 1344 + thread * 16;
  const auto place = [&](int tensor, int g) { return own + (g * 3 + tensor) * 2048; };
  {
    const unsigned i1 = kept * 8;
#pragma unroll 4
    for (int g = 0; g < 2; ++g) {
      const unsigned r = first + g * 256;
      if (r >= 312) continue;
      const unsigned i0 = r;
      fw_cp_async<16>(fw_shared_address(place(0, g)), p_t0 + (i0 * 32 + i1), true);
      fw_cp_async<16>(fw_shared_address(place(1, g)), p_t7 + (i0 * 32 + i1), true);
      fw_cp_async<16>(fw_shared_address(place(2, g)), p_t10 + (i0 * 32 + i1), true);
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
    for (int g = 0; g < 2; ++g) {
      const unsigned r = first + g * 256;
      if (r >= 312) continue;
      float v_t0[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(0, g)), v_t0);
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
        for (int block = 0; block < 4; ++block) fw_store_to_block(shared + 64 + rank * 16 + thread, block, part);
      }
    }
    fw_cluster_arrive();
    fw_cluster_wait();
  }
  if (thread < 16) {
    {
      float total = shared[64 + thread];
#pragma unroll
      for (int block = 1; block < 4; ++block) total = fw_sum(total, shared[64 + block * 16 + thread]);
      total_t12_reduction_avg = total / 312.0f;
      shared[128 + thread] = total_t12_reduction_avg;
    }
    if (rank == 0) {
      const unsigned i0 = channel;
      const unsigned o_t5_identity = i0;
      const float t12_reduction_avg = fw_value(total_t12_reduction_avg);
      const float t5_identity = fw_identity(t12_reduction_avg);
      p_t5_identity[o_t5_identity] = fw_to_f32(t5_identity);
    }
  }
  __syncthreads();
  float each_t12_reduction_avg[8];
  fw_load_vector(shared + 128 + threadIdx.x * 8, each_t12_reduction_avg);
  {
    float acc0[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) acc0[e] = 0.0f;
#pragma unroll 4
    for (int g = 0; g < 2; ++g) {
      const unsigned r = first + g * 256;
      if (r >= 312) continue;
      float v_t0[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(0, g)), v_t0);
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
      if (thread % 32 < 2) shared[144 + warp * 16 + threadIdx.x * 8 + e] = acc0[e];
    }
    __syncthreads();
    if (thread < 16) {
      {
        float part = shared[144 + thread];
#pragma unroll
        for (int w = 1; w < 4; ++w) part = fw_sum(part, shared[144 + w * 16 + thread]);
#pragma unroll
        for (int block = 0; block < 4; ++block) fw_store_to_block(shared + 208 + rank * 16 + thread, block, part);
      }
    }
    fw_cluster_arrive();
    fw_cluster_wait();
  }
  if (thread < 16) {
    {
      float total = shared[208 + thread];
#pragma unroll
      for (int block = 1; block < 4; ++block) total = fw_sum(total, shared[208 + block * 16 + thread]);
      total_t15_reduction_avg = total / 312.0f;
      shared[272 + thread] = total_t15_reduction_avg;
    }
    if (rank == 0) {
      const unsigned i0 = channel;
      const unsigned o_t6_identity = i0;
      const float t15_reduction_avg = fw_value(total_t15_reduction_avg);
      const float t16_add = fw_add(t15_reduction_avg, t3);
      const float t17_sqrt = fw_sqrt(t16_add);
      const float t18_reciprocal = fw_reciprocal(t17_sqrt);
      const float t6_identity = fw_identity(t18_reciprocal);
      p_t6_identity[o_t6_identity] = fw_to_f32(t6_identity);
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
      shared[288 + thread] = t1;
      shared[304 + thread] = t2;
      shared[320 + thread] = t18_reciprocal;
    }
  }
  __syncthreads();
  float each_t15_reduction_avg[8];
  fw_load_vector(shared + 272 + threadIdx.x * 8, each_t15_reduction_avg);
  {
    float each_t1[8];
    fw_load_vector(shared + 288 + threadIdx.x * 8, each_t1);
    float each_t2[8];
    fw_load_vector(shared + 304 + threadIdx.x * 8, each_t2);
    float each_t18_reciprocal[8];
    fw_load_vector(shared + 320 + threadIdx.x * 8, each_t18_reciprocal);
    const unsigned i1 = kept * 8;
#pragma unroll 4
    for (int g = 0; g < 2; ++g) {
      const unsigned r = first + g * 256;
      if (r >= 312) continue;
      const unsigned i0 = r;
      const unsigned o_t9_relu_fwd = i0 * 32 + i1;
      const unsigned o_t11_cmp_gt = i0 * 32 + i1;
      float v_t0[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(0, g)), v_t0);
      float v_t7[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(1, g)), v_t7);
      float v_t10[8];
      fw_load_vector(reinterpret_cast<const fw_f16*>(place(2, g)), v_t10);
      float w_t9_relu_fwd[8];
      unsigned w_t11_cmp_gt = 0;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        const float t12_reduction_avg = fw_value(each_t12_reduction_avg[e]);
        const float t18_reciprocal = fw_value(each_t18_reciprocal[e]);
        const float t1 = fw_value(each_t1[e]);
        const float t2 = fw_value(each_t2[e]);
        const float t7 = v_t7[e];
        const float t10 = v_t10[e];
        const float t19_sub = fw_sub(t0, t12_reduction_avg);
        const float t20_mul = fw_mul(t19_sub, t18_reciprocal);
        const float t21_mul = fw_mul(t20_mul, t1);
        const float t4_add = fw_add(t21_mul, t2);
        const float t8_add = fw_add(t4_add, t7);
        const float t9_relu_fwd = fw_value(fw_to_f16(fw_relu(t8_add, 0.0f, __uint_as_float(0x7f800000u), 0.0f)));
        const int t11_cmp_gt = fw_cmp_gt(t9_relu_fwd, t10);
        w_t9_relu_fwd[e] = t9_relu_fwd;
        w_t11_cmp_gt |= unsigned(fw_to_bool(t11_cmp_gt)) << e;
      }
      fw_store_vector(reinterpret_cast<unsigned*>(p_t9_relu_fwd + o_t9_relu_fwd), fw_pack_f16(w_t9_relu_fwd));
      p_t11_cmp_gt[o_t11_cmp_gt >> 3] = (unsigned char)w_t11_cmp_gt;
    }
  }
}
