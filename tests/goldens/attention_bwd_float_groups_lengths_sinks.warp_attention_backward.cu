// fusewright 0.1.0, engine config: warp_attention_backward tile_m=32 tile_n=32 tile_k=16
// t0 = input FLOAT [3, 6, 70, 64] stride [26880, 4480, 64, 1]
// t1 = input FLOAT [3, 2, 90, 64] stride [11520, 5760, 64, 1]
// t2 = input FLOAT [3, 2, 90, 64] stride [11520, 5760, 64, 1]
// t3 = input FLOAT [3, 6, 70, 64] stride [26880, 4480, 64, 1]
// t4 = input FLOAT [3, 6, 70, 64] stride [26880, 4480, 64, 1]
// t5 = input FLOAT [3, 6, 70, 1] stride [420, 70, 1, 1]
// t6 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t7 = input INT32 [3, 1, 1, 1] stride [1, 1, 1, 1]
// t8 = input INT32 [3, 1, 1, 1] stride [1, 1, 1, 1]
// t9 = input FLOAT [1, 6, 1, 1] stride [6, 1, 1, 1]
// t10_attention_backward, t11_attention_backward, t12_attention_backward, t13_attention_backward = ATTENTION_BACKWARD(Q=t0, K=t1, V=t2, O=t3, dO=t4, Stats=t5, Attn_scale=t6, SEQ_LEN_Q=t7, SEQ_LEN_KV=t8, SINK_TOKEN=t9) left_bound=40 right_bound=0 compute FLOAT -> output FLOAT [3, 6, 70, 64] stride [26880, 4480, 64, 1], output FLOAT [3, 2, 90, 64] stride [11520, 5760, 64, 1], output FLOAT [3, 2, 90, 64] stride [11520, 5760, 64, 1], output FLOAT [1, 6, 1, 1] stride [6, 1, 1, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_shared_address

//@ fw_cp_async

//@ fw_ldmatrix_x4

//@ fw_accumulators

//@ fw_mma_tf32

//@ fw_round_tf32

//@ fw_fast_exp2

//@ fw_wait_for_previous_launch

//@ fw_f32

//@ fw_i32

//@ fw_block_total

//@ fw_clear_accumulators

//@ fw_take_all

//@ fw_clear_all

//@ fw_of_tf32

//@ fw_left_of_lane

//@ fw_multiply_rows

//@ fw_multiply_columns

//@ fw_copy_rows

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_attention_rows(const float* __restrict__ p_t3,
  const float* __restrict__ p_t4,
  const float* __restrict__ p_t5,
  const float t6,
  const float* __restrict__ p_t9,
  float* __restrict__ partial0,
  float* __restrict__ partial1,
  float* __restrict__ partial2) {
  fw_wait_for_previous_launch();
  const unsigned lane = threadIdx.x % 8u;
  const unsigned long long at = (unsigned long long)blockIdx.x * 32 + threadIdx.x / 8u;
  if (at >= 1260ull) return;  // rows of a warp end together
  const unsigned long long query = at % 70ull, head = at / 70ull;
  const unsigned long long b = head / 6u, h = head % 6u;
  float delta = 0.0f;
  if (8 * lane < 64u) {
    const float* const o = p_t3 + b * 26880ull + h * 4480ull + query * 64ull + 8 * lane;
    const float* const d_o = p_t4 + b * 26880ull + h * 4480ull + query * 64ull + 8 * lane;
#pragma unroll
    for (int i = 0; i < 8; ++i) delta = fmaf(fw_value(o[i]), fw_value(d_o[i]), delta);
  }
#pragma unroll
  for (unsigned step = 8 / 2; step > 0; step /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, step);
  if (lane == 0) {
    const unsigned long long place = head * 96ull + query;
    const float statistic = p_t5[b * 420ull + h * 70ull + query * 1ull];
    partial0[place] = statistic * 1.442695f;
    partial1[place] = delta * t6;
    partial2[place] = fw_fast_exp2((p_t9[h * 1ull] - statistic) * 1.442695f) * (delta);
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(1024)
fw_attention_sinks_1(const int* __restrict__ p_t7, float* __restrict__ p_t13_attention_backward, float* __restrict__ partial0) {
  FW_SHARED(shared_bytes);
  fw_wait_for_previous_launch();
  const unsigned h = blockIdx.x;
  float total = 0.0f;
#pragma unroll 1
  for (unsigned b = 0; b < 3u; ++b) {
    const int queries = min(max(p_t7[b * 1ull], 0), 70);
    const unsigned long long first = (b * 6ull + h) * 96ull;
#pragma unroll 4
    for (int query = threadIdx.x; query < queries; query += 1024) {
      total += partial0[first + query];
    }
  }
  total = fw_block_total(total, reinterpret_cast<float*>(shared_bytes), [](float a, float b) { return a + b; });
  if (threadIdx.x == 0) p_t13_attention_backward[h * 1ull] = -total;
}

//@ program
extern "C" __global__ void __launch_bounds__(64, 4)
fw_attention_backward_keys_2(const float* __restrict__ p_t1,
  const float* __restrict__ p_t2,
  const float* __restrict__ p_t0,
  const float* __restrict__ p_t4,
  const float t6,
  const int* __restrict__ p_t7,
  const int* __restrict__ p_t8,
  float* __restrict__ p_t12_attention_backward,
  float* __restrict__ p_t11_attention_backward,
  float* __restrict__ partial0,
  float* __restrict__ partial1) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(80);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane % 4;
  unsigned char* const stages = shared_bytes + 17408;
  const float scale = t6, c = scale * 1.442695f;
#pragma unroll 1
  for (unsigned unit = blockIdx.x; unit < 18u; unit += gridDim.x) {
    const unsigned head = unit % 6u;
    const int m0 = (int(unit / 6u)) * 32;
    const unsigned b = head / 2u, h = head % 2u;
    const int queries = min(max(p_t7[b * 1ull], 0), 70);
    const int keys = min(max(p_t8[b * 1ull], 0), 90);
    [[maybe_unused]] const int rows = keys, others = queries;
    const auto first_of = [&]([[maybe_unused]] int row) { return max(row, 0); };
    const auto end_of = [&]([[maybe_unused]] int row) { return min(row < rows ? others : 0, max(row + 40, 0)); };
    const int last_row = min(m0 + 32, rows) - 1;
    const int end = last_row < m0 ? 0 : (end_of(last_row) + 15) / 16;
    const int begin = min(first_of(m0) / 16, end);
    // the step that is brought next: of which head of others, where, to which stage
    [[maybe_unused]] unsigned next_member = 0, next_stage = 0;
    int next_block = begin;
    const auto load_own_0 = [&](int first) {
      fw_copy_rows<32, 256, 272, 16, 64>(shared_bytes, keys - first, [&](int row) {
        return p_t1 + b * 11520ull + (h) * 5760ull + (first + row) * 64ull;
      });
    };
    const auto load_own_1 = [&](int first) {
      fw_copy_rows<32, 256, 272, 16, 64>(shared_bytes + 8704, keys - first, [&](int row) {
        return p_t2 + b * 11520ull + (h) * 5760ull + (first + row) * 64ull;
      });
    };
    const auto load_other_0 = [&](int first) {
      fw_copy_rows<16, 256, 272, 16, 64>(stages + next_stage * 8832, queries - first, [&](int row) {
        return p_t0 + b * 26880ull + (h * 3u + next_member) * 4480ull + (first + row) * 64ull;
      });
    };
    const auto load_other_1 = [&](int first) {
      fw_copy_rows<16, 256, 272, 16, 64>(stages + next_stage * 8832 + 4352, queries - first, [&](int row) {
        return p_t4 + b * 26880ull + (h * 3u + next_member) * 4480ull + (first + row) * 64ull;
      });
    };
    const auto load_step = [&] {
      if (next_member < 3u) {
        load_other_0(next_block * 16), load_other_1(next_block * 16);
        // statistics and Δ of queries
        const unsigned long long first = (b * 6ull + h * 3u + next_member) * 96ull + next_block * 16;
        float* const facts = reinterpret_cast<float*>(stages + next_stage * 8832 + 8704);
        for (unsigned i = threadIdx.x; i < 16u; i += 64) facts[i] = partial0[first + i], facts[16 + i] = partial1[first + i];
        if (++next_block == end) next_block = begin, ++next_member;
        next_stage ^= 1;
      }
      fw_cp_async_commit();
    };
    const int first_row = m0 + int(warp) * 16, row = first_row + int(lane) / 4;
    const int own_last = min(first_row + 16, rows) - 1;
    // steps of which some rows keep some columns, and of which all keep all
    const int own_begin = own_last < first_row ? end : max(first_of(first_row) / 16, begin);
    const int own_end = own_last < first_row ? end : min((end_of(own_last) + 15) / 16, end);
    const int plain_begin = (first_of(first_row + 15) + 15) / 16;
    const int plain_end = first_row + 15 < rows ? end_of(first_row) / 16 : 0;
    // what a mask leaves out is 0, whatever it was
    const auto cut = [&](float (&x)[8], int block) {
      const int at = block * 16 + 2 * quad;
      int kept[2], low[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) kept[e] = end_of(row + 8 * e) - at, low[e] = first_of(row + 8 * e) - at;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
        if (column >= kept[e] || column < low[e]) x[i] = 0.0f;
      }
    };
    __syncthreads();  // nobody reads what the unit before brought
    if (begin < end) {
      load_own_0(m0);
      load_own_1(m0);
      load_step();
    }
    fw_clear_all<16, 64>();
    unsigned stage = 0;
#pragma unroll 1
    for (unsigned member = 0; member < 3u; ++member) {
#pragma unroll 1
      for (int block = begin; block < end; ++block) {
        fw_cp_async_wait<0>();
        __syncthreads();  // the step's rows are there, and those of the step before are multiplied
        load_step();
        if (block >= own_begin && block < own_end) {
          const unsigned char* const other_0 = stages + stage * 8832;
          const unsigned char* const other_1 = other_0 + 4352;
          fw_clear_all<0, 16>();
          fw_multiply_rows<fw_of_tf32, 0, 8, 8, 272>(
            shared_bytes + warp * 4352 + fw_left_of_lane<272>(lane), other_0 + fw_right_of_lane<272>(lane));
          fw_multiply_rows<fw_of_tf32, 8, 8, 8, 272>(
            shared_bytes + 8704 + warp * 4352 + fw_left_of_lane<272>(lane), other_1 + fw_right_of_lane<272>(lane));
          const bool is_cut = block >= plain_end || block < plain_begin;
          const float* const rows_of = reinterpret_cast<const float*>(other_0 + 8704) + 2 * quad;
          float x[8];
          fw_take_all<0>(x);
#pragma unroll
          for (int i = 0; i < 8; ++i) x[i] = fw_fast_exp2(fmaf(x[i], c, -rows_of[8 * (i >> 2) + (i & 1)]));
          if (is_cut) cut(x, block);
          float y[8];
          fw_take_all<8>(y);
#pragma unroll
          for (int i = 0; i < 8; ++i) y[i] = x[i] * fmaf(y[i], scale, -rows_of[16 + 8 * (i >> 2) + (i & 1)]);
          if (is_cut) cut(y, block);
          unsigned p[8];
          fw_of_tf32::pack(x, p);
          fw_multiply_columns<fw_of_tf32, 16, 32, 272>(p, other_1 + fw_of_tf32::columns_of_lane<272>(lane));
          unsigned s[8];
          fw_of_tf32::pack(y, s);
          fw_multiply_columns<fw_of_tf32, 48, 32, 272>(s, other_0 + fw_of_tf32::columns_of_lane<272>(lane));
        }
        stage ^= 1;
      }
    }
    {
      constexpr float scaled[2] = {1.0f, 1.0f};
      {
        float y[32];
        fw_take_all<16>(y);
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          const int row_of = row + 8 * (i >> 1 & 1), column = 8 * (i >> 2) + 2 * quad + (i & 1);
          if (row_of < 90 && column < 64) p_t12_attention_backward[b * 11520ull + h * 5760ull + row_of * 64ull + column * 1ull] = y[i] * scaled[i >> 1 & 1];
        }
      }
    }
    {
      constexpr float scaled[2] = {1.0f, 1.0f};
      {
        float y[32];
        fw_take_all<48>(y);
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          const int row_of = row + 8 * (i >> 1 & 1), column = 8 * (i >> 2) + 2 * quad + (i & 1);
          if (row_of < 90 && column < 64) p_t11_attention_backward[b * 11520ull + h * 5760ull + row_of * 64ull + column * 1ull] = y[i] * scaled[i >> 1 & 1];
        }
      }
    }
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(64, 6)
fw_attention_backward_queries_3(const float* __restrict__ p_t0,
  const float* __restrict__ p_t4,
  const float* __restrict__ p_t1,
  const float* __restrict__ p_t2,
  const float t6,
  const int* __restrict__ p_t7,
  const int* __restrict__ p_t8,
  float* __restrict__ p_t10_attention_backward,
  float* __restrict__ partial0,
  float* __restrict__ partial1) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(48);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane % 4;
  unsigned char* const stages = shared_bytes + 17408;
  const float scale = t6, c = scale * 1.442695f;
#pragma unroll 1
  for (unsigned unit = blockIdx.x; unit < 54u; unit += gridDim.x) {
    const unsigned head = unit % 18u;
    const int m0 = (2 - int(unit / 18u)) * 32;
    const unsigned b = head / 6u, h = head % 6u;
    const int queries = min(max(p_t7[b * 1ull], 0), 70);
    const int keys = min(max(p_t8[b * 1ull], 0), 90);
    [[maybe_unused]] const int rows = queries, others = keys;
    const auto first_of = [&]([[maybe_unused]] int row) { return max(row + -39, 0); };
    const auto end_of = [&]([[maybe_unused]] int row) { return min(row < rows ? others : 0, max(row + 1, 0)); };
    const int last_row = min(m0 + 32, rows) - 1;
    const int end = last_row < m0 ? 0 : (end_of(last_row) + 15) / 16;
    const int begin = min(first_of(m0) / 16, end);
    // the step that is brought next: of which head of others, where, to which stage
    [[maybe_unused]] unsigned next_member = 0, next_stage = 0;
    int next_block = begin;
    const auto load_own_0 = [&](int first) {
      fw_copy_rows<32, 256, 272, 16, 64>(shared_bytes, queries - first, [&](int row) {
        return p_t0 + b * 26880ull + (h) * 4480ull + (first + row) * 64ull;
      });
    };
    const auto load_own_1 = [&](int first) {
      fw_copy_rows<32, 256, 272, 16, 64>(shared_bytes + 8704, queries - first, [&](int row) {
        return p_t4 + b * 26880ull + (h) * 4480ull + (first + row) * 64ull;
      });
    };
    const auto load_other_0 = [&](int first) {
      fw_copy_rows<16, 256, 272, 16, 64>(stages + next_stage * 8832, keys - first, [&](int row) {
        return p_t1 + b * 11520ull + (h / 3u) * 5760ull + (first + row) * 64ull;
      });
    };
    const auto load_other_1 = [&](int first) {
      fw_copy_rows<16, 256, 272, 16, 64>(stages + next_stage * 8832 + 4352, keys - first, [&](int row) {
        return p_t2 + b * 11520ull + (h / 3u) * 5760ull + (first + row) * 64ull;
      });
    };
    const auto load_step = [&] {
      if (next_member < 1u) {
        load_other_0(next_block * 16), load_other_1(next_block * 16);
        if (++next_block == end) next_block = begin, ++next_member;
        next_stage ^= 1;
      }
      fw_cp_async_commit();
    };
    const int first_row = m0 + int(warp) * 16, row = first_row + int(lane) / 4;
    const int own_last = min(first_row + 16, rows) - 1;
    // steps of which some rows keep some columns, and of which all keep all
    const int own_begin = own_last < first_row ? end : max(first_of(first_row) / 16, begin);
    const int own_end = own_last < first_row ? end : min((end_of(own_last) + 15) / 16, end);
    const int plain_begin = (first_of(first_row + 15) + 15) / 16;
    const int plain_end = first_row + 15 < rows ? end_of(first_row) / 16 : 0;
    float statistic[2], delta[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const unsigned long long place = (b * 6ull + h) * 96ull + min(row + 8 * e, 69);
      statistic[e] = partial0[place], delta[e] = partial1[place];
    }
    // what a mask leaves out is 0, whatever it was
    const auto cut = [&](float (&x)[8], int block) {
      const int at = block * 16 + 2 * quad;
      int kept[2], low[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) kept[e] = end_of(row + 8 * e) - at, low[e] = first_of(row + 8 * e) - at;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
        if (column >= kept[e] || column < low[e]) x[i] = 0.0f;
      }
    };
    __syncthreads();  // nobody reads what the unit before brought
    if (begin < end) {
      load_own_0(m0);
      load_own_1(m0);
      load_step();
    }
    fw_clear_all<16, 32>();
    unsigned stage = 0;
#pragma unroll 1
    for (unsigned member = 0; member < 1u; ++member) {
#pragma unroll 1
      for (int block = begin; block < end; ++block) {
        fw_cp_async_wait<0>();
        __syncthreads();  // the step's rows are there, and those of the step before are multiplied
        load_step();
        if (block >= own_begin && block < own_end) {
          const unsigned char* const other_0 = stages + stage * 8832;
          const unsigned char* const other_1 = other_0 + 4352;
          fw_clear_all<0, 16>();
          fw_multiply_rows<fw_of_tf32, 0, 8, 8, 272>(
            shared_bytes + warp * 4352 + fw_left_of_lane<272>(lane), other_0 + fw_right_of_lane<272>(lane));
          fw_multiply_rows<fw_of_tf32, 8, 8, 8, 272>(
            shared_bytes + 8704 + warp * 4352 + fw_left_of_lane<272>(lane), other_1 + fw_right_of_lane<272>(lane));
          const bool is_cut = block >= plain_end || block < plain_begin;
          float x[8];
          fw_take_all<0>(x);
#pragma unroll
          for (int i = 0; i < 8; ++i) x[i] = fw_fast_exp2(fmaf(x[i], c, -statistic[i >> 1 & 1]));
          if (is_cut) cut(x, block);
          float y[8];
          fw_take_all<8>(y);
#pragma unroll
          for (int i = 0; i < 8; ++i) y[i] = x[i] * fmaf(y[i], scale, -delta[i >> 1 & 1]);
          if (is_cut) cut(y, block);
          unsigned s[8];
          fw_of_tf32::pack(y, s);
          fw_multiply_columns<fw_of_tf32, 16, 32, 272>(s, other_0 + fw_of_tf32::columns_of_lane<272>(lane));
        }
        stage ^= 1;
      }
    }
    {
      constexpr float scaled[2] = {1.0f, 1.0f};
      {
        float y[32];
        fw_take_all<16>(y);
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          const int row_of = row + 8 * (i >> 1 & 1), column = 8 * (i >> 2) + 2 * quad + (i & 1);
          if (row_of < 70 && column < 64) p_t10_attention_backward[b * 26880ull + h * 4480ull + row_of * 64ull + column * 1ull] = y[i] * scaled[i >> 1 & 1];
        }
      }
    }
  }
}
