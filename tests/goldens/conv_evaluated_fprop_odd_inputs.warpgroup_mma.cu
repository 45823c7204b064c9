// fusewright 0.1.0, engine config: warpgroup_mma tile_m=64 tile_n=64 stages=6 schedule=ping_pong tma_epilogue=1 evaluate_first=1
// t0 = input HALF [5, 33, 21, 19] stride [13167, 1, 627, 33]
// t1 = input HALF [1, 33, 1, 1] stride [33, 1, 33, 33]
// t2 = copy HALF [5, 33, 21, 19] stride [13167, 1, 627, 33]
// t3 = input HALF [1, 33, 1, 1] stride [33, 1, 33, 33]
// t4 = copy HALF [5, 33, 21, 19] stride [13167, 1, 627, 33]
// t5 = copy HALF [5, 33, 21, 19] stride [13167, 1, 627, 33]
// t6 = input HALF [48, 33, 3, 3] stride [297, 1, 99, 33]
// t8 = copy HALF [5, 33, 21, 19] stride [19152, 1, 912, 48]
// t9 = copy HALF [48, 33, 3, 3] stride [432, 1, 144, 48]
// t7_conv_fprop = CONV_FPROP(X=t8, W=t9) pre_padding=[1, 1] post_padding=[1, 1] stride=[1, 1] dilation=[1, 1] compute FLOAT -> output HALF [5, 48, 21, 19] stride [19152, 1, 912, 48]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_shared_address

//@ fw_accumulators

//@ fw_tell

//@ fw_boxed

//@ fw_wait_for_previous_launch

//@ fw_tensor_map

//@ fw_elect

//@ fw_mbarrier

//@ fw_coordinate

//@ fw_tma_load

//@ fw_tma_load_im2col

//@ fw_tma_store

//@ fw_fence_async

//@ fw_set_registers

//@ fw_stmatrix

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_keep

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

//@ fw_add

//@ fw_mul

//@ fw_relu

//@ fw_identity

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_pointwise(const fw_f16* __restrict__ p_t0,
  const fw_f16* __restrict__ p_t1,
  const fw_f16* __restrict__ p_t3,
  fw_f16* __restrict__ p_t8) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 256 + threadIdx.x;
  if (vector < 65835) {
    const unsigned i0 = vector / 33;
    const unsigned i1 = vector % 33;
    const unsigned o_t0 = i0 * 33 + i1;
    const unsigned o_t1 = i1;
    const unsigned o_t3 = i1;
    const unsigned o_t8 = i0 * 48 + i1;
    const float t0 = fw_value(p_t0[o_t0]);
    const float t1 = fw_value(p_t1[o_t1]);
    const float t3 = fw_value(p_t3[o_t3]);
    const float t2 = fw_value(fw_to_f16(fw_mul(t0, t1)));
    const float t4 = fw_value(fw_to_f16(fw_add(t2, t3)));
    const float t5 = fw_relu(t4, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
    const float t8 = fw_identity(t5);
    p_t8[o_t8] = fw_to_f16(t8);
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_copy_1(const fw_f16* __restrict__ p_t6, fw_f16* __restrict__ p_t9) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 256 + threadIdx.x;
  if (vector < 2592) {
    const unsigned i0 = vector / 6;
    const unsigned i1 = vector / 2 % 3 * 16 + vector % 2 * 8;
    const unsigned short* const from = reinterpret_cast<const unsigned short*>(p_t6) + i0 * 33 + i1;
    fw_vector<unsigned short, 8> gathered = {};
#pragma unroll
    for (unsigned e = 0; e < 8; ++e) {
      if (i1 + e < 33) gathered.at[e] = from[e];
    }
    fw_store_vector(reinterpret_cast<unsigned short*>(p_t9) + i0 * 48 + i1, gathered);
  }
}

//@ program
// a zero outside an operand, times what is not finite, is no product: sums that are NaN once more, over elements inside
static __device__ __noinline__ void fw_sum_inside(float* sums, unsigned first_row, unsigned first_column, unsigned m0, unsigned n0, const fw_f16* p_t8, const fw_f16* p_t9) {
#pragma unroll 1
  for (unsigned i = 0; i < 32; ++i) {
    const unsigned row = first_row + i / 2 % 2 * 8, column = first_column + i / 4 % 8 * 8 + i % 2;
    float& sum = sums[i];
    if (sum == sum) continue;
    const unsigned line = row, piece = column;
    const unsigned m = m0 + line;
    const unsigned n = n0 + piece;
    if (!(m < 1995 && n < 48)) continue;
    float inside = 0.0f;
#pragma unroll 1
    for (unsigned k = 0; k < 576 && inside == inside; ++k) {
      asm volatile("" ::: "memory");  // keeps in the loop what does not change in it: NVRTC 13.0.88 crashes where it takes some conditions out
      float factors[2];
      {
        const unsigned img = m / 399;
        const unsigned p = m / 19 % 21;
        const unsigned q = m % 19;
        const unsigned r = k / 192;
        const unsigned s = k / 64 % 3;
        const unsigned ci = k % 64;
        const int h = int(p) + int(r) - 1;
        const int w = int(q) + int(s) - 1;
        if (!(m < 1995 && ci < 33 && h >= 0 && h < 21 && w >= 0 && w < 19)) continue;
        const unsigned o_t8 = img * 19152 + ci + h * 912 + w * 48;
        const float t8 = fw_value(p_t8[o_t8]);
        factors[0] = fw_to_f32(t8);
      }
      {
        const unsigned ko = n;
        const unsigned r = k / 192;
        const unsigned s = k / 64 % 3;
        const unsigned ci = k % 64;
        if (!(n < 48 && ci < 33)) continue;
        const unsigned o_t9 = ko * 432 + ci + r * 144 + s * 48;
        const float t9 = fw_value(p_t9[o_t9]);
        factors[1] = fw_to_f32(t9);
      }
      inside = fmaf(factors[0], factors[1], inside);
    }
    sum = inside;
  }
}
#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, " \
  "acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23, acc24, acc25, acc26, acc27, acc28, acc29, acc30, acc31"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_convolution_forward_2(const fw_f16* __restrict__ p_t8,
  const fw_f16* __restrict__ p_t9,
  const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2,
  const __grid_constant__ fw_tensor_map map3) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(32);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 131072, empty = full + 48;  // an mbarrier each for a stage
  const unsigned turn = empty + 48;  // and one for each consumer
  // boxes of A end before what is multiplied: a chunk of zeros in each row, which stays
#pragma unroll 1
  for (unsigned row = threadIdx.x; row < 384; row += blockDim.x) {
    const unsigned chunk = 0 + row / 64 * 16384 + row % 64 * 128 + 80;
    fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (chunk ^ (chunk >> 3 & 112))), fw_vector<unsigned, 4>{});
  }
  fw_fence_async();
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
    fw_tma_prefetch(&map2);
    fw_tma_prefetch(&map3);
#pragma unroll
    for (unsigned stage = 0; stage < 6; ++stage) {
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
    // one thread asks for the tiles of A and B, up to 6 ahead
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < 32u; unit += gridDim.x) {
        const unsigned m0 = (unit % 32u) * 64, n0 = (unit / 32u) * 64;
        // boxes end where C does
        const unsigned rows_inside = min(1995u - m0, 64u);
        const unsigned bytes_of_step = rows_inside * 80 + 4608;
        const unsigned img = m0 / 399;
        const unsigned p = m0 / 19 % 21;
        const unsigned q = m0 % 19;
        const unsigned ko = n0;
#pragma unroll 1
        for (int step = 0; step < 9; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, bytes_of_step);
          const unsigned tile = shared + stage * 16384;
          const unsigned r = step / 3;
          const unsigned s = step % 3;
          const unsigned ci = 0;
          // A: t8
          fw_tma_load_im2col(tile, rows_inside < 64 ? &map2 : &map0, full + 8 * stage, ci, int(q) - 1, int(p) - 1, img, s, r);
          // B: t9
          fw_tma_load(tile + 8192, &map1, full + 8 * stage, ci, ko, r, s);
          if (++stage == 6) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1;
    const unsigned boxes_at = shared + 98304 + (warp - 4) * 4096;  // of the warp, of C
    unsigned taken = 0;  // sets of boxes so far
    const unsigned skipped = consumer == 0 ? 0 : 9;  // the first tile is the other's
    unsigned stage = skipped % 6, parity = skipped / 6 & 1, turn_parity = consumer == 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x + consumer * gridDim.x; unit < 32u; unit += 2 * gridDim.x) {
      const unsigned m0 = (unit % 32u) * 64, n0 = (unit / 32u) * 64;
      fw_mbarrier_wait(turn + 8 * consumer, turn_parity);
      turn_parity ^= 1;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < 9; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 16384;
        const unsigned long long a = fw_matrix_descriptor<128>(tile, 16, 1024);
        const unsigned long long b = fw_matrix_descriptor<128>(tile + 8192, 16, 1024);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n64k16.f32.f16.f16", FW_ROWS_0, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n64k16.f32.f16.f16", FW_ROWS_0, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n64k16.f32.f16.f16", FW_ROWS_0, 4, 4, "1", ", 1, 1, 0, 0"));
        if (step == 8 && lane == 0) fw_mbarrier_arrive(turn + 8 * (consumer ^ 1));  // the other's products come next
        fw_wgmma_wait<1>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        multiplied = stage;
        if (++stage == 6) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
      stage += 9;  // the stages of the other's tile
      parity ^= stage / 6 & 1;
      stage %= 6;
      float told = 0.0f;  // finite unless some sum is not
      FW_TELL(told,
        FW_PAIR(0, 1) FW_PAIR(4, 5) FW_PAIR(8, 9) FW_PAIR(12, 13)
        FW_PAIR(16, 17) FW_PAIR(20, 21) FW_PAIR(24, 25) FW_PAIR(28, 29));
      if (!isfinite(told)) {
        alignas(16) float again[32];
        FW_KEEP(again,
          FW_TO(0, 0, 1, 2, 3) FW_TO(16, 4, 5, 6, 7) FW_TO(32, 8, 9, 10, 11) FW_TO(48, 12, 13, 14, 15)
          FW_TO(64, 16, 17, 18, 19) FW_TO(80, 20, 21, 22, 23) FW_TO(96, 24, 25, 26, 27) FW_TO(112, 28, 29, 30, 31));
        fw_sum_inside(again, warp % 4 * 16 + lane / 4, lane % 4 * 2, m0, n0, p_t8, p_t9);
        FW_KEEP(again,
          FW_FROM(0, 0, 1, 2, 3) FW_FROM(16, 4, 5, 6, 7) FW_FROM(32, 8, 9, 10, 11) FW_FROM(48, 12, 13, 14, 15)
          FW_FROM(64, 16, 17, 18, 19) FW_FROM(80, 20, 21, 22, 23) FW_FROM(96, 24, 25, 26, 27) FW_FROM(112, 28, 29, 30, 31));
      }

      // epilogue fusion: a warp takes 16 rows and 64 columns at a time, beside boxes of the tensors
      const unsigned warp_m0 = m0 + warp % 4 * 16;
      {
        const unsigned chunk_n0 = n0;
        const unsigned set = taken % 2;
        unsigned char* const box = shared_bytes + (boxes_at - shared) + set * 2048;
        if (lane == 0) fw_tma_store_wait_read<1>();  // what the set held before has left
        __syncwarp();
        {
          float sums[8][4];
          fw_take<0>(sums[0]); fw_take<4>(sums[1]);
          fw_take<8>(sums[2]); fw_take<12>(sums[3]);
          fw_take<16>(sums[4]); fw_take<20>(sums[5]);
          fw_take<24>(sums[6]); fw_take<28>(sums[7]);
          unsigned packed[8][2];  // pairs, as they lie in matrices of 8×8
#pragma unroll
          for (unsigned j = 0; j < 8; ++j) {
#pragma unroll
            for (unsigned half = 0; half < 2; ++half) {
              const unsigned line = lane / 4 + 8 * half, piece = j * 8 + lane % 4 * 2;
              const float acc[2] = {sums[j][2 * half], sums[j][2 * half + 1]};
              float w_t7_conv_fprop[2];
#pragma unroll
              for (int e = 0; e < 2; ++e) {
                const float t7_conv_fprop = acc[e];
                w_t7_conv_fprop[e] = t7_conv_fprop;
              }
              fw_store_vector(reinterpret_cast<unsigned*>(packed[j] + half), fw_pack_f16(w_t7_conv_fprop));
            }
          }
#pragma unroll
          for (unsigned j = 0; j < 8; j += 2) {
            fw_stmatrix_x4(boxes_at + set * 2048 + fw_boxed<128>(lane % 16, (j * 8 + lane / 16 * 8) * 2), packed[j][0], packed[j][1], packed[j + 1][0], packed[j + 1][1]);
          }
        }
        fw_fence_async();
        __syncwarp();
        if (lane == 0) {
          fw_tma_store(&map3, boxes_at + set * 2048, chunk_n0, warp_m0);
          fw_tma_store_commit();
        }
        ++taken;
      }
    }
    if (lane == 0) fw_tma_store_wait_read<0>();
  }
}
