// fusewright 0.1.0, engine config: warpgroup_attention tile_m=64 tile_n=64 stages=2 pack_heads=1 tile_scheduler=dynamic
// t0 = input HALF [2, 4, 100, 64] stride [25600, 6400, 64, 1]
// t1 = input HALF [2, 2, 64, 230] stride [29440, 14720, 1, 64]
// t3 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t8 = input HALF [2, 2, 230, 64] stride [29440, 14720, 64, 1]
// t2_matmul = MATMUL(A=t0, B=t1) compute FLOAT -> virtual FLOAT [2, 4, 100, 230] stride [92000, 23000, 230, 1]
// t4_mul = POINTWISE(IN_0=t2_matmul, IN_1=t3) MUL compute FLOAT -> virtual FLOAT [2, 4, 100, 230] stride [92000, 23000, 230, 1]
// t5_score_mask = SCORE_MASK(X=t4_mul) right_bound=0 compute FLOAT -> virtual FLOAT [2, 4, 100, 230] stride [92000, 23000, 230, 1]
// t6_softmax, t7_softmax = SOFTMAX(X=t5_score_mask) compute FLOAT -> virtual HALF [2, 4, 100, 230] stride [92000, 23000, 230, 1], output FLOAT [2, 4, 100, 1] stride [400, 100, 1, 1]
// t9_matmul = MATMUL(A=t6_softmax, B=t8) compute FLOAT -> output HALF [2, 4, 100, 64] stride [25600, 6400, 64, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_shared_address

//@ fw_accumulators

//@ fw_fast_exp2

//@ fw_wait_for_previous_launch

//@ fw_tensor_map

//@ fw_elect

//@ fw_mbarrier

//@ fw_coordinate

//@ fw_tma_load

//@ fw_set_registers

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_infinity

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ fw_scale_accumulators

//@ fw_uniform

//@ fw_claim

//@ fw_behind

//@ fw_take_all

//@ fw_scale_all

//@ fw_row_maxima

//@ fw_exponentials

//@ fw_quad_largest

//@ fw_quad_total

//@ fw_quad_transpose

//@ program
extern "C" __global__ void __launch_bounds__(32)
fw_tile_counter(unsigned* tile_counter) {
  fw_wait_for_previous_launch();
  if (threadIdx.x == 0) *tile_counter = 0;
}

//@ program
#define FW_SCORES "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31"
#define FW_VALUES "acc32, acc33, acc34, acc35, acc36, acc37, acc38, acc39, acc40, acc41, acc42, acc43, acc44, acc45, acc46, acc47, acc48, acc49, acc50, acc51, acc52, acc53, acc54, acc55, acc56, acc57, acc58, acc59, acc60, acc61, acc62, acc63"

extern "C" __global__ void __launch_bounds__(256, 1)
fw_attention_1(const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2,
  const float t3,
  fw_f16* __restrict__ p_t9_matmul,
  float* __restrict__ p_t7_softmax,
  unsigned* tile_counter) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(64);
  const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned k_full = shared + 40960, k_empty = k_full + 16;  // mbarriers for each stage of K
  const unsigned v_full = k_empty + 16, v_empty = v_full + 16;  // of V
  const unsigned q_full = v_empty + 16, q_empty = q_full + 8;  // and for Q
  unsigned* const claimed = reinterpret_cast<unsigned*>(shared_bytes + 41040);  // the tile that the producer claimed
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
    if (warp == 0 && fw_elect()) {
      unsigned k_stage = 0, k_parity = 1, v_stage = 0, v_parity = 1, q_parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < 16u; unit = fw_claim(tile_counter, 16u)) {
        const unsigned head = unit % 4u;
        const int m0 = (3 - int(unit / 4u)) * 64;
        const unsigned b = head / 2u, h = head % 2u;
        constexpr int queries = 100, keys = 230;
        const int rows = queries * 2;  // of 2 heads, query by query
        const auto keys_of = [&]([[maybe_unused]] int row) { return min(keys, max((row) / 2 + 1, 0)); };
        const auto first_key = [&]([[maybe_unused]] int row) { return 0; };
        const int last_row = min(m0 + 64, rows) - 1;
        const int end = last_row < m0 ? 0 : (keys_of(last_row) + 63) / 64;
        const int begin = min(first_key(m0) / 64, end);
        const unsigned key_head = h / 1, value_head = h / 1;
        const auto load_k = [&](int block) {
          fw_mbarrier_wait(k_empty + 8 * k_stage, k_parity);
          fw_mbarrier_expect(k_full + 8 * k_stage, 8192);
          const unsigned tile = shared + 8192 + k_stage * 8192;
          fw_tma_load(tile + 0, &map1, k_full + 8 * k_stage, 0, block * 64, key_head, b);
          if (++k_stage == 2) k_stage = 0, k_parity ^= 1;
        };
        const auto load_v = [&](int block) {
          fw_mbarrier_wait(v_empty + 8 * v_stage, v_parity);
          fw_mbarrier_expect(v_full + 8 * v_stage, 8192);
          const unsigned tile = shared + 24576 + v_stage * 8192;
          fw_tma_load(tile + 0, &map2, v_full + 8 * v_stage, 0, block * 64, value_head, b);
          if (++v_stage == 2) v_stage = 0, v_parity ^= 1;
        };
        if (begin < end) load_k(end - 1);
        fw_mbarrier_wait(q_empty, q_parity);
        q_parity ^= 1;
        *claimed = unit;
        fw_mbarrier_expect(q_full, 8192);
        fw_tma_load(shared + 0, &map0, q_full, 0, 0, m0 / 2, h, b);
        if (begin >= end) continue;
#pragma unroll 1
        for (int block = end - 1; block > begin; --block) {
          load_k(block - 1);
          load_v(block);
        }
        load_v(begin);
      }
      fw_mbarrier_wait(q_empty, q_parity);
      *claimed = 16u;  // no tile is left
      fw_mbarrier_arrive(q_full);
    }
  } else {
    fw_increase_registers<240>();
    const unsigned consumer = warp / 4 - 1, quad = lane % 4;
    const unsigned long long q = fw_matrix_descriptor<128>(shared + consumer * 8192, 0, 1024);
    const float negative = -fw_infinity();
    const float scale = t3;
    // scores are compared before they are scaled, where that does not turn their order
    const bool scales_first = !(scale > 0.0f && scale < fw_infinity());
    const float unit_of_scores = scales_first ? 1.0f : scale;
    const float c = unit_of_scores * 1.442695f, room = 8.0f / c;
    unsigned k_stage = 0, k_parity = 0, v_stage = 0, v_parity = 0, q_parity = 0;
#pragma unroll 1
    for (;; q_parity ^= 1) {
      fw_mbarrier_wait(q_full, q_parity);
      const unsigned unit = fw_uniform(*claimed);  // before the queries are released
      if (unit >= 16u) break;
      const unsigned head = unit % 4u;
      const int m0 = (3 - int(unit / 4u)) * 64;
      const unsigned b = head / 2u, h = head % 2u;
      constexpr int queries = 100, keys = 230;
      const int rows = queries * 2;  // of 2 heads, query by query
      const auto keys_of = [&]([[maybe_unused]] int row) { return min(keys, max((row) / 2 + 1, 0)); };
      const auto first_key = [&]([[maybe_unused]] int row) { return 0; };
      const int last_row = min(m0 + 64, rows) - 1;
      const int end = last_row < m0 ? 0 : (keys_of(last_row) + 63) / 64;
      const int begin = min(first_key(m0) / 64, end);
      const int first_row = m0 + consumer * 64, row = first_row + warp % 4 * 16 + lane / 4;
      const int own_last = min(first_row + 64, rows) - 1;
      const int own_end = own_last < first_row ? begin : min(max((keys_of(own_last) + 63) / 64, begin), end);
      const int own_begin = min(max(first_key(first_row) / 64, begin), own_end);
      // steps of which all rows keep all keys
      const int plain_end = keys_of(first_row) / 64, plain_begin = (first_key(first_row + 63) + 63) / 64;
      float m[2] = {negative, negative}, reference[2] = {0.0f, 0.0f}, sum[2] = {0.0f, 0.0f};
      float bound[2] = {m[0] + room, m[1] + room}, factor[2] = {1.0f, 1.0f};
      bool moves = false;
      // scores of a step become probabilities; `factor` is that of what was added up before, where it `moves`
      const auto softmax = [&](float (&x)[32], int block) {
        if (scales_first) {
#pragma unroll
          for (int i = 0; i < 32; ++i) x[i] *= scale;
        }
        if (block >= plain_end || block < plain_begin) {
          const int at = block * 64 + 2 * quad;
          int kept[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            kept[e] = keys_of(row + 8 * e) - at;
          }
#pragma unroll
          for (int i = 0; i < 32; ++i) {
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
        const unsigned long long k = fw_matrix_descriptor<128>(shared + 8192 + k_stage * 8192, 0, 1024);
        FW_PRODUCTS(q, k, false,
          FW_PRODUCT("m64n64k16.f32.f16.f16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n64k16.f32.f16.f16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n64k16.f32.f16.f16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n64k16.f32.f16.f16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0"));
      };
      unsigned p[16] = {};
      const auto multiply_values = [&](int block, bool adds) {
        fw_mbarrier_wait(v_full + 8 * v_stage, v_parity);
        const unsigned tile = shared + 24576 + v_stage * 8192;
        const unsigned long long v = fw_matrix_descriptor<128>(tile, 8192, 1024);
        FW_PRODUCTS_OF(v, adds,
          FW_PRODUCT_OF("m64n64k16.f32.f16.f16", 2, 3, 4, 5, FW_VALUES, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n64k16.f32.f16.f16", 6, 7, 8, 9, FW_VALUES, 128, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n64k16.f32.f16.f16", 10, 11, 12, 13, FW_VALUES, 256, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n64k16.f32.f16.f16", 14, 15, 16, 17, FW_VALUES, 384, "1", ", 1, 1, 1"), FW_WORD(p[0]), FW_WORD(p[1]), FW_WORD(p[2]), FW_WORD(p[3]), FW_WORD(p[4]), FW_WORD(p[5]), FW_WORD(p[6]), FW_WORD(p[7]), FW_WORD(p[8]), FW_WORD(p[9]), FW_WORD(p[10]), FW_WORD(p[11]), FW_WORD(p[12]), FW_WORD(p[13]), FW_WORD(p[14]), FW_WORD(p[15]));
      };

      const int steps = own_end - own_begin;
      skip(end - own_end);
      if (steps == 0) {
        __syncwarp();
        if (lane == 0) fw_mbarrier_arrive(q_empty);
      } else {
        multiply_keys();
        fw_wgmma_wait<0>();
        if (steps == 1 && lane == 0) fw_mbarrier_arrive(q_empty);
        release_k();
        {
          float x[32];
          fw_take_all<0>(x);
          softmax(x, own_end - 1);
#pragma unroll
          for (int i = 0; i < 16; ++i) p[i] = fw_pack_f16x2(x[2 * i], x[2 * i + 1]);
        }
#pragma unroll 1
        for (int block = own_end - 2; block >= own_begin; --block) {
          multiply_keys();
          multiply_values(block + 1, block != own_end - 2);
          fw_wgmma_wait<1>();
          if (block == own_begin && lane == 0) fw_mbarrier_arrive(q_empty);
          release_k();
          float x[32];
          fw_take_all<0>(x);
          softmax(x, block);
          fw_behind(sum[0] + sum[1]);
          fw_wgmma_wait<0>();
          release_v();
          if (moves) fw_scale_all<32, 32>(factor);
#pragma unroll
          for (int i = 0; i < 16; ++i) p[i] = fw_pack_f16x2(x[2 * i], x[2 * i + 1]);
        }
        multiply_values(own_begin, steps > 1);
      }
      float scaled[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float total = fw_quad_total(sum[e]);
        scaled[e] = total == 0.0f ? 0.0f : 1.0f / total;
        if (quad == 0 && row + 8 * e < 200) {
          p_t7_softmax[b * 400ull + (h * 2 + (row + 8 * e) % 2) * 100ull + ((row + 8 * e) / 2) * 1ull] = total == 0.0f ? negative : (reference[e] + log2f(total)) * 0.6931472f;
        }
      }
      fw_wgmma_wait<0>();
      if (steps > 0) release_v();
      skip(own_begin - begin);
      if (steps == 0) {
        FW_CLEAR(FW_ZERO(32) FW_ZERO(33) FW_ZERO(34) FW_ZERO(35) FW_ZERO(36) FW_ZERO(37) FW_ZERO(38) FW_ZERO(39) FW_ZERO(40) FW_ZERO(41) FW_ZERO(42) FW_ZERO(43) FW_ZERO(44) FW_ZERO(45) FW_ZERO(46) FW_ZERO(47) FW_ZERO(48) FW_ZERO(49) FW_ZERO(50) FW_ZERO(51) FW_ZERO(52) FW_ZERO(53) FW_ZERO(54) FW_ZERO(55) FW_ZERO(56) FW_ZERO(57) FW_ZERO(58) FW_ZERO(59) FW_ZERO(60) FW_ZERO(61) FW_ZERO(62) FW_ZERO(63));
      }
      {
        unsigned w[2][4] = {};
        float y[4];
        fw_take<32>(y);
        w[0][0] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<36>(y);
        w[0][1] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<40>(y);
        w[0][2] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<44>(y);
        w[0][3] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          fw_quad_transpose(w[e], lane);
          const int row_of = row + 8 * e, column = 0 + 8 * quad;
          if (row_of < 200) {
            fw_f16* const to = p_t9_matmul + b * 25600ull + (h * 2 + (row_of) % 2) * 6400ull + ((row_of) / 2) * 64ull + column;
            fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
          }
        }
      }
      {
        unsigned w[2][4] = {};
        float y[4];
        fw_take<48>(y);
        w[0][0] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<52>(y);
        w[0][1] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<56>(y);
        w[0][2] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
        fw_take<60>(y);
        w[0][3] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          fw_quad_transpose(w[e], lane);
          const int row_of = row + 8 * e, column = 32 + 8 * quad;
          if (row_of < 200) {
            fw_f16* const to = p_t9_matmul + b * 25600ull + (h * 2 + (row_of) % 2) * 6400ull + ((row_of) / 2) * 64ull + column;
            fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
          }
        }
      }
    }
  }
}
