// fusewright 0.1.0, engine config: warpgroup_mma tile_m=128 tile_n=16 stages=11 schedule=cooperative
// t0 = input BFLOAT16 [1, 33, 24] stride [792, 24, 1]
// t1 = input BFLOAT16 [1, 24, 64] stride [1536, 64, 1]
// t3 = input BFLOAT16 [1, 33, 1] stride [33, 1, 1]
// t2_matmul = MATMUL(A=t0, B=t1) compute FLOAT -> virtual FLOAT [1, 33, 64] stride [2112, 64, 1]
// t4_cmp_gt = POINTWISE(IN_0=t2_matmul, IN_1=t3) CMP_GT compute FLOAT -> output BOOLEAN [1, 33, 64] stride [2112, 64, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_bf16_bits

//@ fw_shared_address

//@ fw_accumulators

//@ fw_put_rows

//@ fw_wait_for_previous_launch

//@ fw_tensor_map

//@ fw_elect

//@ fw_mbarrier

//@ fw_coordinate

//@ fw_tma_load

//@ fw_fence_async

//@ fw_set_registers

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_f32

//@ fw_bool

//@ fw_bf16

//@ fw_vector

//@ fw_cmp_gt

#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_matmul(const fw_bf16* __restrict__ p_t3,
  unsigned char* __restrict__ p_t4_cmp_gt,
  const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(8);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 215040, empty = full + 88;  // an mbarrier each for a stage
  // boxes of A end before what is multiplied: a chunk of zeros in each row, which stays
#pragma unroll 1
  for (unsigned row = threadIdx.x; row < 1408; row += blockDim.x) {
    const unsigned chunk = 0 + row / 128 * 18432 + row % 128 * 128 + 48;
    fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (chunk ^ (chunk >> 3 & 112))), fw_vector<unsigned, 4>{});
  }
  fw_fence_async();
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
#pragma unroll
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
      for (unsigned unit = blockIdx.x; unit < 4u; unit += gridDim.x) {
        const unsigned m0 = 0, n0 = unit * 16;
#pragma unroll 1
        for (int step = 0; step < 1; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 2608);
          const unsigned tile = shared + stage * 18432;
          const unsigned k0 = (unsigned)step * 64;
          // A: t0
          fw_tma_load(tile, &map0, full + 8 * stage, k0, m0);
          // B: t1
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
    for (unsigned unit = blockIdx.x; unit < 4u; unit += gridDim.x) {
      const unsigned m0 = 0, n0 = unit * 16;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < 1; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 18432;
        const unsigned long long a = fw_matrix_descriptor<128>(tile + consumer * 8192, 16, 1024);
        const unsigned long long b = fw_matrix_descriptor<32>(tile + 16384, 2048, 256);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_ROWS_0, 0, 0, "p", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_ROWS_0, 2, 32, "1", ", 1, 1, 0, 1"));
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
        if (m < 33) {
          const float* const tile_at = piece_c + line * 24 + piece;
          const unsigned o_t3 = m;
          const unsigned o_t4_cmp_gt = m * 64 + n;
          const float t3 = fw_value(p_t3[o_t3]);
          float acc[8];
          fw_load_vector(tile_at, acc);
          unsigned w_t4_cmp_gt = 0;
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            const float t2_matmul = acc[e];
            const int t4_cmp_gt = fw_cmp_gt(t2_matmul, t3);
            w_t4_cmp_gt |= unsigned(fw_to_bool(t4_cmp_gt)) << e;
          }
          p_t4_cmp_gt[o_t4_cmp_gt >> 3] = (unsigned char)w_t4_cmp_gt;
        }
      }
      __syncwarp();
    }
  }
}
