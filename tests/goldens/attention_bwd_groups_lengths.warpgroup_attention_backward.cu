// fusewright 0.1.0, engine config: warpgroup_attention_backward tile_m=64 tile_n=64 tile_k=48
// t0 = input BFLOAT16 [2, 3, 140, 128] stride [53760, 17920, 128, 1]
// t1 = input BFLOAT16 [2, 1, 40, 128] stride [5120, 5120, 128, 1]
// t2 = input BFLOAT16 [2, 1, 40, 128] stride [5120, 5120, 128, 1]
// t3 = input BFLOAT16 [2, 3, 140, 128] stride [53760, 17920, 128, 1]
// t4 = input BFLOAT16 [2, 3, 140, 128] stride [53760, 17920, 128, 1]
// t5 = input FLOAT [2, 3, 140, 1] stride [420, 140, 1, 1]
// t6 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t7 = input INT32 [2, 1, 1, 1] stride [1, 1, 1, 1]
// t8 = input INT32 [2, 1, 1, 1] stride [1, 1, 1, 1]
// t9_attention_backward, t10_attention_backward, t11_attention_backward = ATTENTION_BACKWARD(Q=t0, K=t1, V=t2, O=t3, dO=t4, Stats=t5, Attn_scale=t6, SEQ_LEN_Q=t7, SEQ_LEN_KV=t8) compute FLOAT -> output BFLOAT16 [2, 3, 140, 128] stride [53760, 17920, 128, 1], output BFLOAT16 [2, 1, 40, 128] stride [5120, 5120, 128, 1], output BFLOAT16 [2, 1, 40, 128] stride [5120, 5120, 128, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_bf16_bits

//@ fw_shared_address

//@ fw_accumulators

//@ fw_fast_exp2

//@ fw_wait_for_previous_launch

//@ fw_tensor_map

//@ fw_elect

//@ fw_mbarrier

//@ fw_coordinate

//@ fw_tma_load

//@ fw_fence_async

//@ fw_named_barrier

//@ fw_set_registers

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_f32

//@ fw_i32

//@ fw_bf16

//@ fw_vector

//@ fw_uniform

//@ fw_take_all

//@ fw_quad_transpose

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_attention_rows(const fw_bf16* __restrict__ p_t3,
  const fw_bf16* __restrict__ p_t4,
  const float* __restrict__ p_t5,
  const float t6,
  float* __restrict__ partial0,
  float* __restrict__ partial1) {
  fw_wait_for_previous_launch();
  const unsigned lane = threadIdx.x % 16u;
  const unsigned long long at = (unsigned long long)blockIdx.x * 16 + threadIdx.x / 16u;
  if (at >= 840ull) return;  // rows of a warp end together
  const unsigned long long query = at % 140ull, head = at / 140ull;
  const unsigned long long b = head / 3u, h = head % 3u;
  float delta = 0.0f;
  if (8 * lane < 128u) {
    const fw_bf16* const o = p_t3 + b * 53760ull + h * 17920ull + query * 128ull + 8 * lane;
    const fw_bf16* const d_o = p_t4 + b * 53760ull + h * 17920ull + query * 128ull + 8 * lane;
    float x[8], y[8];
    fw_load_vector(o, x);
    fw_load_vector(d_o, y);
#pragma unroll
    for (int i = 0; i < 8; ++i) delta = fmaf(x[i], y[i], delta);
  }
#pragma unroll
  for (unsigned step = 16 / 2; step > 0; step /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, step);
  if (lane == 0) {
    const unsigned long long place = head * 160ull + query;
    const float statistic = p_t5[b * 420ull + h * 140ull + query * 1ull];
    partial0[place] = statistic * 1.442695f;
    partial1[place] = delta * t6;
  }
}

//@ program
#define FW_SCORES "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23"
#define FW_DIFFERENCES "acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31, acc32, acc33, acc34, acc35, acc36, acc37, acc38, acc39, acc40, acc41, acc42, acc43, acc44, acc45, acc46, acc47"
#define FW_VALUE_SUMS "acc48, acc49, acc50, acc51, acc52, acc53, acc54, acc55, acc56, acc57, acc58, acc59, acc60, acc61, acc62, acc63, acc64, acc65, acc66, acc67, acc68, acc69, acc70, acc71, acc72, acc73, acc74, acc75, acc76, acc77, acc78, acc79, acc80, acc81, acc82, acc83, acc84, acc85, acc86, acc87, acc88, acc89, acc90, acc91, acc92, acc93, acc94, acc95, acc96, acc97, acc98, acc99, acc100, acc101, acc102, acc103, acc104, acc105, acc106, acc107, acc108, acc109, acc110, acc111"
#define FW_SUMS "acc112, acc113, acc114, acc115, acc116, acc117, acc118, acc119, acc120, acc121, acc122, acc123, acc124, acc125, acc126, acc127, acc128, acc129, acc130, acc131, acc132, acc133, acc134, acc135, acc136, acc137, acc138, acc139, acc140, acc141, acc142, acc143, acc144, acc145, acc146, acc147, acc148, acc149, acc150, acc151, acc152, acc153, acc154, acc155, acc156, acc157, acc158, acc159, acc160, acc161, acc162, acc163, acc164, acc165, acc166, acc167, acc168, acc169, acc170, acc171, acc172, acc173, acc174, acc175"

extern "C" __global__ void __launch_bounds__(256, 1)
fw_attention_backward_keys_1(const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2,
  const __grid_constant__ fw_tensor_map map3,
  const float t6,
  const int* __restrict__ p_t7,
  const int* __restrict__ p_t8,
  fw_bf16* __restrict__ p_t11_attention_backward,
  fw_bf16* __restrict__ p_t10_attention_backward,
  float* __restrict__ partial0,
  float* __restrict__ partial1) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(176);
  const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 132608, empty = full + 32;  // mbarriers for each stage
  const unsigned own_full = empty + 32, own_empty = own_full + 8;  // and for own rows
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
    fw_tma_prefetch(&map2);
    fw_tma_prefetch(&map3);
#pragma unroll 1
    for (unsigned stage = 0; stage < 4; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 2);
      fw_mbarrier_init(empty + 8 * stage, 4);  // warps that multiply what is in it
    }
    fw_mbarrier_init(own_full, 1);
    fw_mbarrier_init(own_empty, 4);
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1, own_parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x, turn = 0; unit < 2u; ++turn, unit = unit + gridDim.x) {
        const unsigned head = unit % 2u;
        const int m0 = (int(unit / 2u)) * 64;
        const unsigned b = head / 1u, h = head % 1u;
        const int queries = min(max(p_t7[b * 1ull], 0), 140);
        const int keys = min(max(p_t8[b * 1ull], 0), 40);
        [[maybe_unused]] const int rows = keys, others = queries;
        const auto first_of = [&]([[maybe_unused]] int row) { return 0; };
        const auto end_of = [&]([[maybe_unused]] int row) { return row < rows ? others : 0; };
        const int last_row = min(m0 + 64, rows) - 1;
        const int end = last_row < m0 ? 0 : (end_of(last_row) + 47) / 48;
        const int begin = min(first_of(m0) / 48, end);
        if (begin >= end) continue;
        fw_mbarrier_wait(own_empty, own_parity);
        own_parity ^= 1;
        fw_mbarrier_expect(own_full, 32768);
        fw_tma_load(shared + 0, &map0, own_full, 0, m0, h, b);
        fw_tma_load(shared + 8192, &map0, own_full, 64, m0, h, b);
        fw_tma_load(shared + 16384, &map1, own_full, 0, m0, h, b);
        fw_tma_load(shared + 24576, &map1, own_full, 64, m0, h, b);
#pragma unroll 1
        for (unsigned member = 0; member < 3u; ++member) {
#pragma unroll 1
          for (int block = begin; block < end; ++block) {
            fw_mbarrier_wait(empty + 8 * stage, parity);
            fw_mbarrier_expect(full + 8 * stage, 24576);
            const unsigned tile = shared + 32768 + stage * 24576;
            fw_tma_load(tile + 0, &map2, full + 8 * stage, 0, block * 48, h * 3u + member, b);
            fw_tma_load(tile + 6144, &map2, full + 8 * stage, 64, block * 48, h * 3u + member, b);
            fw_tma_load(tile + 12288, &map3, full + 8 * stage, 0, block * 48, h * 3u + member, b);
            fw_tma_load(tile + 18432, &map3, full + 8 * stage, 64, block * 48, h * 3u + member, b);
            if (++stage == 4) stage = 0, parity ^= 1;
          }
        }
      }
    } else if (warp == 1) {  // statistics and Δ of queries
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x, turn = 0; unit < 2u; ++turn, unit = unit + gridDim.x) {
        const unsigned head = unit % 2u;
        const int m0 = (int(unit / 2u)) * 64;
        const unsigned b = head / 1u, h = head % 1u;
        const int queries = min(max(p_t7[b * 1ull], 0), 140);
        const int keys = min(max(p_t8[b * 1ull], 0), 40);
        [[maybe_unused]] const int rows = keys, others = queries;
        const auto first_of = [&]([[maybe_unused]] int row) { return 0; };
        const auto end_of = [&]([[maybe_unused]] int row) { return row < rows ? others : 0; };
        const int last_row = min(m0 + 64, rows) - 1;
        const int end = last_row < m0 ? 0 : (end_of(last_row) + 47) / 48;
        const int begin = min(first_of(m0) / 48, end);
        if (begin >= end) continue;
#pragma unroll 1
        for (unsigned member = 0; member < 3u; ++member) {
          const unsigned long long first = (b * 3ull + h * 3u + member) * 160ull + begin * 48 + lane;
          const float *statistic = partial0 + first, *delta = partial1 + first;
#pragma unroll 1
          for (int block = begin; block < end; ++block) {
            fw_mbarrier_wait(empty + 8 * stage, parity);
            float* const rows = reinterpret_cast<float*>(shared_bytes + 131072 + stage * 384) + lane;
#pragma unroll
            for (unsigned i = 0; i < 48u; i += 32) {
              if (i + lane < 48u) rows[i] = statistic[i], rows[48 + i] = delta[i];
            }
            statistic += 48, delta += 48;
            __syncwarp();
            if (lane == 0) fw_mbarrier_arrive(full + 8 * stage);
            if (++stage == 4) stage = 0, parity ^= 1;
          }
        }
      }
    }
  } else {
    fw_increase_registers<240>();
    const unsigned consumer = warp / 4 - 1, quad = lane % 4;
    const unsigned long long own_0 = fw_matrix_descriptor<128>(shared + consumer * 8192, 0, 1024);
    const unsigned long long own_1 = fw_matrix_descriptor<128>(shared + 16384 + consumer * 8192, 0, 1024);
    const float scale = t6, c = scale * 1.442695f;
    unsigned stage = 0, parity = 0, own_parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x, turn = 0; unit < 2u; ++turn, unit = unit + gridDim.x) {
      const unsigned head = unit % 2u;
      const int m0 = (int(unit / 2u)) * 64;
      const unsigned b = head / 1u, h = head % 1u;
      const int queries = min(max(p_t7[b * 1ull], 0), 140);
      const int keys = min(max(p_t8[b * 1ull], 0), 40);
      [[maybe_unused]] const int rows = keys, others = queries;
      const auto first_of = [&]([[maybe_unused]] int row) { return 0; };
      const auto end_of = [&]([[maybe_unused]] int row) { return row < rows ? others : 0; };
      const int last_row = min(m0 + 64, rows) - 1;
      const int end = last_row < m0 ? 0 : (end_of(last_row) + 47) / 48;
      const int begin = min(first_of(m0) / 48, end);
      const int first_row = m0 + consumer * 64, row = first_row + warp % 4 * 16 + lane / 4;
      const int own_last = min(first_row + 64, rows) - 1;
      // steps of which some rows keep some columns, and of which all keep all
      int own_begin = own_last < first_row ? end : max(first_of(first_row) / 48, begin);
      int own_end = own_last < first_row ? end : min((end_of(own_last) + 47) / 48, end);
      if (own_begin < own_end) {  // from head to head a stage is kept, and the next step needs another one: the others are as many as may be left out
        own_begin = min(own_begin, begin + max(2 - (end - own_end), 0));
        own_end = max(own_end, end - max(2 - (own_begin - begin), 0));
      }
      const int plain_begin = (first_of(first_row + 63) + 47) / 48;
      const int plain_end = first_row + 63 < rows ? end_of(first_row) / 48 : 0;
      // what a mask leaves out is 0, whatever it was
      const auto cut = [&](float (&x)[24], int block) {
        const int at = block * 48 + 2 * quad;
        int kept[2], low[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) kept[e] = end_of(row + 8 * e) - at, low[e] = first_of(row + 8 * e) - at;
#pragma unroll
        for (int i = 0; i < 24; ++i) {
          const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
          if (column >= kept[e] || column < low[e]) x[i] = 0.0f;
        }
      };
      const auto release = [&](unsigned stage) {
        if (lane == 0) fw_mbarrier_arrive(empty + 8 * stage);
      };
      unsigned p[12] = {};
      unsigned s[12] = {};
      const auto advance = [&] {
        if (++stage == 4) stage = 0, parity ^= 1;
      };
      const auto skip = [&](int steps) {  // steps that are other consumers' alone
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
          fw_mbarrier_wait(full + 8 * stage, parity);
          __syncwarp();
          release(stage);
          advance();
        }
      };
      const int own = max(own_end - own_begin, 0), steps = own * 3;
      unsigned before = 0;  // the stage of the step before, whose rows are multiplied by what its scores became
      if (begin < end) {
        fw_mbarrier_wait(own_full, own_parity);
        own_parity ^= 1;
        if (own == 0) skip((end - begin) * 3);
      }
      int block = own_begin;
      if (steps > 0) {
        skip(own_begin - begin);
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + 32768 + stage * 24576;
        if ((block + 1) * 48 > others) {  // what lies beyond the sequence may be NaN, which no factor of 0 makes 0
          const unsigned thread = threadIdx.x % 128;
#pragma unroll 1
          for (unsigned chunk = max(others - block * 48, 0) * 8 + thread; chunk < 384; chunk += 128) {
#pragma unroll
            for (unsigned line = 0; line < 4; ++line) {
              fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + line * 6144 + chunk * 16), fw_vector<unsigned, 4>{});
            }
          }
          fw_fence_async();
          fw_named_barrier<1, 128>();
        }
        FW_PRODUCTS(own_0, fw_matrix_descriptor<128>(tile, 0, 1024), false,
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 512, 384, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 514, 386, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 516, 388, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 518, 390, "1", ", 1, 1, 0, 0"));
        FW_PRODUCTS(own_1, fw_matrix_descriptor<128>(tile + 12288, 0, 1024), false,
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 512, 384, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 514, 386, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 516, 388, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 518, 390, "1", ", 1, 1, 0, 0"));
        fw_wgmma_wait<1>();
        const bool is_cut = block >= plain_end || block < plain_begin;
        const float* const rows_of = reinterpret_cast<const float*>(shared_bytes + 131072 + stage * 384) + 2 * quad;
        float x[24];
        fw_take_all<0>(x);
#pragma unroll
        for (int i = 0; i < 24; ++i) x[i] = fw_fast_exp2(fmaf(x[i], c, -rows_of[8 * (i >> 2) + (i & 1)]));
        if (is_cut) cut(x, block);
        fw_wgmma_wait<0>();
        float y[24];
        fw_take_all<24>(y);
#pragma unroll
        for (int i = 0; i < 24; ++i) y[i] = x[i] * fmaf(y[i], scale, -rows_of[48 + 8 * (i >> 2) + (i & 1)]);
        if (is_cut) cut(y, block);
        fw_wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < 12; ++i) p[i] = fw_pack_bf16x2(x[2 * i], x[2 * i + 1]);
#pragma unroll
        for (int i = 0; i < 12; ++i) s[i] = fw_pack_bf16x2(y[2 * i], y[2 * i + 1]);
        before = stage;
        advance();
      }
      bool adds = false;  // whether there are sums of a step before
#pragma unroll 1
      for (int left = steps; --left > 0;) {
        if (++block == own_end) {  // of the next head
          skip(end - own_end + own_begin - begin);
          block = own_begin;
        }
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + 32768 + stage * 24576;
        if ((block + 1) * 48 > others) {  // what lies beyond the sequence may be NaN, which no factor of 0 makes 0
          const unsigned thread = threadIdx.x % 128;
#pragma unroll 1
          for (unsigned chunk = max(others - block * 48, 0) * 8 + thread; chunk < 384; chunk += 128) {
#pragma unroll
            for (unsigned line = 0; line < 4; ++line) {
              fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + line * 6144 + chunk * 16), fw_vector<unsigned, 4>{});
            }
          }
          fw_fence_async();
          fw_named_barrier<1, 128>();
        }
        FW_PRODUCTS(own_0, fw_matrix_descriptor<128>(tile, 0, 1024), false,
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 512, 384, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 514, 386, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 516, 388, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 518, 390, "1", ", 1, 1, 0, 0"));
        FW_PRODUCTS(own_1, fw_matrix_descriptor<128>(tile + 12288, 0, 1024), false,
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 512, 384, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 514, 386, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 516, 388, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 518, 390, "1", ", 1, 1, 0, 0"));
        const unsigned tile_before = shared + 32768 + before * 24576;
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before + 12288, 6144, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_VALUE_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 6, 7, 8, 9, FW_VALUE_SUMS, 128, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 10, 11, 12, 13, FW_VALUE_SUMS, 256, "1", ", 1, 1, 1"), FW_WORD(p[0]), FW_WORD(p[1]), FW_WORD(p[2]), FW_WORD(p[3]), FW_WORD(p[4]), FW_WORD(p[5]), FW_WORD(p[6]), FW_WORD(p[7]), FW_WORD(p[8]), FW_WORD(p[9]), FW_WORD(p[10]), FW_WORD(p[11]));
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before, 6144, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 6, 7, 8, 9, FW_SUMS, 128, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 10, 11, 12, 13, FW_SUMS, 256, "1", ", 1, 1, 1"), FW_WORD(s[0]), FW_WORD(s[1]), FW_WORD(s[2]), FW_WORD(s[3]), FW_WORD(s[4]), FW_WORD(s[5]), FW_WORD(s[6]), FW_WORD(s[7]), FW_WORD(s[8]), FW_WORD(s[9]), FW_WORD(s[10]), FW_WORD(s[11]));
        fw_wgmma_wait<3>();
        const bool is_cut = block >= plain_end || block < plain_begin;
        const float* const rows_of = reinterpret_cast<const float*>(shared_bytes + 131072 + stage * 384) + 2 * quad;
        float x[24];
        fw_take_all<0>(x);
#pragma unroll
        for (int i = 0; i < 24; ++i) x[i] = fw_fast_exp2(fmaf(x[i], c, -rows_of[8 * (i >> 2) + (i & 1)]));
        if (is_cut) cut(x, block);
        fw_wgmma_wait<2>();
        float y[24];
        fw_take_all<24>(y);
#pragma unroll
        for (int i = 0; i < 24; ++i) y[i] = x[i] * fmaf(y[i], scale, -rows_of[48 + 8 * (i >> 2) + (i & 1)]);
        if (is_cut) cut(y, block);
        fw_wgmma_wait<0>();
        release(before);
#pragma unroll
        for (int i = 0; i < 12; ++i) p[i] = fw_pack_bf16x2(x[2 * i], x[2 * i + 1]);
#pragma unroll
        for (int i = 0; i < 12; ++i) s[i] = fw_pack_bf16x2(y[2 * i], y[2 * i + 1]);
        before = stage;
        advance();
        adds = true;
      }
      if (steps > 0) {
        const unsigned tile_before = shared + 32768 + before * 24576;
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before + 12288, 6144, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_VALUE_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 6, 7, 8, 9, FW_VALUE_SUMS, 128, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 10, 11, 12, 13, FW_VALUE_SUMS, 256, "1", ", 1, 1, 1"), FW_WORD(p[0]), FW_WORD(p[1]), FW_WORD(p[2]), FW_WORD(p[3]), FW_WORD(p[4]), FW_WORD(p[5]), FW_WORD(p[6]), FW_WORD(p[7]), FW_WORD(p[8]), FW_WORD(p[9]), FW_WORD(p[10]), FW_WORD(p[11]));
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before, 6144, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 6, 7, 8, 9, FW_SUMS, 128, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 10, 11, 12, 13, FW_SUMS, 256, "1", ", 1, 1, 1"), FW_WORD(s[0]), FW_WORD(s[1]), FW_WORD(s[2]), FW_WORD(s[3]), FW_WORD(s[4]), FW_WORD(s[5]), FW_WORD(s[6]), FW_WORD(s[7]), FW_WORD(s[8]), FW_WORD(s[9]), FW_WORD(s[10]), FW_WORD(s[11]));
        fw_wgmma_wait<0>();
        release(before);
        skip(end - own_end);
      }
      if (begin < end && lane == 0) fw_mbarrier_arrive(own_empty);
      {
        constexpr float scaled[2] = {1.0f, 1.0f};
        if (steps == 0) {
          FW_CLEAR(FW_ZERO(48) FW_ZERO(49) FW_ZERO(50) FW_ZERO(51) FW_ZERO(52) FW_ZERO(53) FW_ZERO(54) FW_ZERO(55) FW_ZERO(56) FW_ZERO(57) FW_ZERO(58) FW_ZERO(59) FW_ZERO(60) FW_ZERO(61) FW_ZERO(62) FW_ZERO(63) FW_ZERO(64) FW_ZERO(65) FW_ZERO(66) FW_ZERO(67) FW_ZERO(68) FW_ZERO(69) FW_ZERO(70) FW_ZERO(71) FW_ZERO(72) FW_ZERO(73) FW_ZERO(74) FW_ZERO(75) FW_ZERO(76) FW_ZERO(77) FW_ZERO(78) FW_ZERO(79) FW_ZERO(80) FW_ZERO(81) FW_ZERO(82) FW_ZERO(83) FW_ZERO(84) FW_ZERO(85) FW_ZERO(86) FW_ZERO(87) FW_ZERO(88) FW_ZERO(89) FW_ZERO(90) FW_ZERO(91) FW_ZERO(92) FW_ZERO(93) FW_ZERO(94) FW_ZERO(95) FW_ZERO(96) FW_ZERO(97) FW_ZERO(98) FW_ZERO(99) FW_ZERO(100) FW_ZERO(101) FW_ZERO(102) FW_ZERO(103) FW_ZERO(104) FW_ZERO(105) FW_ZERO(106) FW_ZERO(107) FW_ZERO(108) FW_ZERO(109) FW_ZERO(110) FW_ZERO(111));
        }
        {
          unsigned w[2][4] = {};
          float y[4];
          fw_take<48>(y);
          w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<52>(y);
          w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<56>(y);
          w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<60>(y);
          w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 0 + 8 * quad;
            if (row_of < 40) {
              fw_bf16* const to = p_t11_attention_backward + b * 5120ull + h * 5120ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
        {
          unsigned w[2][4] = {};
          float y[4];
          fw_take<64>(y);
          w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<68>(y);
          w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<72>(y);
          w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<76>(y);
          w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 32 + 8 * quad;
            if (row_of < 40) {
              fw_bf16* const to = p_t11_attention_backward + b * 5120ull + h * 5120ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
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
            const int row_of = row + 8 * e, column = 64 + 8 * quad;
            if (row_of < 40) {
              fw_bf16* const to = p_t11_attention_backward + b * 5120ull + h * 5120ull + row_of * 128ull + column;
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
            const int row_of = row + 8 * e, column = 96 + 8 * quad;
            if (row_of < 40) {
              fw_bf16* const to = p_t11_attention_backward + b * 5120ull + h * 5120ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
      }
      {
        constexpr float scaled[2] = {1.0f, 1.0f};
        if (steps == 0) {
          FW_CLEAR(FW_ZERO(112) FW_ZERO(113) FW_ZERO(114) FW_ZERO(115) FW_ZERO(116) FW_ZERO(117) FW_ZERO(118) FW_ZERO(119) FW_ZERO(120) FW_ZERO(121) FW_ZERO(122) FW_ZERO(123) FW_ZERO(124) FW_ZERO(125) FW_ZERO(126) FW_ZERO(127) FW_ZERO(128) FW_ZERO(129) FW_ZERO(130) FW_ZERO(131) FW_ZERO(132) FW_ZERO(133) FW_ZERO(134) FW_ZERO(135) FW_ZERO(136) FW_ZERO(137) FW_ZERO(138) FW_ZERO(139) FW_ZERO(140) FW_ZERO(141) FW_ZERO(142) FW_ZERO(143) FW_ZERO(144) FW_ZERO(145) FW_ZERO(146) FW_ZERO(147) FW_ZERO(148) FW_ZERO(149) FW_ZERO(150) FW_ZERO(151) FW_ZERO(152) FW_ZERO(153) FW_ZERO(154) FW_ZERO(155) FW_ZERO(156) FW_ZERO(157) FW_ZERO(158) FW_ZERO(159) FW_ZERO(160) FW_ZERO(161) FW_ZERO(162) FW_ZERO(163) FW_ZERO(164) FW_ZERO(165) FW_ZERO(166) FW_ZERO(167) FW_ZERO(168) FW_ZERO(169) FW_ZERO(170) FW_ZERO(171) FW_ZERO(172) FW_ZERO(173) FW_ZERO(174) FW_ZERO(175));
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
            const int row_of = row + 8 * e, column = 0 + 8 * quad;
            if (row_of < 40) {
              fw_bf16* const to = p_t10_attention_backward + b * 5120ull + h * 5120ull + row_of * 128ull + column;
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
            const int row_of = row + 8 * e, column = 32 + 8 * quad;
            if (row_of < 40) {
              fw_bf16* const to = p_t10_attention_backward + b * 5120ull + h * 5120ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
        {
          unsigned w[2][4] = {};
          float y[4];
          fw_take<144>(y);
          w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<148>(y);
          w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<152>(y);
          w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<156>(y);
          w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 64 + 8 * quad;
            if (row_of < 40) {
              fw_bf16* const to = p_t10_attention_backward + b * 5120ull + h * 5120ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
        {
          unsigned w[2][4] = {};
          float y[4];
          fw_take<160>(y);
          w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<164>(y);
          w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<168>(y);
          w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<172>(y);
          w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 96 + 8 * quad;
            if (row_of < 40) {
              fw_bf16* const to = p_t10_attention_backward + b * 5120ull + h * 5120ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
      }
    }
  }
}

//@ program
#define FW_SCORES "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23"
#define FW_DIFFERENCES "acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31, acc32, acc33, acc34, acc35, acc36, acc37, acc38, acc39, acc40, acc41, acc42, acc43, acc44, acc45, acc46, acc47"
#define FW_SUMS "acc48, acc49, acc50, acc51, acc52, acc53, acc54, acc55, acc56, acc57, acc58, acc59, acc60, acc61, acc62, acc63, acc64, acc65, acc66, acc67, acc68, acc69, acc70, acc71, acc72, acc73, acc74, acc75, acc76, acc77, acc78, acc79, acc80, acc81, acc82, acc83, acc84, acc85, acc86, acc87, acc88, acc89, acc90, acc91, acc92, acc93, acc94, acc95, acc96, acc97, acc98, acc99, acc100, acc101, acc102, acc103, acc104, acc105, acc106, acc107, acc108, acc109, acc110, acc111"

extern "C" __global__ void __launch_bounds__(256, 1)
fw_attention_backward_queries_2(const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2,
  const __grid_constant__ fw_tensor_map map3,
  const float t6,
  const int* __restrict__ p_t7,
  const int* __restrict__ p_t8,
  fw_bf16* __restrict__ p_t9_attention_backward,
  float* __restrict__ partial0,
  float* __restrict__ partial1) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(112);
  const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 132608, empty = full + 32;  // mbarriers for each stage
  const unsigned own_full = empty + 32, own_empty = own_full + 8;  // and for own rows
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
    fw_tma_prefetch(&map2);
    fw_tma_prefetch(&map3);
#pragma unroll 1
    for (unsigned stage = 0; stage < 4; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 1);
      fw_mbarrier_init(empty + 8 * stage, 4);  // warps that multiply what is in it
    }
    fw_mbarrier_init(own_full, 1);
    fw_mbarrier_init(own_empty, 4);
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1, own_parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x, turn = 0; unit < 18u; ++turn, unit = unit + gridDim.x) {
        const unsigned head = unit % 6u;
        const int m0 = (int(unit / 6u)) * 64;
        const unsigned b = head / 3u, h = head % 3u;
        const int queries = min(max(p_t7[b * 1ull], 0), 140);
        const int keys = min(max(p_t8[b * 1ull], 0), 40);
        [[maybe_unused]] const int rows = queries, others = keys;
        const auto first_of = [&]([[maybe_unused]] int row) { return 0; };
        const auto end_of = [&]([[maybe_unused]] int row) { return row < rows ? others : 0; };
        const int last_row = min(m0 + 64, rows) - 1;
        const int end = last_row < m0 ? 0 : (end_of(last_row) + 47) / 48;
        const int begin = min(first_of(m0) / 48, end);
        if (begin >= end) continue;
        fw_mbarrier_wait(own_empty, own_parity);
        own_parity ^= 1;
        fw_mbarrier_expect(own_full, 32768);
        fw_tma_load(shared + 0, &map0, own_full, 0, m0, h, b);
        fw_tma_load(shared + 8192, &map0, own_full, 64, m0, h, b);
        fw_tma_load(shared + 16384, &map1, own_full, 0, m0, h, b);
        fw_tma_load(shared + 24576, &map1, own_full, 64, m0, h, b);
#pragma unroll 1
        for (unsigned member = 0; member < 1u; ++member) {
#pragma unroll 1
          for (int block = begin; block < end; ++block) {
            fw_mbarrier_wait(empty + 8 * stage, parity);
            fw_mbarrier_expect(full + 8 * stage, 24576);
            const unsigned tile = shared + 32768 + stage * 24576;
            fw_tma_load(tile + 0, &map2, full + 8 * stage, 0, block * 48, h / 3u, b);
            fw_tma_load(tile + 6144, &map2, full + 8 * stage, 64, block * 48, h / 3u, b);
            fw_tma_load(tile + 12288, &map3, full + 8 * stage, 0, block * 48, h / 3u, b);
            fw_tma_load(tile + 18432, &map3, full + 8 * stage, 64, block * 48, h / 3u, b);
            if (++stage == 4) stage = 0, parity ^= 1;
          }
        }
      }
    }
  } else {
    fw_increase_registers<240>();
    const unsigned consumer = warp / 4 - 1, quad = lane % 4;
    const unsigned long long own_0 = fw_matrix_descriptor<128>(shared + consumer * 8192, 0, 1024);
    const unsigned long long own_1 = fw_matrix_descriptor<128>(shared + 16384 + consumer * 8192, 0, 1024);
    const float scale = t6, c = scale * 1.442695f;
    unsigned stage = 0, parity = 0, own_parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x, turn = 0; unit < 18u; ++turn, unit = unit + gridDim.x) {
      const unsigned head = unit % 6u;
      const int m0 = (int(unit / 6u)) * 64;
      const unsigned b = head / 3u, h = head % 3u;
      const int queries = min(max(p_t7[b * 1ull], 0), 140);
      const int keys = min(max(p_t8[b * 1ull], 0), 40);
      [[maybe_unused]] const int rows = queries, others = keys;
      const auto first_of = [&]([[maybe_unused]] int row) { return 0; };
      const auto end_of = [&]([[maybe_unused]] int row) { return row < rows ? others : 0; };
      const int last_row = min(m0 + 64, rows) - 1;
      const int end = last_row < m0 ? 0 : (end_of(last_row) + 47) / 48;
      const int begin = min(first_of(m0) / 48, end);
      const int first_row = m0 + consumer * 64, row = first_row + warp % 4 * 16 + lane / 4;
      const int own_last = min(first_row + 64, rows) - 1;
      // steps of which some rows keep some columns, and of which all keep all
      const int own_begin = own_last < first_row ? end : max(first_of(first_row) / 48, begin);
      const int own_end = own_last < first_row ? end : min((end_of(own_last) + 47) / 48, end);
      const int plain_begin = (first_of(first_row + 63) + 47) / 48;
      const int plain_end = first_row + 63 < rows ? end_of(first_row) / 48 : 0;
      float statistic[2], delta[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const unsigned long long place = (b * 3ull + h) * 160ull + min(row + 8 * e, 139);
        statistic[e] = partial0[place], delta[e] = partial1[place];
      }
      // what a mask leaves out is 0, whatever it was
      const auto cut = [&](float (&x)[24], int block) {
        const int at = block * 48 + 2 * quad;
        int kept[2], low[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) kept[e] = end_of(row + 8 * e) - at, low[e] = first_of(row + 8 * e) - at;
#pragma unroll
        for (int i = 0; i < 24; ++i) {
          const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
          if (column >= kept[e] || column < low[e]) x[i] = 0.0f;
        }
      };
      const auto release = [&](unsigned stage) {
        if (lane == 0) fw_mbarrier_arrive(empty + 8 * stage);
      };
      unsigned s[12] = {};
      const auto advance = [&] {
        if (++stage == 4) stage = 0, parity ^= 1;
      };
      const auto skip = [&](int steps) {  // steps that are other consumers' alone
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
          fw_mbarrier_wait(full + 8 * stage, parity);
          __syncwarp();
          release(stage);
          advance();
        }
      };
      const int own = max(own_end - own_begin, 0), steps = own * 1;
      unsigned before = 0;  // the stage of the step before, whose rows are multiplied by what its scores became
      if (begin < end) {
        fw_mbarrier_wait(own_full, own_parity);
        own_parity ^= 1;
        if (own == 0) skip((end - begin) * 1);
      }
      int block = own_begin;
      if (steps > 0) {
        skip(own_begin - begin);
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + 32768 + stage * 24576;
        if ((block + 1) * 48 > others) {  // what lies beyond the sequence may be NaN, which no factor of 0 makes 0
          const unsigned thread = threadIdx.x % 128;
#pragma unroll 1
          for (unsigned chunk = max(others - block * 48, 0) * 8 + thread; chunk < 384; chunk += 128) {
#pragma unroll
            for (unsigned line = 0; line < 4; ++line) {
              fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + line * 6144 + chunk * 16), fw_vector<unsigned, 4>{});
            }
          }
          fw_fence_async();
          fw_named_barrier<1, 128>();
        }
        FW_PRODUCTS(own_0, fw_matrix_descriptor<128>(tile, 0, 1024), false,
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 512, 384, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 514, 386, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 516, 388, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 518, 390, "1", ", 1, 1, 0, 0"));
        FW_PRODUCTS(own_1, fw_matrix_descriptor<128>(tile + 12288, 0, 1024), false,
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 512, 384, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 514, 386, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 516, 388, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 518, 390, "1", ", 1, 1, 0, 0"));
        fw_wgmma_wait<1>();
        const bool is_cut = block >= plain_end || block < plain_begin;
        float x[24];
        fw_take_all<0>(x);
#pragma unroll
        for (int i = 0; i < 24; ++i) x[i] = fw_fast_exp2(fmaf(x[i], c, -statistic[i >> 1 & 1]));
        if (is_cut) cut(x, block);
        fw_wgmma_wait<0>();
        float y[24];
        fw_take_all<24>(y);
#pragma unroll
        for (int i = 0; i < 24; ++i) y[i] = x[i] * fmaf(y[i], scale, -delta[i >> 1 & 1]);
        if (is_cut) cut(y, block);
        fw_wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < 12; ++i) s[i] = fw_pack_bf16x2(y[2 * i], y[2 * i + 1]);
        before = stage;
        advance();
      }
      bool adds = false;  // whether there are sums of a step before
#pragma unroll 1
      for (int left = steps; --left > 0;) {
        if (++block == own_end) {  // of the next head
          skip(end - own_end + own_begin - begin);
          block = own_begin;
        }
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + 32768 + stage * 24576;
        if ((block + 1) * 48 > others) {  // what lies beyond the sequence may be NaN, which no factor of 0 makes 0
          const unsigned thread = threadIdx.x % 128;
#pragma unroll 1
          for (unsigned chunk = max(others - block * 48, 0) * 8 + thread; chunk < 384; chunk += 128) {
#pragma unroll
            for (unsigned line = 0; line < 4; ++line) {
              fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + line * 6144 + chunk * 16), fw_vector<unsigned, 4>{});
            }
          }
          fw_fence_async();
          fw_named_barrier<1, 128>();
        }
        FW_PRODUCTS(own_0, fw_matrix_descriptor<128>(tile, 0, 1024), false,
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 512, 384, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 514, 386, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 516, 388, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_SCORES, 518, 390, "1", ", 1, 1, 0, 0"));
        FW_PRODUCTS(own_1, fw_matrix_descriptor<128>(tile + 12288, 0, 1024), false,
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 512, 384, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 514, 386, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 516, 388, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.bf16.bf16", FW_DIFFERENCES, 518, 390, "1", ", 1, 1, 0, 0"));
        const unsigned tile_before = shared + 32768 + before * 24576;
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before, 6144, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 6, 7, 8, 9, FW_SUMS, 128, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 10, 11, 12, 13, FW_SUMS, 256, "1", ", 1, 1, 1"), FW_WORD(s[0]), FW_WORD(s[1]), FW_WORD(s[2]), FW_WORD(s[3]), FW_WORD(s[4]), FW_WORD(s[5]), FW_WORD(s[6]), FW_WORD(s[7]), FW_WORD(s[8]), FW_WORD(s[9]), FW_WORD(s[10]), FW_WORD(s[11]));
        fw_wgmma_wait<2>();
        const bool is_cut = block >= plain_end || block < plain_begin;
        float x[24];
        fw_take_all<0>(x);
#pragma unroll
        for (int i = 0; i < 24; ++i) x[i] = fw_fast_exp2(fmaf(x[i], c, -statistic[i >> 1 & 1]));
        if (is_cut) cut(x, block);
        fw_wgmma_wait<1>();
        float y[24];
        fw_take_all<24>(y);
#pragma unroll
        for (int i = 0; i < 24; ++i) y[i] = x[i] * fmaf(y[i], scale, -delta[i >> 1 & 1]);
        if (is_cut) cut(y, block);
        fw_wgmma_wait<0>();
        release(before);
#pragma unroll
        for (int i = 0; i < 12; ++i) s[i] = fw_pack_bf16x2(y[2 * i], y[2 * i + 1]);
        before = stage;
        advance();
        adds = true;
      }
      if (steps > 0) {
        const unsigned tile_before = shared + 32768 + before * 24576;
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before, 6144, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 6, 7, 8, 9, FW_SUMS, 128, "1", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 10, 11, 12, 13, FW_SUMS, 256, "1", ", 1, 1, 1"), FW_WORD(s[0]), FW_WORD(s[1]), FW_WORD(s[2]), FW_WORD(s[3]), FW_WORD(s[4]), FW_WORD(s[5]), FW_WORD(s[6]), FW_WORD(s[7]), FW_WORD(s[8]), FW_WORD(s[9]), FW_WORD(s[10]), FW_WORD(s[11]));
        fw_wgmma_wait<0>();
        release(before);
        skip(end - own_end);
      }
      if (begin < end && lane == 0) fw_mbarrier_arrive(own_empty);
      {
        constexpr float scaled[2] = {1.0f, 1.0f};
        if (steps == 0) {
          FW_CLEAR(FW_ZERO(48) FW_ZERO(49) FW_ZERO(50) FW_ZERO(51) FW_ZERO(52) FW_ZERO(53) FW_ZERO(54) FW_ZERO(55) FW_ZERO(56) FW_ZERO(57) FW_ZERO(58) FW_ZERO(59) FW_ZERO(60) FW_ZERO(61) FW_ZERO(62) FW_ZERO(63) FW_ZERO(64) FW_ZERO(65) FW_ZERO(66) FW_ZERO(67) FW_ZERO(68) FW_ZERO(69) FW_ZERO(70) FW_ZERO(71) FW_ZERO(72) FW_ZERO(73) FW_ZERO(74) FW_ZERO(75) FW_ZERO(76) FW_ZERO(77) FW_ZERO(78) FW_ZERO(79) FW_ZERO(80) FW_ZERO(81) FW_ZERO(82) FW_ZERO(83) FW_ZERO(84) FW_ZERO(85) FW_ZERO(86) FW_ZERO(87) FW_ZERO(88) FW_ZERO(89) FW_ZERO(90) FW_ZERO(91) FW_ZERO(92) FW_ZERO(93) FW_ZERO(94) FW_ZERO(95) FW_ZERO(96) FW_ZERO(97) FW_ZERO(98) FW_ZERO(99) FW_ZERO(100) FW_ZERO(101) FW_ZERO(102) FW_ZERO(103) FW_ZERO(104) FW_ZERO(105) FW_ZERO(106) FW_ZERO(107) FW_ZERO(108) FW_ZERO(109) FW_ZERO(110) FW_ZERO(111));
        }
        {
          unsigned w[2][4] = {};
          float y[4];
          fw_take<48>(y);
          w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<52>(y);
          w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<56>(y);
          w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<60>(y);
          w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 0 + 8 * quad;
            if (row_of < 140) {
              fw_bf16* const to = p_t9_attention_backward + b * 53760ull + h * 17920ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
        {
          unsigned w[2][4] = {};
          float y[4];
          fw_take<64>(y);
          w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<68>(y);
          w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<72>(y);
          w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<76>(y);
          w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 32 + 8 * quad;
            if (row_of < 140) {
              fw_bf16* const to = p_t9_attention_backward + b * 53760ull + h * 17920ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
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
            const int row_of = row + 8 * e, column = 64 + 8 * quad;
            if (row_of < 140) {
              fw_bf16* const to = p_t9_attention_backward + b * 53760ull + h * 17920ull + row_of * 128ull + column;
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
            const int row_of = row + 8 * e, column = 96 + 8 * quad;
            if (row_of < 140) {
              fw_bf16* const to = p_t9_attention_backward + b * 53760ull + h * 17920ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
      }
    }
  }
}
