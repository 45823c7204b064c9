// fusewright 0.1.0, engine config: warpgroup_mma tile_m=128 tile_n=16 stages=11 schedule=cooperative
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

//@ fw_accumulators

//@ fw_put_rows

//@ fw_wait_for_previous_launch

//@ fw_tensor_map

//@ fw_elect

//@ fw_mbarrier

//@ fw_coordinate

//@ fw_tma_load

//@ fw_tma_load_im2col

//@ fw_set_registers

//@ fw_matrix_descriptor

//@ fw_wgmma

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

#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_convolution_forward(const fw_f16* __restrict__ p_t0,
  fw_f16* __restrict__ p_t7_relu_fwd,
  const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(8);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 215040, empty = full + 88;  // an mbarrier each for a stage
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
#pragma unroll 1
    for (unsigned stage = 0; stage < 11; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 1);
      fw_mbarrier_init(empty + 8 * stage, 8);  // warps that multiply what is in it
    }
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    // one thread asks for the tiles of A and B, up to 11 ahead
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < 2u; unit += gridDim.x) {
        const unsigned m0 = 0, n0 = unit * 16;
        const unsigned img = m0 / 42;
        const unsigned p = m0 / 6 % 7;
        const unsigned q = m0 % 6;
#pragma unroll 1
        for (int step = 0; step < 3; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 18432);
          const unsigned tile = shared + stage * 18432;
#pragma unroll
          for (unsigned block_k = 0; block_k < 4; ++block_k) {
            const unsigned k0 = (unsigned)(step * 4 + block_k) * 16;
            const unsigned r = k0 / 48;
            const unsigned s = k0 / 16 % 3;
            const unsigned ci = k0 % 16;
            // A: t3
            fw_tma_load_im2col(tile + block_k * 4096, &map0, full + 8 * stage, r < 3 ? ci : 16, int(q) - 1, int(p) - 1, img, s, r);
            // B: t4
            fw_tma_load(tile + 16384 + block_k * 512, &map1, full + 8 * stage, k0, n0);
          }
          if (++stage == 11) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1;
    float* const piece_c = reinterpret_cast<float*>(shared_bytes + 202752 + (warp - 4) * 1536);  // of 16 rows, 16 columns
    float* const lane_c = piece_c + lane / 4 * 24 + lane % 4 * 2;
    unsigned stage = 0, parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x; unit < 2u; unit += gridDim.x) {
      const unsigned m0 = 0, n0 = unit * 16;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < 3; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 18432;
        const unsigned long long a = fw_matrix_descriptor<32>(tile + consumer * 2048, 16, 256);
        const unsigned long long b = fw_matrix_descriptor<32>(tile + 16384, 16, 256);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 256, 32, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 512, 64, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 768, 96, "1", ", 1, 1, 0, 0"));
        fw_wgmma_wait<1>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        multiplied = stage;
        if (++stage == 11) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);

      // a warp takes 16 rows and 16 columns at a time through its own piece of shared memory
      const unsigned warp_m0 = m0 + consumer * 64 + warp % 4 * 16;
      const unsigned chunk_n0 = n0;
      fw_put_rows<0, 24>(lane_c); fw_put_rows<4, 24>(lane_c + 8);
      __syncwarp();
      {
        const unsigned i = lane;
        const unsigned line = i / 2, piece = i % 2 * 8;
        const unsigned m = warp_m0 + line;
        const unsigned n = chunk_n0 + piece;
        if (m < 84 && n < 24) {
          const unsigned img = m / 42;
          const unsigned p = m / 6 % 7;
          const unsigned q = m % 6;
          const unsigned ko = n;
          const float* const tile_at = piece_c + line * 24 + piece;
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
      __syncwarp();
    }
  }
}

extern "C" __global__ void __launch_bounds__(256, 1)
fw_pointwise_1(const fw_f16* __restrict__ p_t0, signed char* __restrict__ p_t2_resample) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 256 + threadIdx.x;
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
