// fusewright 0.1.0, engine config: warpgroup_mma tile_m=64 tile_n=64 stages=6 schedule=ping_pong tma_epilogue=1
// t0 = input HALF [2, 150, 72] stride [10800, 72, 1]
// t1 = input HALF [1, 150, 1] stride [150, 1, 1]
// t3 = input HALF [1, 150, 1] stride [150, 1, 1]
// t7 = input HALF [2, 72, 208] stride [14976, 208, 1]
// t9 = input HALF [2, 1, 208] stride [208, 208, 1]
// t11 = input FLOAT [2, 150, 1] stride [150, 1, 1]
// t13 = input HALF [2, 150, 208] stride [31200, 208, 1]
// t2_mul = POINTWISE(IN_0=t0, IN_1=t1) MUL compute FLOAT -> virtual HALF [2, 150, 72] stride [10800, 72, 1]
// t4_sub = POINTWISE(IN_0=t2_mul, IN_1=t3) SUB compute FLOAT -> virtual HALF [2, 150, 72] stride [10800, 72, 1]
// t5_add = POINTWISE(IN_0=t4_sub, IN_1=t4_sub) ADD compute FLOAT -> virtual HALF [2, 150, 72] stride [10800, 72, 1]
// t6_relu_fwd = POINTWISE(IN_0=t5_add) RELU_FWD compute FLOAT -> virtual HALF [2, 150, 72] stride [10800, 72, 1]
// t8_matmul = MATMUL(A=t6_relu_fwd, B=t7) compute FLOAT -> virtual FLOAT [2, 150, 208] stride [31200, 208, 1]
// t10_add = POINTWISE(IN_0=t8_matmul, IN_1=t9) ADD compute FLOAT -> output FLOAT [2, 150, 208] stride [31200, 208, 1]
// t12_mul = POINTWISE(IN_0=t10_add, IN_1=t11) MUL compute FLOAT -> virtual FLOAT [2, 150, 208] stride [31200, 208, 1]
// t14_add = POINTWISE(IN_0=t12_mul, IN_1=t13) ADD compute FLOAT -> output HALF [2, 150, 208] stride [31200, 208, 1]
// t15_reduction_amax = REDUCTION(X=t14_add) AMAX compute FLOAT -> output FLOAT [1, 1, 1] stride [1, 1, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_max_nan

//@ fw_shared_address

//@ fw_accumulators

//@ fw_boxed

//@ fw_let_next_launch_start

//@ fw_wait_for_previous_launch

//@ fw_tensor_map

//@ fw_elect

//@ fw_mbarrier

//@ fw_coordinate

//@ fw_tma_load

//@ fw_tma_store

//@ fw_fence_async

//@ fw_set_registers

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_f32

//@ fw_f16

//@ fw_f16x2

//@ fw_vector

//@ fw_as_word

//@ fw_pack_f16

//@ fw_add

//@ fw_mul

//@ fw_abs

//@ fw_largest

//@ fw_lanes_total

//@ fw_tree

//@ program
#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, " \
  "acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_matmul(const fw_f16* __restrict__ p_t1,
  const fw_f16* __restrict__ p_t3,
  const fw_f16* __restrict__ p_t9,
  const float* __restrict__ p_t11,
  float* __restrict__ partial0,
  const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2,
  const __grid_constant__ fw_tensor_map map3,
  const __grid_constant__ fw_tensor_map map4,
  const __grid_constant__ fw_tensor_map map5) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(32);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 163840, empty = full + 48;  // an mbarrier each for a stage
  const unsigned turn = empty + 48;  // and one for each consumer
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
    fw_tma_prefetch(&map2);
    fw_tma_prefetch(&map3);
    fw_tma_prefetch(&map4);
    fw_tma_prefetch(&map5);
#pragma unroll
    for (unsigned stage = 0; stage < 6; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 1);
      fw_mbarrier_init(empty + 8 * stage, 4);  // warps that multiply what is in it
    }
    fw_mbarrier_init(turn, 4);
    fw_mbarrier_init(turn + 8, 4);
#pragma unroll 1
    for (unsigned set = 0; set < 16; ++set) fw_mbarrier_init(shared + 164000 + 8 * set, 1);
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    // one thread asks for the tiles of A and B, up to 6 ahead
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < 24u; unit += gridDim.x) {
        const unsigned b = unit / 12u;
        const unsigned block = unit % 12u;
        // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
        const unsigned band = block / 12u, inside_band = block % 12u;
        const unsigned band_rows = min(3u, 3u - band * 3u);
        const unsigned block_m = band * 3u + inside_band % band_rows, block_n = inside_band / band_rows;
        const unsigned m0 = block_m * 64, n0 = block_n * 64;
        // boxes end where C does
        const unsigned columns_inside = min(208u - n0, 64u);
        const unsigned bytes_of_step = 8192 + (columns_inside + 7) / 8 * 8 * 128;
#pragma unroll 1
        for (int step = 0; step < 2; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, bytes_of_step);
          const unsigned tile = shared + stage * 16384;
          const unsigned k0 = (unsigned)step * 64;
          // A: t6_relu_fwd
          fw_tma_load(tile, &map0, full + 8 * stage, k0, m0, b);
          // B: t7
          fw_tma_load(tile + 8192, columns_inside < 64 ? &map2 : &map1, full + 8 * stage, n0, k0, b);
          if (++stage == 6) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1;
    const unsigned boxes_at = shared + 98304 + (warp - 4) * 8192;  // of the warp, of C
    const unsigned arrived = shared + 164000 + (warp - 4) * 16;  // an mbarrier for each set of them
    unsigned taken = 0;  // sets of boxes so far
    const unsigned skipped = consumer == 0 ? 0 : 2;  // the first tile is the other's
    unsigned stage = skipped % 6, parity = skipped / 6 & 1, turn_parity = consumer == 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x + consumer * gridDim.x; unit < 24u; unit += 2 * gridDim.x) {
      const unsigned b = unit / 12u;
      const unsigned block = unit % 12u;
      // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
      const unsigned band = block / 12u, inside_band = block % 12u;
      const unsigned band_rows = min(3u, 3u - band * 3u);
      const unsigned block_m = band * 3u + inside_band % band_rows, block_n = inside_band / band_rows;
      const unsigned m0 = block_m * 64, n0 = block_n * 64;
      const unsigned tile_m0 = m0 + warp % 4 * 16;
      const auto ask_for = [&](unsigned part, unsigned set) {
        if (lane == 0) {
          const unsigned box_n0 = n0 + part % 2 * 32;
          fw_mbarrier_expect(arrived + 8 * set, 1024);
          fw_tma_load(boxes_at + set * 4096 + 2048, &map3, arrived + 8 * set, box_n0, tile_m0, b);
        }
      };
      ask_for(0, taken % 2);
      ask_for(1, (taken + 1) % 2);
      // mainloop fusion of A, t6_relu_fwd: 2 elements, zero outside
      const auto operand_a = [&](unsigned m, unsigned k, const fw_f16* raw) -> fw_vector<unsigned, 1> {
        // outside, what lies nearest is computed and left: a branch would keep products from running beside it, and loads from overlapping
        const bool in_matrix = m < 150 && k < 72;
        if (m >= 150) m = 149;
        if (k >= 72) k = 70;
        const unsigned o_t1 = m;
        const unsigned o_t3 = m;
        const unsigned t0 = *reinterpret_cast<const unsigned*>(raw);
        const unsigned t1 = p_t1[o_t1].bits * 0x10001u;
        const unsigned t2_mul = fw_mul_f16x2(t0, t1);
        const unsigned t3 = p_t3[o_t3].bits * 0x10001u;
        const unsigned t4_sub = fw_sub_f16x2(t2_mul, t3);
        const unsigned t5_add = fw_add_f16x2(t4_sub, t4_sub);
        const unsigned t6_relu_fwd = fw_relu_f16x2(t5_add);
        return {in_matrix ? t6_relu_fwd : 0};
      };
      const auto fill_a = [&](unsigned (&fragment)[4], const unsigned char* raw, unsigned k0, unsigned block, unsigned part) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
          // eight rows below lie eight lines further: the exchange of chunks repeats after as many
          const unsigned row = block * 64 + warp % 4 * 16 + lane / 4;
          const unsigned column = part * 16 + lane % 4 * 2;
          const unsigned below = i % 2 * 8, right = i / 2 * 8;
          const unsigned at = fw_boxed<128>(row, (column + right) * 2) + below * 128;
          fragment[i] = fw_as_word(operand_a(m0 + row + below, k0 + column + right, reinterpret_cast<const fw_f16*>(raw + at)));
        }
      };
      unsigned fragment_0_0[4], fragment_1_0[4], fragment_2_0[4], fragment_3_0[4];
      fw_mbarrier_wait(turn + 8 * consumer, turn_parity);
      turn_parity ^= 1;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < 2; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 16384;
        const unsigned k0 = (unsigned)step * 64;
        const unsigned char* const raw_a = shared_bytes + (tile - shared);
        const unsigned long long b = fw_matrix_descriptor<128>(tile + 8192, 8192, 1024);
        fw_wgmma_wait<0>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        fill_a(fragment_0_0, raw_a, k0, 0, 0);
        fill_a(fragment_1_0, raw_a, k0, 0, 1);
        fill_a(fragment_2_0, raw_a, k0, 0, 2);
        fill_a(fragment_3_0, raw_a, k0, 0, 3);
        FW_PRODUCTS_A(fragment_0_0, b, step, FW_PRODUCT_A("m64n64k16.f32.f16.f16", FW_ROWS_0, 0, "p", ", 1, 1, 1"));
        FW_PRODUCTS_A(fragment_1_0, b, 1, FW_PRODUCT_A("m64n64k16.f32.f16.f16", FW_ROWS_0, 128, "1", ", 1, 1, 1"));
        FW_PRODUCTS_A(fragment_2_0, b, 1, FW_PRODUCT_A("m64n64k16.f32.f16.f16", FW_ROWS_0, 256, "1", ", 1, 1, 1"));
        FW_PRODUCTS_A(fragment_3_0, b, 1, FW_PRODUCT_A("m64n64k16.f32.f16.f16", FW_ROWS_0, 384, "1", ", 1, 1, 1"));
        if (step == 1 && lane == 0) fw_mbarrier_arrive(turn + 8 * (consumer ^ 1));  // the other's products come next
        multiplied = stage;
        if (++stage == 6) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
      stage += 2;  // the stages of the other's tile
      parity ^= stage / 6 & 1;
      stage %= 6;

      // epilogue fusion: a warp takes 16 rows and 32 columns at a time, beside boxes of the tensors
      const unsigned warp_m0 = m0 + warp % 4 * 16;
      float total0[1] = {__uint_as_float(0xff800000u)};
#pragma unroll 1
      for (unsigned chunk = 0; chunk < 2; ++chunk, ++taken) {
        const unsigned chunk_n0 = n0 + chunk * 32;
        const unsigned part = chunk, set = taken % 2;
        unsigned char* const box = shared_bytes + (boxes_at - shared) + set * 4096;
        fw_mbarrier_wait(arrived + 8 * set, taken / 2 & 1);
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
          }
#pragma unroll
          for (unsigned j = 0; j < 4; ++j) {
#pragma unroll
            for (unsigned half = 0; half < 2; ++half) {
              const unsigned line = lane / 4 + 8 * half, piece = j * 8 + lane % 4 * 2;
              const unsigned m = warp_m0 + line;
              const unsigned n = chunk_n0 + piece;
              if (!(m < 150 && n < 208)) continue;
              const unsigned o_t9 = b * 208 + n;
              const unsigned o_t11 = b * 150 + m;
              float v_t9[2];
              fw_load_vector(p_t9 + o_t9, v_t9);
              const float t11 = fw_value(p_t11[o_t11]);
              float v_t13[2];
              fw_load_vector(reinterpret_cast<const fw_f16*>(box + 2048 + fw_boxed<64>(line, piece * 2)), v_t13);
              const float acc[2] = {sums[j][2 * half], sums[j][2 * half + 1]};
              fw_vector<float, 2> w_t10_add;
              float w_t14_add[2];
#pragma unroll
              for (int e = 0; e < 2; ++e) {
                const float t9 = v_t9[e];
                const float t13 = v_t13[e];
                const float t8_matmul = acc[e];
                const float t10_add = fw_add(t8_matmul, t9);
                const float t12_mul = fw_mul(t10_add, t11);
                const float t14_add = fw_value(fw_to_f16(fw_add(t12_mul, t13)));
                w_t10_add.at[e] = fw_to_f32(t10_add);
                w_t14_add[e] = t14_add;
                total0[0] = fw_largest(total0[0], fw_abs(t14_add));
              }
              fw_store_vector(reinterpret_cast<float*>(box + fw_boxed<128>(line, piece * 4)), w_t10_add);
              fw_store_vector(reinterpret_cast<unsigned*>(reinterpret_cast<fw_f16*>(box + 3072 + fw_boxed<64>(line, piece * 2))), fw_pack_f16(w_t14_add));
            }
          }
        }
        fw_fence_async();
        __syncwarp();
        if (lane == 0) {
          fw_tma_store(&map4, boxes_at + set * 4096, chunk_n0, warp_m0, b);
          fw_tma_store(&map5, boxes_at + set * 4096 + 3072, chunk_n0, warp_m0, b);
          fw_tma_store_commit();
        }
      }
      {
        const float sum = fw_lanes_total<16, 1>(total0[0], [](float a, float b) { return fw_largest(a, b); });
        if (lane == 0) {
          if (warp_m0 < 150) partial0[b * 40 + warp_m0 / 16 * 4 + block_n] = sum;
        }
      }
    }
    if (lane == 0) fw_tma_store_wait_read<0>();
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_combine_1(float* __restrict__ partial0, float* __restrict__ p_t15_reduction_amax) {
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned k = blockIdx.x;

  fw_let_next_launch_start();
  fw_wait_for_previous_launch();
  float acc0[1] = {__uint_as_float(0xff800000u)};
  if (k < 1) {
#pragma unroll 1
    for (unsigned next = threadIdx.y; next < 80; next += 2048) {
      float read_acc0[8];
#pragma unroll
      for (unsigned g = 0; g < 8; ++g) {
        const unsigned split = next + g * 256;
        if (split >= 80) continue;
        read_acc0[g] = partial0[split + k];
      }
#pragma unroll
      for (unsigned g = 0; g < 8; ++g) {
        if (next + g * 256 >= 80) continue;
        acc0[0] = fw_largest(acc0[0], read_acc0[g]);
      }
    }
  }
  // acc0: one result for every kept element, from all threads of the block
  fw_tree<1>(shared, acc0, lane, threadIdx.y, 256, 1, 256, [](float a, float b) { return fw_largest(a, b); });
  if (threadIdx.y == 0 && k < 1) {
    const float total = shared[lane];
    p_t15_reduction_amax[0] = fw_to_f32(total);
  }
  __syncthreads();
}
