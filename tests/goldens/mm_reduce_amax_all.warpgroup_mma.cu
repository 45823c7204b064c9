// fusewright 0.1.0, engine config: warpgroup_mma tile_m=128 tile_n=16 stages=11 schedule=cooperative
// t0 = input HALF [3, 70, 20] stride [1400, 20, 1]
// t1 = input HALF [3, 20, 66] stride [1320, 66, 1]
// t4 = copy HALF [3, 70, 20] stride [2240, 32, 1]
// t5 = copy HALF [3, 20, 66] stride [1600, 80, 1]
// t2_matmul = MATMUL(A=t4, B=t5) compute FLOAT -> output HALF [3, 70, 66] stride [4620, 66, 1]
// t3_reduction_amax = REDUCTION(X=t2_matmul) AMAX compute FLOAT -> output FLOAT [1, 1, 1] stride [1, 1, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_max_nan

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

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

//@ fw_abs

//@ fw_largest

//@ fw_lanes_total

//@ fw_tree

extern "C" __global__ void __launch_bounds__(256)
fw_copy(const fw_f16* __restrict__ p_t0, fw_f16* __restrict__ p_t4) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 256 + threadIdx.x;
  if (vector < 630) {
    const unsigned i0 = vector / 3;
    const unsigned i1 = vector % 3 * 2;
    const unsigned long long* const from = reinterpret_cast<const unsigned long long*>(p_t0) + i0 * 5 + i1;
    fw_vector<unsigned long long, 2> gathered = {};
#pragma unroll
    for (unsigned e = 0; e < 2; ++e) {
      if (i1 + e < 5) gathered.at[e] = from[e];
    }
    fw_store_vector(reinterpret_cast<unsigned long long*>(p_t4) + i0 * 8 + i1, gathered);
  }
}

extern "C" __global__ void __launch_bounds__(256)
fw_copy_1(const fw_f16* __restrict__ p_t1, fw_f16* __restrict__ p_t5) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 256 + threadIdx.x;
  if (vector < 540) {
    const unsigned i0 = vector / 9;
    const unsigned i1 = vector % 9 * 4;
    const unsigned* const from = reinterpret_cast<const unsigned*>(p_t1) + i0 * 33 + i1;
    fw_vector<unsigned, 4> gathered = {};
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      if (i1 + e < 33) gathered.at[e] = from[e];
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t5) + i0 * 40 + i1, gathered);
  }
}

#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_matmul_2(fw_f16* __restrict__ p_t2_matmul,
  float* __restrict__ partial0,
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
      for (unsigned unit = blockIdx.x; unit < 15u; unit += gridDim.x) {
        const unsigned b = unit / 5u;
        const unsigned block = unit % 5u;
        const unsigned block_m = 0, block_n = block;
        const unsigned m0 = block_m * 128, n0 = block_n * 16;
#pragma unroll 1
        for (int step = 0; step < 1; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 11008);
          const unsigned tile = shared + stage * 18432;
          const unsigned k0 = (unsigned)step * 64;
          // A: t4
          fw_tma_load(tile, &map0, full + 8 * stage, k0, m0, b);
          // B: t5
          fw_tma_load(tile + 16384, &map1, full + 8 * stage, n0, k0, b);
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
    for (unsigned unit = blockIdx.x; unit < 15u; unit += gridDim.x) {
      const unsigned b = unit / 5u;
      const unsigned block = unit % 5u;
      const unsigned block_m = 0, block_n = block;
      const unsigned m0 = block_m * 128, n0 = block_n * 16;
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
      float total0[1] = {__uint_as_float(0xff800000u)};
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
          const unsigned o_t2_matmul = b * 4620 + m * 66 + n;
          float acc[2];
          fw_load_vector(tile_at, acc);
          float w_t2_matmul[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float t2_matmul = fw_value(fw_to_f16(acc[e]));
            w_t2_matmul[e] = t2_matmul;
            total0[0] = fw_largest(total0[0], fw_abs(t2_matmul));
          }
          fw_store_vector(reinterpret_cast<unsigned*>(p_t2_matmul + o_t2_matmul), fw_pack_f16(w_t2_matmul));
        }
      }
      __syncwarp();
      {
        const float sum = fw_lanes_total<16, 1>(total0[0], [](float a, float b) { return fw_largest(a, b); });
        if (lane == 0) {
          if (warp_m0 < 70) partial0[b * 25 + warp_m0 / 16 * 5 + block_n] = sum;
        }
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256)
fw_combine_3(float* __restrict__ partial0, float* __restrict__ p_t3_reduction_amax) {
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned k = blockIdx.x;

  fw_wait_for_previous_launch();
  float acc0[1] = {__uint_as_float(0xff800000u)};
  if (k < 1) {
#pragma unroll 8
    for (unsigned split = threadIdx.y; split < 75; split += 256) {
      acc0[0] = fw_largest(acc0[0], partial0[split + k]);
    }
  }
  // acc0: one result for every kept element, from all threads of the block
  fw_tree<1>(shared, acc0, lane, threadIdx.y, 128, 1, [](float a, float b) { return fw_largest(a, b); });
  if (threadIdx.y == 0 && k < 1) {
    const float total = shared[lane];
    p_t3_reduction_amax[0] = fw_to_f32(total);
  }
  __syncthreads();
}
