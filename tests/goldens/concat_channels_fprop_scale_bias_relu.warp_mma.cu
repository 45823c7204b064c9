// fusewright 0.1.0, engine config: warp_mma tile_m=16 tile_n=64 tile_k=64 warp_m=16 warp_n=16 stages=5 fragments=1
// t0 = input HALF [2, 8, 8, 7] stride [448, 1, 56, 8]
// t1 = input HALF [2, 16, 8, 7] stride [896, 1, 112, 16]
// t2 = input HALF [2, 8, 8, 7] stride [448, 1, 56, 8]
// t4 = input HALF [1, 32, 1, 1] stride [32, 1, 32, 32]
// t6 = input HALF [1, 32, 1, 1] stride [32, 1, 32, 32]
// t9 = input HALF [24, 32, 3, 3] stride [288, 1, 96, 32]
// t3_concatenate = CONCATENATE(INPUT=t0, INPUT=t1, INPUT=t2) axis=1 -> virtual HALF [2, 32, 8, 7] stride [1792, 1, 224, 32]
// t5_mul = POINTWISE(IN_0=t3_concatenate, IN_1=t4) MUL compute FLOAT -> virtual HALF [2, 32, 8, 7] stride [1792, 1, 224, 32]
// t7_add = POINTWISE(IN_0=t5_mul, IN_1=t6) ADD compute FLOAT -> virtual HALF [2, 32, 8, 7] stride [1792, 1, 224, 32]
// t8_relu_fwd = POINTWISE(IN_0=t7_add) RELU_FWD compute FLOAT -> virtual HALF [2, 32, 8, 7] stride [1792, 1, 224, 32]
// t10_conv_fprop = CONV_FPROP(X=t8_relu_fwd, W=t9) pre_padding=[1, 1] post_padding=[1, 1] stride=[1, 1] dilation=[1, 1] compute FLOAT -> output HALF [2, 24, 8, 7] stride [1344, 1, 168, 24]

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

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

//@ fw_add

//@ fw_mul

//@ fw_relu

// a zero outside an operand, times what is not finite, is no product: sums that are NaN once more, over elements inside
static __device__ __noinline__ void fw_sum_inside(float* sums, unsigned first_row, unsigned first_column, unsigned m0, unsigned n0, const fw_f16* p_t0, const fw_f16* p_t1, const fw_f16* p_t2, const fw_f16* p_t4, const fw_f16* p_t6, const fw_f16* p_t9) {
#pragma unroll 1
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned row = first_row + i / 2 % 2 * 8, column = first_column + i / 4 % 2 * 8 + i % 2;
    float& sum = sums[row * 72 + column];
    if (sum == sum) continue;
    const unsigned line = row, piece = column;
    const unsigned m = m0 + line;
    const unsigned n = n0 + piece;
    if (!(n < 24)) continue;
    float inside = 0.0f;
#pragma unroll 1
    for (unsigned k = 0; k < 288 && inside == inside; ++k) {
      asm volatile("" ::: "memory");  // keeps in the loop what does not change in it: NVRTC 13.0.88 crashes where it takes some conditions out
      float factors[2];
      {
        const unsigned img = m / 56;
        const unsigned p = m / 7 % 8;
        const unsigned q = m % 7;
        const unsigned r = k / 96;
        const unsigned s = k / 32 % 3;
        const unsigned ci = k % 32;
        const int h = int(p) + int(r) - 1;
        const int w = int(q) + int(s) - 1;
        if (!(k < 288 && h >= 0 && h < 8 && w >= 0 && w < 7)) continue;
        const unsigned o_t0 = img * 448 + h * 56 + w * 8 + ci;
        const unsigned o_t1 = img * 896 + h * 112 + w * 16 + ci;
        const unsigned o_t2 = img * 448 + h * 56 + w * 8 + ci;
        const unsigned o_t4 = ci;
        const unsigned o_t6 = ci;
        float v_t3_concatenate[1];
        if (ci < 8) fw_load_vector(p_t0 + o_t0, v_t3_concatenate);
        else if (ci < 24) fw_load_vector(p_t1 + (o_t1 - 8), v_t3_concatenate);
        else fw_load_vector(p_t2 + (o_t2 - 24), v_t3_concatenate);
        const float t4 = fw_value(p_t4[o_t4]);
        const float t6 = fw_value(p_t6[o_t6]);
        const float t3_concatenate = v_t3_concatenate[0];
        const float t5_mul = fw_value(fw_to_f16(fw_mul(t3_concatenate, t4)));
        const float t7_add = fw_value(fw_to_f16(fw_add(t5_mul, t6)));
        const float t8_relu_fwd = fw_relu(t7_add, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
        factors[0] = fw_to_f32(t8_relu_fwd);
      }
      {
        const unsigned ko = n;
        const unsigned r = k / 96;
        const unsigned s = k / 32 % 3;
        const unsigned ci = k % 32;
        if (!(n < 24 && k < 288)) continue;
        const unsigned o_t9 = ko * 288 + r * 96 + s * 32 + ci;
        const float t9 = fw_value(p_t9[o_t9]);
        factors[1] = fw_to_f32(t9);
      }
      inside = fmaf(factors[0], factors[1], inside);
    }
    sum = inside;
  }
}
extern "C" __global__ void __launch_bounds__(128, 4)
fw_convolution_forward(const fw_f16* __restrict__ p_t0,
  const fw_f16* __restrict__ p_t1,
  const fw_f16* __restrict__ p_t2,
  const fw_f16* __restrict__ p_t4,
  const fw_f16* __restrict__ p_t6,
  const fw_f16* __restrict__ p_t9,
  fw_f16* __restrict__ p_t10_conv_fprop) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(8);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned shared_a = shared, shared_b = shared + 2048;  // tiles of stage 0
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned warp_m = warp % 1 * 16, warp_n = warp / 1 * 16;
  const unsigned m0 = (blockIdx.x % 7u) * 16, n0 = (blockIdx.x / 7u) * 64;
  // mainloop fusion of A, t8_relu_fwd: 8 elements, zero outside
  const auto operand_a = [&](unsigned m, unsigned k) -> fw_vector<unsigned, 4> {
    const unsigned img = m / 56;
    const unsigned p = m / 7 % 8;
    const unsigned q = m % 7;
    const unsigned r = k / 96;
    const unsigned s = k / 32 % 3;
    const unsigned ci = k % 32;
    const int h = int(p) + int(r) - 1;
    const int w = int(q) + int(s) - 1;
    if (!(k < 288 && h >= 0 && h < 8 && w >= 0 && w < 7)) return {};
    const unsigned o_t0 = img * 448 + h * 56 + w * 8 + ci;
    const unsigned o_t1 = img * 896 + h * 112 + w * 16 + ci;
    const unsigned o_t2 = img * 448 + h * 56 + w * 8 + ci;
    const unsigned o_t4 = ci;
    const unsigned o_t6 = ci;
    float v_t4[8];
    fw_load_vector(p_t4 + o_t4, v_t4);
    float v_t6[8];
    fw_load_vector(p_t6 + o_t6, v_t6);
    float v_t3_concatenate[8];
    if (ci < 8) fw_load_vector(p_t0 + o_t0, v_t3_concatenate);
    else if (ci < 24) fw_load_vector(p_t1 + (o_t1 - 8), v_t3_concatenate);
    else fw_load_vector(p_t2 + (o_t2 - 24), v_t3_concatenate);
    float out[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t4 = v_t4[e];
      const float t6 = v_t6[e];
      const float t3_concatenate = v_t3_concatenate[e];
      const float t5_mul = fw_value(fw_to_f16(fw_mul(t3_concatenate, t4)));
      const float t7_add = fw_value(fw_to_f16(fw_add(t5_mul, t6)));
      const float t8_relu_fwd = fw_relu(t7_add, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
      out[e] = t8_relu_fwd;
    }
    return fw_pack_f16(out);
  };
  fw_vector<unsigned, 4> fetched_a[1];
  const auto fetch_a = [&](unsigned k0) {
    const unsigned i = threadIdx.x;
    const unsigned row = i / 8, piece = i % 8;
    fetched_a[0] = operand_a(m0 + row, k0 + piece * 8);
  };
  const auto place_a = [&](unsigned stage) {
    const unsigned i = threadIdx.x;
    const unsigned row = i / 8, piece = i % 8;
    const unsigned at = shared_a + stage * 10240 + fw_swizzled<128>(row, piece * 16);
    *reinterpret_cast<fw_vector<unsigned, 4>*>(shared_bytes + (at - shared)) = fetched_a[0];
  };
  // operand B, t9: 16 bytes at a time straight to shared memory, zeros outside
  const auto copy_b = [&](unsigned stage, unsigned k0) {
#pragma unroll
    for (unsigned pass = 0; pass < 4; ++pass) {
      const unsigned i = pass * 128 + threadIdx.x;
      const unsigned row = i / 8, piece = i % 8;
      const unsigned n = n0 + row, k = k0 + piece * 8;
      const unsigned ko = n;
      const unsigned r = k / 96;
      const unsigned s = k / 32 % 3;
      const unsigned ci = k % 32;
      const unsigned o_t9 = ko * 288 + r * 96 + s * 32 + ci;
      fw_cp_async<16>(shared_b + stage * 10240 + fw_swizzled<128>(row, piece * 16), p_t9 + o_t9, n < 24 && k < 288);
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
  for (int step = -4; step < 5; ++step) {
    const bool fills = step + 4 < 5;
#pragma unroll
    for (unsigned part = 0; part < 4; ++part) {
      if (part == 0) {
        if (fills) {
          const unsigned k0 = (unsigned)(step + 4) * 64;
          fetch_a(k0);
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
    if (fills) place_a(filled);
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
  if (!isfinite(told)) fw_sum_inside(tile_c, warp_m + lane / 4, warp_n + lane % 4 * 2, m0, n0, p_t0, p_t1, p_t2, p_t4, p_t6, p_t9);
  __syncthreads();
  // epilogue fusion
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < 128; i += 128) {
    const unsigned line = i / 8, piece = i % 8 * 8;
    const unsigned m = m0 + line;
    const unsigned n = n0 + piece;
    if (!(n < 24)) continue;
    const unsigned img = m / 56;
    const unsigned p = m / 7 % 8;
    const unsigned q = m % 7;
    const unsigned ko = n;
    const float* const tile_at = tile_c + line * 72 + piece;
    const unsigned o_t10_conv_fprop = img * 1344 + p * 168 + q * 24 + ko;
    float acc[8];
    fw_load_vector(tile_at, acc);
    float w_t10_conv_fprop[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t10_conv_fprop = acc[e];
      w_t10_conv_fprop[e] = t10_conv_fprop;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t10_conv_fprop + o_t10_conv_fprop), fw_pack_f16(w_t10_conv_fprop));
  }
}
