// fusewright 0.1.0, engine config: warpgroup_mma tile_m=128 tile_n=16 stages=11 schedule=cooperative split_k=5
// t0 = input FLOAT [3, 36, 21, 20] stride [15120, 1, 720, 36]
// t1 = input FLOAT [3, 33, 41, 39] stride [52767, 1, 1287, 33]
// t3 = copy FLOAT [1, 36, 1260] stride [46080, 1280, 1]
// t4 = copy FLOAT [1, 1260, 297] stride [380160, 1, 1280]
// t2_conv_wgrad = CONV_WGRAD(DY=t3, X=t4) pre_padding=[1, 1] post_padding=[1, 1] stride=[2, 2] dilation=[1, 1] compute FLOAT -> output FLOAT [36, 33, 3, 3] stride [297, 1, 99, 33]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_shared_address

//@ fw_accumulators

//@ fw_tell

//@ fw_put_rows

//@ fw_wait_for_previous_launch

//@ fw_tensor_map

//@ fw_elect

//@ fw_mbarrier

//@ fw_coordinate

//@ fw_tma_load

//@ fw_set_registers

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_keep

//@ fw_f32

//@ fw_i32

//@ fw_vector

//@ fw_sum_splits

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_unfold(const float* __restrict__ p_t0, float* __restrict__ p_t3) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 256 + threadIdx.x;
  if (vector < 11376) {
    const unsigned k = vector / 144 * 16 + vector % 4 * 4;
    const unsigned ko = vector / 4 % 36;
    const unsigned img = k / 420;
    const unsigned p = k / 20 % 21;
    const unsigned q = k % 20;
    const unsigned* const from = reinterpret_cast<const unsigned*>(p_t0);
    fw_vector<unsigned, 4> gathered = {};
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      if (k + e < 1260) gathered.at[e] = from[img * 15120 + ko + p * 720 + (q + e) * 36];
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t3) + ko * 1280 + k, gathered);
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_unfold_1(const float* __restrict__ p_t1, float* __restrict__ p_t4) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 256 + threadIdx.x;
  if (vector < 93852) {
    const unsigned k = vector / 1188 * 16 + vector % 4 * 4;
    const unsigned r = vector / 396 % 3;
    const unsigned s = vector / 132 % 3;
    const unsigned ci = vector / 4 % 33;
    const unsigned img = k / 420;
    const unsigned p = k / 20 % 21;
    const unsigned q = k % 20;
    const unsigned* const from = reinterpret_cast<const unsigned*>(p_t1);
    fw_vector<unsigned, 4> gathered = {};
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      const int h = (int)p * 2 + (int)r - 1;
      const int w = (int)(q + e) * 2 + (int)s - 1;
      if (k + e < 1260 && h >= 0 && h < 41 && w >= 0 && w < 39) gathered.at[e] = from[img * 52767 + ci + h * 1287 + w * 33];
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t4) + ((r * 3 + s) * 33 + ci) * 1280 + k, gathered);
  }
}

//@ program
// a zero outside an operand, times what is not finite, is no product: sums that are NaN once more, over elements inside
static __device__ __noinline__ void fw_sum_inside(float* sums, unsigned first_row, unsigned first_column, unsigned m0, unsigned n0, int first, int steps, const float* p_t0, const float* p_t1) {
#pragma unroll 1
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned row = first_row + i / 2 % 2 * 8, column = first_column + i / 4 % 2 * 8 + i % 2;
    float& sum = sums[i];
    if (sum == sum) continue;
    const unsigned line = row, piece = column;
    const unsigned m = m0 + line;
    const unsigned n = n0 + piece;
    if (!(m < 36 && n < 297)) continue;
    float inside = 0.0f;
#pragma unroll 1
    for (unsigned k = (unsigned)first * 32; k < (unsigned)(first + steps) * 32 && inside == inside; ++k) {
      asm volatile("" ::: "memory");  // keeps in the loop what does not change in it: NVRTC 13.0.88 crashes where it takes some conditions out
      float factors[2];
      {
        const unsigned ko = m;
        const unsigned img = k / 420;
        const unsigned p = k / 20 % 21;
        const unsigned q = k % 20;
        if (!(m < 36 && k < 1260)) continue;
        const unsigned o_t0 = img * 15120 + p * 720 + q * 36 + ko;
        const float t0 = fw_value(p_t0[o_t0]);
        factors[0] = fw_to_f32(t0);
      }
      {
        const unsigned r = n / 99;
        const unsigned s = n / 33 % 3;
        const unsigned ci = n % 33;
        const unsigned img = k / 420;
        const unsigned p = k / 20 % 21;
        const unsigned q = k % 20;
        const int h = int(p) * 2 + int(r) - 1;
        const int w = int(q) * 2 + int(s) - 1;
        if (!(n < 297 && k < 1260 && h >= 0 && h < 41 && w >= 0 && w < 39)) continue;
        const unsigned o_t1 = img * 52767 + h * 1287 + w * 33 + ci;
        const float t1 = fw_value(p_t1[o_t1]);
        factors[1] = fw_to_f32(t1);
      }
      inside = fmaf(factors[0], factors[1], inside);
    }
    sum = inside;
  }
}
#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_convolution_backward_filter_2(const float* __restrict__ p_t0,
  const float* __restrict__ p_t1,
  float* __restrict__ accumulators,
  const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(8);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 215040, empty = full + 88;  // an mbarrier each for a stage
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
#pragma unroll
    for (unsigned stage = 0; stage < 11; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 1);
      fw_mbarrier_init(empty + 8 * stage, 8);  // warps that multiply what is in it
    }
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    // one thread asks for the tiles of A and B, up to 11 ahead
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < 95u; unit += gridDim.x) {
        // a tile of C, and a part of k
        const unsigned split = unit / 19u, number = unit % 19u;
        const int first = split * 8, steps = min(8, 40 - first);
        const unsigned m0 = 0, n0 = number * 16;
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 6656);
          const unsigned tile = shared + stage * 18432;
          const unsigned k0 = (unsigned)(first + step) * 32;
          // A: t3
          fw_tma_load(tile, &map0, full + 8 * stage, k0, m0);
          // B: t4
          fw_tma_load(tile + 16384, &map1, full + 8 * stage, k0, n0);
          if (++stage == 11) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1;
    float* const piece_c = reinterpret_cast<float*>(shared_bytes + 202752 + (warp - 4) * 1536);  // of 16 rows, 16 columns
    float* const lane_c = piece_c + lane / 4 * 24 + lane % 4 * 2;
    unsigned stage = 0, parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x; unit < 95u; unit += gridDim.x) {
      // a tile of C, and a part of k
      const unsigned split = unit / 19u, number = unit % 19u;
      const int first = split * 8, steps = min(8, 40 - first);
      const unsigned m0 = 0, n0 = number * 16;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 18432;
        const unsigned long long a = fw_matrix_descriptor<128>(tile + consumer * 8192, 16, 1024);
        const unsigned long long b = fw_matrix_descriptor<128>(tile + 16384, 16, 1024);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n16k8.f32.tf32.tf32", FW_ROWS_0, 0, 0, "p", ", 1, 1")
          FW_PRODUCT("m64n16k8.f32.tf32.tf32", FW_ROWS_0, 2, 2, "1", ", 1, 1")
          FW_PRODUCT("m64n16k8.f32.tf32.tf32", FW_ROWS_0, 4, 4, "1", ", 1, 1")
          FW_PRODUCT("m64n16k8.f32.tf32.tf32", FW_ROWS_0, 6, 6, "1", ", 1, 1"));
        fw_wgmma_wait<1>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        multiplied = stage;
        if (++stage == 11) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
      float told = 0.0f;  // finite unless some sum is not
      FW_TELL(told,
        FW_PAIR(0, 2));
      if (!isfinite(told)) {
        alignas(16) float again[8];
        FW_KEEP(again,
          FW_TO(0, 0, 1, 2, 3) FW_TO(16, 4, 5, 6, 7));
        fw_sum_inside(again, consumer * 64 + warp % 4 * 16 + lane / 4, lane % 4 * 2, m0, n0, first, steps, p_t0, p_t1);
        FW_KEEP(again,
          FW_FROM(0, 0, 1, 2, 3) FW_FROM(16, 4, 5, 6, 7));
      }

      // a warp takes 16 rows and 16 columns at a time through its own piece of shared memory
      const unsigned warp_m0 = m0 + consumer * 64 + warp % 4 * 16;
      const unsigned chunk_n0 = n0;
      fw_put_rows<0, 24>(lane_c); fw_put_rows<4, 24>(lane_c + 8);
      __syncwarp();
      // the sums go to the workspace, where later functions take them from
#pragma unroll 4
      for (unsigned i = lane; i < 256; i += 32) {
        const unsigned line = i / 16, piece = i % 16;
        const unsigned m = warp_m0 + line, n = chunk_n0 + piece;
        if (m < 36 && n < 297) accumulators[split * 10692ull + m * 297 + n] = piece_c[line * 24 + piece];
      }
      __syncwarp();
    }
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(32)
fw_pointwise_3(float* __restrict__ p_t2_conv_wgrad, float* __restrict__ accumulators) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 2673) {
    const unsigned i0 = vector * 4;
    const unsigned o_t2_conv_wgrad = i0;
    const unsigned o_accumulators = i0;
    float acc[4];
    fw_sum_splits(accumulators + o_accumulators, 5, 10692ull, acc);
    fw_vector<float, 4> w_t2_conv_wgrad;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t2_conv_wgrad = acc[e];
      w_t2_conv_wgrad.at[e] = fw_to_f32(t2_conv_wgrad);
    }
    fw_store_vector(p_t2_conv_wgrad + o_t2_conv_wgrad, w_t2_conv_wgrad);
  }
}
