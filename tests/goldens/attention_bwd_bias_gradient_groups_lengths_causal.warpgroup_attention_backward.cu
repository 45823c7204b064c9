// fusewright 0.1.0, engine config: warpgroup_attention_backward tile_m=128 tile_n=128 tile_k=32 stored_gradients=1
// t0 = input BFLOAT16 [3, 4, 100, 128] stride [51200, 12800, 128, 1]
// t1 = input BFLOAT16 [3, 2, 90, 128] stride [23040, 11520, 128, 1]
// t2 = input BFLOAT16 [3, 2, 90, 128] stride [23040, 11520, 128, 1]
// t3 = input BFLOAT16 [3, 4, 100, 128] stride [51200, 12800, 128, 1]
// t4 = input BFLOAT16 [3, 4, 100, 128] stride [51200, 12800, 128, 1]
// t5 = input FLOAT [3, 4, 100, 1] stride [400, 100, 1, 1]
// t6 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t7 = input BFLOAT16 [1, 4, 100, 90] stride [36000, 9000, 90, 1]
// t8 = input INT32 [3, 1, 1, 1] stride [1, 1, 1, 1]
// t9 = input INT32 [3, 1, 1, 1] stride [1, 1, 1, 1]
// t10_attention_backward, t11_attention_backward, t12_attention_backward, t13_attention_backward = ATTENTION_BACKWARD(Q=t0, K=t1, V=t2, O=t3, dO=t4, Stats=t5, Attn_scale=t6, Bias=t7, SEQ_LEN_Q=t8, SEQ_LEN_KV=t9) right_bound=0 compute FLOAT -> output BFLOAT16 [3, 4, 100, 128] stride [51200, 12800, 128, 1], output BFLOAT16 [3, 2, 90, 128] stride [23040, 11520, 128, 1], output BFLOAT16 [3, 2, 90, 128] stride [23040, 11520, 128, 1], output BFLOAT16 [1, 4, 100, 90] stride [36000, 9000, 90, 1]

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

//@ fw_infinity

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
  float* __restrict__ partial1,
  float* __restrict__ partial2) {
  fw_wait_for_previous_launch();
  const unsigned lane = threadIdx.x % 16u;
  const unsigned long long at = (unsigned long long)blockIdx.x * 16 + threadIdx.x / 16u;
  if (at >= 1200ull) return;  // rows of a warp end together
  const unsigned long long query = at % 100ull, head = at / 100ull;
  const unsigned long long b = head / 4u, h = head % 4u;
  float delta = 0.0f;
  if (8 * lane < 128u) {
    const fw_bf16* const o = p_t3 + b * 51200ull + h * 12800ull + query * 128ull + 8 * lane;
    const fw_bf16* const d_o = p_t4 + b * 51200ull + h * 12800ull + query * 128ull + 8 * lane;
    float x[8], y[8];
    fw_load_vector(o, x);
    fw_load_vector(d_o, y);
#pragma unroll
    for (int i = 0; i < 8; ++i) delta = fmaf(x[i], y[i], delta);
  }
#pragma unroll
  for (unsigned step = 16 / 2; step > 0; step /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, step);
  if (lane == 0) {
    const unsigned long long place = head * 128ull + query;
    const float stored = p_t5[b * 400ull + h * 100ull + query * 1ull];
    const float statistic = stored == -fw_infinity() ? fw_infinity() : stored;  // a row without a finite score has no probabilities
    partial0[place] = statistic * 1.442695f;
    partial1[place] = delta * t6;
    partial2[place] = delta;
  }
}

//@ program
#define FW_SCORES "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7"
#define FW_DIFFERENCES "acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15"

extern "C" __global__ void __launch_bounds__(256, 1)
fw_attention_bias_1(const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2,
  const __grid_constant__ fw_tensor_map map3,
  const float t6,
  const int* __restrict__ p_t8,
  const int* __restrict__ p_t9,
  const fw_bf16* __restrict__ p_t7,
  fw_bf16* __restrict__ p_t13_attention_backward,
  float* __restrict__ partial0,
  float* __restrict__ partial1) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(16);
  const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 163840, empty = full + 32;  // mbarriers for each stage
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
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < 48u; unit += gridDim.x) {
#pragma unroll 1
        for (unsigned member = 0; member < 3u; ++member) {
          const unsigned b = member / 1u % 3u, h = unit / 12u % 4u;
          const int m0 = int(unit / 6u % 2u) * 64, block = unit / 1u % 6u;
          const int queries = min(max(p_t8[b * 1ull], 0), 100);
          const int keys = min(max(p_t9[b * 1ull], 0), 90);
          [[maybe_unused]] const int rows = queries, others = keys;
          const auto first_of = [&]([[maybe_unused]] int row) { return 0; };
          const auto end_of = [&]([[maybe_unused]] int row) { return min(row < rows ? others : 0, max(row + 1, 0)); };
          const int last_row = min(m0 + 64, rows) - 1;
          if (last_row < m0 || block * 16 >= end_of(last_row) || (block + 1) * 16 <= first_of(m0)) continue;  // nothing is kept
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 40960);
          const unsigned tile = shared + stage * 40960;
          fw_tma_load(tile + 0, &map0, full + 8 * stage, 0, m0, h, b);
          fw_tma_load(tile + 8192, &map0, full + 8 * stage, 64, m0, h, b);
          fw_tma_load(tile + 16384, &map1, full + 8 * stage, 0, m0, h, b);
          fw_tma_load(tile + 24576, &map1, full + 8 * stage, 64, m0, h, b);
          fw_tma_load(tile + 32768, &map2, full + 8 * stage, 0, block * 16, h / 2u, b);
          fw_tma_load(tile + 34816, &map2, full + 8 * stage, 64, block * 16, h / 2u, b);
          fw_tma_load(tile + 36864, &map3, full + 8 * stage, 0, block * 16, h / 2u, b);
          fw_tma_load(tile + 38912, &map3, full + 8 * stage, 64, block * 16, h / 2u, b);
          if (++stage == 4) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<240>();
    const unsigned consumer = warp / 4 - 1, quad = lane % 4;
    const float scale = t6, c = 1.442695f;
    unsigned stage = 0, parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x; unit < 48u; unit += gridDim.x) {
      float sums[8] = {};
#pragma unroll 1
      for (unsigned member = 0; member < 3u; ++member) {
        const unsigned b = member / 1u % 3u, h = unit / 12u % 4u;
        const int m0 = int(unit / 6u % 2u) * 64, block = unit / 1u % 6u;
        const int queries = min(max(p_t8[b * 1ull], 0), 100);
        const int keys = min(max(p_t9[b * 1ull], 0), 90);
        [[maybe_unused]] const int rows = queries, others = keys;
        const auto first_of = [&]([[maybe_unused]] int row) { return 0; };
        const auto end_of = [&]([[maybe_unused]] int row) { return min(row < rows ? others : 0, max(row + 1, 0)); };
        const int last_row = min(m0 + 64, rows) - 1;
        if (last_row < m0 || block * 16 >= end_of(last_row) || (block + 1) * 16 <= first_of(m0)) continue;  // nothing is kept
        const int first_row = m0 + consumer * 64, row = first_row + warp % 4 * 16 + lane / 4;
        float statistic[2], delta[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const unsigned long long place = (b * 4ull + h) * 128ull + min(row + 8 * e, 99);
          statistic[e] = partial0[place], delta[e] = partial1[place];
        }
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 40960;
        FW_PRODUCTS(fw_matrix_descriptor<128>(tile + consumer * 8192, 0, 1024), fw_matrix_descriptor<128>(tile + 32768, 0, 1024), false,
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 512, 128, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 514, 130, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 516, 132, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_SCORES, 518, 134, "1", ", 1, 1, 0, 0"));
        FW_PRODUCTS(fw_matrix_descriptor<128>(tile + 16384 + consumer * 8192, 0, 1024), fw_matrix_descriptor<128>(tile + 36864, 0, 1024), false,
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_DIFFERENCES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_DIFFERENCES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_DIFFERENCES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_DIFFERENCES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_DIFFERENCES, 512, 128, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_DIFFERENCES, 514, 130, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_DIFFERENCES, 516, 132, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.bf16.bf16", FW_DIFFERENCES, 518, 134, "1", ", 1, 1, 0, 0"));
        const fw_bf16* const bias_of_head = p_t7 + (h) * 9000u;
        fw_vector<fw_bf16, 2> bias[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          [[maybe_unused]] const int bias_query = min(row + 8 * (i & 1), 99);
          const int bias_key = min(block * 16 + 2 * int(quad) + 8 * (i >> 1), 89 - 1);
          bias[i] = *reinterpret_cast<const fw_vector<fw_bf16, 2>*>(bias_of_head + (bias_query) * 90u + (bias_key) * 1u);
        }
        fw_wgmma_wait<1>();
        float x[8];
        fw_take_all<0>(x);
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = fw_fast_exp2(fmaf(fmaf(x[i], scale, fw_value(bias[i / 2].at[i & 1])), c, -statistic[i >> 1 & 1]));
        fw_wgmma_wait<0>();
        if (lane == 0) fw_mbarrier_arrive(empty + 8 * stage);
        if (++stage == 4) stage = 0, parity ^= 1;
        float y[8];
        fw_take_all<8>(y);
        // what a mask leaves out is 0, whatever it was
        const bool is_cut = first_row + 63 >= rows || block * 16 < first_of(first_row + 63) || (block + 1) * 16 > end_of(first_row);
        const int at = block * 16 + 2 * quad;
        int kept[2], low[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) kept[e] = end_of(row + 8 * e) - at, low[e] = first_of(row + 8 * e) - at;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
          if (!is_cut || (column < kept[e] && column >= low[e])) sums[i] += x[i] * (y[i] - delta[e]);
        }
      }
      const unsigned b = 0, h = unit / 12u % 4u;
      const int m0 = int(unit / 6u % 2u) * 64, block = unit / 1u % 6u;
      const int row = m0 + consumer * 64 + warp % 4 * 16 + lane / 4;
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        const int query = row + 8 * (i >> 1 & 1), key = block * 16 + 8 * (i >> 2) + 2 * int(quad) + (i & 1);
        if (query < 100 && key < 90) {
          *reinterpret_cast<fw_vector<fw_bf16, 2>*>(p_t13_attention_backward + (h) * 9000ull + (query) * 90ull + (key) * 1ull) = {{fw_to_bf16(sums[i]), fw_to_bf16(sums[i + 1])}};
        }
      }
    }
  }
}

//@ program
#define FW_SCORES "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15"
#define FW_DIFFERENCES "acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31"
#define FW_VALUE_SUMS "acc32, acc33, acc34, acc35, acc36, acc37, acc38, acc39, acc40, acc41, acc42, acc43, acc44, acc45, acc46, acc47, acc48, acc49, acc50, acc51, acc52, acc53, acc54, acc55, acc56, acc57, acc58, acc59, acc60, acc61, acc62, acc63, acc64, acc65, acc66, acc67, acc68, acc69, acc70, acc71, acc72, acc73, acc74, acc75, acc76, acc77, acc78, acc79, acc80, acc81, acc82, acc83, acc84, acc85, acc86, acc87, acc88, acc89, acc90, acc91, acc92, acc93, acc94, acc95"
#define FW_SUMS "acc96, acc97, acc98, acc99, acc100, acc101, acc102, acc103, acc104, acc105, acc106, acc107, acc108, acc109, acc110, acc111, acc112, acc113, acc114, acc115, acc116, acc117, acc118, acc119, acc120, acc121, acc122, acc123, acc124, acc125, acc126, acc127, acc128, acc129, acc130, acc131, acc132, acc133, acc134, acc135, acc136, acc137, acc138, acc139, acc140, acc141, acc142, acc143, acc144, acc145, acc146, acc147, acc148, acc149, acc150, acc151, acc152, acc153, acc154, acc155, acc156, acc157, acc158, acc159"

extern "C" __global__ void __launch_bounds__(384, 1)
fw_attention_backward_keys_2(const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2,
  const __grid_constant__ fw_tensor_map map3,
  const float t6,
  const int* __restrict__ p_t8,
  const int* __restrict__ p_t9,
  const fw_bf16* __restrict__ p_t7,
  fw_bf16* __restrict__ p_t12_attention_backward,
  fw_bf16* __restrict__ p_t11_attention_backward,
  float* __restrict__ partial0,
  float* __restrict__ partial1,
  float* __restrict__ partial2) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(160);
  const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 132096, empty = full + 32;  // mbarriers for each stage
  const unsigned own_full = empty + 32, own_empty = own_full + 8;  // and for own rows
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
    fw_tma_prefetch(&map2);
    fw_tma_prefetch(&map3);
#pragma unroll 1
    for (unsigned stage = 0; stage < 4; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 2);
      fw_mbarrier_init(empty + 8 * stage, 8);  // warps that multiply what is in it
    }
    fw_mbarrier_init(own_full, 1);
    fw_mbarrier_init(own_empty, 8);
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1, own_parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x, turn = 0; unit < 6u; ++turn, unit = turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) {
        const unsigned head = unit % 6u;
        const int m0 = (int(unit / 6u)) * 128;
        const unsigned b = head / 2u, h = head % 2u;
        const int queries = min(max(p_t8[b * 1ull], 0), 100);
        const int keys = min(max(p_t9[b * 1ull], 0), 90);
        [[maybe_unused]] const int rows = keys, others = queries;
        const auto first_of = [&]([[maybe_unused]] int row) { return max(row, 0); };
        const auto end_of = [&]([[maybe_unused]] int row) { return row < rows ? others : 0; };
        const int last_row = min(m0 + 128, rows) - 1;
        const int end = last_row < m0 ? 0 : ((end_of(last_row) + 127) / 128 * 128 + 31) / 32;
        const int begin = min(first_of(m0) / 128 * 128 / 32, end);
        if (begin >= end) continue;
        fw_mbarrier_wait(own_empty, own_parity);
        own_parity ^= 1;
        fw_mbarrier_expect(own_full, 65536);
        fw_tma_load(shared + 0, &map0, own_full, 0, m0, h, b);
        fw_tma_load(shared + 16384, &map0, own_full, 64, m0, h, b);
        fw_tma_load(shared + 32768, &map1, own_full, 0, m0, h, b);
        fw_tma_load(shared + 49152, &map1, own_full, 64, m0, h, b);
#pragma unroll 1
        for (unsigned member = 0; member < 2u; ++member) {
#pragma unroll 1
          for (int block = begin; block < end; ++block) {
            fw_mbarrier_wait(empty + 8 * stage, parity);
            fw_mbarrier_expect(full + 8 * stage, 16384);
            const unsigned tile = shared + 65536 + stage * 16384;
            fw_tma_load(tile + 0, &map2, full + 8 * stage, 0, block * 32, h * 2u + member, b);
            fw_tma_load(tile + 4096, &map2, full + 8 * stage, 64, block * 32, h * 2u + member, b);
            fw_tma_load(tile + 8192, &map3, full + 8 * stage, 0, block * 32, h * 2u + member, b);
            fw_tma_load(tile + 12288, &map3, full + 8 * stage, 64, block * 32, h * 2u + member, b);
            if (++stage == 4) stage = 0, parity ^= 1;
          }
        }
      }
    } else if (warp == 1) {  // statistics and Δ of queries
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x, turn = 0; unit < 6u; ++turn, unit = turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) {
        const unsigned head = unit % 6u;
        const int m0 = (int(unit / 6u)) * 128;
        const unsigned b = head / 2u, h = head % 2u;
        const int queries = min(max(p_t8[b * 1ull], 0), 100);
        const int keys = min(max(p_t9[b * 1ull], 0), 90);
        [[maybe_unused]] const int rows = keys, others = queries;
        const auto first_of = [&]([[maybe_unused]] int row) { return max(row, 0); };
        const auto end_of = [&]([[maybe_unused]] int row) { return row < rows ? others : 0; };
        const int last_row = min(m0 + 128, rows) - 1;
        const int end = last_row < m0 ? 0 : ((end_of(last_row) + 127) / 128 * 128 + 31) / 32;
        const int begin = min(first_of(m0) / 128 * 128 / 32, end);
        if (begin >= end) continue;
#pragma unroll 1
        for (unsigned member = 0; member < 2u; ++member) {
          const unsigned long long first = (b * 4ull + h * 2u + member) * 128ull + begin * 32 + lane;
          const float *statistic = partial0 + first, *delta = partial1 + first;
#pragma unroll 1
          for (int block = begin; block < end; ++block) {
            fw_mbarrier_wait(empty + 8 * stage, parity);
            float* const rows = reinterpret_cast<float*>(shared_bytes + 131072 + stage * 256) + lane;
#pragma unroll
            for (unsigned i = 0; i < 32u; i += 32) {
              if (i + lane < 32u) rows[i] = statistic[i], rows[32 + i] = delta[i];
            }
            statistic += 32, delta += 32;
            __syncwarp();
            if (lane == 0) fw_mbarrier_arrive(full + 8 * stage);
            if (++stage == 4) stage = 0, parity ^= 1;
          }
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1, quad = lane % 4;
    const unsigned long long own_0 = fw_matrix_descriptor<128>(shared + consumer * 8192, 0, 1024);
    const unsigned long long own_1 = fw_matrix_descriptor<128>(shared + 32768 + consumer * 8192, 0, 1024);
    const float scale = t6, c = 1.442695f;
    unsigned stage = 0, parity = 0, own_parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x, turn = 0; unit < 6u; ++turn, unit = turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) {
      const unsigned head = unit % 6u;
      const int m0 = (int(unit / 6u)) * 128;
      const unsigned b = head / 2u, h = head % 2u;
      const int queries = min(max(p_t8[b * 1ull], 0), 100);
      const int keys = min(max(p_t9[b * 1ull], 0), 90);
      [[maybe_unused]] const int rows = keys, others = queries;
      const auto first_of = [&]([[maybe_unused]] int row) { return max(row, 0); };
      const auto end_of = [&]([[maybe_unused]] int row) { return row < rows ? others : 0; };
      const int last_row = min(m0 + 128, rows) - 1;
      const int end = last_row < m0 ? 0 : ((end_of(last_row) + 127) / 128 * 128 + 31) / 32;
      const int begin = min(first_of(m0) / 128 * 128 / 32, end);
      const int first_row = m0 + consumer * 64, row = first_row + warp % 4 * 16 + lane / 4;
      const int own_last = min(first_row + 64, rows) - 1;
      // steps of which some rows keep some columns, and of which all keep all
      int own_begin = own_last < first_row ? end : max(first_of(first_row) / 128 * 128 / 32, begin);
      int own_end = own_last < first_row ? end : min(((end_of(own_last) + 127) / 128 * 128 + 31) / 32, end);
      if (own_begin < own_end) {  // from head to head a stage is kept, and the next step needs another one: the others are as many as may be left out
        own_begin = min(own_begin, begin + max(2 - (end - own_end), 0));
        own_end = max(own_end, end - max(2 - (own_begin - begin), 0));
      }
      const int plain_begin = (first_of(first_row + 63) + 31) / 32;
      const int plain_end = first_row + 63 < rows ? end_of(first_row) / 32 : 0;
      // what a mask leaves out is 0, whatever it was
      const auto cut = [&](float (&x)[16], int block) {
        const int at = block * 32 + 2 * quad;
        int kept[2], low[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) kept[e] = end_of(row + 8 * e) - at, low[e] = first_of(row + 8 * e) - at;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
          if (column >= kept[e] || column < low[e]) x[i] = 0.0f;
        }
      };
      const auto release = [&](unsigned stage) {
        if (lane == 0) fw_mbarrier_arrive(empty + 8 * stage);
      };
      unsigned* const gradients_of_keys = reinterpret_cast<unsigned*>(partial2) + (head * 4ull + m0 / 64 + consumer) * 4096ull + warp % 4 * 64 + lane;
      unsigned p[8] = {};
      unsigned s[8] = {};
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
      const int own = max(own_end - own_begin, 0), steps = own * 2;
      unsigned before = 0;  // the stage of the step before, whose rows are multiplied by what its scores became
      if (begin < end) {
        fw_mbarrier_wait(own_full, own_parity);
        own_parity ^= 1;
        if (own == 0) skip((end - begin) * 2);
      }
      int block = own_begin;
      unsigned member = 0;
      if (steps > 0) {
        skip(own_begin - begin);
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + 65536 + stage * 16384;
        if ((block + 1) * 32 > others) {  // what lies beyond the sequence may be NaN, which no factor of 0 makes 0
          const unsigned thread = threadIdx.x % 128;
#pragma unroll 1
          for (unsigned chunk = max(others - block * 32, 0) * 8 + thread; chunk < 256; chunk += 128) {
#pragma unroll
            for (unsigned line = 0; line < 4; ++line) {
              fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + line * 4096 + chunk * 16), fw_vector<unsigned, 4>{});
            }
          }
          fw_fence_async();
          if (consumer == 0) fw_named_barrier<1, 128>();
          else fw_named_barrier<2, 128>();
        }
        FW_PRODUCTS(own_0, fw_matrix_descriptor<128>(tile, 0, 1024), false,
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 1024, 256, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 1026, 258, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 1028, 260, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 1030, 262, "1", ", 1, 1, 0, 0"));
        FW_PRODUCTS(own_1, fw_matrix_descriptor<128>(tile + 8192, 0, 1024), false,
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 1024, 256, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 1026, 258, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 1028, 260, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 1030, 262, "1", ", 1, 1, 0, 0"));
        const fw_bf16* const bias_of_head = p_t7 + (h * 2 + member) * 9000u;
        fw_bf16 bias[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const int of_row = row + 8 * (i >> 1 & 1), of_column = block * 32 + 2 * int(quad) + 8 * (i >> 2) + (i & 1);
          [[maybe_unused]] const int bias_query = min(of_column, 99);
          [[maybe_unused]] const int bias_key = min(of_row, 89);
          bias[i] = bias_of_head[(bias_query) * 90u + (bias_key) * 1u];
        }
        fw_wgmma_wait<1>();
        const bool is_cut = block >= plain_end || block < plain_begin;
        const float* const rows_of = reinterpret_cast<const float*>(shared_bytes + 131072 + stage * 256) + 2 * quad;
        float x[16];
        fw_take_all<0>(x);
#pragma unroll
        for (int i = 0; i < 16; ++i) x[i] = fw_fast_exp2(fmaf(fmaf(x[i], scale, fw_value(bias[i])), c, -rows_of[8 * (i >> 2) + (i & 1)]));
        if (is_cut) cut(x, block);
        fw_wgmma_wait<0>();
        float y[16];
        fw_take_all<16>(y);
#pragma unroll
        for (int i = 0; i < 16; ++i) y[i] = x[i] * fmaf(y[i], scale, -rows_of[32 + 8 * (i >> 2) + (i & 1)]);
        if (is_cut) cut(y, block);
        fw_wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < 8; ++i) p[i] = fw_pack_bf16x2(x[2 * i], x[2 * i + 1]);
#pragma unroll
        for (int i = 0; i < 8; ++i) s[i] = fw_pack_bf16x2(y[2 * i], y[2 * i + 1]);
#pragma unroll
        for (int i = 0; i < 8; ++i) __stcs(gradients_of_keys + member * 8192ull + block * 1024ull + (i / 2 * 256 + i % 2 * 32), s[i]);
        before = stage;
        advance();
      }
      bool adds = false;  // whether there are sums of a step before
#pragma unroll 1
      for (int left = steps; --left > 0;) {
        if (++block == own_end) {  // of the next head
          skip(end - own_end + own_begin - begin);
          block = own_begin;
          ++member;
        }
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + 65536 + stage * 16384;
        if ((block + 1) * 32 > others) {  // what lies beyond the sequence may be NaN, which no factor of 0 makes 0
          const unsigned thread = threadIdx.x % 128;
#pragma unroll 1
          for (unsigned chunk = max(others - block * 32, 0) * 8 + thread; chunk < 256; chunk += 128) {
#pragma unroll
            for (unsigned line = 0; line < 4; ++line) {
              fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + line * 4096 + chunk * 16), fw_vector<unsigned, 4>{});
            }
          }
          fw_fence_async();
          if (consumer == 0) fw_named_barrier<1, 128>();
          else fw_named_barrier<2, 128>();
        }
        FW_PRODUCTS(own_0, fw_matrix_descriptor<128>(tile, 0, 1024), false,
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 1024, 256, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 1026, 258, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 1028, 260, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_SCORES, 1030, 262, "1", ", 1, 1, 0, 0"));
        FW_PRODUCTS(own_1, fw_matrix_descriptor<128>(tile + 8192, 0, 1024), false,
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 1024, 256, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 1026, 258, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 1028, 260, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.bf16.bf16", FW_DIFFERENCES, 1030, 262, "1", ", 1, 1, 0, 0"));
        const unsigned tile_before = shared + 65536 + before * 16384;
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before + 8192, 4096, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_VALUE_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 6, 7, 8, 9, FW_VALUE_SUMS, 128, "1", ", 1, 1, 1"), FW_WORD(p[0]), FW_WORD(p[1]), FW_WORD(p[2]), FW_WORD(p[3]), FW_WORD(p[4]), FW_WORD(p[5]), FW_WORD(p[6]), FW_WORD(p[7]));
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before, 4096, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 6, 7, 8, 9, FW_SUMS, 128, "1", ", 1, 1, 1"), FW_WORD(s[0]), FW_WORD(s[1]), FW_WORD(s[2]), FW_WORD(s[3]), FW_WORD(s[4]), FW_WORD(s[5]), FW_WORD(s[6]), FW_WORD(s[7]));
        const fw_bf16* const bias_of_head = p_t7 + (h * 2 + member) * 9000u;
        fw_bf16 bias[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const int of_row = row + 8 * (i >> 1 & 1), of_column = block * 32 + 2 * int(quad) + 8 * (i >> 2) + (i & 1);
          [[maybe_unused]] const int bias_query = min(of_column, 99);
          [[maybe_unused]] const int bias_key = min(of_row, 89);
          bias[i] = bias_of_head[(bias_query) * 90u + (bias_key) * 1u];
        }
        fw_wgmma_wait<3>();
        const bool is_cut = block >= plain_end || block < plain_begin;
        const float* const rows_of = reinterpret_cast<const float*>(shared_bytes + 131072 + stage * 256) + 2 * quad;
        float x[16];
        fw_take_all<0>(x);
#pragma unroll
        for (int i = 0; i < 16; ++i) x[i] = fw_fast_exp2(fmaf(fmaf(x[i], scale, fw_value(bias[i])), c, -rows_of[8 * (i >> 2) + (i & 1)]));
        if (is_cut) cut(x, block);
        fw_wgmma_wait<2>();
        float y[16];
        fw_take_all<16>(y);
#pragma unroll
        for (int i = 0; i < 16; ++i) y[i] = x[i] * fmaf(y[i], scale, -rows_of[32 + 8 * (i >> 2) + (i & 1)]);
        if (is_cut) cut(y, block);
        fw_wgmma_wait<0>();
        release(before);
#pragma unroll
        for (int i = 0; i < 8; ++i) p[i] = fw_pack_bf16x2(x[2 * i], x[2 * i + 1]);
#pragma unroll
        for (int i = 0; i < 8; ++i) s[i] = fw_pack_bf16x2(y[2 * i], y[2 * i + 1]);
#pragma unroll
        for (int i = 0; i < 8; ++i) __stcs(gradients_of_keys + member * 8192ull + block * 1024ull + (i / 2 * 256 + i % 2 * 32), s[i]);
        before = stage;
        advance();
        adds = true;
      }
      if (steps > 0) {
        const unsigned tile_before = shared + 65536 + before * 16384;
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before + 8192, 4096, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_VALUE_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 6, 7, 8, 9, FW_VALUE_SUMS, 128, "1", ", 1, 1, 1"), FW_WORD(p[0]), FW_WORD(p[1]), FW_WORD(p[2]), FW_WORD(p[3]), FW_WORD(p[4]), FW_WORD(p[5]), FW_WORD(p[6]), FW_WORD(p[7]));
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before, 4096, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 2, 3, 4, 5, FW_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.bf16.bf16", 6, 7, 8, 9, FW_SUMS, 128, "1", ", 1, 1, 1"), FW_WORD(s[0]), FW_WORD(s[1]), FW_WORD(s[2]), FW_WORD(s[3]), FW_WORD(s[4]), FW_WORD(s[5]), FW_WORD(s[6]), FW_WORD(s[7]));
        fw_wgmma_wait<0>();
        release(before);
        skip(end - own_end);
      }
      if (begin < end && lane == 0) fw_mbarrier_arrive(own_empty);
      {
        constexpr float scaled[2] = {1.0f, 1.0f};
        if (steps == 0) {
          FW_CLEAR(FW_ZERO(32) FW_ZERO(33) FW_ZERO(34) FW_ZERO(35) FW_ZERO(36) FW_ZERO(37) FW_ZERO(38) FW_ZERO(39) FW_ZERO(40) FW_ZERO(41) FW_ZERO(42) FW_ZERO(43) FW_ZERO(44) FW_ZERO(45) FW_ZERO(46) FW_ZERO(47) FW_ZERO(48) FW_ZERO(49) FW_ZERO(50) FW_ZERO(51) FW_ZERO(52) FW_ZERO(53) FW_ZERO(54) FW_ZERO(55) FW_ZERO(56) FW_ZERO(57) FW_ZERO(58) FW_ZERO(59) FW_ZERO(60) FW_ZERO(61) FW_ZERO(62) FW_ZERO(63) FW_ZERO(64) FW_ZERO(65) FW_ZERO(66) FW_ZERO(67) FW_ZERO(68) FW_ZERO(69) FW_ZERO(70) FW_ZERO(71) FW_ZERO(72) FW_ZERO(73) FW_ZERO(74) FW_ZERO(75) FW_ZERO(76) FW_ZERO(77) FW_ZERO(78) FW_ZERO(79) FW_ZERO(80) FW_ZERO(81) FW_ZERO(82) FW_ZERO(83) FW_ZERO(84) FW_ZERO(85) FW_ZERO(86) FW_ZERO(87) FW_ZERO(88) FW_ZERO(89) FW_ZERO(90) FW_ZERO(91) FW_ZERO(92) FW_ZERO(93) FW_ZERO(94) FW_ZERO(95));
        }
        {
          unsigned w[2][4] = {};
          float y[4];
          fw_take<32>(y);
          w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<36>(y);
          w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<40>(y);
          w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<44>(y);
          w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 0 + 8 * quad;
            if (row_of < 90) {
              fw_bf16* const to = p_t12_attention_backward + b * 23040ull + h * 11520ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
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
            const int row_of = row + 8 * e, column = 32 + 8 * quad;
            if (row_of < 90) {
              fw_bf16* const to = p_t12_attention_backward + b * 23040ull + h * 11520ull + row_of * 128ull + column;
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
            const int row_of = row + 8 * e, column = 64 + 8 * quad;
            if (row_of < 90) {
              fw_bf16* const to = p_t12_attention_backward + b * 23040ull + h * 11520ull + row_of * 128ull + column;
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
            const int row_of = row + 8 * e, column = 96 + 8 * quad;
            if (row_of < 90) {
              fw_bf16* const to = p_t12_attention_backward + b * 23040ull + h * 11520ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
      }
      {
        constexpr float scaled[2] = {1.0f, 1.0f};
        if (steps == 0) {
          FW_CLEAR(FW_ZERO(96) FW_ZERO(97) FW_ZERO(98) FW_ZERO(99) FW_ZERO(100) FW_ZERO(101) FW_ZERO(102) FW_ZERO(103) FW_ZERO(104) FW_ZERO(105) FW_ZERO(106) FW_ZERO(107) FW_ZERO(108) FW_ZERO(109) FW_ZERO(110) FW_ZERO(111) FW_ZERO(112) FW_ZERO(113) FW_ZERO(114) FW_ZERO(115) FW_ZERO(116) FW_ZERO(117) FW_ZERO(118) FW_ZERO(119) FW_ZERO(120) FW_ZERO(121) FW_ZERO(122) FW_ZERO(123) FW_ZERO(124) FW_ZERO(125) FW_ZERO(126) FW_ZERO(127) FW_ZERO(128) FW_ZERO(129) FW_ZERO(130) FW_ZERO(131) FW_ZERO(132) FW_ZERO(133) FW_ZERO(134) FW_ZERO(135) FW_ZERO(136) FW_ZERO(137) FW_ZERO(138) FW_ZERO(139) FW_ZERO(140) FW_ZERO(141) FW_ZERO(142) FW_ZERO(143) FW_ZERO(144) FW_ZERO(145) FW_ZERO(146) FW_ZERO(147) FW_ZERO(148) FW_ZERO(149) FW_ZERO(150) FW_ZERO(151) FW_ZERO(152) FW_ZERO(153) FW_ZERO(154) FW_ZERO(155) FW_ZERO(156) FW_ZERO(157) FW_ZERO(158) FW_ZERO(159));
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
            const int row_of = row + 8 * e, column = 0 + 8 * quad;
            if (row_of < 90) {
              fw_bf16* const to = p_t11_attention_backward + b * 23040ull + h * 11520ull + row_of * 128ull + column;
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
            const int row_of = row + 8 * e, column = 32 + 8 * quad;
            if (row_of < 90) {
              fw_bf16* const to = p_t11_attention_backward + b * 23040ull + h * 11520ull + row_of * 128ull + column;
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
            const int row_of = row + 8 * e, column = 64 + 8 * quad;
            if (row_of < 90) {
              fw_bf16* const to = p_t11_attention_backward + b * 23040ull + h * 11520ull + row_of * 128ull + column;
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
            const int row_of = row + 8 * e, column = 96 + 8 * quad;
            if (row_of < 90) {
              fw_bf16* const to = p_t11_attention_backward + b * 23040ull + h * 11520ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
      }
    }
  }
}

//@ program
#define FW_PART_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31, acc32, acc33, acc34, acc35, acc36, acc37, acc38, acc39, acc40, acc41, acc42, acc43, acc44, acc45, acc46, acc47, acc48, acc49, acc50, acc51, acc52, acc53, acc54, acc55, acc56, acc57, acc58, acc59, acc60, acc61, acc62, acc63"
#define FW_PART_1 "acc64, acc65, acc66, acc67, acc68, acc69, acc70, acc71, acc72, acc73, acc74, acc75, acc76, acc77, acc78, acc79, acc80, acc81, acc82, acc83, acc84, acc85, acc86, acc87, acc88, acc89, acc90, acc91, acc92, acc93, acc94, acc95, acc96, acc97, acc98, acc99, acc100, acc101, acc102, acc103, acc104, acc105, acc106, acc107, acc108, acc109, acc110, acc111, acc112, acc113, acc114, acc115, acc116, acc117, acc118, acc119, acc120, acc121, acc122, acc123, acc124, acc125, acc126, acc127"

extern "C" __global__ void __launch_bounds__(256, 1)
fw_attention_queries_3(const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const float t6,
  const int* __restrict__ p_t8,
  const int* __restrict__ p_t9,
  const fw_bf16* __restrict__ p_t7,
  fw_bf16* __restrict__ p_t10_attention_backward) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(128);
  const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 131072, empty = full + 32;  // mbarriers for each stage
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
#pragma unroll 1
    for (unsigned stage = 0; stage < 4; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 1);
      fw_mbarrier_init(empty + 8 * stage, 4);  // warps that multiply what is in it
    }
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x, turn = 0; unit < 12u; ++turn, unit = turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) {
        const unsigned head = unit % 12u;
        const int m0 = (0 - int(unit / 12u)) * 128;
        const unsigned b = head / 4u, h = head % 4u;
        const int queries = min(max(p_t8[b * 1ull], 0), 100);
        const int keys = min(max(p_t9[b * 1ull], 0), 90);
        [[maybe_unused]] const int rows = queries, others = keys;
        const auto first_of = [&]([[maybe_unused]] int row) { return 0; };
        const auto end_of = [&]([[maybe_unused]] int row) { return min(row < rows ? others : 0, max(row + 1, 0)); };
        const int last_row = min(m0 + 128, rows) - 1;
        const int end = last_row < m0 ? 0 : (end_of(last_row) + 63) / 64;
        const int begin = min(first_of(m0) / 64, end);
        const unsigned first_chunk = head * 32u + m0 / 8;
#pragma unroll 1
        for (int block = begin; block < end; ++block) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 32768);
          const unsigned tile = shared + stage * 32768;
          fw_tma_load(tile, &map0, full + 8 * stage, 0, (first_chunk + block * 16u) * 8);
          fw_tma_load(tile + 16384, &map1, full + 8 * stage, 0, block * 64, h / 2u, b);
          fw_tma_load(tile + 24576, &map1, full + 8 * stage, 64, block * 64, h / 2u, b);
          if (++stage == 4) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1, quad = lane % 4;
    unsigned stage = 0, parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x, turn = 0; unit < 12u; ++turn, unit = turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) {
      const unsigned head = unit % 12u;
      const int m0 = (0 - int(unit / 12u)) * 128;
      const unsigned b = head / 4u, h = head % 4u;
      const int queries = min(max(p_t8[b * 1ull], 0), 100);
      const int keys = min(max(p_t9[b * 1ull], 0), 90);
      [[maybe_unused]] const int rows = queries, others = keys;
      const auto first_of = [&]([[maybe_unused]] int row) { return 0; };
      const auto end_of = [&]([[maybe_unused]] int row) { return min(row < rows ? others : 0, max(row + 1, 0)); };
      const int last_row = min(m0 + 128, rows) - 1;
      const int end = last_row < m0 ? 0 : (end_of(last_row) + 63) / 64;
      const int begin = min(first_of(m0) / 64, end);
      const int first_row = m0 + consumer * 128, own_last = min(first_row + 128, rows) - 1;
      // steps of which some rows keep some columns: the others' chunks may hold anything
      const bool keeps = own_last >= first_row && first_of(first_row) < end_of(own_last);
      const int own_begin = keeps ? max(first_of(first_row) / 64, begin) : end;
      const int own_end = keeps ? min((end_of(own_last) + 63) / 64, end) : end;
      const int steps = max(own_end - own_begin, 0);
      const auto release = [&](unsigned stage) {
        if (lane == 0) fw_mbarrier_arrive(empty + 8 * stage);
      };
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
      skip(steps > 0 ? own_begin - begin : max(end - begin, 0));
      unsigned before = 0;  // the stage of the step before
#pragma unroll 1
      for (int block = own_begin; block < own_end; ++block) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 32768;
        if ((block + 1) * 64 > others) {  // keys beyond the sequence may be NaN, which no factor of 0 makes 0
#pragma unroll 1
          for (unsigned chunk = max(others - block * 64, 0) * 8 + threadIdx.x % 128; chunk < 512; chunk += 128) {
#pragma unroll
            for (unsigned line = 0; line < 2; ++line) {
              fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + 16384 + line * 8192 + chunk * 16), fw_vector<unsigned, 4>{});
            }
          }
          fw_fence_async();
          fw_named_barrier<1, 128>();
        }
        const unsigned long long keys_of = fw_matrix_descriptor<128>(tile + 16384, 8192, 1024);
        FW_PRODUCTS(fw_matrix_descriptor<0>(tile + (consumer * 2 + 0) * 8192, 128, 1024), keys_of, block > own_begin,
          FW_PRODUCT("m64n128k16.f32.bf16.bf16", FW_PART_0, 0, 0, "p", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.bf16.bf16", FW_PART_0, 16, 128, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.bf16.bf16", FW_PART_0, 32, 256, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.bf16.bf16", FW_PART_0, 48, 384, "1", ", 1, 1, 1, 1"));
        FW_PRODUCTS(fw_matrix_descriptor<0>(tile + (consumer * 2 + 1) * 8192, 128, 1024), keys_of, block > own_begin,
          FW_PRODUCT("m64n128k16.f32.bf16.bf16", FW_PART_1, 0, 0, "p", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.bf16.bf16", FW_PART_1, 16, 128, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.bf16.bf16", FW_PART_1, 32, 256, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.bf16.bf16", FW_PART_1, 48, 384, "1", ", 1, 1, 1, 1"));
        fw_wgmma_wait<2>();
        if (block > own_begin) release(before);
        before = stage;
        advance();
      }
      fw_wgmma_wait<0>();
      if (steps > 0) {
        release(before);
        skip(end - own_end);
      }
      {
        const int row = first_row + 0 + warp % 4 * 16 + lane / 4;
        constexpr float scaled[2] = {1.0f, 1.0f};
        if (steps == 0) {
          FW_CLEAR(FW_ZERO(0) FW_ZERO(1) FW_ZERO(2) FW_ZERO(3) FW_ZERO(4) FW_ZERO(5) FW_ZERO(6) FW_ZERO(7) FW_ZERO(8) FW_ZERO(9) FW_ZERO(10) FW_ZERO(11) FW_ZERO(12) FW_ZERO(13) FW_ZERO(14) FW_ZERO(15) FW_ZERO(16) FW_ZERO(17) FW_ZERO(18) FW_ZERO(19) FW_ZERO(20) FW_ZERO(21) FW_ZERO(22) FW_ZERO(23) FW_ZERO(24) FW_ZERO(25) FW_ZERO(26) FW_ZERO(27) FW_ZERO(28) FW_ZERO(29) FW_ZERO(30) FW_ZERO(31) FW_ZERO(32) FW_ZERO(33) FW_ZERO(34) FW_ZERO(35) FW_ZERO(36) FW_ZERO(37) FW_ZERO(38) FW_ZERO(39) FW_ZERO(40) FW_ZERO(41) FW_ZERO(42) FW_ZERO(43) FW_ZERO(44) FW_ZERO(45) FW_ZERO(46) FW_ZERO(47) FW_ZERO(48) FW_ZERO(49) FW_ZERO(50) FW_ZERO(51) FW_ZERO(52) FW_ZERO(53) FW_ZERO(54) FW_ZERO(55) FW_ZERO(56) FW_ZERO(57) FW_ZERO(58) FW_ZERO(59) FW_ZERO(60) FW_ZERO(61) FW_ZERO(62) FW_ZERO(63));
        }
        {
          unsigned w[2][4] = {};
          float y[4];
          fw_take<0>(y);
          w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<4>(y);
          w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<8>(y);
          w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<12>(y);
          w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 0 + 8 * quad;
            if (row_of < 100) {
              fw_bf16* const to = p_t10_attention_backward + b * 51200ull + h * 12800ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
        {
          unsigned w[2][4] = {};
          float y[4];
          fw_take<16>(y);
          w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<20>(y);
          w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<24>(y);
          w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<28>(y);
          w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 32 + 8 * quad;
            if (row_of < 100) {
              fw_bf16* const to = p_t10_attention_backward + b * 51200ull + h * 12800ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
        {
          unsigned w[2][4] = {};
          float y[4];
          fw_take<32>(y);
          w[0][0] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<36>(y);
          w[0][1] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<40>(y);
          w[0][2] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
          fw_take<44>(y);
          w[0][3] = fw_pack_bf16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_bf16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 64 + 8 * quad;
            if (row_of < 100) {
              fw_bf16* const to = p_t10_attention_backward + b * 51200ull + h * 12800ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
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
            const int row_of = row + 8 * e, column = 96 + 8 * quad;
            if (row_of < 100) {
              fw_bf16* const to = p_t10_attention_backward + b * 51200ull + h * 12800ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
      }
      {
        const int row = first_row + 64 + warp % 4 * 16 + lane / 4;
        constexpr float scaled[2] = {1.0f, 1.0f};
        if (steps == 0) {
          FW_CLEAR(FW_ZERO(64) FW_ZERO(65) FW_ZERO(66) FW_ZERO(67) FW_ZERO(68) FW_ZERO(69) FW_ZERO(70) FW_ZERO(71) FW_ZERO(72) FW_ZERO(73) FW_ZERO(74) FW_ZERO(75) FW_ZERO(76) FW_ZERO(77) FW_ZERO(78) FW_ZERO(79) FW_ZERO(80) FW_ZERO(81) FW_ZERO(82) FW_ZERO(83) FW_ZERO(84) FW_ZERO(85) FW_ZERO(86) FW_ZERO(87) FW_ZERO(88) FW_ZERO(89) FW_ZERO(90) FW_ZERO(91) FW_ZERO(92) FW_ZERO(93) FW_ZERO(94) FW_ZERO(95) FW_ZERO(96) FW_ZERO(97) FW_ZERO(98) FW_ZERO(99) FW_ZERO(100) FW_ZERO(101) FW_ZERO(102) FW_ZERO(103) FW_ZERO(104) FW_ZERO(105) FW_ZERO(106) FW_ZERO(107) FW_ZERO(108) FW_ZERO(109) FW_ZERO(110) FW_ZERO(111) FW_ZERO(112) FW_ZERO(113) FW_ZERO(114) FW_ZERO(115) FW_ZERO(116) FW_ZERO(117) FW_ZERO(118) FW_ZERO(119) FW_ZERO(120) FW_ZERO(121) FW_ZERO(122) FW_ZERO(123) FW_ZERO(124) FW_ZERO(125) FW_ZERO(126) FW_ZERO(127));
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
            const int row_of = row + 8 * e, column = 0 + 8 * quad;
            if (row_of < 100) {
              fw_bf16* const to = p_t10_attention_backward + b * 51200ull + h * 12800ull + row_of * 128ull + column;
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
            const int row_of = row + 8 * e, column = 32 + 8 * quad;
            if (row_of < 100) {
              fw_bf16* const to = p_t10_attention_backward + b * 51200ull + h * 12800ull + row_of * 128ull + column;
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
            const int row_of = row + 8 * e, column = 64 + 8 * quad;
            if (row_of < 100) {
              fw_bf16* const to = p_t10_attention_backward + b * 51200ull + h * 12800ull + row_of * 128ull + column;
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
            const int row_of = row + 8 * e, column = 96 + 8 * quad;
            if (row_of < 100) {
              fw_bf16* const to = p_t10_attention_backward + b * 51200ull + h * 12800ull + row_of * 128ull + column;
              fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
            }
          }
        }
      }
    }
  }
}
