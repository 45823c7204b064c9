// fusewright 0.1.0, engine config: warpgroup_mma tile_m=64 tile_n=96 stages=4 schedule=ping_pong cluster_m=2 cluster_n=2 tma_epilogue=1
// t0 = input HALF [1, 80, 80] stride [6400, 1, 80]
// t1 = input HALF [1, 80, 208] stride [16640, 208, 1]
// t2_matmul = MATMUL(A=t0, B=t1) compute FLOAT -> output HALF [1, 80, 208] stride [16640, 208, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_shared_address

//@ fw_accumulators

//@ fw_boxed

//@ fw_wait_for_previous_launch

//@ fw_tensor_map

//@ fw_elect

//@ fw_mbarrier

//@ fw_cluster

//@ fw_coordinate

//@ fw_tma_load

//@ fw_multicast

//@ fw_tma_store

//@ fw_fence_async

//@ fw_set_registers

//@ fw_stmatrix

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, " \
  "acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31, " \
  "acc32, acc33, acc34, acc35, acc36, acc37, acc38, acc39, acc40, acc41, acc42, acc43, acc44, acc45, acc46, acc47"
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(384, 1)
fw_matmul(const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(48);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 98304, empty = full + 32;  // an mbarrier each for a stage
  const unsigned turn = empty + 32;  // and one for each consumer
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
    fw_tma_prefetch(&map2);
#pragma unroll
    for (unsigned stage = 0; stage < 4; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 1);
      fw_mbarrier_init(empty + 8 * stage, 12);  // warps that multiply what is in it
    }
    fw_mbarrier_init(turn, 4);
    fw_mbarrier_init(turn + 8, 4);
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  const unsigned rank = blockIdx.x % 4;
  const auto meet = [] {
    fw_cluster_arrive();
    fw_cluster_wait();
  };
  // blocks of the same row, or column, of tiles need the same of A, or of B: each asks for a part of it, which all of them receive
  const unsigned rank_m = rank % 2, rank_n = rank / 2;
  meet();  // all have their barriers
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    // one thread asks for the tiles of A and B, up to 4 ahead
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < 8u; unit += gridDim.x) {
        const unsigned m0 = rank_m * 64, n0 = (unit / 4) * 192 + rank_n * 96;
#pragma unroll 1
        for (int step = 0; step < 2; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 20480);
          const unsigned tile = shared + stage * 20480;
          const unsigned k0 = (unsigned)step * 64;
          // A: t0
          fw_tma_load_multicast(tile + rank_n * 4096, &map0, full + 8 * stage, 5u << rank_m, m0, k0 + rank_n * 32);
          // B: t1
          fw_tma_load_multicast(tile + 8192 + rank_m * 2048, &map1, full + 8 * stage, 3u << rank_n * 2, n0, k0 + rank_m * 32);
          fw_tma_load_multicast(tile + 12288 + rank_m * 2048, &map1, full + 8 * stage, 3u << rank_n * 2, n0 + 32, k0 + rank_m * 32);
          fw_tma_load_multicast(tile + 16384 + rank_m * 2048, &map1, full + 8 * stage, 3u << rank_n * 2, n0 + 64, k0 + rank_m * 32);
          if (++stage == 4) stage = 0, parity ^= 1;
        }
      }
    }
    __syncwarp();
    meet();
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1;
    const bool is_told = lane < 4 && (lane % 2 == rank_m || lane / 2 == rank_n);  // a lane for each block that fills stages here
    const unsigned boxes_at = shared + 81920 + (warp - 4) * 2048;  // of the warp, of C
    unsigned taken = 0;  // sets of boxes so far
    const unsigned skipped = consumer == 0 ? 0 : 2;  // the first tile is the other's
    unsigned stage = skipped % 4, parity = skipped / 4 & 1, turn_parity = consumer == 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x + consumer * gridDim.x; unit < 8u; unit += 2 * gridDim.x) {
      const unsigned m0 = rank_m * 64, n0 = (unit / 4) * 192 + rank_n * 96;
      const bool is_in_c = n0 < 208;
      fw_mbarrier_wait(turn + 8 * consumer, turn_parity);
      turn_parity ^= 1;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < 2; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 20480;
        const unsigned long long a = fw_matrix_descriptor<128>(tile, 8192, 1024);
        const unsigned long long b = fw_matrix_descriptor<64>(tile + 8192, 4096, 512);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n96k16.f32.f16.f16", FW_ROWS_0, 0, 0, "p", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n96k16.f32.f16.f16", FW_ROWS_0, 128, 64, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n96k16.f32.f16.f16", FW_ROWS_0, 256, 128, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n96k16.f32.f16.f16", FW_ROWS_0, 384, 192, "1", ", 1, 1, 1, 1"));
        if (step == 1 && lane == 0) fw_mbarrier_arrive(turn + 8 * (consumer ^ 1));  // the other's products come next
        fw_wgmma_wait<1>();
        if (step > 0 && is_told) fw_mbarrier_arrive_at(empty + 8 * multiplied, lane);
        multiplied = stage;
        if (++stage == 4) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (is_told) fw_mbarrier_arrive_at(empty + 8 * multiplied, lane);
      stage += 2;  // the stages of the other's tile
      parity ^= stage / 4 & 1;
      stage %= 4;
      if (!is_in_c) continue;

      // epilogue fusion: a warp takes 16 rows and 32 columns at a time, beside boxes of the tensors
      const unsigned warp_m0 = m0 + warp % 4 * 16;
#pragma unroll 1
      for (unsigned chunk = 0; chunk < 3; ++chunk, ++taken) {
        const unsigned chunk_n0 = n0 + chunk * 32;
        const unsigned part = chunk, set = taken % 2;
        unsigned char* const box = shared_bytes + (boxes_at - shared) + set * 1024;
        if (lane == 0) fw_tma_store_wait_read<1>();  // what the set held before has left
        __syncwarp();
        {
          float sums[4][4];
          switch (part) {
            case 0:
            fw_take<0>(sums[0]); fw_take<4>(sums[1]);
            fw_take<8>(sums[2]); fw_take<12>(sums[3]);
            break;
            case 1:
            fw_take<16>(sums[0]); fw_take<20>(sums[1]);
            fw_take<24>(sums[2]); fw_take<28>(sums[3]);
            break;
            case 2:
            fw_take<32>(sums[0]); fw_take<36>(sums[1]);
            fw_take<40>(sums[2]); fw_take<44>(sums[3]);
            break;
          }
          unsigned packed[4][2];  // pairs, as they lie in matrices of 8×8
#pragma unroll
          for (unsigned j = 0; j < 4; ++j) {
#pragma unroll
            for (unsigned half = 0; half < 2; ++half) {
              const unsigned line = lane / 4 + 8 * half, piece = j * 8 + lane % 4 * 2;
              const float acc[2] = {sums[j][2 * half], sums[j][2 * half + 1]};
              float w_t2_matmul[2];
#pragma unroll
              for (int e = 0; e < 2; ++e) {
                const float t2_matmul = acc[e];
                w_t2_matmul[e] = t2_matmul;
              }
              fw_store_vector(reinterpret_cast<unsigned*>(packed[j] + half), fw_pack_f16(w_t2_matmul));
            }
          }
#pragma unroll
          for (unsigned j = 0; j < 4; j += 2) {
            fw_stmatrix_x4(boxes_at + set * 1024 + fw_boxed<64>(lane % 16, (j * 8 + lane / 16 * 8) * 2), packed[j][0], packed[j][1], packed[j + 1][0], packed[j + 1][1]);
          }
        }
        fw_fence_async();
        __syncwarp();
        if (lane == 0) {
          fw_tma_store(&map2, boxes_at + set * 1024, chunk_n0, warp_m0);
          fw_tma_store_commit();
        }
      }
    }
    if (lane == 0) fw_tma_store_wait_read<0>();
    meet();  // nobody needs this block's memory any more
  }
}
