// fusewright 0.1.0, engine config: warpgroup_mma tile_m=64 tile_n=32 stages=12 schedule=ping_pong
// t0 = input HALF [2, 40, 9, 10] stride [3600, 1, 400, 40]
// t1 = input HALF [2, 33, 9, 10] stride [2970, 1, 330, 33]
// t3 = copy HALF [2, 33, 9, 10] stride [4320, 1, 480, 48]
// t2_conv_wgrad = CONV_WGRAD(DY=t0, X=t3) pre_padding=[1, 1] post_padding=[1, 1] stride=[1, 1] dilation=[1, 1] compute FLOAT -> output HALF [40, 33, 3, 3] stride [297, 1, 99, 33]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

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

//@ fw_tma_load_im2col

//@ fw_set_registers

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_keep

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_copy(const fw_f16* __restrict__ p_t1, fw_f16* __restrict__ p_t3) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 256 + threadIdx.x;
  if (vector < 1080) {
    const unsigned i0 = vector / 6;
    const unsigned i1 = vector / 2 % 3 * 16 + vector % 2 * 8;
    const unsigned short* const from = reinterpret_cast<const unsigned short*>(p_t1) + i0 * 33 + i1;
    fw_vector<unsigned short, 8> gathered = {};
#pragma unroll
    for (unsigned e = 0; e < 8; ++e) {
      if (i1 + e < 33) gathered.at[e] = from[e];
    }
    fw_store_vector(reinterpret_cast<unsigned short*>(p_t3) + i0 * 48 + i1, gathered);
  }
}

//@ program
// a zero outside an operand, times what is not finite, is no product: sums that are NaN once more, over elements inside
static __device__ __noinline__ void fw_sum_inside(float* sums, unsigned first_row, unsigned first_column, unsigned m0, unsigned n0, const fw_f16* p_t0, const fw_f16* p_t3) {
#pragma unroll 1
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned row = first_row + i / 2 % 2 * 8, column = first_column + i / 4 % 4 * 8 + i % 2;
    float& sum = sums[i];
    if (sum == sum) continue;
    const unsigned line = row, piece = column;
    const unsigned m = m0 + line;
    const unsigned n = n0 + piece;
    const unsigned ci = n % 48;
    if (!(m < 40 && n < 432 && ci < 33)) continue;
    float inside = 0.0f;
#pragma unroll 1
    for (unsigned k = 0; k < 180 && inside == inside; ++k) {
      asm volatile("" ::: "memory");  // keeps in the loop what does not change in it: NVRTC 13.0.88 crashes where it takes some conditions out
      float factors[2];
      {
        const unsigned ko = m;
        const unsigned img = k / 90;
        const unsigned p = k / 10 % 9;
        const unsigned q = k % 10;
        if (!(m < 40 && k < 180)) continue;
        const unsigned o_t0 = img * 3600 + ko + p * 400 + q * 40;
        const float t0 = fw_value(p_t0[o_t0]);
        factors[0] = fw_to_f32(t0);
      }
      {
        const unsigned r = n / 144;
        const unsigned s = n / 48 % 3;
        const unsigned ci = n % 48;
        const unsigned img = k / 90;
        const unsigned p = k / 10 % 9;
        const unsigned q = k % 10;
        const int h = int(p) + int(r) - 1;
        const int w = int(q) + int(s) - 1;
        if (!(n < 432 && k < 180 && h >= 0 && h < 9 && w >= 0 && w < 10)) continue;
        const unsigned o_t3 = img * 4320 + ci + h * 480 + w * 48;
        const float t3 = fw_value(p_t3[o_t3]);
        factors[1] = fw_to_f32(t3);
      }
      inside = fmaf(factors[0], factors[1], inside);
    }
    sum = inside;
  }
}
#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_convolution_backward_filter_1(const fw_f16* __restrict__ p_t0,
  const fw_f16* __restrict__ p_t3,
  fw_f16* __restrict__ p_t2_conv_wgrad,
  const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(16);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 167936, empty = full + 96;  // an mbarrier each for a stage
  const unsigned turn = empty + 96;  // and one for each consumer
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
#pragma unroll
    for (unsigned stage = 0; stage < 12; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 1);
      fw_mbarrier_init(empty + 8 * stage, 4);  // warps that multiply what is in it
    }
    fw_mbarrier_init(turn, 4);
    fw_mbarrier_init(turn + 8, 4);
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<40>();
    // one thread asks for the tiles of A and B, up to 12 ahead
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < 14u; unit += gridDim.x) {
        const unsigned m0 = 0, n0 = unit * 32;
#pragma unroll 1
        for (int step = 0; step < 3; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 9216);
          const unsigned tile = shared + stage * 12288;
          const unsigned k0 = (unsigned)step * 64;
          const unsigned img = step * 64 / 90;
          const unsigned p = step * 64 / 10 % 9;
          const unsigned q = step * 64 % 10;
          // A: t0
          fw_tma_load(tile, &map0, full + 8 * stage, m0, k0);
          // B: t3
#pragma unroll
          for (unsigned column = 0; column < 2; ++column) {
            const unsigned r = (n0 + column * 16) / 144;
            const unsigned s = (n0 + column * 16) / 48 % 3;
            const unsigned ci = (n0 + column * 16) % 48;
            fw_tma_load_im2col(tile + 8192 + column * 2048, &map1, full + 8 * stage, ci, int(q) - 1, int(p) - 1, img, s, r);
          }
          if (++stage == 12) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1;
    float* const piece_c = reinterpret_cast<float*>(shared_bytes + 147456 + (warp - 4) * 2560);  // of 16 rows, 32 columns
    float* const lane_c = piece_c + lane / 4 * 40 + lane % 4 * 2;
    const unsigned skipped = consumer == 0 ? 0 : 3;  // the first tile is the other's
    unsigned stage = skipped % 12, parity = skipped / 12 & 1, turn_parity = consumer == 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x + consumer * gridDim.x; unit < 14u; unit += 2 * gridDim.x) {
      const unsigned m0 = 0, n0 = unit * 32;
      fw_mbarrier_wait(turn + 8 * consumer, turn_parity);
      turn_parity ^= 1;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < 3; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 12288;
        const unsigned long long a = fw_matrix_descriptor<128>(tile, 8192, 1024);
        const unsigned long long b = fw_matrix_descriptor<32>(tile + 8192, 2048, 256);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 0, 0, "p", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 128, 32, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 256, 64, "1", ", 1, 1, 1, 1")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 384, 96, "1", ", 1, 1, 1, 1"));
        if (step == 2 && lane == 0) fw_mbarrier_arrive(turn + 8 * (consumer ^ 1));  // the other's products come next
        fw_wgmma_wait<1>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        multiplied = stage;
        if (++stage == 12) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
      stage += 3;  // the stages of the other's tile
      parity ^= stage / 12 & 1;
      stage %= 12;
      float told = 0.0f;  // finite unless some sum is not
      FW_TELL(told,
        FW_PAIR(0, 2));
      if (!isfinite(told)) {
        alignas(16) float again[16];
        FW_KEEP(again,
          FW_TO(0, 0, 1, 2, 3) FW_TO(16, 4, 5, 6, 7) FW_TO(32, 8, 9, 10, 11) FW_TO(48, 12, 13, 14, 15));
        fw_sum_inside(again, warp % 4 * 16 + lane / 4, lane % 4 * 2, m0, n0, p_t0, p_t3);
        FW_KEEP(again,
          FW_FROM(0, 0, 1, 2, 3) FW_FROM(16, 4, 5, 6, 7) FW_FROM(32, 8, 9, 10, 11) FW_FROM(48, 12, 13, 14, 15));
      }

      // a warp takes 16 rows and 32 columns at a time through its own piece of shared memory
      const unsigned warp_m0 = m0 + warp % 4 * 16;
      const unsigned chunk_n0 = n0;
      fw_put_rows<0, 40>(lane_c); fw_put_rows<4, 40>(lane_c + 8);
      fw_put_rows<8, 40>(lane_c + 16); fw_put_rows<12, 40>(lane_c + 24);
      __syncwarp();
#pragma unroll 2
      for (unsigned pass = 0; pass < 16; ++pass) {
        const unsigned i = pass * 32 + lane;
        const unsigned line = i / 32, piece = i % 32;
        const unsigned m = warp_m0 + line;
        const unsigned n = chunk_n0 + piece;
        const unsigned ko = m;
        const unsigned r = n / 144;
        const unsigned s = n / 48 % 3;
        const unsigned ci = n % 48;
        if (m < 40 && n < 432 && ci < 33) {
          const float* const tile_at = piece_c + line * 40 + piece;
          const unsigned o_t2_conv_wgrad = ko * 297 + r * 99 + s * 33 + ci;
          float acc[1];
          fw_load_vector(tile_at, acc);
          const float t2_conv_wgrad = acc[0];
          p_t2_conv_wgrad[o_t2_conv_wgrad] = fw_to_f16(t2_conv_wgrad);
        }
      }
      __syncwarp();
    }
  }
}
