// fusewright 0.1.0, engine config: warp_attention tile_m=64 tile_n=48
// t0 = input HALF [1, 2, 70, 40] stride [6160, 3080, 44, 1]
// t1 = input HALF [1, 2, 40, 90] stride [7920, 3960, 1, 44]
// t3 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t7 = input HALF [1, 2, 90, 40] stride [7920, 3960, 44, 1]
// t2_matmul = MATMUL(A=t0, B=t1) compute FLOAT -> virtual FLOAT [1, 2, 70, 90] stride [12600, 6300, 90, 1]
// t4_mul = POINTWISE(IN_0=t2_matmul, IN_1=t3) MUL compute FLOAT -> virtual FLOAT [1, 2, 70, 90] stride [12600, 6300, 90, 1]
// t5_softmax, t6_softmax = SOFTMAX(X=t4_mul) compute FLOAT -> virtual HALF [1, 2, 70, 90] stride [12600, 6300, 90, 1], output FLOAT [1, 2, 70, 1] stride [140, 70, 1, 1]
// t8_matmul = MATMUL(A=t5_softmax, B=t7) compute FLOAT -> output HALF [1, 2, 70, 40] stride [5600, 2800, 40, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_shared_address

//@ fw_cp_async

//@ fw_ldmatrix_x4

//@ fw_accumulators

//@ fw_mma_f16

//@ fw_fast_exp2

//@ fw_wait_for_previous_launch

//@ fw_infinity

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ fw_scale_accumulators

//@ fw_clear_accumulators

//@ fw_take_all

//@ fw_clear_all

//@ fw_scale_all

//@ fw_row_maxima

//@ fw_exponentials

//@ fw_quad_largest

//@ fw_quad_total

//@ fw_quad_transpose

//@ fw_of_halves

//@ fw_of_f16

//@ fw_left_of_lane

//@ fw_multiply_rows

//@ fw_multiply_columns

//@ fw_copy_rows

extern "C" __global__ void __launch_bounds__(128, 3)
fw_attention(const fw_f16* __restrict__ p_t0,
  const fw_f16* __restrict__ p_t1,
  const fw_f16* __restrict__ p_t7,
  const float t3,
  fw_f16* __restrict__ p_t8_matmul,
  float* __restrict__ p_t6_softmax) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(44);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane % 4;
  // the lane's parts of fragments: of the warp's queries, of keys, of values
  const unsigned char* const own_queries = shared_bytes + warp * 1792 + fw_left_of_lane<112>(lane);
  const unsigned char* const own_keys = shared_bytes + 7168 + fw_right_of_lane<112>(lane);
  const unsigned char* const own_values = shared_bytes + 12544 + fw_of_f16::columns_of_lane<112>(lane);
  const float negative = -fw_infinity();
  const float scale = t3;
  // scores are compared before they are scaled, where that does not turn their order
  const bool scales_first = !(scale > 0.0f && scale < fw_infinity());
  const float unit_of_scores = scales_first ? 1.0f : scale;
  const float c = unit_of_scores * 1.442695f, room = 8.0f / c;
#pragma unroll 1
  for (unsigned unit = blockIdx.x; unit < 4u; unit += gridDim.x) {
    const unsigned head = unit % 2u;
    const int m0 = (int(unit / 2u)) * 64;
    const unsigned b = head / 2u, h = head % 2u;
    constexpr int queries = 70, keys = 90;
    const int rows = queries;
    const auto keys_of = [&]([[maybe_unused]] int row) { return keys; };
    const auto first_key = [&]([[maybe_unused]] int row) { return 0; };
    const int last_row = min(m0 + 64, rows) - 1;
    const int end = last_row < m0 ? 0 : (keys_of(last_row) + 47) / 48;
    const int begin = min(first_key(m0) / 48, end);
    const auto load_queries = [&](int first) {
      fw_copy_rows<64, 80, 112, 8, 128>(shared_bytes + 0, rows - first, [&](int row) {
        return p_t0 + b * 6160ull + (h) * 3080ull + (first + row) * 44ull;
      });
    };
    const auto load_keys = [&](int first) {
      fw_copy_rows<48, 80, 112, 8, 128>(shared_bytes + 7168, keys - first, [&](int row) {
        return p_t1 + b * 7920ull + (h / 1) * 3960ull + (first + row) * 44ull;
      });
    };
    const auto load_values = [&](int first) {
      fw_copy_rows<48, 80, 112, 8, 128>(shared_bytes + 12544, keys - first, [&](int row) {
        return p_t7 + b * 7920ull + (h / 1) * 3960ull + (first + row) * 44ull;
      });
    };
    const int first_row = m0 + int(warp) * 16, row = first_row + int(lane) / 4;
    const int own_last = min(first_row + 16, rows) - 1;
    const int own_end = own_last < first_row ? begin : min(max((keys_of(own_last) + 47) / 48, begin), end);
    const int own_begin = min(max(first_key(first_row) / 48, begin), own_end);
    // steps of which all rows keep all keys
    const int plain_end = keys_of(first_row) / 48, plain_begin = (first_key(first_row + 15) + 47) / 48;
    float m[2] = {negative, negative}, reference[2] = {0.0f, 0.0f}, sum[2] = {0.0f, 0.0f};
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
        int kept[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          kept[e] = keys_of(row + 8 * e) - at;
        }
#pragma unroll
        for (int i = 0; i < 24; ++i) {
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
    __syncthreads();  // nobody reads what the unit before brought
    if (begin < end) load_queries(m0), load_keys((end - 1) * 48);
    fw_cp_async_commit();
    fw_clear_all<24, 20>();
#pragma unroll 1
    for (int block = end - 1; block >= begin; --block) {
      const bool is_own = block >= own_begin && block < own_end;
      fw_cp_async_wait<0>();
      __syncthreads();  // keys are there, and values of the step before are multiplied
      load_values(block * 48);
      fw_cp_async_commit();
      if (is_own) {
        fw_clear_all<0, 24>();
        fw_multiply_rows<fw_of_f16, 0, 24, 3, 112>(own_queries, own_keys);
      }
      fw_cp_async_wait<0>();
      __syncthreads();  // values are there, and keys are multiplied
      if (block > begin) load_keys((block - 1) * 48);
      fw_cp_async_commit();
      if (is_own) {
        float x[24];
        fw_take_all<0>(x);
        softmax(x, block);
        if (moves) fw_scale_all<24, 20>(factor);
        unsigned p[12];
        fw_of_f16::pack(x, p);
        fw_multiply_columns<fw_of_f16, 24, 20, 112>(p, own_values);
      }
    }
    float scaled[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float total = fw_quad_total(sum[e]);
      scaled[e] = total == 0.0f ? 0.0f : 1.0f / total;
      if (quad == 0 && row + 8 * e < 70) {
        p_t6_softmax[b * 140ull + h * 70ull + (row + 8 * e) * 1ull] = total == 0.0f ? negative : (reference[e] + log2f(total)) * 0.6931472f;
      }
    }
    {
      unsigned w[2][4] = {};
      float y[4];
      fw_take<24>(y);
      w[0][0] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
      fw_take<28>(y);
      w[0][1] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][1] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
      fw_take<32>(y);
      w[0][2] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][2] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
      fw_take<36>(y);
      w[0][3] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][3] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        fw_quad_transpose(w[e], lane);
        const int row_of = row + 8 * e, column = 0 + 8 * quad;
        if (row_of < 70) {
          fw_f16* const to = p_t8_matmul + b * 5600ull + h * 2800ull + (row_of) * 40ull + column;
          fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
        }
      }
    }
    {
      unsigned w[2][4] = {};
      float y[4];
      fw_take<40>(y);
      w[0][0] = fw_pack_f16x2(y[0] * scaled[0], y[1] * scaled[0]), w[1][0] = fw_pack_f16x2(y[2] * scaled[1], y[3] * scaled[1]);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        fw_quad_transpose(w[e], lane);
        const int row_of = row + 8 * e, column = 32 + 8 * quad;
        if (row_of < 70 && column < 40) {
          fw_f16* const to = p_t8_matmul + b * 5600ull + h * 2800ull + (row_of) * 40ull + column;
          fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
        }
      }
    }
  }
}
