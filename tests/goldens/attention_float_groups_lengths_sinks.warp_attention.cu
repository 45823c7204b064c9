// fusewright 0.1.0, engine config: warp_attention tile_m=64 tile_n=48
// t0 = input FLOAT [5, 8, 40, 64] stride [20480, 2560, 64, 1]
// t1 = input FLOAT [5, 2, 64, 150] stride [19200, 9600, 1, 64]
// t3 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t5 = input INT32 [5, 1, 1, 1] stride [1, 1, 1, 1]
// t6 = input INT32 [5, 1, 1, 1] stride [1, 1, 1, 1]
// t8 = input FLOAT [1, 8, 1, 1] stride [8, 1, 1, 1]
// t13 = input FLOAT [5, 2, 150, 64] stride [19200, 9600, 64, 1]
// t2_matmul = MATMUL(A=t0, B=t1) compute FLOAT -> virtual FLOAT [5, 8, 40, 150] stride [48000, 6000, 150, 1]
// t4_mul = POINTWISE(IN_0=t2_matmul, IN_1=t3) MUL compute FLOAT -> virtual FLOAT [5, 8, 40, 150] stride [48000, 6000, 150, 1]
// t7_score_mask = SCORE_MASK(X=t4_mul, SEQ_LEN_Q=t5, SEQ_LEN_KV=t6) left_bound=70 right_bound=0 compute FLOAT -> virtual FLOAT [5, 8, 40, 150] stride [48000, 6000, 150, 1]
// t9_softmax, t10_softmax, t11_softmax, t12_softmax = SOFTMAX(X=t7_score_mask, SINK=t8, SEQ_LEN_Q=t5) compute FLOAT -> virtual FLOAT [5, 8, 40, 150] stride [48000, 6000, 150, 1], output FLOAT [5, 8, 40, 1] stride [320, 40, 1, 1], output FLOAT [5, 8, 40, 1] stride [320, 40, 1, 1], output FLOAT [5, 8, 40, 1] stride [320, 40, 1, 1]
// t14_matmul = MATMUL(A=t9_softmax, B=t13, K_override=t6) compute FLOAT -> output FLOAT [5, 8, 40, 64] stride [20480, 2560, 64, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_max_nan

//@ fw_shared_address

//@ fw_cp_async

//@ fw_ldmatrix_x4

//@ fw_accumulators

//@ fw_mma_tf32

//@ fw_round_tf32

//@ fw_fast_exp2

//@ fw_wait_for_previous_launch

//@ fw_infinity

//@ fw_f32

//@ fw_i32

//@ fw_scale_accumulators

//@ fw_clear_accumulators

//@ fw_take_all

//@ fw_clear_all

//@ fw_scale_all

//@ fw_row_maxima_nan

//@ fw_quad_largest_nan

//@ fw_exponentials

//@ fw_quad_largest

//@ fw_quad_total

//@ fw_of_tf32

//@ fw_left_of_lane

//@ fw_multiply_rows

//@ fw_multiply_columns

//@ fw_copy_rows

extern "C" __global__ void __launch_bounds__(128, 3)
fw_attention(const float* __restrict__ p_t0,
  const float* __restrict__ p_t1,
  const float* __restrict__ p_t13,
  const float* __restrict__ p_t8,
  const int* __restrict__ p_t5,
  const int* __restrict__ p_t6,
  const float t3,
  float* __restrict__ p_t14_matmul,
  float* __restrict__ p_t10_softmax,
  float* __restrict__ p_t11_softmax,
  float* __restrict__ p_t12_softmax) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(56);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane % 4;
  // the lane's parts of fragments: of the warp's queries, of keys, of values
  const unsigned char* const own_queries = shared_bytes + warp * 4352 + fw_left_of_lane<272>(lane);
  const unsigned char* const own_keys = shared_bytes + 17408 + fw_right_of_lane<272>(lane);
  const unsigned char* const own_values = shared_bytes + 30464 + fw_of_tf32::columns_of_lane<272>(lane);
  const float negative = -fw_infinity();
  const float scale = t3;
  // scores are compared before they are scaled, where that does not turn their order
  const bool scales_first = !(scale > 0.0f && scale < fw_infinity());
  const float unit_of_scores = scales_first ? 1.0f : scale;
  const float c = unit_of_scores * 1.442695f, room = 8.0f / c;
#pragma unroll 1
  for (unsigned unit = blockIdx.x; unit < 40u; unit += gridDim.x) {
    const unsigned head = unit % 40u;
    const int m0 = (0 - int(unit / 40u)) * 64;
    const unsigned b = head / 8u, h = head % 8u;
    const int queries = min(max(p_t5[b * 1ull], 0), 40);
    const int keys = min(max(p_t6[b * 1ull], 0), 150);
    const int rows = queries;
    const auto keys_of = [&]([[maybe_unused]] int row) { return min(keys, max(row + 1, 0)); };
    const auto first_key = [&]([[maybe_unused]] int row) { return max(row + -69, 0); };
    const int last_row = min(m0 + 64, rows) - 1;
    const int end = last_row < m0 ? 0 : (keys_of(last_row) + 47) / 48;
    const int begin = min(first_key(m0) / 48, end);
    const auto load_queries = [&](int first) {
      fw_copy_rows<64, 256, 272, 16, 128>(shared_bytes + 0, rows - first, [&](int row) {
        return p_t0 + b * 20480ull + (h) * 2560ull + (first + row) * 64ull;
      });
    };
    const auto load_keys = [&](int first) {
      fw_copy_rows<48, 256, 272, 16, 128>(shared_bytes + 17408, keys - first, [&](int row) {
        return p_t1 + b * 19200ull + (h / 4) * 9600ull + (first + row) * 64ull;
      });
    };
    const auto load_values = [&](int first) {
      fw_copy_rows<48, 256, 272, 16, 128>(shared_bytes + 30464, keys - first, [&](int row) {
        return p_t13 + b * 19200ull + (h / 4) * 9600ull + (first + row) * 64ull;
      });
    };
    const int first_row = m0 + int(warp) * 16, row = first_row + int(lane) / 4;
    const int own_last = min(first_row + 16, rows) - 1;
    const int own_end = own_last < first_row ? begin : min(max((keys_of(own_last) + 47) / 48, begin), end);
    const int own_begin = min(max(first_key(first_row) / 48, begin), own_end);
    // steps of which all rows keep all keys
    const int plain_end = first_row + 15 < rows ? keys_of(first_row) / 48 : 0, plain_begin = (first_key(first_row + 15) + 47) / 48;
    // the sink is a row's first score, of one lane of its quad
    float m[2], reference[2], sum[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float sink = row + 8 * e < rows ? fw_value(p_t8[(h) * 1ull]) : negative;
      m[e] = sink / unit_of_scores, reference[e] = sink == negative ? 0.0f : m[e] * c;
      // as the rows' exponentials are, which are of a rounded reference
      sum[e] = sink != sink ? sink : quad == 0 && sink != negative ? fw_fast_exp2(fmaf(m[e], c, -reference[e])) : 0.0f;
    }
    float largest[2] = {negative, negative};
    float bound[2] = {m[0] + room, m[1] + room}, factor[2] = {1.0f, 1.0f};
    bool moves = false;
    // scores of a step become probabilities; `factor` is that of what was added up before, where it `moves`
    const auto softmax = [&](float (&x)[24], int block) {
      if (scales_first) {
#pragma unroll
        for (int i = 0; i < 24; ++i) x[i] *= scale;
      }
      if (block >= plain_end || block < plain_begin) {
        const int at = block * 48 + 2 * quad;
        int kept[2], low[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          kept[e] = row + 8 * e >= rows ? 0 : keys_of(row + 8 * e) - at;
          low[e] = first_key(row + 8 * e) - at;
        }
#pragma unroll
        for (int i = 0; i < 24; ++i) {
          const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
          if (column >= kept[e] || column < low[e]) x[i] = negative;
        }
      }
      float top[2];
      fw_row_maxima_nan(x, top);
#pragma unroll
      for (int e = 0; e < 2; ++e) largest[e] = fw_max_nan(largest[e], top[e]), top[e] = fmaxf(top[e], m[e]);
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
    __syncthreads();  // nobody reads what the unit before brought
    if (begin < end) load_queries(m0), load_keys((end - 1) * 48);
    fw_cp_async_commit();
    fw_clear_all<24, 32>();
#pragma unroll 1
    for (int block = end - 1; block >= begin; --block) {
      const bool is_own = block >= own_begin && block < own_end;
      fw_cp_async_wait<0>();
      __syncthreads();  // keys are there, and values of the step before are multiplied
      load_values(block * 48);
      fw_cp_async_commit();
      if (is_own) {
        fw_clear_all<0, 24>();
        fw_multiply_rows<fw_of_tf32, 0, 24, 8, 272>(own_queries, own_keys);
      }
      fw_cp_async_wait<0>();
      __syncthreads();  // values are there, and keys are multiplied
      if (block > begin) load_keys((block - 1) * 48);
      fw_cp_async_commit();
      if (is_own) {
        float x[24];
        fw_take_all<0>(x);
        softmax(x, block);
        if (moves) fw_scale_all<24, 32>(factor);
        unsigned p[24];
        fw_of_tf32::pack(x, p);
        fw_multiply_columns<fw_of_tf32, 24, 32, 272>(p, own_values);
      }
    }
    float scaled[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float total = fw_quad_total(sum[e]);
      scaled[e] = total == 0.0f ? 0.0f : 1.0f / total;
      const float greatest = fw_quad_largest_nan(largest[e]);
      const float sink = row + 8 * e < rows ? fw_value(p_t8[(h) * 1ull]) : negative;
      const float greatest_of_all = fw_max_nan(greatest, sink / unit_of_scores);
      if (quad == 0 && row + 8 * e < 40) {
        p_t10_softmax[b * 320ull + h * 40ull + (row + 8 * e) * 1ull] = total == 0.0f ? negative : (reference[e] + log2f(total)) * 0.6931472f;
        p_t11_softmax[b * 320ull + h * 40ull + (row + 8 * e) * 1ull] = fw_max_nan(greatest * unit_of_scores, sink);
        p_t12_softmax[b * 320ull + h * 40ull + (row + 8 * e) * 1ull] = total == 0.0f ? 0.0f : total * exp2f(fmaf(-greatest_of_all, c, reference[e]));
      }
    }
    {
      float y[32];
      fw_take_all<24>(y);
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const int row_of = row + 8 * (i >> 1 & 1), column = 8 * (i >> 2) + 2 * quad + (i & 1);
        if (row_of < 40 && column < 64) p_t14_matmul[b * 20480ull + h * 2560ull + (row_of) * 64ull + column * 1ull] = y[i] * scaled[i >> 1 & 1];
      }
    }
  }
}
