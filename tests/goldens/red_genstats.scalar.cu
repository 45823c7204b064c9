// fusewright 0.1.0, engine config: scalar threads=512
// t0 = input HALF [8, 48, 7, 7] stride [2352, 1, 336, 48]
// t1_relu_fwd = POINTWISE(IN_0=t0) RELU_FWD compute FLOAT -> virtual FLOAT [8, 48, 7, 7] stride [2352, 1, 336, 48]
// t2_genstats, t3_genstats = GENSTATS(X=t1_relu_fwd) compute FLOAT -> output FLOAT [1, 48, 1, 1] stride [48, 1, 48, 48], output FLOAT [1, 48, 1, 1] stride [48, 1, 48, 48]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_wait_for_previous_launch

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ fw_relu

//@ fw_sum

//@ fw_square

//@ fw_tree

extern "C" __global__ void __launch_bounds__(512, 2)
fw_reduction(const fw_f16* __restrict__ p_t0, float* __restrict__ p_t2_genstats, float* __restrict__ p_t3_genstats) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  float acc0[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  float acc1[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};

  const unsigned kept = blockIdx.x * 8 + threadIdx.x;
  const unsigned i1 = kept * 8;
  const unsigned last = kept < 6 ? 392 : 0;
  unsigned next = blockIdx.y * 256 + threadIdx.y;
  for (; next + 192 < last; next += 256) {
#pragma unroll
    for (unsigned g = 0; g < 4; ++g) {
      const unsigned r = next + g * 64;
      const unsigned i0 = r;
      const unsigned o_t0 = i0 * 48 + i1;
      float v_t0[8];
      fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float t0 = v_t0[e];
        const float t1_relu_fwd = fw_relu(t0, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
        acc0[e] = fw_sum(acc0[e], t1_relu_fwd);
        acc1[e] = fw_sum(acc1[e], fw_square(t1_relu_fwd));
      }
    }
  }
#pragma unroll 1
  for (unsigned r = next; r < last; r += 64) {  // what is left of the last group
    const unsigned i0 = r;
    const unsigned o_t0 = i0 * 48 + i1;
    float v_t0[8];
    fw_load_vector(p_t0 + o_t0, v_t0);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t0 = v_t0[e];
      const float t1_relu_fwd = fw_relu(t0, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
      acc0[e] = fw_sum(acc0[e], t1_relu_fwd);
      acc1[e] = fw_sum(acc1[e], fw_square(t1_relu_fwd));
    }
  }
  // acc0: one result for every kept vector, from all threads of the block
  fw_tree<8>(shared, acc0, lane, threadIdx.y, 64, 8, 512, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 6) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[e * 512 + lane];
      p_t2_genstats[i1 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
  // acc1: one result for every kept vector, from all threads of the block
  fw_tree<8>(shared, acc1, lane, threadIdx.y, 64, 8, 512, [](float a, float b) { return fw_sum(a, b); });
  if (threadIdx.y == 0 && kept < 6) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float total = shared[e * 512 + lane];
      p_t3_genstats[i1 + e] = fw_to_f32(total);
    }
  }
  __syncthreads();
}
