// fusewright 0.1.0, engine config: warpgroup_mma tile_m=64 tile_n=32 stages=12 schedule=ping_pong
// t0 = input HALF [3, 70, 20] stride [1400, 20, 1]
// t1 = input HALF [3, 20, 66] stride [1320, 66, 1]
// t2_matmul = MATMUL(A=t0, B=t1) compute FLOAT -> output HALF [3, 70, 66] stride [4620, 66, 1]
// t3_reduction_amax = REDUCTION(X=t2_matmul) AMAX compute FLOAT -> output FLOAT [1, 1, 1] stride [1, 1, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_max_nan

//@ fw_shared_address

//@ fw_swizzled

//@ fw_cp_async

//@ fw_accumulators

//@ fw_put_rows

//@ fw_let_next_launch_start

//@ fw_wait_for_previous_launch

//@ fw_mbarrier

//@ fw_fence_async

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

//@ program
#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_matmul(const fw_f16* __restrict__ p_t0,
  const fw_f16* __restrict__ p_t1,
  fw_f16* __restrict__ p_t2_matmul,
  float* __restrict__ partial0) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(16);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 167936, empty = full + 96;  // an mbarrier each for a stage
  const unsigned turn = empty + 96;  // and one for each consumer
  if (threadIdx.x == 0) {
#pragma unroll
    for (unsigned stage = 0; stage < 12; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 4);
      fw_mbarrier_init(empty + 8 * stage, 4);  // warps that multiply what is in it
    }
    fw_mbarrier_init(turn, 4);
    fw_mbarrier_init(turn + 8, 4);
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<88>();
    const unsigned thread = threadIdx.x;
    unsigned stage = 0, parity = 0;
    // pieces of 10 steps arrive while those of the next are asked for; the oldest is told to be there
    unsigned arriving = 0, oldest = 0;
    const auto tell_oldest = [&] {
      fw_fence_async();
      __syncwarp();
      if (thread % 32 == 0) fw_mbarrier_arrive(full + 8 * oldest);
      if (++oldest == 12) oldest = 0;
    };
#pragma unroll 1
    for (unsigned unit = blockIdx.x; unit < 18u; unit += gridDim.x) {
      const unsigned b = unit / 6u;
      const unsigned block = unit % 6u;
      // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
      const unsigned band = block / 6u, inside_band = block % 6u;
      const unsigned band_rows = min(2u, 2u - band * 2u);
      const unsigned block_m = band * 2u + inside_band % band_rows, block_n = inside_band / band_rows;
      const unsigned m0 = block_m * 64, n0 = block_n * 32;
      // operand A, t0: 8 bytes at a time straight to shared memory, zeros outside
      const auto fill_a = [&](unsigned tile, unsigned k0) {
#pragma unroll 8
        for (unsigned pass = 0; pass < 8; ++pass) {
          const unsigned i = pass * 128 + threadIdx.x;
          const unsigned row = i / 16, piece = i % 16;
          const unsigned m = m0 + row, k = k0 + piece * 4;
          const unsigned o_t0 = b * 1400 + m * 20 + k;
          fw_cp_async<8>(tile + fw_swizzled<128>(row, piece * 8), p_t0 + o_t0, m < 70 && k < 20);
        }
      };
      // operand B, t1: 4 bytes at a time straight to shared memory, zeros outside
      const auto fill_b = [&](unsigned tile, unsigned k0) {
#pragma unroll 8
        for (unsigned pass = 0; pass < 8; ++pass) {
          const unsigned i = pass * 128 + threadIdx.x;
          const unsigned row = i / 16, piece = i % 16;
          const unsigned n = n0 + piece * 2, k = k0 + row;
          const unsigned o_t1 = b * 1320 + k * 66 + n;
          fw_cp_async<4>(tile + 8192 + fw_swizzled<64>(row, piece * 4), p_t1 + o_t1, n < 66 && k < 20);
        }
      };
#pragma unroll 1
      for (int step = 0; step < 1; ++step) {
        fw_mbarrier_wait(empty + 8 * stage, parity ^ 1);
        const unsigned tile = shared + stage * 12288;
        const unsigned k0 = (unsigned)step * 64;
        fill_a(tile, k0);
        fill_b(tile, k0);
        fw_cp_async_commit();
        if (arriving < 10) {
          ++arriving;
        } else {
          fw_cp_async_wait<10>();
          tell_oldest();
        }
        if (++stage == 12) stage = 0, parity ^= 1;
      }
    }
    fw_cp_async_wait<0>();
#pragma unroll 1
    for (; arriving > 0; --arriving) tell_oldest();
  } else {
    fw_increase_registers<208>();
    const unsigned consumer = warp / 4 - 1;
    float* const piece_c = reinterpret_cast<float*>(shared_bytes + 147456 + (warp - 4) * 2560);  // of 16 rows, 32 columns
    float* const lane_c = piece_c + lane / 4 * 40 + lane % 4 * 2;
    const unsigned skipped = consumer == 0 ? 0 : 1;  // the first tile is the other's
    unsigned stage = skipped % 12, parity = skipped / 12 & 1, turn_parity = consumer == 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x + consumer * gridDim.x; unit < 18u; unit += 2 * gridDim.x) {
      const unsigned b = unit / 6u;
      const unsigned block = unit % 6u;
      // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
      const unsigned band = block / 6u, inside_band = block % 6u;
      const unsigned band_rows = min(2u, 2u - band * 2u);
      const unsigned block_m = band * 2u + inside_band % band_rows, block_n = inside_band / band_rows;
      const unsigned m0 = block_m * 64, n0 = block_n * 32;
      fw_mbarrier_wait(turn + 8 * consumer, turn_parity);
      turn_parity ^= 1;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < 1; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 12288;
        const unsigned long long a = fw_matrix_descriptor<128>(tile, 16, 1024);
        const unsigned long long b = fw_matrix_descriptor<64>(tile + 8192, 4096, 512);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 0, 0, "p", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 2, 64, "1", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 4, 128, "1", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 6, 192, "1", ", 1, 1, 0, 1"));
        if (step == 0 && lane == 0) fw_mbarrier_arrive(turn + 8 * (consumer ^ 1));  // the other's products come next
        fw_wgmma_wait<1>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        multiplied = stage;
        if (++stage == 12) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
      stage += 1;  // the stages of the other's tile
      parity ^= stage / 12 & 1;
      stage %= 12;

      // a warp takes 16 rows and 32 columns at a time through its own piece of shared memory
      const unsigned warp_m0 = m0 + warp % 4 * 16;
      float total0[1] = {__uint_as_float(0xff800000u)};
      const unsigned chunk_n0 = n0;
      fw_put_rows<0, 40>(lane_c); fw_put_rows<4, 40>(lane_c + 8);
      fw_put_rows<8, 40>(lane_c + 16); fw_put_rows<12, 40>(lane_c + 24);
      __syncwarp();
#pragma unroll 2
      for (unsigned pass = 0; pass < 8; ++pass) {
        const unsigned i = pass * 32 + lane;
        const unsigned line = i / 16, piece = i % 16 * 2;
        const unsigned m = warp_m0 + line;
        const unsigned n = chunk_n0 + piece;
        if (m < 70 && n < 66) {
          const float* const tile_at = piece_c + line * 40 + piece;
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
          if (warp_m0 < 70) partial0[b * 15 + warp_m0 / 16 * 3 + block_n] = sum;
        }
      }
    }
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_combine_1(float* __restrict__ partial0, float* __restrict__ p_t3_reduction_amax) {
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned k = blockIdx.x;

  fw_let_next_launch_start();
  fw_wait_for_previous_launch();
  float acc0[1] = {__uint_as_float(0xff800000u)};
  if (k < 1) {
#pragma unroll 1
    for (unsigned next = threadIdx.y; next < 45; next += 2048) {
      float read_acc0[8];
#pragma unroll
      for (unsigned g = 0; g < 8; ++g) {
        const unsigned split = next + g * 256;
        if (split >= 45) continue;
        read_acc0[g] = partial0[split + k];
      }
#pragma unroll
      for (unsigned g = 0; g < 8; ++g) {
        if (next + g * 256 >= 45) continue;
        acc0[0] = fw_largest(acc0[0], read_acc0[g]);
      }
    }
  }
  // acc0: one result for every kept element, from all threads of the block
  fw_tree<1>(shared, acc0, lane, threadIdx.y, 256, 1, 256, [](float a, float b) { return fw_largest(a, b); });
  if (threadIdx.y == 0 && k < 1) {
    const float total = shared[lane];
    p_t3_reduction_amax[0] = fw_to_f32(total);
  }
  __syncthreads();
}
