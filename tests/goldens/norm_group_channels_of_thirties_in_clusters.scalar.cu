// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [2, 4, 30, 26, 22] stride [68640, 30, 1, 2640, 120]
// t1 = scalar FLOAT [1, 1, 1, 1, 1] stride [1, 1, 1, 1, 1]
// t3_reduction_avg = REDUCTION(X=t0) AVG compute FLOAT -> virtual FLOAT [2, 4, 1, 1, 1] stride [4, 1, 1, 1, 1]
// t4_sub = POINTWISE(IN_0=t0, IN_1=t3_reduction_avg) SUB compute FLOAT -> virtual FLOAT [2, 4, 30, 26, 22] stride [68640, 17160, 572, 22, 1]
// t5_mul = POINTWISE(IN_0=t4_sub, IN_1=t4_sub) MUL compute FLOAT -> virtual FLOAT [2, 4, 30, 26, 22] stride [68640, 17160, 572, 22, 1]
// t6_reduction_avg = REDUCTION(X=t5_mul) AVG compute FLOAT -> virtual FLOAT [2, 4, 1, 1, 1] stride [4, 1, 1, 1, 1]
// t7_add = POINTWISE(IN_0=t6_reduction_avg, IN_1=t1) ADD compute FLOAT -> virtual FLOAT [2, 4, 1, 1, 1] stride [4, 1, 1, 1, 1]
// t8_sqrt = POINTWISE(IN_0=t7_add) SQRT compute FLOAT -> virtual FLOAT [2, 4, 1, 1, 1] stride [4, 1, 1, 1, 1]
// t9_reciprocal = POINTWISE(IN_0=t8_sqrt) RECIPROCAL compute FLOAT -> virtual FLOAT [2, 4, 1, 1, 1] stride [4, 1, 1, 1, 1]
// t10_sub = POINTWISE(IN_0=t0, IN_1=t3_reduction_avg) SUB compute FLOAT -> virtual FLOAT [2, 4, 30, 26, 22] stride [68640, 17160, 572, 22, 1]
// t11_mul = POINTWISE(IN_0=t10_sub, IN_1=t9_reciprocal) MUL compute FLOAT -> virtual FLOAT [2, 4, 30, 26, 22] stride [68640, 17160, 572, 22, 1]
// t2_identity = POINTWISE(IN_0=t11_mul) IDENTITY compute FLOAT -> output HALF [2, 4, 30, 26, 22] stride [68640, 30, 1, 2640, 120]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

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
  const unsigned kept = blockIdx.x;
  const unsigned i0 = kept / 4;
  const unsigned i2 = kept % 4;
  const unsigned last = kept < 8 ? 8580 : 0;

  float mean[1] = {}, shift[1];
#pragma unroll
  for (int e = 0; e < 1; ++e) shift[e] = __uint_as_float(0x7f800000u);
#pragma unroll
  for (unsigned g = 0; g < 4; ++g) {
    const unsigned r = blockIdx.y * 2048 + g;
    if (r < last) {
      const unsigned i1 = r / 15;
      const unsigned i3 = r % 15 * 2;
      const unsigned o_t0 = i0 * 68640 + i1 * 120 + i2 * 30 + i3;
      float v_t0[2];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float t0 = v_t0[e];
        mean[0] += t0 / 8.0f;
      }
    }
  }
#pragma unroll
  for (unsigned g = 0; g < 4; ++g) {
    const unsigned r = blockIdx.y * 2048 + g;
    if (r < last) {
      const unsigned i1 = r / 15;
      const unsigned i3 = r % 15 * 2;
      const unsigned o_t0 = i0 * 68640 + i1 * 120 + i2 * 30 + i3;
      float v_t0[2];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float t0 = v_t0[e];
        if (fabsf(t0 - mean[0]) < fabsf(shift[0] - mean[0])) shift[0] = t0;
      }
    }
  }
#pragma unroll
  for (int e = 0; e < 1; ++e) shift[e] = isfinite(shift[e]) ? shift[e] : 0.0f;
  if (threadIdx.x == 0 && kept < 8) {
#pragma unroll
    for (int e = 0; e < 1; ++e) partial3[(unsigned long long)(blockIdx.y) * 8 + (i0 * 4 + i2)] = shift[e];
  }

  float sums[3] = {};  // of differences, of their squares, and of values
  unsigned next = blockIdx.y * 2048 + threadIdx.x;
  for (; next + 1536 < last; next += 8192) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g * 512;
      const unsigned i1 = r / 15;
      const unsigned i3 = r % 15 * 2;
      const unsigned o_t0 = i0 * 68640 + i1 * 120 + i2 * 30 + i3;
      float v_t0[2];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float t0 = v_t0[e];
        const float difference = t0 - shift[0];
        sums[0] = fw_sum(sums[0], difference);
        sums[1] = fmaf(difference, difference, sums[1]);
        sums[2] = fw_sum(sums[2], t0);
      }
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 512) {  // what is left of the last group
    const unsigned i1 = r / 15;
    const unsigned i3 = r % 15 * 2;
    const unsigned o_t0 = i0 * 68640 + i1 * 120 + i2 * 30 + i3;
    float v_t0[2];
    fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float t0 = v_t0[e];
      const float difference = t0 - shift[0];
      sums[0] = fw_sum(sums[0], difference);
      sums[1] = fmaf(difference, difference, sums[1]);
      sums[2] = fw_sum(sums[2], t0);
    }
  }
  {
    float part[3];
#pragma unroll
    for (int sum = 0; sum < 3; ++sum) part[sum] = sums[sum];
    fw_tree<3>(shared, part, lane, threadIdx.x, 512, 1, 512, [](float a, float b) { return fw_sum(a, b); });
    if (threadIdx.x == 0 && kept < 8) {
#pragma unroll
      for (int sum = 0; sum < 3; ++sum) {
        const int which = (sum) / 1, e = (sum) % 1;
        float* const partial = which == 0 ? partial0 : which == 1 ? partial1 : partial2;
        partial[(unsigned long long)(blockIdx.y) * 8 + (i0 * 4 + i2)] = shared[sum * 512 + lane];
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
  float* __restrict__ p_t3_reduction_avg,
  float* __restrict__ p_t6_reduction_avg) {
  FW_SHARED(shared_bytes);
  double* const shared = reinterpret_cast<double*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned k = blockIdx.x * 8 + threadIdx.x;
  const unsigned i0 = k / 4;
  const unsigned i1 = k % 4;
  const auto points_of = [](unsigned part) {
    const long long left = 776 - (long long)(part) * 4096;
    return double(4096 + (left < 0 ? 0 : left < 4096 ? left : 4096));
  };

  fw_let_next_launch_start();
  fw_wait_for_previous_launch();
  double total = 0.0, sum = 0.0, squares = 0.0, shift = 0.0;
  if (k < 8) {
    shift = double(partial3[k]);
#pragma unroll 1
    for (unsigned next = threadIdx.y; next < 4; next += 128) {
      float read[4][4];
#pragma unroll
      for (unsigned g = 0; g < 4; ++g) {
        const unsigned part = next + g * 32;
        if (part >= 4) continue;
        read[g][0] = partial0[part * 8 + k];
        read[g][1] = partial1[part * 8 + k];
        read[g][2] = partial2[part * 8 + k];
        read[g][3] = partial3[part * 8 + k];
      }
#pragma unroll
      for (unsigned g = 0; g < 4; ++g) {
        const unsigned part = next + g * 32;
        if (part >= 4) continue;
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
  if (threadIdx.y == 0 && k < 8) {
    const double apart = shared[256 + lane] * (1.0 / 17160.0);
    const double spread = (shared[512 + lane] - shared[256 + lane] * apart) * (1.0 / 17160.0);
    const float mean = float(shared[lane] * (1.0 / 17160.0)), variance = float(spread < 0.0 ? 0.0 : spread);
    p_t3_reduction_avg[i0 * 4 + i1] = fw_to_f32(mean);
    p_t6_reduction_avg[i0 * 4 + i1] = fw_to_f32(variance);
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(512)
fw_pointwise_2(const fw_f16* __restrict__ p_t0,
  const float* __restrict__ p_t3_reduction_avg,
  const float* __restrict__ p_t6_reduction_avg,
  const float t1,
  fw_f16* __restrict__ p_t2_identity) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 512 + threadIdx.x;
  if (vector < 68640) {
    const unsigned i0 = vector / 34320;
    const unsigned i1 = vector / 60 % 572;
    const unsigned i2 = vector / 15 % 4;
    const unsigned i3 = vector % 15 * 2;
    const unsigned o_t0 = i0 * 68640 + i1 * 120 + i2 * 30 + i3;
    const unsigned o_t2_identity = i0 * 68640 + i1 * 120 + i2 * 30 + i3;
    const unsigned o_t3_reduction_avg = i0 * 4 + i2;
    const unsigned o_t6_reduction_avg = i0 * 4 + i2;
    float v_t0[2];
    fw_load_vector(p_t0 + o_t0, v_t0);
    const float t3_reduction_avg = fw_value(p_t3_reduction_avg[o_t3_reduction_avg]);
    const float t6_reduction_avg = fw_value(p_t6_reduction_avg[o_t6_reduction_avg]);
    float w_t2_identity[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float t0 = v_t0[e];
      const float t7_add = fw_add(t6_reduction_avg, t1);
      const float t8_sqrt = fw_sqrt(t7_add);
      const float t9_reciprocal = fw_reciprocal(t8_sqrt);
      const float t10_sub = fw_sub(t0, t3_reduction_avg);
      const float t11_mul = fw_mul(t10_sub, t9_reciprocal);
      const float t2_identity = fw_identity(t11_mul);
      w_t2_identity[e] = t2_identity;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t2_identity + o_t2_identity), fw_pack_f16(w_t2_identity));
  }
}
