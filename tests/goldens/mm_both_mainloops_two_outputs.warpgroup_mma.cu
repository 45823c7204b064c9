// fusewright 0.1.0, engine config: warpgroup_mma tile_m=128 tile_n=16 stages=11 schedule=cooperative evaluate_first=1
// t0 = input HALF [2, 70, 50] stride [3500, 50, 1]
// t1 = input FLOAT [1, 70, 1] stride [70, 1, 1]
// t2 = copy FLOAT [2, 70, 50] stride [3500, 50, 1]
// t3 = input INT8 [1, 50, 66] stride [3300, 66, 1]
// t4 = copy HALF [1, 50, 66] stride [3300, 66, 1]
// t5 = copy HALF [2, 70, 50] stride [3500, 50, 1]
// t7 = input HALF [1, 1, 66] stride [66, 66, 1]
// t10 = copy HALF [2, 70, 50] stride [4480, 64, 1]
// t11 = copy HALF [1, 50, 66] stride [4000, 80, 1]
// t6_matmul = MATMUL(A=t10, B=t11) compute FLOAT -> virtual FLOAT [2, 70, 66] stride [4620, 66, 1]
// t8_add = POINTWISE(IN_0=t6_matmul, IN_1=t7) ADD compute FLOAT -> output FLOAT [2, 70, 66] stride [4620, 66, 1]
// t9_gelu_fwd = POINTWISE(IN_0=t8_add) GELU_FWD compute FLOAT -> output HALF [2, 70, 66] stride [4620, 66, 1]

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

//@ fw_set_registers

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_f32

//@ fw_i32

//@ fw_i8

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

//@ fw_add

//@ fw_mul

//@ fw_relu

//@ fw_gate

//@ fw_normal_cdf

//@ fw_gelu

//@ fw_identity

extern "C" __global__ void __launch_bounds__(256)
fw_pointwise(const fw_f16* __restrict__ p_t0, const float* __restrict__ p_t1, fw_f16* __restrict__ p_t10) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 256 + threadIdx.x;
  if (vector < 3500) {
    const unsigned i0 = vector / 1750;
    const unsigned i1 = vector / 25 % 70;
    const unsigned i2 = vector % 25 * 2;
    const unsigned o_t0 = i0 * 3500 + i1 * 50 + i2;
    const unsigned o_t1 = i1;
    const unsigned o_t10 = i0 * 4480 + i1 * 64 + i2;
    float v_t0[2];
    fw_load_vector(p_t0 + o_t0, v_t0);
    const float t1 = fw_value(p_t1[o_t1]);
    float w_t10[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float t0 = v_t0[e];
      const float t2 = fw_mul(t0, t1);
      const float t5 = fw_value(fw_to_f16(fw_relu(t2, 0.0f, __uint_as_float(0x7f800000u), 0.0f)));
      const float t10 = fw_identity(t5);
      w_t10[e] = t10;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t10 + o_t10), fw_pack_f16(w_t10));
  }
}

extern "C" __global__ void __launch_bounds__(256)
fw_pointwise_1(const signed char* __restrict__ p_t3, fw_f16* __restrict__ p_t11) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 256 + threadIdx.x;
  if (vector < 1650) {
    const unsigned i0 = vector / 33;
    const unsigned i1 = vector % 33 * 2;
    const unsigned o_t3 = i0 * 66 + i1;
    const unsigned o_t11 = i0 * 80 + i1;
    int v_t3[2];
    fw_load_vector(p_t3 + o_t3, v_t3);
    float w_t11[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int t3 = v_t3[e];
      const float t4 = fw_value(fw_to_f16(fw_identity(fw_to_f32(t3))));
      const float t11 = fw_identity(t4);
      w_t11[e] = t11;
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t11 + o_t11), fw_pack_f16(w_t11));
  }
}

#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_matmul_2(const fw_f16* __restrict__ p_t7,
  float* __restrict__ p_t8_add,
  fw_f16* __restrict__ p_t9_gelu_fwd,
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
      for (unsigned unit = blockIdx.x; unit < 10u; unit += gridDim.x) {
        const unsigned b = unit / 5u;
        const unsigned block = unit % 5u;
        const unsigned m0 = 0, n0 = block * 16;
#pragma unroll 1
        for (int step = 0; step < 1; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 11008);
          const unsigned tile = shared + stage * 18432;
          const unsigned k0 = (unsigned)step * 64;
          // A: t10
          fw_tma_load(tile, &map0, full + 8 * stage, k0, m0, b);
          // B: t11
          fw_tma_load(tile + 16384, &map1, full + 8 * stage, n0, k0);
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
    for (unsigned unit = blockIdx.x; unit < 10u; unit += gridDim.x) {
      const unsigned b = unit / 5u;
      const unsigned block = unit % 5u;
      const unsigned m0 = 0, n0 = block * 16;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < 1; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 18432;
        const unsigned long long a = fw_matrix_descriptor<128>(tile + consumer * 8192, 16, 1024);
        const unsigned long long b = fw_matrix_descriptor<32>(tile + 16384, 2048, 256);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 0, 0, "p", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 2, 32, "1", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 4, 64, "1", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 6, 96, "1", ", 1, 1, 0, 1"));
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
#pragma unroll 2
      for (unsigned pass = 0; pass < 4; ++pass) {
        const unsigned i = pass * 32 + lane;
        const unsigned line = i / 8, piece = i % 8 * 2;
        const unsigned m = warp_m0 + line;
        const unsigned n = chunk_n0 + piece;
        if (m < 70 && n < 66) {
          const float* const tile_at = piece_c + line * 24 + piece;
          const unsigned o_t7 = n;
          const unsigned o_t8_add = b * 4620 + m * 66 + n;
          const unsigned o_t9_gelu_fwd = b * 4620 + m * 66 + n;
          float v_t7[2];
          fw_load_vector(p_t7 + o_t7, v_t7);
          float acc[2];
          fw_load_vector(tile_at, acc);
          fw_vector<float, 2> w_t8_add;
          float w_t9_gelu_fwd[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float t7 = v_t7[e];
            const float t6_matmul = acc[e];
            const float t8_add = fw_add(t6_matmul, t7);
            const float t9_gelu_fwd = fw_gelu(t8_add);
            w_t8_add.at[e] = fw_to_f32(t8_add);
            w_t9_gelu_fwd[e] = t9_gelu_fwd;
          }
          fw_store_vector(p_t8_add + o_t8_add, w_t8_add);
          fw_store_vector(reinterpret_cast<unsigned*>(p_t9_gelu_fwd + o_t9_gelu_fwd), fw_pack_f16(w_t9_gelu_fwd));
        }
      }
      __syncwarp();
    }
  }
}
