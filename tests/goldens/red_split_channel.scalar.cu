// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [64, 16, 14, 14] stride [3136, 1, 224, 16]
// t1_reduction_max = REDUCTION(X=t0) MAX compute FLOAT -> output FLOAT [1, 16, 1, 1] stride [16, 1, 16, 16]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_max_nan

//@ fw_let_next_launch_start

//@ fw_wait_for_previous_launch

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ fw_largest

//@ fw_tree

//@ program
extern "C" __global__ void __launch_bounds__(512, 2)
fw_reduction(const fw_f16* __restrict__ p_t0, float* __restrict__ partial0) {
  fw_wait_for_previous_launch();
  fw_let_next_launch_start();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[8] = {__uint_as_float(0xff800000u), __uint_as_float(0xff800000u), __uint_as_float(0xff800000u), __uint_as_float(0xff800000u), __uint_as_float(0xff800000u), __uint_as_float(0xff800000u), __uint_as_float(0xff800000u), __uint_as_float(0xff800000u)};

  const unsigned kept = blockIdx.x * 2 + threadIdx.x;
  const unsigned i1 = kept * 8;
  const unsigned last = kept < 2 ? 12544 : 0;
  unsigned next = blockIdx.y * 1024 + threadIdx.y;
  for (; next + 768 < last; next += 12288) {
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
        acc0[e] = fw_largest(acc0[e], t0);
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
      acc0[e] = fw_largest(acc0[e], t0);
    }
  }
  // acc0: one result for every kept vector, from all threads of the block
  fw_tree<8>(shared, acc0, lane, threadIdx.y, 256, 2, 512, [](float a, float b) { return fw_largest(a, b); });
  if (threadIdx.y == 0 && kept < 2) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[e * 512 + lane];
      partial0[(unsigned long long)(blockIdx.y) * 16 + (i1 + e)] = total;
    }
  }
  __syncthreads();
}

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_combine_1(float* __restrict__ partial0, float* __restrict__ p_t1_reduction_max) {
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned k = blockIdx.x * 8 + threadIdx.x;
  const unsigned i0 = k;

  fw_let_next_launch_start();
  fw_wait_for_previous_launch();
  float acc0[1] = {__uint_as_float(0xff800000u)};
  if (k < 16) {
#pragma unroll 1
    for (unsigned next = threadIdx.y; next < 12; next += 256) {
      float read_acc0[8];
#pragma unroll
      for (unsigned g = 0; g < 8; ++g) {
        const unsigned split = next + g * 32;
        if (split >= 12) continue;
        read_acc0[g] = partial0[split * 16 + k];
      }
#pragma unroll
      for (unsigned g = 0; g < 8; ++g) {
        if (next + g * 32 >= 12) continue;
        acc0[0] = fw_largest(acc0[0], read_acc0[g]);
      }
    }
  }
  // acc0: one result for every kept element, from all threads of the block
  fw_tree<1>(shared, acc0, lane, threadIdx.y, 32, 8, 256, [](float a, float b) { return fw_largest(a, b); });
  if (threadIdx.y == 0 && k < 16) {
    const float total = shared[lane];
    p_t1_reduction_max[i0] = fw_to_f32(total);
  }
  __syncthreads();
}
