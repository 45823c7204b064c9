// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [3, 24, 5, 7] stride [840, 1, 168, 24]
// t1 = input FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t2 = input FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t3 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t4 = input FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t5 = input FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t6 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t7 = input FLOAT [3, 96, 1, 1] stride [96, 1, 1, 1]
// t8 = input FLOAT [3, 96, 1, 1] stride [96, 1, 1, 1]
// t9 = input FLOAT [3, 96, 1, 1] stride [96, 1, 1, 1]
// t29 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t15_reduction_avg = REDUCTION(X=t0) AVG compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t16_sub = POINTWISE(IN_0=t0, IN_1=t15_reduction_avg) SUB compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t17_mul = POINTWISE(IN_0=t16_sub, IN_1=t16_sub) MUL compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t18_reduction_avg = REDUCTION(X=t17_mul) AVG compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t19_all_gather = ALL_GATHER(X=t15_reduction_avg, PEER_STATS_0=t7, PEER_STATS_1=t8, PEER_STATS_2=t9) place=0 -> virtual FLOAT [3, 24, 1, 1] stride [24, 1, 1, 1]
// t20_all_gather = ALL_GATHER(X=t18_reduction_avg, PEER_STATS_0=t7, PEER_STATS_1=t8, PEER_STATS_2=t9) place=1 -> virtual FLOAT [3, 24, 1, 1] stride [24, 1, 1, 1]
// t21_reduction_avg = REDUCTION(X=t19_all_gather) AVG compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t22_sub = POINTWISE(IN_0=t19_all_gather, IN_1=t21_reduction_avg) SUB compute FLOAT -> virtual FLOAT [3, 24, 1, 1] stride [24, 1, 1, 1]
// t23_mul = POINTWISE(IN_0=t22_sub, IN_1=t22_sub) MUL compute FLOAT -> virtual FLOAT [3, 24, 1, 1] stride [24, 1, 1, 1]
// t24_add = POINTWISE(IN_0=t20_all_gather, IN_1=t23_mul) ADD compute FLOAT -> virtual FLOAT [3, 24, 1, 1] stride [24, 1, 1, 1]
// t25_reduction_avg = REDUCTION(X=t24_add) AVG compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t26_add = POINTWISE(IN_0=t25_reduction_avg, IN_1=t3) ADD compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t27_sqrt = POINTWISE(IN_0=t26_add) SQRT compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t28_reciprocal = POINTWISE(IN_0=t27_sqrt) RECIPROCAL compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t11_identity = POINTWISE(IN_0=t21_reduction_avg) IDENTITY compute FLOAT -> output FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t30_mul = POINTWISE(IN_0=t25_reduction_avg, IN_1=t29) MUL compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t31_sub = POINTWISE(IN_0=t21_reduction_avg, IN_1=t4) SUB compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t32_mul = POINTWISE(IN_0=t31_sub, IN_1=t6) MUL compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t13_add = POINTWISE(IN_0=t4, IN_1=t32_mul) ADD compute FLOAT -> output FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t33_sub = POINTWISE(IN_0=t30_mul, IN_1=t5) SUB compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t34_mul = POINTWISE(IN_0=t33_sub, IN_1=t6) MUL compute FLOAT -> virtual FLOAT [1, 24, 1, 1] stride [24, 1, 1, 1]
// t14_add = POINTWISE(IN_0=t5, IN_1=t34_mul) ADD compute FLOAT -> output FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t12_identity = POINTWISE(IN_0=t28_reciprocal) IDENTITY compute FLOAT -> output FLOAT [1, 24, 1, 1] stride [24, 1, 24, 24]
// t35_sub = POINTWISE(IN_0=t0, IN_1=t21_reduction_avg) SUB compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t36_mul = POINTWISE(IN_0=t35_sub, IN_1=t28_reciprocal) MUL compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t37_mul = POINTWISE(IN_0=t36_mul, IN_1=t1) MUL compute FLOAT -> virtual FLOAT [3, 24, 5, 7] stride [840, 35, 7, 1]
// t10_add = POINTWISE(IN_0=t37_mul, IN_1=t2) ADD compute FLOAT -> output HALF [3, 24, 5, 7] stride [840, 1, 168, 24]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_send

//@ fw_receive

//@ fw_let_next_launch_start

//@ fw_wait_for_previous_launch

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

//@ fw_tree

//@ program
extern "C" __global__ void __launch_bounds__(256, 4)
fw_moments(const fw_f16* __restrict__ p_t0,
  float* __restrict__ partial0,
  float* __restrict__ partial1,
  float* __restrict__ partial2,
  float* __restrict__ partial3) {
  fw_wait_for_previous_launch();
  fw_let_next_launch_start();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned kept = blockIdx.x * 4 + threadIdx.x;
  const unsigned i1 = kept * 8;
  const unsigned last = kept < 3 ? 105 : 0;

  float mean[8] = {}, shift[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) shift[e] = __uint_as_float(0x7f800000u);
#pragma unroll
  for (unsigned g = 0; g < 4; ++g) {
    const unsigned r = blockIdx.y * 256 + g;
    if (r < last) {
      const unsigned i0 = r;
      const unsigned o_t0 = i0 * 24 + i1;
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        mean[e] += t0 / 4.0f;
      }
    }
  }
#pragma unroll
  for (unsigned g = 0; g < 4; ++g) {
    const unsigned r = blockIdx.y * 256 + g;
    if (r < last) {
      const unsigned i0 = r;
      const unsigned o_t0 = i0 * 24 + i1;
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        if (fabsf(t0 - mean[e]) < fabsf(shift[e] - mean[e])) shift[e] = t0;
      }
    }
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) shift[e] = isfinite(shift[e]) ? shift[e] : 0.0f;
  if (threadIdx.y == 0 && kept < 3) {
#pragma unroll
    for (int e = 0; e < 8; ++e) partial3[(unsigned long long)(blockIdx.y) * 24 + (i1 + e)] = shift[e];
  }

  float sums[24] = {};  // of differences, of their squares, and of values
  unsigned next = blockIdx.y * 256 + threadIdx.y;
  for (; next + 192 < last; next += 256) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g * 64;
      const unsigned i0 = r;
      const unsigned o_t0 = i0 * 24 + i1;
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        const float difference = t0 - shift[e];
        sums[e] = fw_sum(sums[e], difference);
        sums[e + 8] = fmaf(difference, difference, sums[e + 8]);
        sums[e + 16] = fw_sum(sums[e + 16], t0);
      }
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 64) {  // what is left of the last group
    const unsigned i0 = r;
    const unsigned o_t0 = i0 * 24 + i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float difference = t0 - shift[e];
      sums[e] = fw_sum(sums[e], difference);
      sums[e + 8] = fmaf(difference, difference, sums[e + 8]);
      sums[e + 16] = fw_sum(sums[e + 16], t0);
    }
  }
  {
    float part[24];
#pragma unroll
    for (int sum = 0; sum < 24; ++sum) part[sum] = sums[sum];
    fw_tree<24>(shared, part, lane, threadIdx.y, 64, 4, 256, [](float a, float b) { return fw_sum(a, b); });
    if (threadIdx.y == 0 && kept < 3) {
#pragma unroll
      for (int sum = 0; sum < 24; ++sum) {
        const int which = (sum) / 8, e = (sum) % 8;
        float* const partial = which == 0 ? partial0 : which == 1 ? partial1 : partial2;
        partial[(unsigned long long)(blockIdx.y) * 24 + (i1 + e)] = shared[sum * 256 + lane];
      }
    }
    __syncthreads();
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_combine_moments_1(float* __restrict__ partial0,
  float* __restrict__ partial1,
  float* __restrict__ partial2,
  float* __restrict__ partial3,
  float* __restrict__ p_t15_reduction_avg,
  float* __restrict__ p_t18_reduction_avg) {
  FW_SHARED(shared_bytes);
  double* const shared = reinterpret_cast<double*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned k = blockIdx.x * 8 + threadIdx.x;
  const unsigned i0 = k;
  const auto points_of = [](unsigned part) {
    const long long left = 105 - (long long)(part) * 256;
    return double(0 + (left < 0 ? 0 : left < 256 ? left : 256));
  };

  fw_let_next_launch_start();
  fw_wait_for_previous_launch();
  double total = 0.0, sum = 0.0, squares = 0.0, shift = 0.0;
  if (k < 24) {
    shift = double(partial3[k]);
#pragma unroll 1
    for (unsigned next = threadIdx.y; next < 1; next += 128) {
      float read[4][4];
#pragma unroll
      for (unsigned g = 0; g < 4; ++g) {
        const unsigned part = next + g * 32;
        if (part >= 1) continue;
        read[g][0] = partial0[part * 24 + k];
        read[g][1] = partial1[part * 24 + k];
        read[g][2] = partial2[part * 24 + k];
        read[g][3] = partial3[part * 24 + k];
      }
#pragma unroll
      for (unsigned g = 0; g < 4; ++g) {
        const unsigned part = next + g * 32;
        if (part >= 1) continue;
        const double further = double(read[g][3]) - shift, points = points_of(part);
        const double part_sum = double(read[g][0]);
        total += double(read[g][2]);
        sum += part_sum + points * further;
        squares += double(read[g][1]) + further * (2.0 * part_sum + points * further);
      }
    }
  }
  const double sums[3] = {total, sum, squares};
  fw_tree<3>(shared, sums, lane, threadIdx.y, 32, 8, 256, [](double a, double b) { return a + b; });
  if (threadIdx.y == 0 && k < 24) {
    const double apart = shared[256 + lane] * (1.0 / 105.0);
    const double spread = (shared[512 + lane] - shared[256 + lane] * apart) * (1.0 / 105.0);
    const float mean = float(shared[lane] * (1.0 / 105.0)), variance = float(spread < 0.0 ? 0.0 : spread);
    p_t15_reduction_avg[i0] = fw_to_f32(mean);
    p_t18_reduction_avg[i0] = fw_to_f32(variance);
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(128)
fw_all_gather_2(const float* __restrict__ p_t15_reduction_avg,
  const float* __restrict__ p_t18_reduction_avg,
  float* __restrict__ p_t19_all_gather,
  float* __restrict__ p_t20_all_gather,
  float* p_t7,
  float* p_t8,
  float* p_t9,
  const int own_rank,
  unsigned* absent_rank) {
  fw_wait_for_previous_launch();
  const unsigned channel = blockIdx.x * 128 + threadIdx.x;
  if (channel < 24) {
    const unsigned i0 = channel;
    float own[2];
    const unsigned o_t15_reduction_avg = i0;
    const unsigned o_t18_reduction_avg = i0;
    const float t15_reduction_avg = fw_value(p_t15_reduction_avg[o_t15_reduction_avg]);
    const float t18_reduction_avg = fw_value(p_t18_reduction_avg[o_t18_reduction_avg]);
    own[0] = t15_reduction_avg;
    own[1] = t18_reduction_avg;
    float* const peers[] = {p_t7, p_t8, p_t9};
    for (float* const peer : peers) {
      fw_send(peer + (own_rank * 48 + 0 + channel) * 2, own[0]);
      fw_send(peer + (own_rank * 48 + 24 + channel) * 2, own[1]);
    }
    const float* const mine = peers[own_rank];
    const unsigned long long deadline = fw_deadline();
    for (int rank = 0; rank < 3; ++rank) {
      p_t19_all_gather[rank * 24 + channel] = rank == own_rank ? own[0] : fw_receive(mine + (rank * 48 + 0 + channel) * 2, rank, deadline, absent_rank);
      p_t20_all_gather[rank * 24 + channel] = rank == own_rank ? own[1] : fw_receive(mine + (rank * 48 + 24 + channel) * 2, rank, deadline, absent_rank);
    }
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256, 4)
fw_reduction_3(const float* __restrict__ p_t19_all_gather, float* __restrict__ p_t21_reduction_avg) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[4] = {0.0f, 0.0f, 0.0f, 0.0f};

  const unsigned kept = blockIdx.x * 8 + threadIdx.x;
  const unsigned i1 = kept * 4;
  const unsigned last = kept < 6 ? 3 : 0;
  unsigned next = blockIdx.y * 128 + threadIdx.y;
  for (; next + 96 < last; next += 128) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g * 32;
      const unsigned i0 = r;
      const unsigned o_t19_all_gather = i0 * 24 + i1;
      float v_t19_all_gather[4];
      fw_load_vector(p_t19_all_gather + o_t19_all_gather, v_t19_all_gather);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float t19_all_gather = v_t19_all_gather[e];
        acc0[e] = fw_sum(acc0[e], t19_all_gather);
      }
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 32) {  // what is left of the last group
    const unsigned i0 = r;
    const unsigned o_t19_all_gather = i0 * 24 + i1;
    float v_t19_all_gather[4];
    fw_load_vector(p_t19_all_gather + o_t19_all_gather, v_t19_all_gather);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t19_all_gather = v_t19_all_gather[e];
      acc0[e] = fw_sum(acc0[e], t19_all_gather);
    }
  }
  // acc0: one result for every kept vector, from all threads of the block
  fw_tree<4>(shared, acc0, lane, threadIdx.y, 32, 8, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 6) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float total = shared[e * 256 + lane];
      p_t21_reduction_avg[i1 + e] = fw_to_f32(total / 3.0f);
    }
  }
  __syncthreads();
}

//@ program
extern "C" __global__ void __launch_bounds__(32)
fw_pointwise_4(const float* __restrict__ p_t21_reduction_avg,
  const float* __restrict__ p_t4,
  const float t6,
  float* __restrict__ p_t11_identity,
  float* __restrict__ p_t13_add) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 6) {
    const unsigned i0 = vector * 4;
    const unsigned o_t4 = i0;
    const unsigned o_t11_identity = i0;
    const unsigned o_t13_add = i0;
    const unsigned o_t21_reduction_avg = i0;
    float v_t21_reduction_avg[4];
    fw_load_vector(p_t21_reduction_avg + o_t21_reduction_avg, v_t21_reduction_avg);
    float v_t4[4];
    fw_load_vector(p_t4 + o_t4, v_t4);
    fw_vector<float, 4> w_t11_identity;
    fw_vector<float, 4> w_t13_add;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t21_reduction_avg = v_t21_reduction_avg[e];
      const float t4 = v_t4[e];
      const float t11_identity = fw_identity(t21_reduction_avg);
      const float t31_sub = fw_sub(t21_reduction_avg, t4);
      const float t32_mul = fw_mul(t31_sub, t6);
      const float t13_add = fw_add(t4, t32_mul);
      w_t11_identity.at[e] = fw_to_f32(t11_identity);
      w_t13_add.at[e] = fw_to_f32(t13_add);
    }
    fw_store_vector(p_t11_identity + o_t11_identity, w_t11_identity);
    fw_store_vector(p_t13_add + o_t13_add, w_t13_add);
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256, 4)
fw_reduction_5(const float* __restrict__ p_t19_all_gather,
  const float* __restrict__ p_t21_reduction_avg,
  const float* __restrict__ p_t20_all_gather,
  float* __restrict__ p_t25_reduction_avg) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[4] = {0.0f, 0.0f, 0.0f, 0.0f};

  const unsigned kept = blockIdx.x * 8 + threadIdx.x;
  const unsigned i1 = kept * 4;
  const unsigned last = kept < 6 ? 3 : 0;
  unsigned next = blockIdx.y * 128 + threadIdx.y;
  for (; next + 96 < last; next += 128) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g * 32;
      const unsigned i0 = r;
      const unsigned o_t19_all_gather = i0 * 24 + i1;
      const unsigned o_t20_all_gather = i0 * 24 + i1;
      const unsigned o_t21_reduction_avg = i1;
      float v_t19_all_gather[4];
      fw_load_vector(p_t19_all_gather + o_t19_all_gather, v_t19_all_gather);
      float v_t21_reduction_avg[4];
      fw_load_vector(p_t21_reduction_avg + o_t21_reduction_avg, v_t21_reduction_avg);
      float v_t20_all_gather[4];
      fw_load_vector(p_t20_all_gather + o_t20_all_gather, v_t20_all_gather);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float t19_all_gather = v_t19_all_gather[e];
        const float t21_reduction_avg = v_t21_reduction_avg[e];
        const float t20_all_gather = v_t20_all_gather[e];
        const float t22_sub = fw_sub(t19_all_gather, t21_reduction_avg);
        const float t23_mul = fw_mul(t22_sub, t22_sub);
        const float t24_add = fw_add(t20_all_gather, t23_mul);
        acc0[e] = fw_sum(acc0[e], t24_add);
      }
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 32) {  // what is left of the last group
    const unsigned i0 = r;
    const unsigned o_t19_all_gather = i0 * 24 + i1;
    const unsigned o_t20_all_gather = i0 * 24 + i1;
    const unsigned o_t21_reduction_avg = i1;
    float v_t19_all_gather[4];
    fw_load_vector(p_t19_all_gather + o_t19_all_gather, v_t19_all_gather);
    float v_t21_reduction_avg[4];
    fw_load_vector(p_t21_reduction_avg + o_t21_reduction_avg, v_t21_reduction_avg);
    float v_t20_all_gather[4];
    fw_load_vector(p_t20_all_gather + o_t20_all_gather, v_t20_all_gather);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t19_all_gather = v_t19_all_gather[e];
      const float t21_reduction_avg = v_t21_reduction_avg[e];
      const float t20_all_gather = v_t20_all_gather[e];
      const float t22_sub = fw_sub(t19_all_gather, t21_reduction_avg);
      const float t23_mul = fw_mul(t22_sub, t22_sub);
      const float t24_add = fw_add(t20_all_gather, t23_mul);
      acc0[e] = fw_sum(acc0[e], t24_add);
    }
  }
  // acc0: one result for every kept vector, from all threads of the block
  fw_tree<4>(shared, acc0, lane, threadIdx.y, 32, 8, 256, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 6) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float total = shared[e * 256 + lane];
      p_t25_reduction_avg[i1 + e] = fw_to_f32(total / 3.0f);
    }
  }
  __syncthreads();
}

//@ program
extern "C" __global__ void __launch_bounds__(32)
fw_pointwise_6(const float* __restrict__ p_t25_reduction_avg,
  const float t3,
  const float t29,
  const float t6,
  const float* __restrict__ p_t5,
  float* __restrict__ p_t14_add,
  float* __restrict__ p_t12_identity) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 6) {
    const unsigned i0 = vector * 4;
    const unsigned o_t5 = i0;
    const unsigned o_t12_identity = i0;
    const unsigned o_t14_add = i0;
    const unsigned o_t25_reduction_avg = i0;
    float v_t25_reduction_avg[4];
    fw_load_vector(p_t25_reduction_avg + o_t25_reduction_avg, v_t25_reduction_avg);
    float v_t5[4];
    fw_load_vector(p_t5 + o_t5, v_t5);
    fw_vector<float, 4> w_t14_add;
    fw_vector<float, 4> w_t12_identity;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t25_reduction_avg = v_t25_reduction_avg[e];
      const float t5 = v_t5[e];
      const float t26_add = fw_add(t25_reduction_avg, t3);
      const float t27_sqrt = fw_sqrt(t26_add);
      const float t28_reciprocal = fw_reciprocal(t27_sqrt);
      const float t30_mul = fw_mul(t25_reduction_avg, t29);
      const float t33_sub = fw_sub(t30_mul, t5);
      const float t34_mul = fw_mul(t33_sub, t6);
      const float t14_add = fw_add(t5, t34_mul);
      const float t12_identity = fw_identity(t28_reciprocal);
      w_t14_add.at[e] = fw_to_f32(t14_add);
      w_t12_identity.at[e] = fw_to_f32(t12_identity);
    }
    fw_store_vector(p_t14_add + o_t14_add, w_t14_add);
    fw_store_vector(p_t12_identity + o_t12_identity, w_t12_identity);
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(32, 1)
fw_pointwise_7(const fw_f16* __restrict__ p_t0,
  const float* __restrict__ p_t21_reduction_avg,
  const float* __restrict__ p_t25_reduction_avg,
  const float t3,
  const float* __restrict__ p_t1,
  const float* __restrict__ p_t2,
  fw_f16* __restrict__ p_t10_add) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 315) {
    const unsigned i0 = vector / 3;
    const unsigned i1 = vector % 3 * 8;
    const unsigned o_t0 = i0 * 24 + i1;
    const unsigned o_t1 = i1;
    const unsigned o_t2 = i1;
    const unsigned o_t10_add = i0 * 24 + i1;
    const unsigned o_t21_reduction_avg = i1;
    const unsigned o_t25_reduction_avg = i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
    float v_t21_reduction_avg[8];
    fw_load_vector(p_t21_reduction_avg + o_t21_reduction_avg, v_t21_reduction_avg);
    float v_t25_reduction_avg[8];
    fw_load_vector(p_t25_reduction_avg + o_t25_reduction_avg, v_t25_reduction_avg);
    float v_t1[8];
    fw_load_vector(p_t1 + o_t1, v_t1);
    float v_t2[8];
    fw_load_vector(p_t2 + o_t2, v_t2);
    float w_t10_add[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float t21_reduction_avg = v_t21_reduction_avg[e];
      const float t25_reduction_avg = v_t25_reduction_avg[e];
      const float t1 = v_t1[e];
      const float t2 = v_t2[e];
      const float t26_add = fw_add(t25_reduction_avg, t3);
      const float t27_sqrt = fw_sqrt(t26_add);
      const float t28_reciprocal = fw_reciprocal(t27_sqrt);
      const float t35_sub = fw_sub(t0, t21_reduction_avg);
      const float t36_mul = fw_mul(t35_sub, t28_reciprocal);
      const float t37_mul = fw_mul(t36_mul, t1);
      const float t10_add = fw_add(t37_mul, t2);
      w_t10_add[e] = t10_add;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t10_add + o_t10_add), fw_pack_f16(w_t10_add));
  }
}
