// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [2, 16, 230, 230] stride [846400, 1, 3680, 16]
// t1 = input FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t2 = input FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t3 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t4 = input FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t5 = input FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]
// t6 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t19 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t12_reduction_avg = REDUCTION(X=t0) AVG compute FLOAT -> virtual FLOAT [1, 16, 1, 1] stride [16, 1, 1, 1]
// t13_sub = POINTWISE(IN_0=t0, IN_1=t12_reduction_avg) SUB compute FLOAT -> virtual FLOAT [2, 16, 230, 230] stride [846400, 52900, 230, 1]
// t14_mul = POINTWISE(IN_0=t13_sub, IN_1=t13_sub) MUL compute FLOAT -> virtual FLOAT [2, 16, 230, 230] stride [846400, 52900, 230, 1]
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
// t25_sub = POINTWISE(IN_0=t0, IN_1=t12_reduction_avg) SUB compute FLOAT -> virtual FLOAT [2, 16, 230, 230] stride [846400, 52900, 230, 1]
// t26_mul = POINTWISE(IN_0=t25_sub, IN_1=t18_reciprocal) MUL compute FLOAT -> virtual FLOAT [2, 16, 230, 230] stride [846400, 52900, 230, 1]
// t27_mul = POINTWISE(IN_0=t26_mul, IN_1=t1) MUL compute FLOAT -> virtual FLOAT [2, 16, 230, 230] stride [846400, 52900, 230, 1]
// t7_add = POINTWISE(IN_0=t27_mul, IN_1=t2) ADD compute FLOAT -> output HALF [2, 16, 230, 230] stride [846400, 1, 3680, 16]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_let_next_launch_start

//@ fw_prefetch

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
extern "C" __global__ void __launch_bounds__(512, 2)
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
  const unsigned kept = blockIdx.x * 2 + threadIdx.x;
  const unsigned i1 = kept * 8;
  const unsigned last = kept < 2 ? 105800 : 0;

  float mean[8] = {}, shift[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) shift[e] = __uint_as_float(0x7f800000u);
#pragma unroll
  for (unsigned g = 0; g < 8; ++g) {
    const unsigned r = blockIdx.y * 1024 + g;
    if (r < last) {
      const unsigned i0 = r;
      const unsigned o_t0 = i0 * 16 + i1;
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        mean[e] += t0 / 8.0f;
      }
    }
  }
#pragma unroll
  for (unsigned g = 0; g < 8; ++g) {
    const unsigned r = blockIdx.y * 1024 + g;
    if (r < last) {
      const unsigned i0 = r;
      const unsigned o_t0 = i0 * 16 + i1;
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
  if (threadIdx.y == 0 && kept < 2) {
#pragma unroll
    for (int e = 0; e < 8; ++e) partial3[(unsigned long long)(blockIdx.y) * 16 + (i1 + e)] = shift[e];
  }

  float sums[24] = {};  // of differences, of their squares, and of values
  unsigned next = blockIdx.y * 1024 + threadIdx.y;
  for (; next + 768 < last; next += 105472) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g * 256;
      const unsigned i0 = r;
      const unsigned o_t0 = i0 * 16 + i1;
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
  for (unsigned r = next; r < last; r += 256) {  // what is left of the last group
    const unsigned i0 = r;
    const unsigned o_t0 = i0 * 16 + i1;
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
    fw_tree<24>(shared, part, lane, threadIdx.y, 256, 2, 512, [](float a, float b) { return fw_sum(a, b); });
    if (threadIdx.y == 0 && kept < 2) {
#pragma unroll
      for (int sum = 0; sum < 24; ++sum) {
        const int which = (sum) / 8, e = (sum) % 8;
        float* const partial = which == 0 ? partial0 : which == 1 ? partial1 : partial2;
        partial[(unsigned long long)(blockIdx.y) * 16 + (i1 + e)] = shared[sum * 512 + lane];
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
  float* __restrict__ p_t12_reduction_avg,
  float* __restrict__ p_t15_reduction_avg,
  const float t3,
  const float t19,
  const float* __restrict__ p_t4,
  const float t6,
  const float* __restrict__ p_t5,
  float* __restrict__ p_t8_identity,
  float* __restrict__ p_t10_add,
  float* __restrict__ p_t11_add,
  float* __restrict__ p_t9_identity) {
  FW_SHARED(shared_bytes);
  double* const shared = reinterpret_cast<double*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned k = blockIdx.x * 8 + threadIdx.x;
  const unsigned i0 = k;
  const auto points_of = [](unsigned part) {
    const long long left = 328 - (long long)(part) * 1024;
    return double(1024 + (left < 0 ? 0 : left < 1024 ? left : 1024));
  };

  fw_let_next_launch_start();
  if (threadIdx.y == 0 && k < 16) {  // what is read of other tensors
    fw_prefetch(p_t4 + (i0));
    fw_prefetch(p_t5 + (i0));
  }
  fw_wait_for_previous_launch();
  double total = 0.0, sum = 0.0, squares = 0.0, shift = 0.0;
  if (k < 16) {
    shift = double(partial3[k]);
#pragma unroll 1
    for (unsigned next = threadIdx.y; next < 103; next += 128) {
      float read[4][4];
#pragma unroll
      for (unsigned g = 0; g < 4; ++g) {
        const unsigned part = next + g * 32;
        if (part >= 103) continue;
        read[g][0] = partial0[part * 16 + k];
        read[g][1] = partial1[part * 16 + k];
        read[g][2] = partial2[part * 16 + k];
        read[g][3] = partial3[part * 16 + k];
      }
#pragma unroll
      for (unsigned g = 0; g < 4; ++g) {
        const unsigned part = next + g * 32;
        if (part >= 103) continue;
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
  if (threadIdx.y == 0 && k < 16) {
    const double apart = shared[256 + lane] * (1.0 / 105800.0);
    const double spread = (shared[512 + lane] - shared[256 + lane] * apart) * (1.0 / 105800.0);
    const float mean = float(shared[lane] * (1.0 / 105800.0)), variance = float(spread < 0.0 ? 0.0 : spread);
    p_t12_reduction_avg[i0] = fw_to_f32(mean);
    p_t15_reduction_avg[i0] = fw_to_f32(variance);
    {
      const float p_t12_reduction_avg[1] = {mean};
      const float p_t15_reduction_avg[1] = {variance};
      const unsigned o_t4 = i0;
      const unsigned o_t5 = i0;
      const unsigned o_t8_identity = i0;
      const unsigned o_t9_identity = i0;
      const unsigned o_t10_add = i0;
      const unsigned o_t11_add = i0;
      const unsigned o_t12_reduction_avg = 0;
      const unsigned o_t15_reduction_avg = 0;
      const float t12_reduction_avg = fw_value(p_t12_reduction_avg[o_t12_reduction_avg]);
      const float t15_reduction_avg = fw_value(p_t15_reduction_avg[o_t15_reduction_avg]);
      const float t4 = fw_value(p_t4[o_t4]);
      const float t5 = fw_value(p_t5[o_t5]);
      const float t16_add = fw_add(t15_reduction_avg, t3);
      const float t17_sqrt = fw_sqrt(t16_add);
      const float t18_reciprocal = fw_reciprocal(t17_sqrt);
      const float t8_identity = fw_identity(t12_reduction_avg);
      const float t20_mul = fw_mul(t15_reduction_avg, t19);
      const float t21_sub = fw_sub(t12_reduction_avg, t4);
      const float t22_mul = fw_mul(t21_sub, t6);
      const float t10_add = fw_add(t4, t22_mul);
      const float t23_sub = fw_sub(t20_mul, t5);
      const float t24_mul = fw_mul(t23_sub, t6);
      const float t11_add = fw_add(t5, t24_mul);
      const float t9_identity = fw_identity(t18_reciprocal);
      p_t8_identity[o_t8_identity] = fw_to_f32(t8_identity);
      p_t10_add[o_t10_add] = fw_to_f32(t10_add);
      p_t11_add[o_t11_add] = fw_to_f32(t11_add);
      p_t9_identity[o_t9_identity] = fw_to_f32(t9_identity);
    }
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256, 3)
fw_columns_2(const fw_f16* __restrict__ p_t0,
  const float* __restrict__ p_t12_reduction_avg,
  const float* __restrict__ p_t15_reduction_avg,
  const float t3,
  const float* __restrict__ p_t1,
  const float* __restrict__ p_t2,
  fw_f16* __restrict__ p_t7_add) {
  fw_wait_for_previous_launch();
  const unsigned block = gridDim.x - 1 - blockIdx.x;  // what was read last is read first
  const unsigned inner = threadIdx.x;
  const unsigned kept = inner;
  const unsigned i1 = kept * 4;
  const unsigned first = block % 827 * 128 + threadIdx.y;
  if (first + 64 >= 105800) {
#pragma unroll 1
    for (unsigned r = first; r < 105800; r += 64) {
      const unsigned i0 = r;
      const unsigned o_t0 = i0 * 16 + i1;
      const unsigned o_t1 = i1;
      const unsigned o_t2 = i1;
      const unsigned o_t7_add = i0 * 16 + i1;
      const unsigned o_t12_reduction_avg = i1;
      const unsigned o_t15_reduction_avg = i1;
      float v_t0[4];
      fw_load_vector(p_t0 + o_t0, v_t0);
      float v_t12_reduction_avg[4];
      fw_load_vector(p_t12_reduction_avg + o_t12_reduction_avg, v_t12_reduction_avg);
      float v_t15_reduction_avg[4];
      fw_load_vector(p_t15_reduction_avg + o_t15_reduction_avg, v_t15_reduction_avg);
      float v_t1[4];
      fw_load_vector(p_t1 + o_t1, v_t1);
      float v_t2[4];
      fw_load_vector(p_t2 + o_t2, v_t2);
      float w_t7_add[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float t0 = v_t0[e];
        const float t12_reduction_avg = v_t12_reduction_avg[e];
        const float t15_reduction_avg = v_t15_reduction_avg[e];
        const float t1 = v_t1[e];
        const float t2 = v_t2[e];
        const float t16_add = fw_add(t15_reduction_avg, t3);
        const float t17_sqrt = fw_sqrt(t16_add);
        const float t18_reciprocal = fw_reciprocal(t17_sqrt);
        const float t25_sub = fw_sub(t0, t12_reduction_avg);
        const float t26_mul = fw_mul(t25_sub, t18_reciprocal);
        const float t27_mul = fw_mul(t26_mul, t1);
        const float t7_add = fw_add(t27_mul, t2);
        w_t7_add[e] = t7_add;
      }
      fw_store_vector(reinterpret_cast<unsigned*>(p_t7_add + o_t7_add), fw_pack_f16(w_t7_add));
    }
    return;
  }
#pragma unroll
  for (unsigned g = 0; g < 2; ++g) {
    const unsigned r = first + g * 64;
    const unsigned i0 = r;
    const unsigned o_t0 = i0 * 16 + i1;
    const unsigned o_t1 = i1;
    const unsigned o_t2 = i1;
    const unsigned o_t7_add = i0 * 16 + i1;
    const unsigned o_t12_reduction_avg = i1;
    const unsigned o_t15_reduction_avg = i1;
    float v_t0[4];
    fw_load_vector(p_t0 + o_t0, v_t0);
    float v_t12_reduction_avg[4];
    fw_load_vector(p_t12_reduction_avg + o_t12_reduction_avg, v_t12_reduction_avg);
    float v_t15_reduction_avg[4];
    fw_load_vector(p_t15_reduction_avg + o_t15_reduction_avg, v_t15_reduction_avg);
    float v_t1[4];
    fw_load_vector(p_t1 + o_t1, v_t1);
    float v_t2[4];
    fw_load_vector(p_t2 + o_t2, v_t2);
    float w_t7_add[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t0 = v_t0[e];
      const float t12_reduction_avg = v_t12_reduction_avg[e];
      const float t15_reduction_avg = v_t15_reduction_avg[e];
      const float t1 = v_t1[e];
      const float t2 = v_t2[e];
      const float t16_add = fw_add(t15_reduction_avg, t3);
      const float t17_sqrt = fw_sqrt(t16_add);
      const float t18_reciprocal = fw_reciprocal(t17_sqrt);
      const float t25_sub = fw_sub(t0, t12_reduction_avg);
      const float t26_mul = fw_mul(t25_sub, t18_reciprocal);
      const float t27_mul = fw_mul(t26_mul, t1);
      const float t7_add = fw_add(t27_mul, t2);
      w_t7_add[e] = t7_add;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t7_add + o_t7_add), fw_pack_f16(w_t7_add));
  }
}
