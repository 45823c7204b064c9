// fusewright 0.1.0, engine config: warpgroup_attention tile_m=192 tile_n=16 stages=4 pack_heads=1 split_k=8
// t0 = input BFLOAT16 [17, 2, 64, 128] stride [16384, 8192, 128, 1]
// t1 = input INT32 [3, 1, 1, 1] stride [1, 1, 1, 1]
// t2 = input INT32 [3, 1, 5, 1] stride [5, 5, 1, 1]
// t4 = input BFLOAT16 [3, 16, 1, 128] stride [2048, 128, 128, 1]
// t6 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t8 = input INT32 [3, 1, 1, 1] stride [1, 1, 1, 1]
// t11 = input BFLOAT16 [17, 2, 64, 128] stride [16384, 8192, 128, 1]
// t12 = input INT32 [3, 1, 5, 1] stride [5, 5, 1, 1]
// t3_paged_cache_load = PAGED_CACHE_LOAD(container=t0, seqLen=t1, pageTable=t2) compute FLOAT -> virtual BFLOAT16 [3, 2, 128, 300] stride [76800, 38400, 1, 128]
// t5_matmul = MATMUL(A=t4, B=t3_paged_cache_load) compute FLOAT -> virtual FLOAT [3, 16, 1, 300] stride [4800, 300, 300, 1]
// t7_mul = POINTWISE(IN_0=t5_matmul, IN_1=t6) MUL compute FLOAT -> virtual FLOAT [3, 16, 1, 300] stride [4800, 300, 300, 1]
// t9_score_mask = SCORE_MASK(X=t7_mul, SEQ_LEN_Q=t8, SEQ_LEN_KV=t1) compute FLOAT -> virtual FLOAT [3, 16, 1, 300] stride [4800, 300, 300, 1]
// t10_softmax = SOFTMAX(X=t9_score_mask) compute FLOAT -> virtual BFLOAT16 [3, 16, 1, 300] stride [4800, 300, 300, 1]
// t13_paged_cache_load = PAGED_CACHE_LOAD(container=t11, seqLen=t1, pageTable=t12) compute FLOAT -> virtual BFLOAT16 [3, 2, 300, 128] stride [76800, 38400, 128, 1]
// t14_matmul = MATMUL(A=t10_softmax, B=t13_paged_cache_load, K_override=t1) compute FLOAT -> output BFLOAT16 [3, 16, 1, 128] stride [2048, 128, 128, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_bf16_bits

//@ fw_shared_address

//@ fw_accumulators

//@ fw_fast_exp2

//@ fw_wait_for_previous_launch

//@ fw_tensor_map

//@ fw_mbarrier

//@ fw_coordinate

//@ fw_tma_load

//@ fw_fence_async

//@ fw_named_barrier

//@ fw_set_registers

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_infinity

//@ fw_i32

//@ fw_bf16

//@ fw_vector

//@ fw_scale_accumulators

//@ fw_uniform

//@ fw_behind

//@ fw_take_all

//@ fw_scale_all

//@ fw_row_maxima

//@ fw_exponentials

//@ fw_quad_largest

//@ fw_quad_total

//@ fw_quad_transpose

#define FW_SCORES "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7"
#define FW_VALUES "acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31, acc32, acc33, acc34, acc35, acc36, acc37, acc38, acc39, acc40, acc41, acc42, acc43, acc44, acc45, acc46, acc47, acc48, acc49, acc50, acc51, acc52, acc53, acc54, acc55, acc56, acc57, acc58, acc59, acc60, acc61, acc62, acc63, acc64, acc65, acc66, acc67, acc68, acc69, acc70, acc71"

extern "C" __global__ void __launch_bounds__(512, 1)
fw_attention(const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2,
  const int* __restrict__ p_t8,
  const int* __restrict__ p_t1,
  const int* __restrict__ p_t2,
  const int* __restrict__ p_t12,
  const float t6,
  float* __restrict__ partial0,
  float* __restrict__ partial1) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(72);
  const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned k_full = shared + 81920, k_empty = k_full + 32;  // mbarriers for each stage of K
  const unsigned v_full = k_empty + 32, v_empty = v_full + 32;  // of V
  const unsigned q_full = v_empty + 32, q_empty = q_full + 8;  // and for Q
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
    fw_tma_prefetch(&map2);
#pragma unroll 1
    for (unsigned stage = 0; stage < 4; ++stage) {
      fw_mbarrier_init(k_full + 8 * stage, 1);
      fw_mbarrier_init(v_full + 8 * stage, 1);
      fw_mbarrier_init(k_empty + 8 * stage, 12);  // warps that multiply what is in it
      fw_mbarrier_init(v_empty + 8 * stage, 12);
    }
    fw_mbarrier_init(q_full, 1);
    fw_mbarrier_init(q_empty, 12);
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<32>();
    if (warp == 0) {
      unsigned k_stage = 0, k_parity = 1, v_stage = 0, v_parity = 1, q_parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x, turn = 0; unit < 48u; ++turn, unit = unit + gridDim.x) {
        const unsigned part = unit % 8u, tile_of_all = unit / 8u;
        const unsigned head = tile_of_all % 6u;
        const int m0 = (int(tile_of_all / 6u)) * 192;
        const unsigned b = head / 2u, h = head % 2u;
        const int queries = min(max(p_t8[b * 1ull], 0), 1);
        const int keys = min(max(p_t1[b * 1ull], 0), 300);
        const int rows = queries * 8;  // of 8 heads, query by query
        const auto keys_of = [&]([[maybe_unused]] int row) { return keys; };
        const auto first_key = [&]([[maybe_unused]] int row) { return 0; };
        const int last_row = min(m0 + 192, rows) - 1;
        const int step_end = last_row < m0 ? 0 : (keys_of(last_row) + 15) / 16;
        const int first_step = min(first_key(m0) / 16, step_end);
        const unsigned steps_of_all = step_end - first_step;  // of which the parts have as many each, or one more
        const int begin = first_step + int(steps_of_all * part / 8u);
        const int end = first_step + int(steps_of_all * (part + 1) / 8u);
        const unsigned key_head = h / 1, value_head = h / 1;
        const auto load_k = [&](int block) {
          int page[1];
#pragma unroll
          for (int i = 0; i < 1; ++i) {
            const int box = 32 * i + int(lane), key = block * 16 + box * 16;
            page[i] = box < 1 && key < keys ? int(p_t2[b * 5ull + key / 64 * 1ull]) : -1;
          }
          fw_mbarrier_wait(k_empty + 8 * k_stage, k_parity);
          if (lane == 0) fw_mbarrier_expect(k_full + 8 * k_stage, 4096);
          __syncwarp();
          const unsigned tile = shared + 49152 + k_stage * 4096;
#pragma unroll
          for (int i = 0; i < 1; ++i) {
            const int box = 32 * i + int(lane), key = block * 16 + box * 16;
            if (box < 1) {
              fw_tma_load(tile + 0 + box * 2048, &map1, k_full + 8 * k_stage, 0, key % 64, key_head, page[i]);
              fw_tma_load(tile + 2048 + box * 2048, &map1, k_full + 8 * k_stage, 64, key % 64, key_head, page[i]);
            }
          }
          if (++k_stage == 4) k_stage = 0, k_parity ^= 1;
        };
        const auto load_v = [&](int block) {
          int page[1];
#pragma unroll
          for (int i = 0; i < 1; ++i) {
            const int box = 32 * i + int(lane), key = block * 16 + box * 16;
            page[i] = box < 1 && key < keys ? int(p_t12[b * 5ull + key / 64 * 1ull]) : -1;
          }
          fw_mbarrier_wait(v_empty + 8 * v_stage, v_parity);
          if (lane == 0) fw_mbarrier_expect(v_full + 8 * v_stage, 4096);
          __syncwarp();
          const unsigned tile = shared + 65536 + v_stage * 4096;
#pragma unroll
          for (int i = 0; i < 1; ++i) {
            const int box = 32 * i + int(lane), key = block * 16 + box * 16;
            if (box < 1) {
              fw_tma_load(tile + 0 + box * 2048, &map2, v_full + 8 * v_stage, 0, key % 64, value_head, page[i]);
              fw_tma_load(tile + 2048 + box * 2048, &map2, v_full + 8 * v_stage, 64, key % 64, value_head, page[i]);
            }
          }
          if (++v_stage == 4) v_stage = 0, v_parity ^= 1;
        };
        if (begin < end) load_k(end - 1);
        fw_mbarrier_wait(q_empty, q_parity);
        q_parity ^= 1;
        if (lane == 0) {
          fw_mbarrier_expect(q_full, 49152);
          fw_tma_load(shared + 0, &map0, q_full, 0, 0, m0 / 8, h, b);
          fw_tma_load(shared + 24576, &map0, q_full, 64, 0, m0 / 8, h, b);
        }
        if (begin >= end) continue;
#pragma unroll 1
        for (int block = end - 1; block > begin; --block) {
          load_k(block - 1);
          load_v(block);
        }
        load_v(begin);
      }
    }
  } else {
    fw_increase_registers<160>();
    const unsigned consumer = warp / 4 - 1, quad = lane % 4;
    const unsigned long long q = fw_matrix_descriptor<128>(shared + consumer * 8192, 0, 1024);
    const float negative = -fw_infinity();
    const float scale = t6;
    // scores are compared before they are scaled, where that does not turn their order
    const bool scales_first = !(scale > 0.0f && scale < fw_infinity());
    const float unit_of_scores = scales_first ? 1.0f : scale;
    const float c = unit_of_scores * 1.442695f, room = 8.0f / c;
    unsigned k_stage = 0, k_parity = 0, v_stage = 0, v_parity = 0, q_parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x, turn = 0; unit < 48u; ++turn, unit = unit + gridDim.x) {
      const unsigned part = unit % 8u, tile_of_all = unit / 8u;
      const unsigned head = tile_of_all % 6u;
      const int m0 = (int(tile_of_all / 6u)) * 192;
      const unsigned b = head / 2u, h = head % 2u;
      const int queries = min(max(p_t8[b * 1ull], 0), 1);
      const int keys = min(max(p_t1[b * 1ull], 0), 300);
      const int rows = queries * 8;  // of 8 heads, query by query
      const auto keys_of = [&]([[maybe_unused]] int row) { return keys; };
      const auto first_key = [&]([[maybe_unused]] int row) { return 0; };
      const int last_row = min(m0 + 192, rows) - 1;
      const int step_end = last_row < m0 ? 0 : (keys_of(last_row) + 15) / 16;
      const int first_step = min(first_key(m0) / 16, step_end);
      const unsigned steps_of_all = step_end - first_step;  // of which the parts have as many each, or one more
      const int begin = first_step + int(steps_of_all * part / 8u);
      const int end = first_step + int(steps_of_all * (part + 1) / 8u);
      const int first_row = m0 + consumer * 64, row = first_row + warp % 4 * 16 + lane / 4;
      const int own_last = min(first_row + 64, rows) - 1;
      const int own_end = own_last < first_row ? begin : min(max((keys_of(own_last) + 15) / 16, begin), end);
      const int own_begin = min(max(first_key(first_row) / 16, begin), own_end);
      // steps of which all rows keep all keys
      const int plain_end = first_row + 63 < rows ? keys_of(first_row) / 16 : 0, plain_begin = (first_key(first_row + 63) + 15) / 16;
      float m[2] = {negative, negative}, reference[2] = {0.0f, 0.0f}, sum[2] = {0.0f, 0.0f};
      float bound[2] = {m[0] + room, m[1] + room}, factor[2] = {1.0f, 1.0f};
      bool moves = false;
      // scores of a step become probabilities; `factor` is that of what was added up before, where it `moves`
      const auto softmax = [&](float (&x)[8], int block) {
        if (scales_first) {
#pragma unroll
          for (int i = 0; i < 8; ++i) x[i] *= scale;
        }
        if (block >= plain_end || block < plain_begin) {
          const int at = block * 16 + 2 * quad;
          int kept[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            kept[e] = row + 8 * e >= rows ? 0 : keys_of(row + 8 * e) - at;
          }
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
            if (column >= kept[e]) x[i] = negative;
          }
        }
        float top[2];
        fw_row_maxima(x, m, top);
        moves = __any_sync(0xffffffffu, top[0] > bound[0] || top[1] > bound[1]);
        if (moves) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float next = fw_quad_largest(top[e]), before = reference[e];
            reference[e] = next == negative ? 0.0f : next * c;
            factor[e] = m[e] == negative ? 0.0f : fw_fast_exp2(before - reference[e]);
            m[e] = next, bound[e] = next + room;
            sum[e] *= factor[e];
          }
        }
        fw_exponentials(x, c, reference, sum);
      };
      const auto release_k = [&] {
        if (lane == 0) fw_mbarrier_arrive(k_empty + 8 * k_stage);
        if (++k_stage == 4) k_stage = 0, k_parity ^= 1;
      };
      const auto release_v = [&] {
        if (lane == 0) fw_mbarrier_arrive(v_empty + 8 * v_stage);
        if (++v_stage == 4) v_stage = 0, v_parity ^= 1;
      };
      const auto skip = [&](int steps) {  // steps that are other consumers' alone
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
          fw_mbarrier_wait(k_full + 8 * k_stage, k_parity);
          __syncwarp();
          release_k();
          fw_mbarrier_wait(v_full + 8 * v_stage, v_parity);
          __syncwarp();
          release_v();
        }
      };
      const auto multiply_keys = [&] {
        fw_mbarrier_wait(k_full + 8 * k_stage, k_parity);
        const unsigned long long k = fw_matrix_descriptor<128>(shared + 49152 + k_stage * 4096, 0, 1024);
        FW_PRODUCTS(q, k, false,
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 1536, 128, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 1538, 130, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 1540, 132, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 1542, 134, "1", ", 1, 1, 0, 0"));
      };
      unsigned p[4] = {};
      const auto multiply_values = [&](int block, bool adds) {
        fw_mbarrier_wait(v_full + 8 * v_stage, v_parity);
        const unsigned tile = shared + 65536 + v_stage * 4096;
        if ((block + 1) * 16 > keys) {  // values beyond the sequence may be NaN, which no probability of 0 makes 0
          const unsigned thread = threadIdx.x % 128;
#pragma unroll 1
          for (unsigned chunk = max(keys - block * 16, 0) * 8 + thread; chunk < 128; chunk += 128) {
#pragma unroll
            for (unsigned line = 0; line < 2; ++line) {
              fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + line * 2048 + chunk * 16), fw_vector<unsigned, 4>{});
            }
          }
          fw_fence_async();
          if (consumer == 0) fw_named_barrier<1, 128>();
          else if (consumer == 1) fw_named_barrier<2, 128>();
          else fw_named_barrier<3, 128>();
        }
        const unsigned long long v = fw_matrix_descriptor<128>(tile, 2048, 1024);
        FW_PRODUCTS_OF(v, adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_VALUES, 0, "p", ", 1, 1, 1"), FW_WORD(p[0]), FW_WORD(p[1]), FW_WORD(p[2]), FW_WORD(p[3]));
      };

      const int steps = own_end - own_begin;
      skip(end - own_end);
      fw_mbarrier_wait(q_full, q_parity);
      q_parity ^= 1;
      if (steps == 0) {
        __syncwarp();
        if (lane == 0) fw_mbarrier_arrive(q_empty);
      } else {
        multiply_keys();
        fw_wgmma_wait<0>();
        if (steps == 1 && lane == 0) fw_mbarrier_arrive(q_empty);
        release_k();
        {
          float x[8];
          fw_take_all<0>(x);
          softmax(x, own_end - 1);
#pragma unroll
          for (int i = 0; i < 4; ++i) p[i] = fw_pack_bf16x2(x[2 * i], x[2 * i + 1]);
        }
#pragma unroll 1
        for (int block = own_end - 2; block >= own_begin; --block) {
          multiply_keys();
          multiply_values(block + 1, block != own_end - 2);
          fw_wgmma_wait<1>();
          if (block == own_begin && lane == 0) fw_mbarrier_arrive(q_empty);
          release_k();
          float x[8];
          fw_take_all<0>(x);
          softmax(x, block);
          fw_behind(sum[0] + sum[1]);
          fw_wgmma_wait<0>();
          release_v();
          if (moves) fw_scale_all<8, 64>(factor);
#pragma unroll
          for (int i = 0; i < 4; ++i) p[i] = fw_pack_bf16x2(x[2 * i], x[2 * i + 1]);
        }
        multiply_values(own_begin, steps > 1);
      }
      float scaled[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float total = fw_quad_total(sum[e]);
        scaled[e] = total == 0.0f ? 0.0f : 1.0f / total;
        if (quad == 0 && row + 8 * e < 8) {
          partial1[part * 48ull + head * 8ull + row + 8 * e] = total == 0.0f ? negative : reference[e] + log2f(total);
        }
      }
      fw_wgmma_wait<0>();
      if (steps > 0) release_v();
      skip(own_begin - begin);
      if (steps == 0) {
        FW_CLEAR(FW_ZERO(8) FW_ZERO(9) FW_ZERO(10) FW_ZERO(11) FW_ZERO(12) FW_ZERO(13) FW_ZERO(14) FW_ZERO(15) FW_ZERO(16) FW_ZERO(17) FW_ZERO(18) FW_ZERO(19) FW_ZERO(20) FW_ZERO(21) FW_ZERO(22) FW_ZERO(23) FW_ZERO(24) FW_ZERO(25) FW_ZERO(26) FW_ZERO(27) FW_ZERO(28) FW_ZERO(29) FW_ZERO(30) FW_ZERO(31) FW_ZERO(32) FW_ZERO(33) FW_ZERO(34) FW_ZERO(35) FW_ZERO(36) FW_ZERO(37) FW_ZERO(38) FW_ZERO(39) FW_ZERO(40) FW_ZERO(41) FW_ZERO(42) FW_ZERO(43) FW_ZERO(44) FW_ZERO(45) FW_ZERO(46) FW_ZERO(47) FW_ZERO(48) FW_ZERO(49) FW_ZERO(50) FW_ZERO(51) FW_ZERO(52) FW_ZERO(53) FW_ZERO(54) FW_ZERO(55) FW_ZERO(56) FW_ZERO(57) FW_ZERO(58) FW_ZERO(59) FW_ZERO(60) FW_ZERO(61) FW_ZERO(62) FW_ZERO(63) FW_ZERO(64) FW_ZERO(65) FW_ZERO(66) FW_ZERO(67) FW_ZERO(68) FW_ZERO(69) FW_ZERO(70) FW_ZERO(71) );
      }
      float* const part_row = partial0 + (part * 48ull + head * 8ull + row) * 128ull + 2 * quad;
      const auto store_part = [&](unsigned column, const float (&y)[4]) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (row + 8 * e < 8) *reinterpret_cast<fw_vector<float, 2>*>(part_row + 1024 * e + column) = {{y[2 * e] * scaled[e], y[2 * e + 1] * scaled[e]}};
        }
      };
      {
        float y[4];
        fw_take<8>(y);
        store_part(0, y);
      }
      {
        float y[4];
        fw_take<12>(y);
        store_part(8, y);
      }
      {
        float y[4];
        fw_take<16>(y);
        store_part(16, y);
      }
      {
        float y[4];
        fw_take<20>(y);
        store_part(24, y);
      }
      {
        float y[4];
        fw_take<24>(y);
        store_part(32, y);
      }
      {
        float y[4];
        fw_take<28>(y);
        store_part(40, y);
      }
      {
        float y[4];
        fw_take<32>(y);
        store_part(48, y);
      }
      {
        float y[4];
        fw_take<36>(y);
        store_part(56, y);
      }
      {
        float y[4];
        fw_take<40>(y);
        store_part(64, y);
      }
      {
        float y[4];
        fw_take<44>(y);
        store_part(72, y);
      }
      {
        float y[4];
        fw_take<48>(y);
        store_part(80, y);
      }
      {
        float y[4];
        fw_take<52>(y);
        store_part(88, y);
      }
      {
        float y[4];
        fw_take<56>(y);
        store_part(96, y);
      }
      {
        float y[4];
        fw_take<60>(y);
        store_part(104, y);
      }
      {
        float y[4];
        fw_take<64>(y);
        store_part(112, y);
      }
      {
        float y[4];
        fw_take<68>(y);
        store_part(120, y);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256)
fw_combination_1(fw_bf16* __restrict__ p_t14_matmul, float* __restrict__ partial0, float* __restrict__ partial1) {
  fw_wait_for_previous_launch();
  const unsigned lane = threadIdx.x % 32, row_of_all = blockIdx.x * 8 + threadIdx.x / 32;
  if (row_of_all >= 48u) return;
  const unsigned head = row_of_all / 8u;
  [[maybe_unused]] const unsigned b = head / 2u, h = head % 2u;
  [[maybe_unused]] const int row = int(row_of_all % 8u);
  const float negative = -fw_infinity();
  const float own = lane < 8 ? partial1[lane * 48ull + row_of_all] : negative;
  float top = own;
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lanes));
  const float weight = own == negative ? 0.0f : fw_fast_exp2(own - top);
  float total = weight;
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(0xffffffffu, total, lanes);
  const float share = total == 0.0f ? 0.0f : weight / total;
  const float* const first = partial0 + row_of_all * 128ull;
#pragma unroll
  for (unsigned from = 0; from < 128; from += 64) {
    const unsigned column = min(from + 2 * lane, 126u);
    fw_vector<float, 2> y = {{0.0f, 0.0f}};
#pragma unroll 8
    for (int part = 0; part < 8; ++part) {
      const float share_of_part = __shfl_sync(0xffffffffu, share, part);
      const auto x = *reinterpret_cast<const fw_vector<float, 2>*>(first + part * 6144ull + column);
      y.at[0] = fmaf(share_of_part, x.at[0], y.at[0]), y.at[1] = fmaf(share_of_part, x.at[1], y.at[1]);
    }
    if (column == from + 2 * lane) {
      auto* const to = p_t14_matmul + b * 2048ull + (h * 8 + (row) % 8) * 128ull + ((row) / 8) * 128ull;
#pragma unroll
      for (int e = 0; e < 2; ++e) to[(column + e) * 1ull] = fw_to_bf16(y.at[e]);
    }
  }
}
