// Reduction operators on float registers. No template syntax. Operators: operations.md section 6.

//@ fw_sum: FW_INLINE
FW_INLINE float fw_sum(float a, float x) { return a + x; }

//@ fw_product: FW_INLINE
FW_INLINE float fw_product(float a, float x) { return a * x; }

//@ fw_smallest: FW_INLINE fw_min_nan
FW_INLINE float fw_smallest(float a, float x) { return fw_min_nan(a, x); }

//@ fw_largest: FW_INLINE fw_max_nan
FW_INLINE float fw_largest(float a, float x) { return fw_max_nan(a, x); }

//@ fw_square: FW_INLINE
FW_INLINE float fw_square(float x) { return x * x; }

//@ fw_one_if_zero: FW_INLINE
FW_INLINE float fw_one_if_zero(float x) { return x == 0.0f ? 1.0f : x; }

//@ fw_multiply_add: FW_INLINE
FW_INLINE int fw_multiply_add(int a, int b, int c) { return int(unsigned(a) * unsigned(b) + unsigned(c)); }  // wraps

//@ fw_sum_splits: FW_INLINE fw_vector fw_f32 fw_i32
// Partial sums of a product whose k was cut, added in order of the split.
template <typename T>
FW_INLINE T fw_sum_of_splits(const T* from, unsigned splits, unsigned long long elements) {
  T sum = from[0];
  for (unsigned split = 1; split < splits; ++split) sum += from[split * elements];
  return sum;
}
template <typename T, int N>
FW_INLINE void fw_sum_splits(const T* from, unsigned splits, unsigned long long elements, T (&sums)[N]) {
  fw_load_vector(from, sums);
  for (unsigned split = 1; split < splits; ++split) {
    T next[N];
    fw_load_vector(from + split * elements, next);
#pragma unroll
    for (int e = 0; e < N; ++e) sums[e] += next[e];
  }
}

//@ fw_lanes_total: FW_INLINE
// One value from the lanes of a warp whose numbers differ in the bits FROM, FROM / 2, … TO; each of them gets it.
template <int FROM, int TO, typename Combine>
FW_INLINE float fw_lanes_total(float x, const Combine& combine) {
#pragma unroll
  for (int distance = FROM; distance >= TO; distance /= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}

//@ fw_lanes_totals: fw_lanes_total
// The totals of COUNT values of each lane of a warp, a power of two: the first 32 / COUNT lanes get that of the first value, and so on. At each
// distance a lane gives away half of what it has.
template <int COUNT, typename Combine>
FW_INLINE float fw_lanes_totals(float (&x)[COUNT], const Combine& combine) {
#pragma unroll
  for (int count = COUNT / 2; count > 0; count /= 2) {
    const int distance = 32 * count / COUNT;
    const bool is_upper = threadIdx.x & distance;
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
      if (i >= count) continue;
      const float given = is_upper ? x[i] : x[i + count];
      x[i] = combine(is_upper ? x[i + count] : x[i], __shfl_xor_sync(0xffffffffu, given, distance));
    }
  }
  return fw_lanes_total<16 / COUNT, 1>(x[0], combine);
}

//@ fw_warps_total: FW_INLINE fw_vector
// The parts of WARPS warps in order; where there are more than two, they lie at a multiple of 16 bytes, and the last four have room to end.
template <int WARPS, typename Combine>
FW_INLINE float fw_warps_total(const float* parts, const Combine& combine) {
  constexpr int WIDTH = WARPS < 3 ? WARPS : 4;
  float total = 0.0f;
#pragma unroll
  for (int first = 0; first < WARPS; first += WIDTH) {
    const auto some = *reinterpret_cast<const fw_vector<float, WIDTH>*>(parts + first);
#pragma unroll
    for (int w = 0; w < WIDTH && first + w < WARPS; ++w) total = first + w == 0 ? some.at[0] : combine(total, some.at[w]);
  }
  return total;
}

//@ fw_share_columns: FW_INLINE
// Totals of columns from the eight lanes that hold their parts, as fragments of wgmma's accumulators lie: x[2 j + e] is of column e of the
// lane's pair in fragment j. Each step leaves a lane with half of its columns, with the first half where the bit of its number is 0; those
// of the lane are x[0] on. A single column is kept by both lanes of a step.
template <int BIT, int LEFT, int N, typename Combine>
FW_INLINE void fw_halve_columns(float (&x)[N], unsigned lane, const Combine& combine) {
  constexpr int half = LEFT > 1 ? LEFT / 2 : 0;
  const bool is_second = lane & BIT;
#pragma unroll
  for (int e = 0; e < LEFT - half; ++e) {
    const float given = is_second ? x[e] : x[e + half], kept = is_second ? x[e + half] : x[e];
    x[e] = combine(kept, __shfl_xor_sync(0xffffffffu, given, BIT));
  }
}
template <int N, typename Combine>
FW_INLINE void fw_share_columns(float (&x)[N], unsigned lane, const Combine& combine) {
  fw_halve_columns<16, N>(x, lane, combine);
  fw_halve_columns<8, N / 2>(x, lane, combine);
  fw_halve_columns<4, N / 4>(x, lane, combine);
}

//@ fw_block_total: FW_INLINE
// One value from all threads of a block, in a fixed order; the first thread gets it. `totals` has room for 32 floats.
template <typename Combine>
FW_INLINE float fw_block_total(float x, float* totals, const Combine& combine) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, distance));
  if (threadIdx.x % 32 == 0) totals[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) x = combine(x, totals[warp]);
  }
  __syncthreads();
  return x;
}

//@ fw_tree: FW_INLINE
// Combines WIDTH values of each thread over the `leaves` threads, a power of two, that differ in `thread` alone, up to eight at a time
// and in a fixed order; all of them find total e at `shared[e * threads + lane]` of thread 0. Neighbours are `stride` of the block's threads
// apart. Whatever is combined next is shared out among all of them, and its operands are asked for at once.
template <int WIDTH, typename Value, typename Combine>
FW_INLINE void fw_tree(Value* shared, const Value (&values)[WIDTH], unsigned lane, unsigned thread, unsigned leaves, unsigned stride,
                       unsigned threads, const Combine& combine) {
#pragma unroll
  for (int e = 0; e < WIDTH; ++e) shared[e * threads + lane] = values[e];
  Value* const first = shared + (lane - thread * stride);
  const unsigned all = leaves;
#pragma unroll 1
  while (leaves > 1) {
    const unsigned left = leaves > 8 ? leaves / 8 : 1, bits = __popc(left - 1);
    __syncthreads();
#pragma unroll 1
    for (unsigned item = thread; item < WIDTH * left; item += all) {
      Value* const mine = first + ((item >> bits) * threads + (item & (left - 1)) * stride);
      Value total = *mine;
#pragma unroll
      for (unsigned other = 1; other < 8; ++other) {
        if (other * left < leaves) total = combine(total, mine[other * left * stride]);
      }
      *mine = total;
    }
    leaves = left;
  }
  __syncthreads();
}
