// fusewright 0.1.0, engine config: warpgroup_mma tile_m=128 tile_n=48 stages=4 schedule=cooperative tap_rows=1 tma_epilogue=1
// t0 = input HALF [2, 64, 7, 6] stride [2688, 1, 384, 64]
// t1 = input HALF [72, 64, 3, 3] stride [576, 1, 192, 64]
// t2_conv_fprop = CONV_FPROP(X=t0, W=t1) pre_padding=[1, 1] post_padding=[1, 1] stride=[1, 1] dilation=[1, 1] compute FLOAT -> output HALF [2, 72, 7, 6] stride [3024, 1, 432, 72]

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

//@ fw_set_registers

//@ fw_stmatrix

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_keep

//@ fw_f32

//@ fw_f16

//@ fw_vector

//@ fw_pack_f16

// a zero outside an operand, times what is not finite, is no product: sums that are NaN once more, over elements inside
static __device__ __noinline__ void fw_sum_inside(float* sums, unsigned first_row, unsigned first_column, unsigned m0, unsigned n0, const fw_f16* p_t0, const fw_f16* p_t1) {
#pragma unroll 1
  for (unsigned i = 0; i < 24; ++i) {
    const unsigned row = first_row + i / 2 % 2 * 8, column = first_column + i / 4 % 6 * 8 + i % 2;
    float& sum = sums[i];
    if (sum == sum) continue;
    const unsigned line = row, piece = column;
    const unsigned m = m0 + line;
    const unsigned n = n0 + piece;
    const unsigned q = m % 7;
    if (!(m < 98 && n < 72 && q < 6)) continue;
    float inside = 0.0f;
#pragma unroll 1
    for (unsigned k = 0; k < 576 && inside == inside; ++k) {
      asm volatile("" ::: "memory");  // keeps in the loop what does not change in it: NVRTC 13.0.88 crashes where it takes some conditions out
      float factors[2];
      {
        const unsigned img = m / 49;
        const unsigned p = m / 7 % 7;
        const unsigned q = m % 7;
        const unsigned r = k / 192;
        const unsigned ci = k / 3 % 64;
        const unsigned s = k % 3;
        const int h = int(p) + int(r) - 1;
        const int w = int(q) + int(s) - 1;
        if (!(m < 98 && h >= 0 && h < 7 && w >= 0 && w < 6)) continue;
        const unsigned o_t0 = img * 2688 + h * 384 + w * 64 + ci;
        const float t0 = fw_value(p_t0[o_t0]);
        factors[0] = fw_to_f32(t0);
      }
      {
        const unsigned ko = n;
        const unsigned r = k / 192;
        const unsigned ci = k / 3 % 64;
        const unsigned s = k % 3;
        if (!(n < 72)) continue;
        const unsigned o_t1 = ko * 576 + r * 192 + s * 64 + ci;
        const float t1 = fw_value(p_t1[o_t1]);
        factors[1] = fw_to_f32(t1);
      }
      inside = fmaf(factors[0], factors[1], inside);
    }
    sum = inside;
  }
}
#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15, " \
  "acc16, acc17, acc18, acc19, acc20, acc21, acc22, acc23"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_convolution_forward(const fw_f16* __restrict__ p_t0,
  const fw_f16* __restrict__ p_t1,
  fw_f16* __restrict__ p_t2_conv_fprop,
  const __grid_constant__ fw_tensor_map map0,
  const __grid_constant__ fw_tensor_map map1) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(24);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 159744, empty = full + 32;  // an mbarrier each for a stage
  if (threadIdx.x == 0) {
    fw_tma_prefetch(&map0);
    fw_tma_prefetch(&map1);
#pragma unroll
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
    // one thread asks for the tiles of A and B, up to 4 ahead
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < 2u; unit += gridDim.x) {
        const unsigned m0 = 0, n0 = unit * 48;
        const unsigned img = m0 / 49;
        const unsigned p = m0 / 7 % 7;
        const unsigned q = m0 % 7;
        const unsigned ko = n0;
#pragma unroll 1
        for (int step = 0; step < 3; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, 35072);
          const unsigned tile = shared + stage * 35840;
          const unsigned r = step;
          const unsigned ci = 0;
          // A: t0
          fw_tma_load_im2col(tile, &map0, full + 8 * stage, ci, int(q) - 1, int(p) - 1, img, 0, r);
          // B: t1
          fw_tma_load(tile + 17408, &map1, full + 8 * stage, ci, ko, r, 0);
          if (++stage == 4) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    fw_increase_registers<232>();
    const unsigned consumer = warp / 4 - 1;
    const unsigned boxes_at = shared + 143360 + (warp - 4) * 2048;  // of the warp, of C
    unsigned taken = 0;  // sets of boxes so far
    unsigned stage = 0, parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x; unit < 2u; unit += gridDim.x) {
      const unsigned m0 = 0, n0 = unit * 48;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < 3; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 35840;
        const unsigned long long a = fw_matrix_descriptor<128>(tile + consumer * 8192, 16, 1024);
        const unsigned long long b = fw_matrix_descriptor<128>(tile + 17408, 16, 1024);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 0, 0, "p", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 2, 2, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 4, 4, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 6, 6, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 8, 384, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 10, 386, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 12, 388, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 14, 390, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 16, 768, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 18, 770, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 20, 772, "1", ", 1, 1, 0, 0")
          FW_PRODUCT("m64n48k16.f32.f16.f16", FW_ROWS_0, 22, 774, "1", ", 1, 1, 0, 0"));
        fw_wgmma_wait<1>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        multiplied = stage;
        if (++stage == 4) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
      float told = 0.0f;  // finite unless some sum is not
      FW_TELL(told,
        FW_PAIR(0, 1) FW_PAIR(4, 5) FW_PAIR(8, 9) FW_PAIR(12, 13)
        FW_PAIR(16, 17) FW_PAIR(20, 21));
      if (!isfinite(told)) {
        alignas(16) float again[24];
        FW_KEEP(again,
          FW_TO(0, 0, 1, 2, 3) FW_TO(16, 4, 5, 6, 7) FW_TO(32, 8, 9, 10, 11) FW_TO(48, 12, 13, 14, 15)
          FW_TO(64, 16, 17, 18, 19) FW_TO(80, 20, 21, 22, 23));
        fw_sum_inside(again, consumer * 64 + warp % 4 * 16 + lane / 4, lane % 4 * 2, m0, n0, p_t0, p_t1);
        FW_KEEP(again,
          FW_FROM(0, 0, 1, 2, 3) FW_FROM(16, 4, 5, 6, 7) FW_FROM(32, 8, 9, 10, 11) FW_FROM(48, 12, 13, 14, 15)
          FW_FROM(64, 16, 17, 18, 19) FW_FROM(80, 20, 21, 22, 23));
      }

      // epilogue fusion: a warp takes 16 rows and 16 columns at a time, beside boxes of the tensors
      const unsigned warp_m0 = m0 + consumer * 64 + warp % 4 * 16;
#pragma unroll 1
      for (unsigned chunk = 0; chunk < 3; ++chunk, ++taken) {
        const unsigned chunk_n0 = n0 + chunk * 16;
        const unsigned part = chunk, set = taken % 2;
        unsigned char* const box = shared_bytes + (boxes_at - shared) + set * 1024;
        {
          float sums[2][4];
          switch (part) {
            case 0:
            fw_take<0>(sums[0]); fw_take<4>(sums[1]);
            break;
            case 1:
            fw_take<8>(sums[0]); fw_take<12>(sums[1]);
            break;
            case 2:
            fw_take<16>(sums[0]); fw_take<20>(sums[1]);
            break;
          }
          unsigned packed[2][2];  // pairs, as they lie in matrices of 8×8
#pragma unroll
          for (unsigned j = 0; j < 2; ++j) {
#pragma unroll
            for (unsigned half = 0; half < 2; ++half) {
              const unsigned line = lane / 4 + 8 * half, piece = j * 8 + lane % 4 * 2;
              const float acc[2] = {sums[j][2 * half], sums[j][2 * half + 1]};
              float w_t2_conv_fprop[2];
#pragma unroll
              for (int e = 0; e < 2; ++e) {
                const float t2_conv_fprop = acc[e];
                w_t2_conv_fprop[e] = t2_conv_fprop;
              }
              fw_store_vector(reinterpret_cast<unsigned*>(packed[j] + half), fw_pack_f16(w_t2_conv_fprop));
            }
          }
#pragma unroll
          for (unsigned j = 0; j < 2; j += 2) {
            fw_stmatrix_x4(boxes_at + set * 1024 + fw_boxed<32>(lane % 16, (j * 8 + lane / 16 * 8) * 2), packed[j][0], packed[j][1], packed[j + 1][0], packed[j + 1][1]);
          }
        }
        __syncwarp();
#pragma unroll
        for (unsigned pass = 0; pass < 1; ++pass) {
          const unsigned line = pass * 16 + lane / 2, byte = lane % 2 * 16;
          const unsigned row = warp_m0 + line, pixel_line = row / 7, position = row % 7;
          if (position < 6 && row < 98 && chunk_n0 * 2 + byte < 144) {
            fw_store_vector(reinterpret_cast<unsigned*>(reinterpret_cast<unsigned char*>(p_t2_conv_fprop) + ((unsigned long long)position * 144 + (unsigned long long)pixel_line * 864 + chunk_n0 * 2 + byte)), *reinterpret_cast<const fw_vector<unsigned, 4>*>(box + fw_boxed<32>(line, byte)));
          }
        }
        __syncwarp();  // the set has been read
      }
    }
  }
}
