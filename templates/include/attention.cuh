// Device code of attention: rows of scores in the accumulators of a warpgroup. No template syntax. Sections as in primitives.cuh.
//
// Lane l of a warp has, of a fragment of 16 rows by 8 columns, columns 2 (l % 4) and the next of rows l / 4 and l / 4 + 8: x[4 j + 2 e + i] is
// column 8 j + 2 (l % 4) + i of row l / 4 + 8 e. The four lanes of a row are a quad.

//@ primitive fw_scale_accumulators: fw_accumulators
// A fragment of the accumulators times a factor for each of the two rows.
template <int A>
__device__ __forceinline__ void fw_scale_accumulators(const float (&f)[2]) {
  asm volatile("mul.f32 acc%2, acc%2, %0; mul.f32 acc%3, acc%3, %0; mul.f32 acc%4, acc%4, %1; mul.f32 acc%5, acc%5, %1;"
               ::"f"(f[0]), "f"(f[1]), "n"(A), "n"(A + 1), "n"(A + 2), "n"(A + 3));
}

//@ primitive fw_clear_accumulators: fw_accumulators
// A fragment of the accumulators becomes 0.
template <int A>
__device__ __forceinline__ void fw_clear_accumulators() {
  asm volatile("mov.b32 acc%0, 0; mov.b32 acc%1, 0; mov.b32 acc%2, 0; mov.b32 acc%3, 0;" ::"n"(A), "n"(A + 1), "n"(A + 2), "n"(A + 3));
}

//@ primitive fw_uniform
// The same value in every lane of a warp, which the assembler then knows, and keeps it in a register of the warp.
__device__ __forceinline__ unsigned fw_uniform(unsigned x) {
  asm volatile("redux.sync.max.u32 %0, %0, 0xffffffff;" : "+r"(x));
  return x;
}

//@ fw_claim
// The next of so many tiles, which blocks claim from a counter; each block has that of its own number first. Each claims once in vain, so that
// there are as many claims as tiles: the last of all leaves 0 to the next launch.
__device__ __forceinline__ unsigned fw_claim(unsigned* counter, unsigned tiles) {
  const unsigned before = atomicAdd(counter, 1u);
  if (before == tiles - 1) *counter = 0;
  return gridDim.x + before;
}

//@ primitive fw_behind
// What comes behind is not moved before the value is known: the assembler moves waits for products up past arithmetic. Never waits itself.
__device__ __forceinline__ void fw_behind(float sum) {
  asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0fFF800000;\n@p nanosleep.u32 0;\n}" ::"f"(sum) : "memory");
}

//@ fw_take_all: FW_INLINE fw_accumulators
// N accumulators from number A on.
template <int A, int I = 0, int N>
FW_INLINE void fw_take_all(float (&x)[N]) {
  float y[4];
  fw_take<A + I>(y);
#pragma unroll
  for (int r = 0; r < 4; ++r) x[I + r] = y[r];
  if constexpr (I + 4 < N) fw_take_all<A, I + 4>(x);
}

//@ fw_clear_all: FW_INLINE fw_clear_accumulators
// N accumulators from number A on become 0.
template <int A, int N>
FW_INLINE void fw_clear_all() {
  fw_clear_accumulators<A>();
  if constexpr (N > 4) fw_clear_all<A + 4, N - 4>();
}

//@ fw_scale_all: FW_INLINE fw_scale_accumulators
// N accumulators from number A on times a factor for each row.
template <int A, int N>
FW_INLINE void fw_scale_all(const float (&f)[2]) {
  fw_scale_accumulators<A>(f);
  if constexpr (N > 4) fw_scale_all<A + 4, N - 4>(f);
}

//@ fw_fold_all: FW_INLINE fw_accumulators fw_vector
// N accumulators from number A on, added to a thread's sums in shared memory times a factor for each row; or as they are, where there are no sums
// yet. Vectors of a thread are 128 vectors apart.
template <int A, int N, int I = 0>
FW_INLINE void fw_fold_all(fw_vector<float, 4>* sums, const float (&factor)[2], bool adds) {
  float y[4];
  fw_take<A + I>(y);
  fw_vector<float, 4> sum = {};
  if (adds) sum = *sums;
#pragma unroll
  for (int r = 0; r < 4; ++r) sum.at[r] = fmaf(sum.at[r], factor[r / 2], y[r]);
  *sums = sum;
  if constexpr (I + 4 < N) fw_fold_all<A, N, I + 4>(sums + 128, factor, adds);
}

//@ fw_keep_largest: FW_INLINE fw_uniform
// The largest of a warp's numbers, none of them negative, to memory, where other warps' are kept; NaN is larger than all.
FW_INLINE void fw_keep_largest(float* at, float x, unsigned lane) {
  const unsigned largest = fw_uniform(__float_as_uint(x) & 0x7fffffffu);
  if (lane == 0) atomicMax(reinterpret_cast<unsigned*>(at), largest);
}

//@ fw_row_maxima: FW_INLINE fw_infinity
// Of each of the lane's two rows the largest of its columns and of m; a NaN may be passed over. Floats compare like integers, of which
// three are compared at once, as soon as one is not negative.
template <int N>
FW_INLINE void fw_row_maxima(const float (&x)[N], const float (&m)[2], float (&largest)[2]) {
  bool negative = false;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    int a = max(max(__float_as_int(x[2 * e]), __float_as_int(x[2 * e + 1])), __float_as_int(m[e]));
    int b = max(__float_as_int(x[4 + 2 * e]), __float_as_int(x[5 + 2 * e]));
#pragma unroll
    for (int j = 2; j < N / 4; ++j) {
      int& chain = j % 2 ? b : a;
      chain = max(max(__float_as_int(x[4 * j + 2 * e]), __float_as_int(x[4 * j + 2 * e + 1])), chain);
    }
    largest[e] = __int_as_float(max(a, b));
    negative |= max(a, b) < 0;
  }
  if (negative) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float a = fmaxf(x[2 * e], m[e]), b = x[2 * e + 1];
#pragma unroll
      for (int j = 1; j < N / 4; ++j) a = fmaxf(a, x[4 * j + 2 * e]), b = fmaxf(b, x[4 * j + 2 * e + 1]);
      largest[e] = fmaxf(a, b);
    }
  }
}

//@ fw_row_maxima_nan: FW_INLINE fw_max_nan
// Of each of the lane's two rows the largest of its columns, NaN where there is one.
template <int N>
FW_INLINE void fw_row_maxima_nan(const float (&x)[N], float (&largest)[2]) {
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    float a = x[2 * e], b = x[2 * e + 1];
#pragma unroll
    for (int j = 1; j < N / 4; ++j) a = fw_max_nan(a, x[4 * j + 2 * e]), b = fw_max_nan(b, x[4 * j + 2 * e + 1]);
    largest[e] = fw_max_nan(a, b);
  }
}

//@ fw_quad_largest_nan: FW_INLINE fw_max_nan
FW_INLINE float fw_quad_largest_nan(float x) {
  x = fw_max_nan(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fw_max_nan(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

//@ fw_is_vast: FW_INLINE fw_infinity
// Whether a score, in powers of two, has a rounding error that no exponential of a difference can be taken of: those of such a row are of differences
// between scores, against a reference of 0.
FW_INLINE bool fw_is_vast(float score, float c) { return fabsf(score) < fw_infinity() && fabsf(score * c) >= 1073741824.0f; }

//@ fw_reference: FW_INLINE fw_is_vast
// What is taken from a row's scores, in powers of two, where the row's largest one is `score`.
FW_INLINE float fw_reference(float score, float c) { return fw_is_vast(score, c) ? 0.0f : score * c; }

//@ fw_bound: FW_INLINE fw_is_vast fw_infinity
// The score above which a row's reference moves; that of vast scores moves in each step.
FW_INLINE float fw_bound(float score, float c, float room) { return fw_is_vast(score, c) ? -fw_infinity() : score + room; }

//@ fw_factor: FW_INLINE fw_is_vast fw_fast_exp2
// What sums are multiplied by, where a row's largest score was `score` and is `next`, their references `before` and `after`.
FW_INLINE float fw_factor(float score, float next, float c, float before, float after) {
  if (score == -fw_infinity()) return 0.0f;
  return fw_fast_exp2(fw_is_vast(score, c) || fw_is_vast(next, c) ? (score - next) * c : before - after);
}

//@ fw_statistic: FW_INLINE fw_is_vast
// The logarithm of a row's sum of exponentials, whose largest score is `score` and whose sum against its reference has this logarithm to base 2.
FW_INLINE float fw_statistic(float score, float c, float reference, float log2_total, float ln2) {
  return fw_is_vast(score, c) ? score * (c * ln2) + (reference + log2_total) * ln2 : (reference + log2_total) * ln2;
}

//@ fw_weight_of_part: FW_INLINE fw_is_vast fw_vector fw_infinity
// What a part of a row's keys weighs, in powers of two: a reference, which is the largest score where that is vast, and the logarithm of the sum.
FW_INLINE fw_vector<float, 2> fw_weight_of_part(float score, float c, float reference, float total) {
  const float vast = fminf(fmaxf(score * c, -3.4028234e38f), 3.4028234e38f);
  return {{total == 0.0f ? -fw_infinity() : fw_is_vast(score, c) ? vast : reference, log2f(total)}};
}

//@ fw_above_largest: FW_INLINE fw_is_vast
// Scores of rows whose largest ones, `m`, are vast, less these.
template <int N>
FW_INLINE void fw_above_largest(float (&x)[N], const float (&m)[2], float c) {
  if (!fw_is_vast(m[0], c) && !fw_is_vast(m[1], c)) return;
  const float from[2] = {fw_is_vast(m[0], c) ? m[0] : 0.0f, fw_is_vast(m[1], c) ? m[1] : 0.0f};
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] -= from[i >> 1 & 1];
}

//@ fw_exponentials: FW_INLINE fw_fast_exp2
// x = 2^(x c - reference), added to the sums of the rows.
template <int N>
FW_INLINE void fw_exponentials(float (&x)[N], float c, const float (&reference)[2], float (&sum)[2]) {
  float part[2][2] = {{sum[0], 0.0f}, {sum[1], 0.0f}};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int e = i >> 1 & 1;
    x[i] = fw_fast_exp2(fmaf(x[i], c, -reference[e]));
    part[e][i & 1] += x[i];
  }
  sum[0] = part[0][0] + part[0][1], sum[1] = part[1][0] + part[1][1];
}

//@ fw_quad_largest: FW_INLINE
FW_INLINE float fw_quad_largest(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

//@ fw_quad_total: FW_INLINE
FW_INLINE float fw_quad_total(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

//@ fw_quad_transpose: FW_INLINE
// Lane t of a quad has word j of fragment t where it had word t's of fragment j: eight columns of 16 bits side by side.
FW_INLINE void fw_quad_transpose(unsigned (&w)[4], unsigned lane) {
  const bool odd = lane & 1, high = lane & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const unsigned got = __shfl_xor_sync(0xffffffffu, odd ? w[i] : w[i + 1], 1);
    if (odd) w[i] = got;
    else w[i + 1] = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned got = __shfl_xor_sync(0xffffffffu, high ? w[i] : w[i + 2], 2);
    if (high) w[i] = got;
    else w[i + 2] = got;
  }
}

//@ fw_philox: FW_INLINE
// Philox4x32-7 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): 128 random bits in the place of a counter.
FW_INLINE void fw_philox(unsigned (&x)[4], unsigned key, unsigned next_key) {
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    const unsigned long long a = (unsigned long long)x[0] * 0xd2511f53u, b = (unsigned long long)x[2] * 0xcd9e8d57u;
    x[0] = (unsigned)(b >> 32) ^ x[1] ^ key, x[1] = (unsigned)b;
    x[2] = (unsigned)(a >> 32) ^ x[3] ^ next_key, x[3] = (unsigned)a;
    key += 0x9e3779b9u, next_key += 0xbb67ae85u;
  }
}

//@ fw_drop_columns: FW_INLINE fw_philox fw_quad_transpose
// Of the lane's columns of groups of eight from number `group` on, those become 0 for which a number of THRESHOLD or more is drawn. A lane draws
// for one of two rows and one of two groups of its quad; a word is the numbers of the two columns that a lane has.
template <unsigned THRESHOLD, int N>
FW_INLINE void fw_drop_columns(
    float (&x)[N], unsigned group, const unsigned (&query)[2], const unsigned (&head)[2], const unsigned (&state)[3], unsigned lane) {
  const unsigned own_query = lane & 1 ? query[1] : query[0], own_head = lane & 1 ? head[1] : head[0];
#pragma unroll
  for (int j = 0; j < N / 4; j += 2) {
    unsigned w[4] = {group + j + (lane >> 1 & 1), own_query, own_head, state[2]};
    fw_philox(w, state[0], state[1]);
    fw_quad_transpose(w, lane);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = 4 * (j + i / 2) + 2 * (i % 2);
      if ((w[i] & 0xffffu) >= THRESHOLD) x[at] = 0.0f;
      if (w[i] >> 16 >= THRESHOLD) x[at + 1] = 0.0f;
    }
  }
}

//@ fw_kept_rows: FW_INLINE fw_philox
// Of a fragment whose rows are the eight columns of a counter, group and the next, and whose columns are rows of scores from `query` on: a bit of
// each of the lane's N elements, 1 where a number below THRESHOLD is drawn for it. A lane draws for a group of one of 16 columns at a time, and
// its bits of up to four times go to the others at once.
template <unsigned THRESHOLD, int N>
FW_INLINE void fw_kept_rows(
    unsigned (&kept)[(N + 31) / 32], unsigned group, unsigned query, unsigned head, const unsigned (&state)[3], unsigned lane) {
#pragma unroll
  for (int first = 0; first < N / 8; first += 4) {
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < 4 && first + i < N / 8; ++i) {
      unsigned w[4] = {group + lane / 16, query + 16 * (first + i) + lane % 16, head, state[2]};
      fw_philox(w, state[0], state[1]);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if ((e % 2 ? w[e / 2] >> 16 : w[e / 2] & 0xffffu) < THRESHOLD) bits |= 1u << (8 * i + e);
      }
    }
    unsigned word = 0;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const unsigned from = (e >> 1 & 1) * 16 + (e >> 2) * 8 + 2 * (lane % 4) + (e & 1);
      word |= (__shfl_sync(0xffffffffu, bits, from) >> lane / 4 & 0x01010101u) << e;
    }
    kept[first / 4] = word;
  }
}

//@ fw_drop: FW_INLINE
// What is not kept becomes 0.
template <int N>
FW_INLINE void fw_drop(float (&x)[N], const unsigned (&kept)[(N + 31) / 32]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (!(kept[i / 32] >> i % 32 & 1)) x[i] = 0.0f;
  }
}
