// C = A B in BF16, A and B with contiguous k: a producer fills a ring of stages, two consumers multiply 64 rows each of
// tiles of 128 by 64. In front stand STAGES, K_BLOCKS (64 of k each), TILES and TILES_N.
constexpr unsigned A_BYTES = 128 * 128, STAGE_BYTES = A_BYTES + 64 * 128, BOX_BYTES = 64 * 128;
#define STEP(plus, scale)                                                                                              \
  FW_PRODUCT("m64n64k16.f32.bf16.bf16",                                                                                \
             "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, "  \
             "acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, "      \
             "acc30, acc31", plus, plus, scale, ", 1, 1, 0, 0")

// 16 rows by 16 columns of the accumulators to a swizzled box
template <int COLUMN>
FW_INLINE void store_columns(unsigned box, unsigned row, unsigned lane) {
  float x[4], y[4];
  fw_take<COLUMN / 2>(x);
  fw_take<COLUMN / 2 + 4>(y);
  fw_stmatrix_x4(box + row * 128 + ((COLUMN / 8 + lane / 16 ^ row % 8) << 4), fw_pack_bf16x2(x[0], x[1]),
                 fw_pack_bf16x2(x[2], x[3]), fw_pack_bf16x2(y[0], y[1]), fw_pack_bf16x2(y[2], y[3]));
}

extern "C" __global__ void __launch_bounds__(384, 1)
ring(const __grid_constant__ fw_tensor_map map_a, const __grid_constant__ fw_tensor_map map_b,
     const __grid_constant__ fw_tensor_map map_c) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(32);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned full = shared + STAGES * STAGE_BYTES + 2 * BOX_BYTES, empty = full + 8 * STAGES;
  const unsigned warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    for (unsigned stage = 0; stage < STAGES; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 1);
      fw_mbarrier_init(empty + 8 * stage, 8);  // one arrival a warp
    }
    fw_mbarrier_init_fence();
  }
  __syncthreads();

  if (warpgroup == 0) {
    fw_decrease_registers<40>();
    if (threadIdx.x < 32 && fw_elect()) {
      fw_tma_prefetch(&map_a);
      fw_tma_prefetch(&map_b);
      unsigned stage = 0, producer_parity = 1;
      for (unsigned tile = blockIdx.x; tile < TILES; tile += gridDim.x)
        for (unsigned k = 0; k < K_BLOCKS; ++k) {
          const unsigned at = shared + stage * STAGE_BYTES;
          fw_mbarrier_wait(empty + 8 * stage, producer_parity);
          fw_mbarrier_expect(full + 8 * stage, STAGE_BYTES);
          fw_tma_load(at, &map_a, full + 8 * stage, k * 64, tile / TILES_N * 128);
          fw_tma_load(at + A_BYTES, &map_b, full + 8 * stage, k * 64, tile % TILES_N * 64);
          if (++stage == STAGES) stage = 0, producer_parity ^= 1;
        }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warpgroup - 1, lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
    const unsigned box = shared + STAGES * STAGE_BYTES + consumer * BOX_BYTES;
    const bool is_first = threadIdx.x % 128 == 0;
    unsigned stage = 0, consumer_parity = 0, previous = 0;
    for (unsigned tile = blockIdx.x; tile < TILES; tile += gridDim.x) {
      for (unsigned k = 0; k < K_BLOCKS; ++k) {
        const unsigned at = shared + stage * STAGE_BYTES;
        fw_mbarrier_wait(full + 8 * stage, consumer_parity);
        const unsigned long long a = fw_matrix_descriptor<128>(at + consumer * 64 * 128, 16, 1024);
        const unsigned long long b = fw_matrix_descriptor<128>(at + A_BYTES, 16, 1024);
        FW_PRODUCTS(a, b, k > 0, STEP(0, "p") STEP(2, "1") STEP(4, "1") STEP(6, "1"));
        fw_wgmma_wait<1>();
        if (k > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * previous);
        previous = stage;
        if (++stage == STAGES) stage = 0, consumer_parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * previous);

      if (is_first) fw_tma_store_wait_read<0>();
      if (consumer == 0) fw_named_barrier<1, 128>(); else fw_named_barrier<2, 128>();
      store_columns<0>(box, row, lane);
      store_columns<16>(box, row, lane);
      store_columns<32>(box, row, lane);
      store_columns<48>(box, row, lane);
      fw_fence_async();
      if (consumer == 0) fw_named_barrier<1, 128>(); else fw_named_barrier<2, 128>();
      if (is_first) {
        fw_tma_store(&map_c, box, tile % TILES_N * 64, tile / TILES_N * 128 + consumer * 64);
        fw_tma_store_commit();
      }
    }
    if (is_first) fw_tma_store_wait_read<0>();  // before the block ends
  }
}
