// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input BFLOAT16 [5000, 96, 1, 1] stride [96, 1, 96, 96]
// t1 = input BFLOAT16 [5000, 96, 1, 1] stride [96, 1, 96, 96]
// t2 = input FLOAT [5000, 1, 1, 1] stride [1, 1, 1, 1]
// t3 = input FLOAT [5000, 1, 1, 1] stride [1, 1, 1, 1]
// t4 = input BFLOAT16 [1, 96, 1, 1] stride [96, 1, 96, 96]
// t8_sub = POINTWISE(IN_0=t1, IN_1=t2) SUB compute FLOAT -> virtual FLOAT [5000, 96, 1, 1] stride [96, 1, 1, 1]
// t9_mul = POINTWISE(IN_0=t8_sub, IN_1=t3) MUL compute FLOAT -> virtual FLOAT [5000, 96, 1, 1] stride [96, 1, 1, 1]
// t10_mul = POINTWISE(IN_0=t0, IN_1=t9_mul) MUL compute FLOAT -> virtual FLOAT [5000, 96, 1, 1] stride [96, 1, 1, 1]
// t11_reduction_add = REDUCTION(X=t0) ADD compute FLOAT -> virtual FLOAT [1, 96, 1, 1] stride [96, 1, 1, 1]
// t12_reduction_add = REDUCTION(X=t10_mul) ADD compute FLOAT -> virtual FLOAT [1, 96, 1, 1] stride [96, 1, 1, 1]
// t7_identity = POINTWISE(IN_0=t11_reduction_add) IDENTITY compute FLOAT -> output BFLOAT16 [1, 96, 1, 1] stride [96, 1, 96, 96]
// t6_identity = POINTWISE(IN_0=t12_reduction_add) IDENTITY compute FLOAT -> output BFLOAT16 [1, 96, 1, 1] stride [96, 1, 96, 96]
// t13_mul = POINTWISE(IN_0=t0, IN_1=t4) MUL compute FLOAT -> virtual FLOAT [5000, 96, 1, 1] stride [96, 1, 1, 1]
// t14_reduction_avg = REDUCTION(X=t13_mul) AVG compute FLOAT -> virtual FLOAT [5000, 1, 1, 1] stride [1, 1, 1, 1]
// t15_mul = POINTWISE(IN_0=t10_mul, IN_1=t4) MUL compute FLOAT -> virtual FLOAT [5000, 96, 1, 1] stride [96, 1, 1, 1]
// t16_reduction_avg = REDUCTION(X=t15_mul) AVG compute FLOAT -> virtual FLOAT [5000, 1, 1, 1] stride [1, 1, 1, 1]
// t17_mul = POINTWISE(IN_0=t0, IN_1=t4) MUL compute FLOAT -> virtual FLOAT [5000, 96, 1, 1] stride [96, 1, 1, 1]
// t18_sub = POINTWISE(IN_0=t17_mul, IN_1=t14_reduction_avg) SUB compute FLOAT -> virtual FLOAT [5000, 96, 1, 1] stride [96, 1, 1, 1]
// t19_mul = POINTWISE(IN_0=t9_mul, IN_1=t16_reduction_avg) MUL compute FLOAT -> virtual FLOAT [5000, 96, 1, 1] stride [96, 1, 1, 1]
// t20_sub = POINTWISE(IN_0=t18_sub, IN_1=t19_mul) SUB compute FLOAT -> virtual FLOAT [5000, 96, 1, 1] stride [96, 1, 1, 1]
// t5_mul = POINTWISE(IN_0=t20_sub, IN_1=t3) MUL compute FLOAT -> output BFLOAT16 [5000, 96, 1, 1] stride [96, 1, 96, 96]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_bf16_bits

//@ fw_shared_address

//@ fw_cp_async

//@ fw_let_next_launch_start

//@ fw_wait_for_previous_launch

//@ fw_f32

//@ fw_bf16

//@ fw_vector

//@ fw_pack_bf16

//@ fw_sub

//@ fw_mul

//@ fw_identity

//@ fw_sum

//@ fw_lanes_total

//@ fw_tree

//@ program
extern "C" __global__ void __launch_bounds__(128, 4)
fw_rows(const fw_bf16* __restrict__ p_t1,
  const float* __restrict__ p_t2,
  const float* __restrict__ p_t3,
  const fw_bf16* __restrict__ p_t0,
  const fw_bf16* __restrict__ p_t4,
  fw_bf16* __restrict__ p_t5_mul,
  float* __restrict__ partial0,
  float* __restrict__ partial1) {
  fw_wait_for_previous_launch();
  fw_let_next_launch_start();
  FW_SHARED(shared_bytes);
  unsigned char* const ring = shared_bytes + 3072 + (threadIdx.y * 16 + threadIdx.x) * 16;
  const auto place = [&](unsigned slot, int u, int tensor, int g) { return ring + (((slot * 1 + u) * 2 + tensor) * 1 + g) * 2048; };
  const auto ask = [&](unsigned round, unsigned slot) {
    if (round < 5000) {
#pragma unroll
      for (int u = 0; u < 1; ++u) {
        const unsigned row = round + threadIdx.y;
        const unsigned i0 = row;
#pragma unroll
        for (int g = 0; g < 1; ++g) {
          const unsigned r = threadIdx.x + g * 16;
          if (r >= 12) continue;
          const unsigned i1 = r * 8;
          fw_cp_async<16>(fw_shared_address(place(slot, u, 0, g)), p_t0 + (i0 * 96 + i1), true);
          fw_cp_async<16>(fw_shared_address(place(slot, u, 1, g)), p_t1 + (i0 * 96 + i1), true);
        }
      }
    }
    fw_cp_async_commit();
  };
  unsigned slot = 0;
  ask(blockIdx.x * 8, 0);
  float sum0[1][8];
#pragma unroll
  for (int g = 0; g < 1; ++g) {
#pragma unroll
    for (int e = 0; e < 8; ++e) sum0[g][e] = 0.0f;
  }
  float sum1[1][8];
#pragma unroll
  for (int g = 0; g < 1; ++g) {
#pragma unroll
    for (int e = 0; e < 8; ++e) sum1[g][e] = 0.0f;
  }
#pragma unroll 1
  for (unsigned round = blockIdx.x * 8; round < 5000; round += 4224) {
    ask(round + 4224, slot ^ 1);
    fw_cp_async_wait<1>();
    float p_t14_reduction_avg_of[1][1];
    float p_t16_reduction_avg_of[1][1];
    {
      float acc0[1];
      float acc1[1];
#pragma unroll
      for (int u = 0; u < 1; ++u) {
        acc0[u] = 0.0f;
        acc1[u] = 0.0f;
        const unsigned row = round + threadIdx.y;
        const unsigned i0 = row;
#pragma unroll
        for (int g = 0; g < 1; ++g) {
          const unsigned r = threadIdx.x + g * 16;
          if (r >= 12) continue;
          const unsigned i1 = r * 8;
          const unsigned o_t2 = i0;
          const unsigned o_t3 = i0;
          const unsigned o_t4 = i1;
          float v_t1[8];
          fw_load_vector(reinterpret_cast<const fw_bf16*>(place(slot, u, 1, g)), v_t1);
          const float t2 = fw_value(p_t2[o_t2]);
          const float t3 = fw_value(p_t3[o_t3]);
          float v_t0[8];
          fw_load_vector(reinterpret_cast<const fw_bf16*>(place(slot, u, 0, g)), v_t0);
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
            acc0[u] = fw_sum(acc0[u], t13_mul);
            acc1[u] = fw_sum(acc1[u], t15_mul);
            sum0[g][e] = fw_sum(sum0[g][e], t0);
            sum1[g][e] = fw_sum(sum1[g][e], t10_mul);
          }
        }
      }
#pragma unroll
      for (int u = 0; u < 1; ++u) {
        acc0[u] = fw_lanes_total<8, 1>(acc0[u], [](float a, float b) { return fw_sum(a, b); });
      }
#pragma unroll
      for (int u = 0; u < 1; ++u) {
        acc1[u] = fw_lanes_total<8, 1>(acc1[u], [](float a, float b) { return fw_sum(a, b); });
      }
#pragma unroll
      for (int u = 0; u < 1; ++u) {
        const float total = acc0[u];
        p_t14_reduction_avg_of[u][0] = total / 96.0f;
      }
#pragma unroll
      for (int u = 0; u < 1; ++u) {
        const float total = acc1[u];
        p_t16_reduction_avg_of[u][0] = total / 96.0f;
      }
    }
    {
#pragma unroll
      for (int u = 0; u < 1; ++u) {
        const unsigned row = round + threadIdx.y;
        float (&p_t14_reduction_avg)[1] = p_t14_reduction_avg_of[u];
        float (&p_t16_reduction_avg)[1] = p_t16_reduction_avg_of[u];
        const unsigned i0 = row;
#pragma unroll
        for (int g = 0; g < 1; ++g) {
          const unsigned r = threadIdx.x + g * 16;
          if (r >= 12) continue;
          const unsigned i1 = r * 8;
          const unsigned o_t2 = i0;
          const unsigned o_t3 = i0;
          const unsigned o_t4 = i1;
          const unsigned o_t5_mul = i0 * 96 + i1;
          const unsigned o_t14_reduction_avg = 0;
          const unsigned o_t16_reduction_avg = 0;
          float v_t1[8];
          fw_load_vector(reinterpret_cast<const fw_bf16*>(place(slot, u, 1, g)), v_t1);
          const float t2 = fw_value(p_t2[o_t2]);
          const float t3 = fw_value(p_t3[o_t3]);
          float v_t0[8];
          fw_load_vector(reinterpret_cast<const fw_bf16*>(place(slot, u, 0, g)), v_t0);
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
    slot ^= 1;
    __syncwarp();  // ptxas takes ten times as long where rounds have no barrier
  }
  {
    float* const sums = reinterpret_cast<float*>(shared_bytes);
    float* const own = sums + threadIdx.y * 96;
    __syncthreads();
#pragma unroll
    for (int g = 0; g < 1; ++g) {
      const unsigned r = threadIdx.x + g * 16;
      if (r >= 12) continue;
      fw_vector<float, 8> parts;
#pragma unroll
      for (int e = 0; e < 8; ++e) parts.at[e] = sum0[g][e];
      fw_store_vector(own + r * 8, parts);
    }
    __syncthreads();
    for (unsigned column = threadIdx.y * 16 + threadIdx.x; column < 96; column += 128) {
      float total = sums[column];
#pragma unroll
      for (int y = 1; y < 8; ++y) total = fw_sum(total, sums[y * 96 + column]);
      partial0[(unsigned long long)(blockIdx.x) * 96 + column] = total;
    }
  }
  {
    float* const sums = reinterpret_cast<float*>(shared_bytes);
    float* const own = sums + threadIdx.y * 96;
    __syncthreads();
#pragma unroll
    for (int g = 0; g < 1; ++g) {
      const unsigned r = threadIdx.x + g * 16;
      if (r >= 12) continue;
      fw_vector<float, 8> parts;
#pragma unroll
      for (int e = 0; e < 8; ++e) parts.at[e] = sum1[g][e];
      fw_store_vector(own + r * 8, parts);
    }
    __syncthreads();
    for (unsigned column = threadIdx.y * 16 + threadIdx.x; column < 96; column += 128) {
      float total = sums[column];
#pragma unroll
      for (int y = 1; y < 8; ++y) total = fw_sum(total, sums[y * 96 + column]);
      partial1[(unsigned long long)(blockIdx.x) * 96 + column] = total;
    }
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_combine_1(float* __restrict__ partial0,
  float* __restrict__ partial1,
  float* __restrict__ p_t11_reduction_add,
  float* __restrict__ p_t12_reduction_add,
  fw_bf16* __restrict__ p_t7_identity,
  fw_bf16* __restrict__ p_t6_identity) {
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned k = blockIdx.x * 8 + threadIdx.x;
  const unsigned i0 = k;

  fw_let_next_launch_start();
  if (threadIdx.y == 0 && k < 96) {  // what is read of other tensors
  }
  fw_wait_for_previous_launch();
  float acc0[1] = {0.0f};
  float acc1[1] = {0.0f};
  if (k < 96) {
#pragma unroll 1
    for (unsigned next = threadIdx.y; next < 528; next += 256) {
      float read_acc0[8];
      float read_acc1[8];
#pragma unroll
      for (unsigned g = 0; g < 8; ++g) {
        const unsigned split = next + g * 32;
        if (split >= 528) continue;
        read_acc0[g] = partial0[split * 96 + k];
        read_acc1[g] = partial1[split * 96 + k];
      }
#pragma unroll
      for (unsigned g = 0; g < 8; ++g) {
        if (next + g * 32 >= 528) continue;
        acc0[0] = fw_sum(acc0[0], read_acc0[g]);
        acc1[0] = fw_sum(acc1[0], read_acc1[g]);
      }
    }
  }
  float result0 = 0.0f;
  // acc0: one result for every kept element, from all threads of the block
  fw_tree<1>(shared, acc0, lane, threadIdx.y, 32, 8, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && k < 96) {
    const float total = shared[lane];
    p_t11_reduction_add[i0] = fw_to_f32(total); result0 = total;
  }
  __syncthreads();
  float result1 = 0.0f;
  // acc1: one result for every kept element, from all threads of the block
  fw_tree<1>(shared, acc1, lane, threadIdx.y, 32, 8, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && k < 96) {
    const float total = shared[lane];
    p_t12_reduction_add[i0] = fw_to_f32(total); result1 = total;
  }
  __syncthreads();
  if (threadIdx.y == 0 && k < 96) {
    const float p_t11_reduction_add[1] = {result0};
    const float p_t12_reduction_add[1] = {result1};
    const unsigned o_t6_identity = i0;
    const unsigned o_t7_identity = i0;
    const unsigned o_t11_reduction_add = 0;
    const unsigned o_t12_reduction_add = 0;
    const float t11_reduction_add = fw_value(p_t11_reduction_add[o_t11_reduction_add]);
    const float t12_reduction_add = fw_value(p_t12_reduction_add[o_t12_reduction_add]);
    const float t7_identity = fw_identity(t11_reduction_add);
    const float t6_identity = fw_identity(t12_reduction_add);
    p_t7_identity[o_t7_identity] = fw_to_bf16(t7_identity);
    p_t6_identity[o_t6_identity] = fw_to_bf16(t6_identity);
  }
}
