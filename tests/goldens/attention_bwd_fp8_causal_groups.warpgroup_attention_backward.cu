// fusewright 0.1.0, engine config: warpgroup_attention_backward tile_m=256 tile_n=64 tile_k=32 stored_gradients=1
// t0 = input FP8_E4M3 [1, 4, 200, 128] stride [102400, 128, 512, 1]
// t1 = input FP8_E4M3 [1, 2, 200, 128] stride [51200, 128, 256, 1]
// t2 = input FP8_E4M3 [1, 2, 200, 128] stride [51200, 128, 256, 1]
// t3 = input FP8_E4M3 [1, 4, 200, 128] stride [102400, 128, 512, 1]
// t4 = input FP8_E4M3 [1, 4, 200, 128] stride [102400, 128, 512, 1]
// t5 = input FLOAT [1, 4, 200, 1] stride [800, 1, 4, 1]
// t6 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t7 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t8 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t9 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t10 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t11 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t12 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t13 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t14 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t15 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t16 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t17 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t18 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t19_attention_backward, t20_attention_backward, t21_attention_backward, t22_attention_backward, t23_attention_backward, t24_attention_backward, t25_attention_backward = ATTENTION_BACKWARD(Q=t0, K=t1, V=t2, O=t3, dO=t4, Stats=t5, Attn_scale=t6, Descale_Q=t7, Descale_K=t8, Descale_V=t9, Descale_O=t10, Descale_dO=t11, Descale_S=t12, Descale_dP=t13, Scale_S=t14, Scale_dP=t15, Scale_dQ=t16, Scale_dK=t17, Scale_dV=t18) right_bound=0 compute FLOAT -> output FP8_E4M3 [1, 4, 200, 128] stride [102400, 128, 512, 1], output FP8_E4M3 [1, 2, 200, 128] stride [51200, 128, 256, 1], output FP8_E4M3 [1, 2, 200, 128] stride [51200, 128, 256, 1], output FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1], output FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1], output FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1], output FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_max_nan

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

//@ fw_f32

//@ fw_f16x2

//@ fw_clamp_f16x2

//@ fw_fp8

//@ fw_fp8x4

//@ fw_e4m3

//@ fw_f16x2_of_e4m3

//@ fw_vector

//@ fw_uniform

//@ fw_take_all

//@ fw_keep_largest

//@ fw_quad_transpose

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_attention_halves(const fw_e4m3* __restrict__ p_t0,
  const fw_e4m3* __restrict__ p_t1,
  const fw_e4m3* __restrict__ p_t2,
  const fw_e4m3* __restrict__ p_t4,
  float* __restrict__ p_t22_attention_backward,
  float* __restrict__ p_t24_attention_backward,
  float* __restrict__ p_t23_attention_backward,
  float* __restrict__ p_t25_attention_backward,
  float* __restrict__ partial0,
  float* __restrict__ partial1,
  float* __restrict__ partial2,
  float* __restrict__ partial3) {
  fw_wait_for_previous_launch();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *p_t22_attention_backward = 0.0f;
    *p_t24_attention_backward = 0.0f;
    *p_t23_attention_backward = 0.0f;
    *p_t25_attention_backward = 0.0f;
  }
  if (blockIdx.x < 25u) {
    const unsigned long long item = (blockIdx.x - 0u) * 256ull + threadIdx.x;
    if (item >= 6400ull) return;
    const unsigned at = item % 8u * 16;
    const unsigned long long line = item / 8u, head = line / 200u;
    const unsigned row = line % 200u, b = head / 4u, h = head % 4u;
    const fw_e4m3* const from = p_t0 + b * 102400ull + h * 128ull + row * 512ull;
    fw_vector<unsigned, 4> x;
    x = *reinterpret_cast<const fw_vector<unsigned, 4>*>(from + at);
    fw_vector<unsigned, 4>* const to = reinterpret_cast<fw_vector<unsigned, 4>*>(reinterpret_cast<unsigned short*>(partial0) + line * 128 + at);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      to[i] = {{fw_f16x2_of_e4m3(x.at[2 * i]), fw_f16x2_of_e4m3(x.at[2 * i] >> 16), fw_f16x2_of_e4m3(x.at[2 * i + 1]), fw_f16x2_of_e4m3(x.at[2 * i + 1] >> 16)}};
    }
  }
  else if (blockIdx.x < 38u) {
    const unsigned long long item = (blockIdx.x - 25u) * 256ull + threadIdx.x;
    if (item >= 3200ull) return;
    const unsigned at = item % 8u * 16;
    const unsigned long long line = item / 8u, head = line / 200u;
    const unsigned row = line % 200u, b = head / 2u, h = head % 2u;
    const fw_e4m3* const from = p_t1 + b * 51200ull + h * 128ull + row * 256ull;
    fw_vector<unsigned, 4> x;
    x = *reinterpret_cast<const fw_vector<unsigned, 4>*>(from + at);
    fw_vector<unsigned, 4>* const to = reinterpret_cast<fw_vector<unsigned, 4>*>(reinterpret_cast<unsigned short*>(partial1) + line * 128 + at);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      to[i] = {{fw_f16x2_of_e4m3(x.at[2 * i]), fw_f16x2_of_e4m3(x.at[2 * i] >> 16), fw_f16x2_of_e4m3(x.at[2 * i + 1]), fw_f16x2_of_e4m3(x.at[2 * i + 1] >> 16)}};
    }
  }
  else if (blockIdx.x < 51u) {
    const unsigned long long item = (blockIdx.x - 38u) * 256ull + threadIdx.x;
    if (item >= 3200ull) return;
    const unsigned at = item % 8u * 16;
    const unsigned long long line = item / 8u, head = line / 200u;
    const unsigned row = line % 200u, b = head / 2u, h = head % 2u;
    const fw_e4m3* const from = p_t2 + b * 51200ull + h * 128ull + row * 256ull;
    fw_vector<unsigned, 4> x;
    x = *reinterpret_cast<const fw_vector<unsigned, 4>*>(from + at);
    fw_vector<unsigned, 4>* const to = reinterpret_cast<fw_vector<unsigned, 4>*>(reinterpret_cast<unsigned short*>(partial2) + line * 128 + at);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      to[i] = {{fw_f16x2_of_e4m3(x.at[2 * i]), fw_f16x2_of_e4m3(x.at[2 * i] >> 16), fw_f16x2_of_e4m3(x.at[2 * i + 1]), fw_f16x2_of_e4m3(x.at[2 * i + 1] >> 16)}};
    }
  }
  else {
    const unsigned long long item = (blockIdx.x - 51u) * 256ull + threadIdx.x;
    if (item >= 6400ull) return;
    const unsigned at = item % 8u * 16;
    const unsigned long long line = item / 8u, head = line / 200u;
    const unsigned row = line % 200u, b = head / 4u, h = head % 4u;
    const fw_e4m3* const from = p_t4 + b * 102400ull + h * 128ull + row * 512ull;
    fw_vector<unsigned, 4> x;
    x = *reinterpret_cast<const fw_vector<unsigned, 4>*>(from + at);
    fw_vector<unsigned, 4>* const to = reinterpret_cast<fw_vector<unsigned, 4>*>(reinterpret_cast<unsigned short*>(partial3) + line * 128 + at);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      to[i] = {{fw_f16x2_of_e4m3(x.at[2 * i]), fw_f16x2_of_e4m3(x.at[2 * i] >> 16), fw_f16x2_of_e4m3(x.at[2 * i + 1]), fw_f16x2_of_e4m3(x.at[2 * i + 1] >> 16)}};
    }
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_attention_rows_1(const fw_e4m3* __restrict__ p_t3,
  const fw_e4m3* __restrict__ p_t4,
  const float* __restrict__ p_t5,
  const float t6,
  const float t11,
  const float t10,
  float* __restrict__ partial0,
  float* __restrict__ partial1) {
  fw_wait_for_previous_launch();
  const unsigned lane = threadIdx.x % 16u;
  const unsigned long long at = (unsigned long long)blockIdx.x * 16 + threadIdx.x / 16u;
  if (at >= 800ull) return;  // rows of a warp end together
  const unsigned long long query = at % 200ull, head = at / 200ull;
  const unsigned long long b = head / 4u, h = head % 4u;
  float delta = 0.0f;
  if (8 * lane < 128u) {
    const fw_e4m3* const o = p_t3 + b * 102400ull + h * 128ull + query * 512ull + 8 * lane;
    const fw_e4m3* const d_o = p_t4 + b * 102400ull + h * 128ull + query * 512ull + 8 * lane;
    float x[8], y[8];
    fw_load_vector(o, x);
    fw_load_vector(d_o, y);
#pragma unroll
    for (int i = 0; i < 8; ++i) delta = fmaf(x[i], y[i], delta);
  }
#pragma unroll
  for (unsigned step = 16 / 2; step > 0; step /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, step);
  if (lane == 0) {
    const unsigned long long place = head * 224ull + query;
    const float statistic = p_t5[b * 800ull + h * 1ull + query * 4ull];
    partial0[place] = statistic * 1.442695f;
    partial1[place] = delta * t11 * t10 * t6;
  }
}

//@ program
#define FW_SCORES "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15"
#define FW_DIFFERENCES "acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31"
#define FW_VALUE_SUMS "acc32, acc33, acc34, acc35, acc36, acc37, acc38, acc39, acc40, acc41, acc42, acc43, acc44, acc45, acc46, acc47, acc48, acc49, acc50, acc51, acc52, acc53, acc54, acc55, acc56, acc57, acc58, acc59, acc60, acc61, acc62, acc63, acc64, acc65, acc66, acc67, acc68, acc69, acc70, acc71, acc72, acc73, acc74, acc75, acc76, acc77, acc78, acc79, acc80, acc81, acc82, acc83, acc84, acc85, acc86, acc87, acc88, acc89, acc90, acc91, acc92, acc93, acc94, acc95"
#define FW_SUMS "acc96, acc97, acc98, acc99, acc100, acc101, acc102, acc103, acc104, acc105, acc106, acc107, acc108, acc109, acc110, acc111, acc112, acc113, acc114, acc115, acc116, acc117, acc118, acc119, acc120, acc121, acc122, acc123, acc124, acc125, acc126, acc127, acc128, acc129, acc130, acc131, acc132, acc133, acc134, acc135, acc136, acc137, acc138, acc139, acc140, acc141, acc142, acc143, acc144, acc145, acc146, acc147, acc148, acc149, acc150, acc151, acc152, acc153, acc154, acc155, acc156, acc157, acc158, acc159"

extern "C" __global__ void __launch_bounds__(256, 1)
fw_attention_backward_keys_2(const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2,
  const __grid_constant__ fw_tensor_map map3,
  const float t6,
  const float t7,
  const float t8,
  const float t11,
  const float t9,
  const float t14,
  const float t15,
  const float t12,
  const float t18,
  const float t13,
  const float t17,
  fw_e4m3* __restrict__ p_t21_attention_backward,
  fw_e4m3* __restrict__ p_t20_attention_backward,
  float* __restrict__ p_t24_attention_backward,
  float* __restrict__ p_t23_attention_backward,
  float* __restrict__ p_t25_attention_backward,
  float* __restrict__ partial0,
  float* __restrict__ partial1,
  float* __restrict__ partial2) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(160);
  const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 99328, empty = full + 32;  // mbarriers for each stage
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
      for (unsigned unit = blockIdx.x, turn = 0; unit < 8u; ++turn, unit = turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) {
        const unsigned head = unit % 2u;
        const int m0 = (int(unit / 2u)) * 64;
        const unsigned b = head / 2u, h = head % 2u;
        constexpr int queries = 200, keys = 200;
        [[maybe_unused]] const int rows = keys, others = queries;
        const auto first_of = [&]([[maybe_unused]] int row) { return max(row, 0); };
        const auto end_of = [&]([[maybe_unused]] int row) { return row < rows ? others : 0; };
        const int last_row = min(m0 + 64, rows) - 1;
        const int end = last_row < m0 ? 0 : ((end_of(last_row) + 127) / 128 * 128 + 31) / 32;
        const int begin = min(first_of(m0) / 128 * 128 / 32, end);
        if (begin >= end) continue;
        fw_mbarrier_wait(own_empty, own_parity);
        own_parity ^= 1;
        fw_mbarrier_expect(own_full, 32768);
        fw_tma_load(shared + 0, &map0, own_full, 0, m0, h, b);
        fw_tma_load(shared + 8192, &map0, own_full, 64, m0, h, b);
        fw_tma_load(shared + 16384, &map1, own_full, 0, m0, h, b);
        fw_tma_load(shared + 24576, &map1, own_full, 64, m0, h, b);
#pragma unroll 1
        for (unsigned member = 0; member < 2u; ++member) {
#pragma unroll 1
          for (int block = begin; block < end; ++block) {
            fw_mbarrier_wait(empty + 8 * stage, parity);
            fw_mbarrier_expect(full + 8 * stage, 16384);
            const unsigned tile = shared + 32768 + stage * 16384;
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
      for (unsigned unit = blockIdx.x, turn = 0; unit < 8u; ++turn, unit = turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) {
        const unsigned head = unit % 2u;
        const int m0 = (int(unit / 2u)) * 64;
        const unsigned b = head / 2u, h = head % 2u;
        constexpr int queries = 200, keys = 200;
        [[maybe_unused]] const int rows = keys, others = queries;
        const auto first_of = [&]([[maybe_unused]] int row) { return max(row, 0); };
        const auto end_of = [&]([[maybe_unused]] int row) { return row < rows ? others : 0; };
        const int last_row = min(m0 + 64, rows) - 1;
        const int end = last_row < m0 ? 0 : ((end_of(last_row) + 127) / 128 * 128 + 31) / 32;
        const int begin = min(first_of(m0) / 128 * 128 / 32, end);
        if (begin >= end) continue;
#pragma unroll 1
        for (unsigned member = 0; member < 2u; ++member) {
          const unsigned long long first = (b * 4ull + h * 2u + member) * 224ull + begin * 32 + lane;
          const float *statistic = partial0 + first, *delta = partial1 + first;
#pragma unroll 1
          for (int block = begin; block < end; ++block) {
            fw_mbarrier_wait(empty + 8 * stage, parity);
            float* const rows = reinterpret_cast<float*>(shared_bytes + 98304 + stage * 256) + lane;
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
    fw_increase_registers<240>();
    const unsigned consumer = warp / 4 - 1, quad = lane % 4;
    const unsigned long long own_0 = fw_matrix_descriptor<128>(shared + consumer * 8192, 0, 1024);
    const unsigned long long own_1 = fw_matrix_descriptor<128>(shared + 16384 + consumer * 8192, 0, 1024);
    const float scale = t6, c = scale * 1.442695f * t7 * t8;
    const float of_differences = scale * t11 * t9;
    const float of_gradients = t15;
    const float of_probabilities = t14;
    unsigned stage = 0, parity = 0, own_parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x, turn = 0; unit < 8u; ++turn, unit = turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) {
      const unsigned head = unit % 2u;
      const int m0 = (int(unit / 2u)) * 64;
      const unsigned b = head / 2u, h = head % 2u;
      constexpr int queries = 200, keys = 200;
      [[maybe_unused]] const int rows = keys, others = queries;
      const auto first_of = [&]([[maybe_unused]] int row) { return max(row, 0); };
      const auto end_of = [&]([[maybe_unused]] int row) { return row < rows ? others : 0; };
      const int last_row = min(m0 + 64, rows) - 1;
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
      unsigned* const gradients_of_keys = reinterpret_cast<unsigned*>(partial2) + (head * 8ull + m0 / 64 + consumer) * 8192ull + warp % 4 * 64 + lane;
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
      float largest_y = 0.0f;
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
        const unsigned tile = shared + 32768 + stage * 16384;
        FW_PRODUCTS(own_0, fw_matrix_descriptor<128>(tile, 0, 1024), false,
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 512, 256, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 514, 258, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 516, 260, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 518, 262, "1", ", 1, 1, 0, 0"));
        FW_PRODUCTS(own_1, fw_matrix_descriptor<128>(tile + 8192, 0, 1024), false,
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 512, 256, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 514, 258, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 516, 260, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 518, 262, "1", ", 1, 1, 0, 0"));
        fw_wgmma_wait<1>();
        const bool is_cut = block >= plain_end || block < plain_begin;
        const float* const rows_of = reinterpret_cast<const float*>(shared_bytes + 98304 + stage * 256) + 2 * quad;
        float x[16];
        fw_take_all<0>(x);
#pragma unroll
        for (int i = 0; i < 16; ++i) x[i] = fw_fast_exp2(fmaf(x[i], c, -rows_of[8 * (i >> 2) + (i & 1)]));
        if (is_cut) cut(x, block);
        fw_wgmma_wait<0>();
        float y[16];
        fw_take_all<16>(y);
#pragma unroll
        for (int i = 0; i < 16; ++i) y[i] = x[i] * fmaf(y[i], of_differences, -rows_of[32 + 8 * (i >> 2) + (i & 1)]);
        if (is_cut) cut(y, block);
#pragma unroll
        for (int i = 0; i < 16; ++i) largest_y = fw_max_nan(largest_y, fabsf(y[i]));
        fw_wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < 8; ++i) p[i] = fw_clamp_f16x2(fw_pack_f16x2(x[2 * i] * of_probabilities, x[2 * i + 1] * of_probabilities), 0x5f005f00u);
#pragma unroll
        for (int i = 0; i < 8; ++i) s[i] = fw_clamp_f16x2(fw_pack_f16x2(y[2 * i] * of_gradients, y[2 * i + 1] * of_gradients), 0x5f005f00u);
#pragma unroll
        for (int i = 0; i < 8; ++i) __stcs(gradients_of_keys + member * 32768ull + block * 1024ull + (i / 2 * 256 + i % 2 * 32), s[i]);
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
        const unsigned tile = shared + 32768 + stage * 16384;
        FW_PRODUCTS(own_0, fw_matrix_descriptor<128>(tile, 0, 1024), false,
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 512, 256, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 514, 258, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 516, 260, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_SCORES, 518, 262, "1", ", 1, 1, 0, 0"));
        FW_PRODUCTS(own_1, fw_matrix_descriptor<128>(tile + 8192, 0, 1024), false,
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 512, 256, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 514, 258, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 516, 260, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_DIFFERENCES, 518, 262, "1", ", 1, 1, 0, 0"));
        const unsigned tile_before = shared + 32768 + before * 16384;
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before + 8192, 4096, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.f16.f16", 2, 3, 4, 5, FW_VALUE_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.f16.f16", 6, 7, 8, 9, FW_VALUE_SUMS, 128, "1", ", 1, 1, 1"), FW_WORD(p[0]), FW_WORD(p[1]), FW_WORD(p[2]), FW_WORD(p[3]), FW_WORD(p[4]), FW_WORD(p[5]), FW_WORD(p[6]), FW_WORD(p[7]));
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before, 4096, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.f16.f16", 2, 3, 4, 5, FW_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.f16.f16", 6, 7, 8, 9, FW_SUMS, 128, "1", ", 1, 1, 1"), FW_WORD(s[0]), FW_WORD(s[1]), FW_WORD(s[2]), FW_WORD(s[3]), FW_WORD(s[4]), FW_WORD(s[5]), FW_WORD(s[6]), FW_WORD(s[7]));
        fw_wgmma_wait<3>();
        const bool is_cut = block >= plain_end || block < plain_begin;
        const float* const rows_of = reinterpret_cast<const float*>(shared_bytes + 98304 + stage * 256) + 2 * quad;
        float x[16];
        fw_take_all<0>(x);
#pragma unroll
        for (int i = 0; i < 16; ++i) x[i] = fw_fast_exp2(fmaf(x[i], c, -rows_of[8 * (i >> 2) + (i & 1)]));
        if (is_cut) cut(x, block);
        fw_wgmma_wait<2>();
        float y[16];
        fw_take_all<16>(y);
#pragma unroll
        for (int i = 0; i < 16; ++i) y[i] = x[i] * fmaf(y[i], of_differences, -rows_of[32 + 8 * (i >> 2) + (i & 1)]);
        if (is_cut) cut(y, block);
#pragma unroll
        for (int i = 0; i < 16; ++i) largest_y = fw_max_nan(largest_y, fabsf(y[i]));
        fw_wgmma_wait<0>();
        release(before);
#pragma unroll
        for (int i = 0; i < 8; ++i) p[i] = fw_clamp_f16x2(fw_pack_f16x2(x[2 * i] * of_probabilities, x[2 * i + 1] * of_probabilities), 0x5f005f00u);
#pragma unroll
        for (int i = 0; i < 8; ++i) s[i] = fw_clamp_f16x2(fw_pack_f16x2(y[2 * i] * of_gradients, y[2 * i + 1] * of_gradients), 0x5f005f00u);
#pragma unroll
        for (int i = 0; i < 8; ++i) __stcs(gradients_of_keys + member * 32768ull + block * 1024ull + (i / 2 * 256 + i % 2 * 32), s[i]);
        before = stage;
        advance();
        adds = true;
      }
      if (steps > 0) {
        const unsigned tile_before = shared + 32768 + before * 16384;
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before + 8192, 4096, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.f16.f16", 2, 3, 4, 5, FW_VALUE_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.f16.f16", 6, 7, 8, 9, FW_VALUE_SUMS, 128, "1", ", 1, 1, 1"), FW_WORD(p[0]), FW_WORD(p[1]), FW_WORD(p[2]), FW_WORD(p[3]), FW_WORD(p[4]), FW_WORD(p[5]), FW_WORD(p[6]), FW_WORD(p[7]));
        FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before, 4096, 1024), adds,
          FW_PRODUCT_OF("m64n128k16.f32.f16.f16", 2, 3, 4, 5, FW_SUMS, 0, "p", ", 1, 1, 1")
          FW_PRODUCT_OF("m64n128k16.f32.f16.f16", 6, 7, 8, 9, FW_SUMS, 128, "1", ", 1, 1, 1"), FW_WORD(s[0]), FW_WORD(s[1]), FW_WORD(s[2]), FW_WORD(s[3]), FW_WORD(s[4]), FW_WORD(s[5]), FW_WORD(s[6]), FW_WORD(s[7]));
        fw_wgmma_wait<0>();
        release(before);
        skip(end - own_end);
      }
      if (begin < end && lane == 0) fw_mbarrier_arrive(own_empty);
      fw_keep_largest(p_t25_attention_backward, largest_y, lane);
      {
        const float scaled[2] = {t12 * t11, t12 * t11};
        const float of_stored = t18;
        float largest_o = 0.0f;
        {
          float y[32] = {};
          if (steps > 0) {
            fw_take_all<32>(y);
          }
#pragma unroll
          for (int i = 0; i < 32; ++i) {
            y[i] *= scaled[i >> 1 & 1];
            if (row + 8 * (i >> 1 & 1) < 200) largest_o = fw_max_nan(largest_o, fabsf(y[i]));
            y[i] *= of_stored;
          }
          unsigned w[2][4] = {};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e) w[e][i] = fw_pack_e4m3x4(y[8 * i + 2 * e], y[8 * i + 2 * e + 1], y[8 * i + 2 * e + 4], y[8 * i + 2 * e + 5]);
          }
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 0 + 16 * quad;
            if (row_of < 200 && column < 128) {
              const fw_vector<unsigned, 4> words = {{fw_low_halves(w[e][0], w[e][1]), fw_low_halves(w[e][2], w[e][3]), fw_high_halves(w[e][0], w[e][1]), fw_high_halves(w[e][2], w[e][3])}};
              fw_store_vector(reinterpret_cast<unsigned*>(p_t21_attention_backward + b * 51200ull + h * 128ull + row_of * 256ull + column), words);
            }
          }
        }
        {
          float y[32] = {};
          if (steps > 0) {
            fw_take_all<64>(y);
          }
#pragma unroll
          for (int i = 0; i < 32; ++i) {
            y[i] *= scaled[i >> 1 & 1];
            if (row + 8 * (i >> 1 & 1) < 200) largest_o = fw_max_nan(largest_o, fabsf(y[i]));
            y[i] *= of_stored;
          }
          unsigned w[2][4] = {};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e) w[e][i] = fw_pack_e4m3x4(y[8 * i + 2 * e], y[8 * i + 2 * e + 1], y[8 * i + 2 * e + 4], y[8 * i + 2 * e + 5]);
          }
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 64 + 16 * quad;
            if (row_of < 200 && column < 128) {
              const fw_vector<unsigned, 4> words = {{fw_low_halves(w[e][0], w[e][1]), fw_low_halves(w[e][2], w[e][3]), fw_high_halves(w[e][0], w[e][1]), fw_high_halves(w[e][2], w[e][3])}};
              fw_store_vector(reinterpret_cast<unsigned*>(p_t21_attention_backward + b * 51200ull + h * 128ull + row_of * 256ull + column), words);
            }
          }
        }
        fw_keep_largest(p_t24_attention_backward, largest_o, lane);
      }
      {
        const float scaled[2] = {t13 * t7, t13 * t7};
        const float of_stored = t17;
        float largest_o = 0.0f;
        {
          float y[32] = {};
          if (steps > 0) {
            fw_take_all<96>(y);
          }
#pragma unroll
          for (int i = 0; i < 32; ++i) {
            y[i] *= scaled[i >> 1 & 1];
            if (row + 8 * (i >> 1 & 1) < 200) largest_o = fw_max_nan(largest_o, fabsf(y[i]));
            y[i] *= of_stored;
          }
          unsigned w[2][4] = {};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e) w[e][i] = fw_pack_e4m3x4(y[8 * i + 2 * e], y[8 * i + 2 * e + 1], y[8 * i + 2 * e + 4], y[8 * i + 2 * e + 5]);
          }
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 0 + 16 * quad;
            if (row_of < 200 && column < 128) {
              const fw_vector<unsigned, 4> words = {{fw_low_halves(w[e][0], w[e][1]), fw_low_halves(w[e][2], w[e][3]), fw_high_halves(w[e][0], w[e][1]), fw_high_halves(w[e][2], w[e][3])}};
              fw_store_vector(reinterpret_cast<unsigned*>(p_t20_attention_backward + b * 51200ull + h * 128ull + row_of * 256ull + column), words);
            }
          }
        }
        {
          float y[32] = {};
          if (steps > 0) {
            fw_take_all<128>(y);
          }
#pragma unroll
          for (int i = 0; i < 32; ++i) {
            y[i] *= scaled[i >> 1 & 1];
            if (row + 8 * (i >> 1 & 1) < 200) largest_o = fw_max_nan(largest_o, fabsf(y[i]));
            y[i] *= of_stored;
          }
          unsigned w[2][4] = {};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e) w[e][i] = fw_pack_e4m3x4(y[8 * i + 2 * e], y[8 * i + 2 * e + 1], y[8 * i + 2 * e + 4], y[8 * i + 2 * e + 5]);
          }
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 64 + 16 * quad;
            if (row_of < 200 && column < 128) {
              const fw_vector<unsigned, 4> words = {{fw_low_halves(w[e][0], w[e][1]), fw_low_halves(w[e][2], w[e][3]), fw_high_halves(w[e][0], w[e][1]), fw_high_halves(w[e][2], w[e][3])}};
              fw_store_vector(reinterpret_cast<unsigned*>(p_t20_attention_backward + b * 51200ull + h * 128ull + row_of * 256ull + column), words);
            }
          }
        }
        fw_keep_largest(p_t23_attention_backward, largest_o, lane);
      }
    }
  }
}

//@ program
#define FW_PART_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31, acc32, acc33, acc34, acc35, acc36, acc37, acc38, acc39, acc40, acc41, acc42, acc43, acc44, acc45, acc46, acc47, acc48, acc49, acc50, acc51, acc52, acc53, acc54, acc55, acc56, acc57, acc58, acc59, acc60, acc61, acc62, acc63"
#define FW_PART_1 "acc64, acc65, acc66, acc67, acc68, acc69, acc70, acc71, acc72, acc73, acc74, acc75, acc76, acc77, acc78, acc79, acc80, acc81, acc82, acc83, acc84, acc85, acc86, acc87, acc88, acc89, acc90, acc91, acc92, acc93, acc94, acc95, acc96, acc97, acc98, acc99, acc100, acc101, acc102, acc103, acc104, acc105, acc106, acc107, acc108, acc109, acc110, acc111, acc112, acc113, acc114, acc115, acc116, acc117, acc118, acc119, acc120, acc121, acc122, acc123, acc124, acc125, acc126, acc127"

extern "C" __global__ void __launch_bounds__(384, 1)
fw_attention_queries_3(const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const float t6,
  const float t7,
  const float t8,
  const float t11,
  const float t9,
  const float t14,
  const float t15,
  const float t13,
  const float t16,
  fw_e4m3* __restrict__ p_t19_attention_backward,
  float* __restrict__ p_t22_attention_backward) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(128);
  const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 196608, empty = full + 32;  // mbarriers for each stage
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
#pragma unroll 1
    for (unsigned stage = 0; stage < 4; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 1);
      fw_mbarrier_init(empty + 8 * stage, 8);  // warps that multiply what is in it
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
      for (unsigned unit = blockIdx.x, turn = 0; unit < 4u; ++turn, unit = turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) {
        const unsigned head = unit % 4u;
        const int m0 = (0 - int(unit / 4u)) * 256;
        const unsigned b = head / 4u, h = head % 4u;
        constexpr int queries = 200, keys = 200;
        [[maybe_unused]] const int rows = queries, others = keys;
        const auto first_of = [&]([[maybe_unused]] int row) { return 0; };
        const auto end_of = [&]([[maybe_unused]] int row) { return min(row < rows ? others : 0, max(row + 1, 0)); };
        const int last_row = min(m0 + 256, rows) - 1;
        const int end = last_row < m0 ? 0 : (end_of(last_row) + 63) / 64;
        const int begin = min(first_of(m0) / 64, end);
        const unsigned first_chunk = head * 128u + m0 / 8;
#pragma unroll 1
        for (int block = begin; block < end; ++block) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 49152);
          const unsigned tile = shared + stage * 49152;
          fw_tma_load(tile, &map0, full + 8 * stage, 0, (first_chunk + block * 32u) * 8);
          fw_tma_load(tile + 32768, &map1, full + 8 * stage, 0, block * 64, h / 2u, b);
          fw_tma_load(tile + 40960, &map1, full + 8 * stage, 64, block * 64, h / 2u, b);
          if (++stage == 4) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1, quad = lane % 4;
    unsigned stage = 0, parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x, turn = 0; unit < 4u; ++turn, unit = turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) {
      const unsigned head = unit % 4u;
      const int m0 = (0 - int(unit / 4u)) * 256;
      const unsigned b = head / 4u, h = head % 4u;
      constexpr int queries = 200, keys = 200;
      [[maybe_unused]] const int rows = queries, others = keys;
      const auto first_of = [&]([[maybe_unused]] int row) { return 0; };
      const auto end_of = [&]([[maybe_unused]] int row) { return min(row < rows ? others : 0, max(row + 1, 0)); };
      const int last_row = min(m0 + 256, rows) - 1;
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
        const unsigned tile = shared + stage * 49152;
        const unsigned long long keys_of = fw_matrix_descriptor<128>(tile + 32768, 8192, 1024);
        FW_PRODUCTS(fw_matrix_descriptor<0>(tile + (consumer * 2 + 0) * 8192, 128, 1024), keys_of, block > own_begin,
          FW_PRODUCT("m64n128k16.f32.f16.f16", FW_PART_0, 0, 0, "p", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.f16.f16", FW_PART_0, 16, 128, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.f16.f16", FW_PART_0, 32, 256, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.f16.f16", FW_PART_0, 48, 384, "1", ", 1, 1, 1, 1"));
        FW_PRODUCTS(fw_matrix_descriptor<0>(tile + (consumer * 2 + 1) * 8192, 128, 1024), keys_of, block > own_begin,
          FW_PRODUCT("m64n128k16.f32.f16.f16", FW_PART_1, 0, 0, "p", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.f16.f16", FW_PART_1, 16, 128, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.f16.f16", FW_PART_1, 32, 256, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n128k16.f32.f16.f16", FW_PART_1, 48, 384, "1", ", 1, 1, 1, 1"));
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
        const float scaled[2] = {t13 * t8, t13 * t8};
        const float of_stored = t16;
        float largest_o = 0.0f;
        {
          float y[32] = {};
          if (steps > 0) {
            fw_take_all<0>(y);
          }
#pragma unroll
          for (int i = 0; i < 32; ++i) {
            y[i] *= scaled[i >> 1 & 1];
            if (row + 8 * (i >> 1 & 1) < 200) largest_o = fw_max_nan(largest_o, fabsf(y[i]));
            y[i] *= of_stored;
          }
          unsigned w[2][4] = {};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e) w[e][i] = fw_pack_e4m3x4(y[8 * i + 2 * e], y[8 * i + 2 * e + 1], y[8 * i + 2 * e + 4], y[8 * i + 2 * e + 5]);
          }
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 0 + 16 * quad;
            if (row_of < 200 && column < 128) {
              const fw_vector<unsigned, 4> words = {{fw_low_halves(w[e][0], w[e][1]), fw_low_halves(w[e][2], w[e][3]), fw_high_halves(w[e][0], w[e][1]), fw_high_halves(w[e][2], w[e][3])}};
              fw_store_vector(reinterpret_cast<unsigned*>(p_t19_attention_backward + b * 102400ull + h * 128ull + row_of * 512ull + column), words);
            }
          }
        }
        {
          float y[32] = {};
          if (steps > 0) {
            fw_take_all<32>(y);
          }
#pragma unroll
          for (int i = 0; i < 32; ++i) {
            y[i] *= scaled[i >> 1 & 1];
            if (row + 8 * (i >> 1 & 1) < 200) largest_o = fw_max_nan(largest_o, fabsf(y[i]));
            y[i] *= of_stored;
          }
          unsigned w[2][4] = {};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e) w[e][i] = fw_pack_e4m3x4(y[8 * i + 2 * e], y[8 * i + 2 * e + 1], y[8 * i + 2 * e + 4], y[8 * i + 2 * e + 5]);
          }
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 64 + 16 * quad;
            if (row_of < 200 && column < 128) {
              const fw_vector<unsigned, 4> words = {{fw_low_halves(w[e][0], w[e][1]), fw_low_halves(w[e][2], w[e][3]), fw_high_halves(w[e][0], w[e][1]), fw_high_halves(w[e][2], w[e][3])}};
              fw_store_vector(reinterpret_cast<unsigned*>(p_t19_attention_backward + b * 102400ull + h * 128ull + row_of * 512ull + column), words);
            }
          }
        }
        fw_keep_largest(p_t22_attention_backward, largest_o, lane);
      }
      {
        const int row = first_row + 64 + warp % 4 * 16 + lane / 4;
        const float scaled[2] = {t13 * t8, t13 * t8};
        const float of_stored = t16;
        float largest_o = 0.0f;
        {
          float y[32] = {};
          if (steps > 0) {
            fw_take_all<64>(y);
          }
#pragma unroll
          for (int i = 0; i < 32; ++i) {
            y[i] *= scaled[i >> 1 & 1];
            if (row + 8 * (i >> 1 & 1) < 200) largest_o = fw_max_nan(largest_o, fabsf(y[i]));
            y[i] *= of_stored;
          }
          unsigned w[2][4] = {};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e) w[e][i] = fw_pack_e4m3x4(y[8 * i + 2 * e], y[8 * i + 2 * e + 1], y[8 * i + 2 * e + 4], y[8 * i + 2 * e + 5]);
          }
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 0 + 16 * quad;
            if (row_of < 200 && column < 128) {
              const fw_vector<unsigned, 4> words = {{fw_low_halves(w[e][0], w[e][1]), fw_low_halves(w[e][2], w[e][3]), fw_high_halves(w[e][0], w[e][1]), fw_high_halves(w[e][2], w[e][3])}};
              fw_store_vector(reinterpret_cast<unsigned*>(p_t19_attention_backward + b * 102400ull + h * 128ull + row_of * 512ull + column), words);
            }
          }
        }
        {
          float y[32] = {};
          if (steps > 0) {
            fw_take_all<96>(y);
          }
#pragma unroll
          for (int i = 0; i < 32; ++i) {
            y[i] *= scaled[i >> 1 & 1];
            if (row + 8 * (i >> 1 & 1) < 200) largest_o = fw_max_nan(largest_o, fabsf(y[i]));
            y[i] *= of_stored;
          }
          unsigned w[2][4] = {};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e) w[e][i] = fw_pack_e4m3x4(y[8 * i + 2 * e], y[8 * i + 2 * e + 1], y[8 * i + 2 * e + 4], y[8 * i + 2 * e + 5]);
          }
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            fw_quad_transpose(w[e], lane);
            const int row_of = row + 8 * e, column = 64 + 16 * quad;
            if (row_of < 200 && column < 128) {
              const fw_vector<unsigned, 4> words = {{fw_low_halves(w[e][0], w[e][1]), fw_low_halves(w[e][2], w[e][3]), fw_high_halves(w[e][0], w[e][1]), fw_high_halves(w[e][2], w[e][3])}};
              fw_store_vector(reinterpret_cast<unsigned*>(p_t19_attention_backward + b * 102400ull + h * 128ull + row_of * 512ull + column), words);
            }
          }
        }
        fw_keep_largest(p_t22_attention_backward, largest_o, lane);
      }
    }
  }
}
