// fusewright 0.1.0, engine config: warpgroup_attention tile_m=64 tile_n=160 stages=2
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

#define FW_SCORES "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31, acc32, acc33, acc34, acc35, acc36, acc37, acc38, acc39, acc40, acc41, acc42, acc43, acc44, acc45, acc46, acc47, acc48, acc49, acc50, acc51, acc52, acc53, acc54, acc55, acc56, acc57, acc58, acc59, acc60, acc61, acc62, acc63, acc64, acc65, acc66, acc67, acc68, acc69, acc70, acc71, acc72, acc73, acc74, acc75, acc76, acc77, acc78, acc79"
#define FW_VALUES "acc80, acc81, acc82, acc83, acc84, acc85, acc86, acc87, acc88, acc89, acc90, acc91, acc92, acc93, acc94, acc95, acc96, acc97, acc98, acc99, acc100, acc101, acc102, acc103, acc104, acc105, acc106, acc107, acc108, acc109, acc110, acc111, acc112, acc113, acc114, acc115, acc116, acc117, acc118, acc119, acc120, acc121, acc122, acc123, acc124, acc125, acc126, acc127, acc128, acc129, acc130, acc131, acc132, acc133, acc134, acc135, acc136, acc137, acc138, acc139, acc140, acc141, acc142, acc143"

extern "C" __global__ void __launch_bounds__(256, 1)
fw_attention(const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2,
  const int* __restrict__ p_t8,
  const int* __restrict__ p_t1,
  const int* __restrict__ p_t2,
  const int* __restrict__ p_t12,
  const float t6,
  fw_bf16* __restrict__ p_t14_matmul) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(144);
  const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned k_full = shared + 180224, k_empty = k_full + 16;  // mbarriers for each stage of K
  const unsigned v_full = k_empty + 16, v_empty = v_full + 16;  // of V
  const unsigned q_full = v_empty + 16, q_empty = q_full + 8;  // and for Q
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
    fw_tma_prefetch(&map2);
#pragma unroll
    for (unsigned stage = 0; stage < 2; ++stage) {
      fw_mbarrier_init(k_full + 8 * stage, 1);
      fw_mbarrier_init(v_full + 8 * stage, 1);
      fw_mbarrier_init(k_empty + 8 * stage, 4);  // warps that multiply what is in it
      fw_mbarrier_init(v_empty + 8 * stage, 4);
    }
    fw_mbarrier_init(q_full, 1);
    fw_mbarrier_init(q_empty, 4);
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<24>();
    if (warp == 0) {
      unsigned k_stage = 0, k_parity = 1, v_stage = 0, v_parity = 1, q_parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x, turn = 0; unit < 48u; ++turn, unit = unit + gridDim.x) {
        const unsigned head = unit % 48u;
        const int m0 = (int(unit / 48u)) * 64;
        const unsigned b = head / 16u, h = head % 16u;
        const int queries = min(max(p_t8[b * 1ull], 0), 1);
        const int keys = min(max(p_t1[b * 1ull], 0), 300);
        const int rows = queries;
        const auto keys_of = [&]([[maybe_unused]] int row) { return keys; };
        const auto first_key = [&]([[maybe_unused]] int row) { return 0; };
        const int last_row = min(m0 + 64, rows) - 1;
        const int end = last_row < m0 ? 0 : (keys_of(last_row) + 159) / 160;
        const int begin = min(first_key(m0) / 160, end);
        const unsigned key_head = h / 8, value_head = h / 8;
        const auto load_k = [&](int block) {
          int page[1];
#pragma unroll
          for (int i = 0; i < 1; ++i) {
            const int box = 32 * i + int(lane), key = block * 160 + box * 32;
            page[i] = box < 5 && key < keys ? int(p_t2[b * 5ull + key / 64 * 1ull]) : -1;
          }
          fw_mbarrier_wait(k_empty + 8 * k_stage, k_parity);
          if (lane == 0) fw_mbarrier_expect(k_full + 8 * k_stage, 40960);
          __syncwarp();
          const unsigned tile = shared + 16384 + k_stage * 40960;
#pragma unroll
          for (int i = 0; i < 1; ++i) {
            const int box = 32 * i + int(lane), key = block * 160 + box * 32;
            if (box < 5) {
              fw_tma_load(tile + 0 + box * 4096, &map1, k_full + 8 * k_stage, 0, key % 64, key_head, page[i]);
              fw_tma_load(tile + 20480 + box * 4096, &map1, k_full + 8 * k_stage, 64, key % 64, key_head, page[i]);
            }
          }
          if (++k_stage == 2) k_stage = 0, k_parity ^= 1;
        };
        const auto load_v = [&](int block) {
          int page[1];
#pragma unroll
          for (int i = 0; i < 1; ++i) {
            const int box = 32 * i + int(lane), key = block * 160 + box * 32;
            page[i] = box < 5 && key < keys ? int(p_t12[b * 5ull + key / 64 * 1ull]) : -1;
          }
          fw_mbarrier_wait(v_empty + 8 * v_stage, v_parity);
          if (lane == 0) fw_mbarrier_expect(v_full + 8 * v_stage, 40960);
          __syncwarp();
          const unsigned tile = shared + 98304 + v_stage * 40960;
#pragma unroll
          for (int i = 0; i < 1; ++i) {
            const int box = 32 * i + int(lane), key = block * 160 + box * 32;
            if (box < 5) {
              fw_tma_load(tile + 0 + box * 4096, &map2, v_full + 8 * v_stage, 0, key % 64, value_head, page[i]);
              fw_tma_load(tile + 20480 + box * 4096, &map2, v_full + 8 * v_stage, 64, key % 64, value_head, page[i]);
            }
          }
          if (++v_stage == 2) v_stage = 0, v_parity ^= 1;
        };
        if (begin < end) load_k(end - 1);
        fw_mbarrier_wait(q_empty, q_parity);
        q_parity ^= 1;
        if (lane == 0) {
          fw_mbarrier_expect(q_full, 16384);
          fw_tma_load(shared + 0, &map0, q_full, 0, m0, h, b);
          fw_tma_load(shared + 8192, &map0, q_full, 64, m0, h, b);
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
    fw_increase_registers<240>();
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
      const unsigned head = unit % 48u;
      const int m0 = (int(unit / 48u)) * 64;
      const unsigned b = head / 16u, h = head % 16u;
      const int queries = min(max(p_t8[b * 1ull], 0), 1);
      const int keys = min(max(p_t1[b * 1ull], 0), 300);
      const int rows = queries;
      const auto keys_of = [&]([[maybe_unused]] int row) { return keys; };
      const auto first_key = [&]([[maybe_unused]] int row) { return 0; };
      const int last_row = min(m0 + 64, rows) - 1;
      const int end = last_row < m0 ? 0 : (keys_of(last_row) + 159) / 160;
      const int begin = min(first_key(m0) / 160, end);
      const int first_row = m0 + consumer * 64, row = first_row + warp % 4 * 16 + lane / 4;
      const int own_last = min(first_row + 64, rows) - 1;
      const int own_end = own_last < first_row ? begin : min(max((keys_of(own_last) + 159) / 160, begin), end);
      const int own_begin = min(max(first_key(first_row) / 160, begin), own_end);
      // steps of which all rows keep all keys
      const int plain_end = first_row + 63 < rows ? keys_of(first_row) / 160 : 0, plain_begin = (first_key(first_row + 63) + 159) / 160;
      float m[2] = {negative, negative}, reference[2] = {0.0f, 0.0f}, sum[2] = {0.0f, 0.0f};
      float bound[2] = {m[0] + room, m[1] + room}, factor[2] = {1.0f, 1.0f};
      bool moves = false;
      // scores of a step become probabilities; `factor` is that of what was added up before, where it `moves`
      const auto softmax = [&](float (&x)[80], int block) {
        if (scales_first) {
#pragma unroll
          for (int i = 0; i < 80; ++i) x[i] *= scale;
        }
        if (block >= plain_end || block < plain_begin) {
          const int at = block * 160 + 2 * quad;
          int kept[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            kept[e] = row + 8 * e >= rows ? 0 : keys_of(row + 8 * e) - at;
          }
#pragma unroll
          for (int i = 0; i < 80; ++i) {
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
        if (++k_stage == 2) k_stage = 0, k_parity ^= 1;
      };
      const auto release_v = [&] {
        if (lane == 0) fw_mbarrier_arrive(v_empty + 8 * v_stage);
        if (++v_stage == 2) v_stage = 0, v_parity ^= 1;
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
        const unsigned long long k = fw_matrix_descriptor<128>(shared + 16384 + k_stage * 40960, 0, 1024);
        FW_PRODUCTS(q, k, false,
          FW_PRODUCT("m64n160k16.f32.bf16.bf16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n160k16.f32.bf16.bf16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n160k16.f32.bf16.bf16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n160k16.f32.bf16.bf16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n160k16.f32.bf16.bf16", FW_SCORES, 512, 1280, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n160k16.f32.bf16.bf16", FW_SCORES, 514, 1282, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n160k16.f32.bf16.bf16", FW_SCORES, 516, 1284, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n160k16.f32.bf16.bf16", FW_SCORES, 518, 1286, "1", ", 1, 1, 0, 0"));
      };
      unsigned p[40] = {};
      const auto multiply_values = [&](int block, bool adds) {
        fw_mbarrier_wait(v_full + 8 * v_stage, v_parity);
        const unsigned tile = shared + 98304 + v_stage * 40960;
        if ((block + 1) * 160 > keys) {  // values beyond the sequence may be NaN, which no probability of 0 makes 0
          const unsigned thread = threadIdx.x % 128;
#pragma unroll 1
          for (unsigned chunk = max(keys - block * 160, 0) * 8 + thread; chunk < 1280; chunk += 128) {
#pragma unroll
            for (unsigned line = 0; line < 2; ++line) {
              fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + line * 20480 + chunk * 16), fw_vector<unsigned, 4>{});
            }
          }
          fw_fence_async();
          fw_named_barrier<1, 128>();
        }
        const unsigned long long v = fw_matrix_descriptor<128>(tile, 20480, 1024);
        FW_PRODUCTS_OF(v, adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_VALUES, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 6, 7, 8, 9, FW_VALUES, 128, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 10, 11, 12, 13, FW_VALUES, 256, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 14, 15, 16, 17, FW_VALUES, 384, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 18, 19, 20, 21, FW_VALUES, 512, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 22, 23, 24, 25, FW_VALUES, 640, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 26, 27, 28, 29, FW_VALUES, 768, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 30, 31, 32, 33, FW_VALUES, 896, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 34, 35, 36, 37, FW_VALUES, 1024, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 38, 39, 40, 41, FW_VALUES, 1152, "1", ", 1, 1, 1"), FW_WORD(p[0]), FW_WORD(p[1]), FW_WORD(p[2]), FW_WORD(p[3]), FW_WORD(p[4]), FW_WORD(p[5]), FW_WORD(p[6]), FW_WORD(p[7]), FW_WORD(p[8]), FW_WORD(p[9]), FW_WORD(p[10]), FW_WORD(p[11]), FW_WORD(p[12]), FW_WORD(p[13]), FW_WORD(p[14]), FW_WORD(p[15]), FW_WORD(p[16]), FW_WORD(p[17]), FW_WORD(p[18]), FW_WORD(p[19]), FW_WORD(p[20]), FW_WORD(p[21]), FW_WORD(p[22]), FW_WORD(p[23]), FW_WORD(p[24]), FW_WORD(p[25]), FW_WORD(p[26]), FW_WORD(p[27]), FW_WORD(p[28]), FW_WORD(p[29]), FW_WORD(p[30]), FW_WORD(p[31]), FW_WORD(p[32]), FW_WORD(p[33]), FW_WORD(p[34]), FW_WORD(p[35]), FW_WORD(p[36]), FW_WORD(p[37]), FW_WORD(p[38]), FW_WORD(p[39]));
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
          float x[80];
          fw_take_all<0>(x);
          softmax(x, own_end - 1);
#pragma unroll
          for (int i = 0; i < 40; ++i) p[i] = fw_pack_bf16x2(x[2 * i], x[2 * i + 1]);
        }
#pragma unroll 1
        for (int block = own_end - 2; block >= own_begin; --block) {
          multiply_keys();
          multiply_values(block + 1, block != own_end - 2);
          fw_wgmma_wait<1>();
          if (block == own_begin && lane == 0) fw_mbarrier_arrive(q_empty);
          release_k();
          float x[80];
          fw_take_all<0>(x);
          softmax(x, block);
          fw_behind(sum[0] + sum[1]);
          fw_wgmma_wait<0>();
          release_v();
          if (moves) fw_scale_all<80, 64>(factor);
#pragma unroll
          for (int i = 0; i < 40; ++i) p[i] = fw_pack_bf16x2(x[2 * i], x[2 * i + 1]);
        }
        multiply_values(own_begin, steps > 1);
      }
      float scaled[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float total = fw_quad_total(sum[e]);
        scaled[e] = total == 0.0f ? 0.0f : 1.0f / total;
      }
      fw_wgmma_wait<0>();
      if (steps > 0) release_v();
      skip(own_begin - begin);
      if (steps == 0) {
        FW_CLEAR(FW_ZERO(80) FW_ZERO(81) FW_ZERO(82) FW_ZERO(83) FW_ZERO(84) FW_ZERO(85) FW_ZERO(86) FW_ZERO(87) FW_ZERO(88) FW_ZERO(89) FW_ZERO(90) FW_ZERO(91) FW_ZERO(92) FW_ZERO(93) FW_ZERO(94) FW_ZERO(95) FW_ZERO(96) FW_ZERO(97) FW_ZERO(98) FW_ZERO(99) FW_ZERO(100) FW_ZERO(101) FW_ZERO(102) FW_ZERO(103) FW_ZERO(104) FW_ZERO(105) FW_ZERO(106) FW_ZERO(107) FW_ZERO(108) FW_ZERO(109) FW_ZERO(110) FW_ZERO(111) FW_ZERO(112) FW_ZERO(113) FW_ZERO(114) FW_ZERO(115) FW_ZERO(116) FW_ZERO(117) FW_ZERO(118) FW_ZERO(119) FW_ZERO(120) FW_ZERO(121) FW_ZERO(122) FW_ZERO(123) FW_ZERO(124) FW_ZERO(125) FW_ZERO(126) FW_ZERO(127) FW_ZERO(128) FW_ZERO(129) FW_ZERO(130) FW_ZERO(131) FW_ZERO(132) FW_ZERO(133) FW_ZERO(134) FW_ZERO(135) FW_ZERO(136) FW_ZERO(137) FW_ZERO(138) FW_ZERO(139) FW_ZERO(140) FW_ZERO(141) FW_ZERO(142) FW_ZERO(143));
      }
      {
        unsigned w[2][4] = {};
        float y[4];
        fw_take<80>(y);
        w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<84>(y);
        w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<88>(y);
        w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<92>(y);
        w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          fw_quad_transpose(w[e], lane);
          const int row_of = row + 8 * e, column = 0 + 8 * quad;
          if (row_of < 1) {
            fw_bf16* const to = p_t14_matmul + b * 2048ull + h * 128ull + (row_of) * 128ull + column;
            fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
          }
        }
      }
      {
        unsigned w[2][4] = {};
        float y[4];
        fw_take<96>(y);
        w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<100>(y);
        w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<104>(y);
        w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<108>(y);
        w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          fw_quad_transpose(w[e], lane);
          const int row_of = row + 8 * e, column = 32 + 8 * quad;
          if (row_of < 1) {
            fw_bf16* const to = p_t14_matmul + b * 2048ull + h * 128ull + (row_of) * 128ull + column;
            fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
          }
        }
      }
      {
        unsigned w[2][4] = {};
        float y[4];
        fw_take<112>(y);
        w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<116>(y);
        w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<120>(y);
        w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<124>(y);
        w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          fw_quad_transpose(w[e], lane);
          const int row_of = row + 8 * e, column = 64 + 8 * quad;
          if (row_of < 1) {
            fw_bf16* const to = p_t14_matmul + b * 2048ull + h * 128ull + (row_of) * 128ull + column;
            fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
          }
        }
      }
      {
        unsigned w[2][4] = {};
        float y[4];
        fw_take<128>(y);
        w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<132>(y);
        w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<136>(y);
        w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<140>(y);
        w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          fw_quad_transpose(w[e], lane);
          const int row_of = row + 8 * e, column = 96 + 8 * quad;
          if (row_of < 1) {
            fw_bf16* const to = p_t14_matmul + b * 2048ull + h * 128ull + (row_of) * 128ull + column;
            fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
          }
        }
      }
    }
  }
}
