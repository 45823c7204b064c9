// fusewright 0.1.0, engine config: warp_mma tile_m=16 tile_n=64 tile_k=64 warp_m=16 warp_n=16 stages=5 fragments=1
// t0 = input HALF [2, 24, 14, 12] stride [4032, 1, 288, 24]
// t3 = input HALF [2, 16, 7, 6] stride [672, 1, 96, 16]
// t4 = input HALF [24, 16, 3, 3] stride [144, 1, 48, 16]
// t1_resample, t2_resample = RESAMPLE(X=t0) MAXPOOL NEG_INF_PAD window=[3, 3] stride=[2, 2] pre_padding=[1, 1] post_padding=[1, 1] compute FLOAT -> virtual HALF [2, 24, 7, 6] stride [1008, 1, 144, 24], output INT8 [2, 24, 7, 6] stride [1008, 1, 144, 24]
// t5_conv_fprop = CONV_FPROP(X=t3, W=t4) pre_padding=[1, 1] post_padding=[1, 1] stride=[1, 1] dilation=[1, 1] compute FLOAT -> virtual FLOAT [2, 24, 7, 6] stride [1008, 1, 144, 24]
// t6_add = POINTWISE(IN_0=t5_conv_fprop, IN_1=t1_resample) ADD compute FLOAT -> virtual FLOAT [2, 24, 7, 6] stride [1008, 1, 144, 24]
// t7_relu_fwd = POINTWISE(IN_0=t6_add) RELU_FWD compute FLOAT -> output HALF [2, 24, 7, 6] stride [1008, 1, 144, 24]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_shared_address

//@ fw_swizzled

//@ fw_cp_async

//@ fw_ldmatrix_x4

//@ fw_accumulators

//@ fw_tell

//@ fw_put_rows

//@ fw_mma_f16

//@ fw_wait_for_previous_launch

//@ fw_infinity

//@ fw_f32

//@ fw_i32

//@ fw_i8

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

//@ fw_add

//@ fw_relu

//@ fw_plane

//@ fw_pool

//@ fw_pool_max

//@ program
// a zero outside an operand, times what is not finite, is no product: sums that are NaN once more, over elements inside
static __device__ __noinline__ void fw_sum_inside(float* sums, unsigned first_row, unsigned first_column, unsigned m0, unsigned n0, const fw_f16* p_t3, const fw_f16* p_t4) {
#pragma unroll 1
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned row = first_row + i / 2 % 2 * 8, column = first_column + i / 4 % 2 * 8 + i % 2;
    float& sum = sums[row * 72 + column];
    if (sum == sum) continue;
    const unsigned line = row, piece = column;
    const unsigned m = m0 + line;
    const unsigned n = n0 + piece;
    if (!(m < 84 && n < 24)) continue;
    float inside = 0.0f;
#pragma unroll 1
    for (unsigned k = 0; k < 144 && inside == inside; ++k) {
      asm volatile("" ::: "memory");  // keeps in the loop what does not change in it: NVRTC 13.0.88 crashes where it takes some conditions out
      float factors[2];
      {
        const unsigned img = m / 42;
        const unsigned p = m / 6 % 7;
        const unsigned q = m % 6;
        const unsigned r = k / 48;
        const unsigned s = k / 16 % 3;
        const unsigned ci = k % 16;
        const int h = int(p) + int(r) - 1;
        const int w = int(q) + int(s) - 1;
        if (!(m < 84 && k < 144 && h >= 0 && h < 7 && w >= 0 && w < 6)) continue;
        const unsigned o_t3 = img * 672 + h * 96 + w * 16 + ci;
        const float t3 = fw_value(p_t3[o_t3]);
        factors[0] = fw_to_f32(t3);
      }
      {
        const unsigned ko = n;
        const unsigned r = k / 48;
        const unsigned s = k / 16 % 3;
        const unsigned ci = k % 16;
        if (!(n < 24 && k < 144)) continue;
        const unsigned o_t4 = ko * 144 + r * 48 + s * 16 + ci;
        const float t4 = fw_value(p_t4[o_t4]);
        factors[1] = fw_to_f32(t4);
      }
      inside = fmaf(factors[0], factors[1], inside);
    }
    sum = inside;
  }
}
extern "C" __global__ void __launch_bounds__(128, 4)
fw_convolution_forward(const fw_f16* __restrict__ p_t3,
  const fw_f16* __restrict__ p_t4,
  const fw_f16* __restrict__ p_t0,
  fw_f16* __restrict__ p_t7_relu_fwd) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(8);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned shared_a = shared, shared_b = shared + 2048;  // tiles of stage 0
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned warp_m = warp % 1 * 16, warp_n = warp / 1 * 16;
  const unsigned m0 = (blockIdx.x % 6u) * 16, n0 = (blockIdx.x / 6u) * 64;
  // operand A, t3: 16 bytes at a time straight to shared memory, zeros outside
  const auto copy_a = [&](unsigned stage, unsigned k0) {
    const unsigned i = threadIdx.x;
    const unsigned row = i / 8, piece = i % 8;
    const unsigned m = m0 + row, k = k0 + piece * 8;
    const unsigned img = m / 42;
    const unsigned p = m / 6 % 7;
    const unsigned q = m % 6;
    const unsigned r = k / 48;
    const unsigned s = k / 16 % 3;
    const unsigned ci = k % 16;
    const int h = int(p) + int(r) - 1;
    const int w = int(q) + int(s) - 1;
    const unsigned o_t3 = img * 672 + h * 96 + w * 16 + ci;
    fw_cp_async<16>(shared_a + stage * 10240 + fw_swizzled<128>(row, piece * 16), p_t3 + o_t3, m < 84 && k < 144 && h >= 0 && h < 7 && w >= 0 && w < 6);
  };
  // operand B, t4: 16 bytes at a time straight to shared memory, zeros outside
  const auto copy_b = [&](unsigned stage, unsigned k0) {
#pragma unroll
    for (unsigned pass = 0; pass < 4; ++pass) {
      const unsigned i = pass * 128 + threadIdx.x;
      const unsigned row = i / 8, piece = i % 8;
      const unsigned n = n0 + row, k = k0 + piece * 8;
      const unsigned ko = n;
      const unsigned r = k / 48;
      const unsigned s = k / 16 % 3;
      const unsigned ci = k % 16;
      const unsigned o_t4 = ko * 144 + r * 48 + s * 16 + ci;
      fw_cp_async<16>(shared_b + stage * 10240 + fw_swizzled<128>(row, piece * 16), p_t4 + o_t4, n < 24 && k < 144);
    }
  };

  // where the lane's rows of fragments lie in a tile
  const unsigned lane_a = shared_a + (warp_m + lane % 16) * 128, phase_a = fw_phase<128>(lane % 16);
  const unsigned lane_b = shared_b + (warp_n + lane % 8 + lane / 16 * 8) * 128, phase_b = fw_phase<128>(lane % 8 + lane / 16 * 8);

  // 16 elements of k: 1 fragments of 16 rows, 2 of 8 columns
  const auto load_fragments = [&](unsigned stage, unsigned part, unsigned (&left)[1][4], unsigned (&right)[2][2]) {
    const unsigned at_a = lane_a + stage * 10240 + (part * 32 + lane / 16 * 16 ^ phase_a);
    fw_ldmatrix_x4(left[0], at_a);
    const unsigned at_b = lane_b + stage * 10240 + (part * 32 + lane / 8 % 2 * 16 ^ phase_b);
    fw_ldmatrix_x4(right[0], right[1], at_b);
  };
  FW_CLEAR(
    FW_ZERO(0) FW_ZERO(1) FW_ZERO(2) FW_ZERO(3) FW_ZERO(4) FW_ZERO(5) FW_ZERO(6) FW_ZERO(7));
  const auto multiply = [&](const unsigned (&left)[1][4], const unsigned (&right)[2][2]) {
    fw_mma_f16<0>(left[0], right[0]);
    fw_mma_f16<4>(left[0], right[1]);
  };

  unsigned stage = 1, filled = 0;  // stage 0 is multiplied after the first 4 steps
  // tiles are loaded 4 steps ahead, so the first steps only load
#pragma unroll 1
  for (int step = -4; step < 3; ++step) {
    const bool fills = step + 4 < 3;
#pragma unroll
    for (unsigned part = 0; part < 4; ++part) {
      if (part == 0) {
        if (fills) {
          const unsigned k0 = (unsigned)(step + 4) * 64;
          copy_a(filled, k0);
        }
      }
      if (part == 2) {
        if (fills) {
          const unsigned k0 = (unsigned)(step + 4) * 64;
          copy_b(filled, k0);
        }
      }
      if (step < 0) continue;
      unsigned left[1][4], right[2][2];
      load_fragments(stage, part, left, right);
      multiply(left, right);
    }
    fw_cp_async_commit();
    fw_cp_async_wait<3>();
    __syncthreads();
    stage = stage + 1 == 5 ? 0 : stage + 1;
    filled = filled + 1 == 5 ? 0 : filled + 1;
  }
  fw_cp_async_wait<0>();
  __syncthreads();

  // the accumulators go through shared memory, so that the epilogue is one rolled loop with coalesced accesses
  float* const tile_c = reinterpret_cast<float*>(shared_bytes);  // [m][n], rows padded
  float* const lane_c = tile_c + (warp_m + lane / 4) * 72 + warp_n + lane % 4 * 2;
  fw_put_rows<0, 72>(lane_c);
  fw_put_rows<4, 72>(lane_c + 8);
  float told = 0.0f;  // finite unless some sum is not
  FW_TELL(told,
    FW_PAIR(0, 1) FW_PAIR(4, 5));
  if (!isfinite(told)) fw_sum_inside(tile_c, warp_m + lane / 4, warp_n + lane % 4 * 2, m0, n0, p_t3, p_t4);
  __syncthreads();
  // epilogue fusion
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < 128; i += 128) {
    const unsigned line = i / 8, piece = i % 8 * 8;
    const unsigned m = m0 + line;
    const unsigned n = n0 + piece;
    if (!(m < 84 && n < 24)) continue;
    const unsigned img = m / 42;
    const unsigned p = m / 6 % 7;
    const unsigned q = m % 6;
    const unsigned ko = n;
    const float* const tile_at = tile_c + line * 72 + piece;
    const unsigned o_t7_relu_fwd = img * 1008 + p * 144 + q * 24 + ko;
    float acc[8];
    fw_load_vector(tile_at, acc);
    const fw_pool<int> pool_t1_resample = {{1, 1, 1, 1, 0}, {14, 7, 3, 2, 1}, {12, 6, 3, 2, 1}};  // pixels, windows, window, stride, padding
    float v_t1_resample[8];
    int at_t1_resample[8];
    fw_pool_max(fw_plane<fw_f16, int>{p_t0 + (int(img) * 4032 + int(ko)), 0, 288, 24}, pool_t1_resample, fw_point<int>{0, int(p), int(q)}, v_t1_resample, at_t1_resample);
    float w_t7_relu_fwd[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t5_conv_fprop = acc[e];
      const float t1_resample = fw_value(fw_to_f16(v_t1_resample[e]));
      const float t6_add = fw_add(t5_conv_fprop, t1_resample);
      const float t7_relu_fwd = fw_relu(t6_add, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
      w_t7_relu_fwd[e] = t7_relu_fwd;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t7_relu_fwd + o_t7_relu_fwd), fw_pack_f16(w_t7_relu_fwd));
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(32, 1)
fw_pointwise_1(const fw_f16* __restrict__ p_t0, signed char* __restrict__ p_t2_resample) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 252) {
    const unsigned i0 = vector / 126;
    const unsigned i1 = vector / 18 % 7;
    const unsigned i2 = vector / 3 % 6;
    const unsigned i3 = vector % 3 * 8;
    const unsigned o_t2_resample = i0 * 1008 + i1 * 144 + i2 * 24 + i3;
    const fw_pool<int> pool_t1_resample = {{1, 1, 1, 1, 0}, {14, 7, 3, 2, 1}, {12, 6, 3, 2, 1}};  // pixels, windows, window, stride, padding
    float v_t1_resample[8];
    int at_t1_resample[8];
    fw_pool_max(fw_plane<fw_f16, int>{p_t0 + (int(i0) * 4032 + int(i3)), 0, 288, 24}, pool_t1_resample, fw_point<int>{0, int(i1), int(i2)}, v_t1_resample, at_t1_resample);
    fw_vector<signed char, 8> w_t2_resample;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int t2_resample = at_t1_resample[e];
      w_t2_resample.at[e] = fw_to_i8(t2_resample);
    }
    fw_store_vector(p_t2_resample + o_t2_resample, w_t2_resample);
  }
}
