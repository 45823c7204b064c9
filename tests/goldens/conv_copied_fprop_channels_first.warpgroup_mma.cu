// fusewright 0.1.0, engine config: warpgroup_mma tile_m=128 tile_n=16 stages=11 schedule=cooperative
// t0 = input HALF [2, 64, 9, 10] stride [5760, 90, 10, 1]
// t1 = input HALF [40, 64, 3, 3] stride [576, 9, 3, 1]
// t3 = copy HALF [2, 64, 9, 10] stride [5760, 1, 640, 64]
// t4 = copy HALF [40, 64, 3, 3] stride [576, 1, 192, 64]
// t2_conv_fprop = CONV_FPROP(X=t3, W=t4) pre_padding=[1, 1] post_padding=[1, 1] stride=[1, 1] dilation=[1, 1] compute FLOAT -> output HALF [2, 40, 9, 10] stride [3600, 90, 10, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_shared_address

//@ fw_accumulators

//@ fw_tell

//@ fw_put_columns

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

//@ fw_raw

//@ fw_store_words

//@ fw_pack_f16

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_transposed_copy(const fw_f16* __restrict__ p_t0, fw_f16* __restrict__ p_t3) {
  FW_SHARED(shared_bytes);
  fw_wait_for_previous_launch();
  const unsigned block = blockIdx.x;
  const unsigned i0 = block / 2;
  const unsigned first_along = 0;
  const unsigned first_across = block % 2 * 64;
  unsigned short* const tile = reinterpret_cast<unsigned short*>(shared_bytes);
  fw_raw<unsigned short, 2> brought[8] = {};
#pragma unroll
  for (unsigned step = 0; step < 8; ++step) {
    const unsigned number = threadIdx.x + step * 256;
    const unsigned along = number / 32;
    const unsigned across = number % 32 * 2;
    const unsigned i1 = first_along + along;
    const unsigned i2 = first_across + across;
    if (!(i2 < 90)) continue;
    brought[step] = *reinterpret_cast<const fw_raw<unsigned short, 2>*>(reinterpret_cast<const unsigned short*>(p_t0) + (i0 * 5760 + i1 * 90 + i2));
  }
#pragma unroll
  for (unsigned step = 0; step < 8; ++step) {
    const unsigned number = threadIdx.x + step * 256;
    const unsigned along = number / 32;
    const unsigned across = number % 32 * 2;
    fw_store_words(tile + along * 66 + across, brought[step]);
  }
  __syncthreads();
#pragma unroll
  for (unsigned step = 0; step < 2; ++step) {
    const unsigned number = threadIdx.x + step * 256;
    const unsigned along = number % 8 * 8;
    const unsigned across = number / 8;
    const unsigned i1 = first_along + along;
    const unsigned i2 = first_across + across;
    if (!(i2 < 90)) continue;
    fw_vector<unsigned short, 8> gathered;
#pragma unroll
    for (unsigned e = 0; e < 8; ++e) gathered.at[e] = tile[(along + e) * 66 + across];
    fw_store_vector(reinterpret_cast<unsigned short*>(p_t3) + (i0 * 5760 + i1 + i2 * 64), gathered);
  }
}

//@ program
extern "C" __global__ void __launch_bounds__(256)
fw_copy_1(const fw_f16* __restrict__ p_t1, fw_f16* __restrict__ p_t4) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 256 + threadIdx.x;
  if (vector < 2880) {
    const unsigned i0 = vector / 72;
    const unsigned i1 = vector / 18 % 4 * 16 + vector % 2 * 8;
    const unsigned i2 = vector / 2 % 9;
    const unsigned short* const from = reinterpret_cast<const unsigned short*>(p_t1) + i0 * 576 + i1 * 9 + i2;
    fw_vector<unsigned short, 8> gathered = {};
#pragma unroll
    for (unsigned e = 0; e < 8; ++e) {
      gathered.at[e] = from[e * 9];
    }
    fw_store_vector(reinterpret_cast<unsigned short*>(p_t4) + i0 * 576 + i1 + i2 * 64, gathered);
  }
}

//@ program
// a zero outside an operand, times what is not finite, is no product: sums that are NaN once more, over elements inside
static __device__ __noinline__ void fw_sum_inside(float* sums, unsigned first_row, unsigned first_column, unsigned m0, unsigned n0, const fw_f16* p_t3, const fw_f16* p_t4) {
#pragma unroll 1
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned row = first_row + i / 2 % 2 * 8, column = first_column + i / 4 % 2 * 8 + i % 2;
    float& sum = sums[i];
    if (sum == sum) continue;
    const unsigned line = column, piece = row;
    const unsigned m = m0 + piece;
    const unsigned n = n0 + line;
    if (!(m < 180 && n < 40)) continue;
    float inside = 0.0f;
#pragma unroll 1
    for (unsigned k = 0; k < 576 && inside == inside; ++k) {
      asm volatile("" ::: "memory");  // keeps in the loop what does not change in it: NVRTC 13.0.88 crashes where it takes some conditions out
      float factors[2];
      {
        const unsigned img = m / 90;
        const unsigned p = m / 10 % 9;
        const unsigned q = m % 10;
        const unsigned r = k / 192;
        const unsigned s = k / 64 % 3;
        const unsigned ci = k % 64;
        const int h = int(p) + int(r) - 1;
        const int w = int(q) + int(s) - 1;
        if (!(m < 180 && h >= 0 && h < 9 && w >= 0 && w < 10)) continue;
        const unsigned o_t3 = img * 5760 + ci + h * 640 + w * 64;
        const float t3 = fw_value(p_t3[o_t3]);
        factors[0] = fw_to_f32(t3);
      }
      {
        const unsigned ko = n;
        const unsigned r = k / 192;
        const unsigned s = k / 64 % 3;
        const unsigned ci = k % 64;
        if (!(n < 40)) continue;
        const unsigned o_t4 = ko * 576 + ci + r * 192 + s * 64;
        const float t4 = fw_value(p_t4[o_t4]);
        factors[1] = fw_to_f32(t4);
      }
      inside = fmaf(factors[0], factors[1], inside);
    }
    sum = inside;
  }
}
#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_convolution_forward_2(const fw_f16* __restrict__ p_t3,
  const fw_f16* __restrict__ p_t4,
  fw_f16* __restrict__ p_t2_conv_fprop,
  const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1,
  const __grid_constant__ fw_tensor_map map2,
  const __grid_constant__ fw_tensor_map map3) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(8);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 212992, empty = full + 88;  // an mbarrier each for a stage
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
    fw_tma_prefetch(&map2);
    fw_tma_prefetch(&map3);
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
      for (unsigned unit = blockIdx.x; unit < 6u; unit += gridDim.x) {
        // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
        const unsigned block = unit;
        const unsigned band = block / 6u, inside_band = block % 6u;
        const unsigned band_rows = min(2u, 2u - band * 2u);
        const unsigned block_m = band * 2u + inside_band % band_rows, block_n = inside_band / band_rows;
        const unsigned m0 = block_m * 128, n0 = block_n * 16;
        // boxes end where C does
        const unsigned rows_inside = min(180u - m0, 128u);
        const unsigned columns_inside = min(40u - n0, 16u);
        const unsigned bytes_of_step = rows_inside * 128 + columns_inside * 128;
        const unsigned img = m0 / 90;
        const unsigned p = m0 / 10 % 9;
        const unsigned q = m0 % 10;
#pragma unroll 1
        for (int step = 0; step < 9; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, bytes_of_step);
          const unsigned tile = shared + stage * 18432;
          const unsigned k0 = (unsigned)step * 64;
          const unsigned r = step / 3;
          const unsigned s = step % 3;
          const unsigned ci = 0;
          // A: t3
          fw_tma_load_im2col(tile, rows_inside < 128 ? &map2 : &map0, full + 8 * stage, ci, int(q) - 1, int(p) - 1, img, s, r);
          // B: t4
          fw_tma_load(tile + 16384, columns_inside < 16 ? &map3 : &map1, full + 8 * stage, k0, n0);
          if (++stage == 11) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1;
    float* const piece_c = reinterpret_cast<float*>(shared_bytes + 202752 + (warp - 4) * 1280);  // of 16 rows, 16 columns
    float* const lane_c = piece_c + lane % 4 * 40 + lane / 4;
    unsigned stage = 0, parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x; unit < 6u; unit += gridDim.x) {
      // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
      const unsigned block = unit;
      const unsigned band = block / 6u, inside_band = block % 6u;
      const unsigned band_rows = min(2u, 2u - band * 2u);
      const unsigned block_m = band * 2u + inside_band % band_rows, block_n = inside_band / band_rows;
      const unsigned m0 = block_m * 128, n0 = block_n * 16;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < 9; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 18432;
        const unsigned long long a = fw_matrix_descriptor<128>(tile + consumer * 8192, 16, 1024);
        const unsigned long long b = fw_matrix_descriptor<128>(tile + 16384, 16, 1024);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n16k16.f32.f16.f16", FW_ROWS_0, 6, 6, "1", ", 1, 1, 0, 0"));
        fw_wgmma_wait<1>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        multiplied = stage;
        if (++stage == 11) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
      float told = 0.0f;  // finite unless some sum is not
      FW_TELL(told,
        FW_PAIR(0, 1) FW_PAIR(4, 5));
      if (!isfinite(told)) {
        alignas(16) float again[8];
        FW_KEEP(again,
          FW_TO(0, 0, 1, 2, 3) FW_TO(16, 4, 5, 6, 7));
        fw_sum_inside(again, consumer * 64 + warp % 4 * 16 + lane / 4, lane % 4 * 2, m0, n0, p_t3, p_t4);
        FW_KEEP(again,
          FW_FROM(0, 0, 1, 2, 3) FW_FROM(16, 4, 5, 6, 7));
      }

      // a warp takes 16 rows and 16 columns at a time through its own piece of shared memory
      const unsigned warp_m0 = m0 + consumer * 64 + warp % 4 * 16;
      const unsigned chunk_n0 = n0;
      fw_put_columns<0, 20>(lane_c); fw_put_columns<4, 20>(lane_c + 160);
      __syncwarp();
#pragma unroll 2
      for (unsigned pass = 0; pass < 4; ++pass) {
        const unsigned i = pass * 32 + lane;
        const unsigned line = i / 8, piece = i % 8 * 2;
        const unsigned m = warp_m0 + piece;
        const unsigned n = chunk_n0 + line;
        if (m < 180 && n < 40) {
          const unsigned img = m / 90;
          const unsigned p = m / 10 % 9;
          const unsigned q = m % 10;
          const unsigned ko = n;
          const float* const tile_at = piece_c + line * 20 + piece;
          const unsigned o_t2_conv_fprop = ko * 90 + img * 3600 + p * 10 + q;
          float acc[2];
          fw_load_vector(tile_at, acc);
          float w_t2_conv_fprop[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float t2_conv_fprop = acc[e];
            w_t2_conv_fprop[e] = t2_conv_fprop;
          }
          fw_store_vector(reinterpret_cast<unsigned*>(p_t2_conv_fprop + o_t2_conv_fprop), fw_pack_f16(w_t2_conv_fprop));
        }
      }
      __syncwarp();
    }
  }
}
