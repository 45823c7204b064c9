// fusewright 0.1.0, engine config: warpgroup_mma tile_m=64 tile_n=32 stages=12 schedule=ping_pong
// t0 = input HALF [2, 70, 50] stride [3500, 50, 1]
// t1 = input FLOAT [1, 70, 1] stride [70, 1, 1]
// t3 = input INT8 [1, 50, 66] stride [3300, 66, 1]
// t7 = input HALF [1, 1, 66] stride [66, 66, 1]
// t2_mul = POINTWISE(IN_0=t0, IN_1=t1) MUL compute FLOAT -> virtual FLOAT [2, 70, 50] stride [3500, 50, 1]
// t4_identity = POINTWISE(IN_0=t3) IDENTITY compute FLOAT -> virtual HALF [1, 50, 66] stride [3300, 66, 1]
// t5_relu_fwd = POINTWISE(IN_0=t2_mul) RELU_FWD compute FLOAT -> virtual HALF [2, 70, 50] stride [3500, 50, 1]
// t6_matmul = MATMUL(A=t5_relu_fwd, B=t4_identity) compute FLOAT -> virtual FLOAT [2, 70, 66] stride [4620, 66, 1]
// t8_add = POINTWISE(IN_0=t6_matmul, IN_1=t7) ADD compute FLOAT -> output FLOAT [2, 70, 66] stride [4620, 66, 1]
// t9_gelu_fwd = POINTWISE(IN_0=t8_add) GELU_FWD compute FLOAT -> output HALF [2, 70, 66] stride [4620, 66, 1]

//@ FW_INLINE

//@ FW_SHARED

//@ fw_f16_bits

//@ fw_shared_address

//@ fw_swizzled

//@ fw_accumulators

//@ fw_put_rows

//@ fw_wait_for_previous_launch

//@ fw_mbarrier

//@ fw_fence_async

//@ fw_set_registers

//@ fw_matrix_descriptor

//@ fw_wgmma

//@ fw_f32

//@ fw_i32

//@ fw_i8

//@ fw_f16

//@ fw_f16x2

//@ fw_f16x2_of_i8

//@ fw_vector

//@ fw_pack_f16

//@ fw_add

//@ fw_mul

//@ fw_relu

//@ fw_gate

//@ fw_normal_cdf

//@ fw_gelu

#define FW_ROWS_0 "acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7, acc8, acc9, acc10, acc11, acc12, acc13, acc14, acc15"
extern "C" __global__ void __launch_bounds__(384, 1)
fw_matmul(const fw_f16* __restrict__ p_t0,
  const float* __restrict__ p_t1,
  const signed char* __restrict__ p_t3,
  const fw_f16* __restrict__ p_t7,
  float* __restrict__ p_t8_add,
  fw_f16* __restrict__ p_t9_gelu_fwd) {
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_float(16);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const unsigned full = shared + 167936, empty = full + 96;  // an mbarrier each for a stage
  const unsigned turn = empty + 96;  // and one for each consumer
  if (threadIdx.x == 0) {
#pragma unroll
    for (unsigned stage = 0; stage < 12; ++stage) {
      fw_mbarrier_init(full + 8 * stage, 4);
      fw_mbarrier_init(empty + 8 * stage, 4);  // warps that multiply what is in it
    }
    fw_mbarrier_init(turn, 4);
    fw_mbarrier_init(turn + 8, 4);
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<88>();
    const unsigned thread = threadIdx.x;
    unsigned stage = 0, parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x; unit < 12u; unit += gridDim.x) {
      const unsigned b = unit / 6u;
      const unsigned block = unit % 6u;
      // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
      const unsigned band = block / 6u, inside_band = block % 6u;
      const unsigned band_rows = min(2u, 2u - band * 2u);
      const unsigned block_m = band * 2u + inside_band % band_rows, block_n = inside_band / band_rows;
      const unsigned m0 = block_m * 64, n0 = block_n * 32;
      // mainloop fusion of A, t5_relu_fwd: 2 elements, zero outside
      const auto operand_a = [&](unsigned m, unsigned k) -> fw_vector<unsigned, 1> {
        if (!(m < 70 && k < 50)) return {};
        const unsigned o_t0 = b * 3500 + m * 50 + k;
        const unsigned o_t1 = m;
        float v_t0[2];
        fw_load_vector(p_t0 + o_t0, v_t0);
        const float t1 = fw_value(p_t1[o_t1]);
        float out[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float t0 = v_t0[e];
          const float t2_mul = fw_mul(t0, t1);
          const float t5_relu_fwd = fw_relu(t2_mul, 0.0f, __uint_as_float(0x7f800000u), 0.0f);
          out[e] = t5_relu_fwd;
        }
        return fw_pack_f16(out);
      };
      const auto fill_a = [&](unsigned tile, unsigned k0) {
#pragma unroll 1
        for (unsigned pass = 0; pass < 16; pass += 4) {
          fw_vector<unsigned, 1> pieces[4];
#pragma unroll
          for (unsigned u = 0; u < 4; ++u) {
            const unsigned i = (pass + u) * 128 + thread, row = i / 32, piece = i % 32;
            pieces[u] = operand_a(m0 + row, k0 + piece * 2);
          }
#pragma unroll
          for (unsigned u = 0; u < 4; ++u) {
            const unsigned i = (pass + u) * 128 + thread, row = i / 32, piece = i % 32;
            const unsigned at = tile + fw_swizzled<128>(row, piece * 4);
            *reinterpret_cast<fw_vector<unsigned, 1>*>(shared_bytes + (at - shared)) = pieces[u];
          }
        }
      };
      // mainloop fusion of B, t4_identity: 2 elements, zero outside
      const auto operand_b = [&](unsigned k, unsigned n) -> fw_vector<unsigned, 1> {
        if (!(n < 66 && k < 50)) return {};
        const unsigned o_t3 = k * 66 + n;
        const unsigned t3 = fw_f16x2_of_i8(*reinterpret_cast<const unsigned short*>(p_t3 + o_t3));
        const unsigned t4_identity = t3;
        return {t4_identity};
      };
      const auto fill_b = [&](unsigned tile, unsigned k0) {
#pragma unroll 1
        for (unsigned pass = 0; pass < 8; pass += 4) {
          fw_vector<unsigned, 1> pieces[4];
#pragma unroll
          for (unsigned u = 0; u < 4; ++u) {
            const unsigned i = (pass + u) * 128 + thread, row = i / 16, piece = i % 16;
            pieces[u] = operand_b(k0 + row, n0 + piece * 2);
          }
#pragma unroll
          for (unsigned u = 0; u < 4; ++u) {
            const unsigned i = (pass + u) * 128 + thread, row = i / 16, piece = i % 16;
            const unsigned at = tile + 8192 + fw_swizzled<64>(row, piece * 4);
            *reinterpret_cast<fw_vector<unsigned, 1>*>(shared_bytes + (at - shared)) = pieces[u];
          }
        }
      };
#pragma unroll 1
      for (int step = 0; step < 1; ++step) {
        fw_mbarrier_wait(empty + 8 * stage, parity ^ 1);
        const unsigned tile = shared + stage * 12288;
        const unsigned k0 = (unsigned)step * 64;
        fill_a(tile, k0);
        fill_b(tile, k0);
        fw_fence_async();
        __syncwarp();
        if (thread % 32 == 0) fw_mbarrier_arrive(full + 8 * stage);
        if (++stage == 12) stage = 0, parity ^= 1;
      }
    }
  } else {
    fw_increase_registers<208>();
    const unsigned consumer = warp / 4 - 1;
    float* const piece_c = reinterpret_cast<float*>(shared_bytes + 147456 + (warp - 4) * 2560);  // of 16 rows, 32 columns
    float* const lane_c = piece_c + lane / 4 * 40 + lane % 4 * 2;
    const unsigned skipped = consumer == 0 ? 0 : 1;  // the first tile is the other's
    unsigned stage = skipped % 12, parity = skipped / 12 & 1, turn_parity = consumer == 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x + consumer * gridDim.x; unit < 12u; unit += 2 * gridDim.x) {
      const unsigned b = unit / 6u;
      const unsigned block = unit % 6u;
      // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
      const unsigned band = block / 6u, inside_band = block % 6u;
      const unsigned band_rows = min(2u, 2u - band * 2u);
      const unsigned block_m = band * 2u + inside_band % band_rows, block_n = inside_band / band_rows;
      const unsigned m0 = block_m * 64, n0 = block_n * 32;
      fw_mbarrier_wait(turn + 8 * consumer, turn_parity);
      turn_parity ^= 1;
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < 1; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
        const unsigned tile = shared + stage * 12288;
        const unsigned long long a = fw_matrix_descriptor<128>(tile, 16, 1024);
        const unsigned long long b = fw_matrix_descriptor<64>(tile + 8192, 4096, 512);
        FW_PRODUCTS(a, b, step,
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 0, 0, "p", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 2, 64, "1", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 4, 128, "1", ", 1, 1, 0, 1")
          FW_PRODUCT("m64n32k16.f32.f16.f16", FW_ROWS_0, 6, 192, "1", ", 1, 1, 0, 1"));
        if (step == 0 && lane == 0) fw_mbarrier_arrive(turn + 8 * (consumer ^ 1));  // the other's products come next
        fw_wgmma_wait<1>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        multiplied = stage;
        if (++stage == 12) stage = 0, parity ^= 1;
      }
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
      stage += 1;  // the stages of the other's tile
      parity ^= stage / 12 & 1;
      stage %= 12;

      // a warp takes 16 rows and 32 columns at a time through its own piece of shared memory
      const unsigned warp_m0 = m0 + warp % 4 * 16;
      const unsigned chunk_n0 = n0;
      fw_put_rows<0, 40>(lane_c); fw_put_rows<4, 40>(lane_c + 8);
      fw_put_rows<8, 40>(lane_c + 16); fw_put_rows<12, 40>(lane_c + 24);
      __syncwarp();
#pragma unroll 2
      for (unsigned pass = 0; pass < 8; ++pass) {
        const unsigned i = pass * 32 + lane;
        const unsigned line = i / 16, piece = i % 16 * 2;
        const unsigned m = warp_m0 + line;
        const unsigned n = chunk_n0 + piece;
        if (m < 70 && n < 66) {
          const float* const tile_at = piece_c + line * 40 + piece;
          const unsigned o_t7 = n;
          const unsigned o_t8_add = b * 4620 + m * 66 + n;
          const unsigned o_t9_gelu_fwd = b * 4620 + m * 66 + n;
          float v_t7[2];
          fw_load_vector(p_t7 + o_t7, v_t7);
          float acc[2];
          fw_load_vector(tile_at, acc);
          fw_vector<float, 2> w_t8_add;
          float w_t9_gelu_fwd[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float t7 = v_t7[e];
            const float t6_matmul = acc[e];
            const float t8_add = fw_add(t6_matmul, t7);
            const float t9_gelu_fwd = fw_gelu(t8_add);
            w_t8_add.at[e] = fw_to_f32(t8_add);
            w_t9_gelu_fwd[e] = t9_gelu_fwd;
          }
          fw_store_vector(p_t8_add + o_t8_add, w_t8_add);
          fw_store_vector(reinterpret_cast<unsigned*>(p_t9_gelu_fwd + o_t9_gelu_fwd), fw_pack_f16(w_t9_gelu_fwd));
        }
      }
      __syncwarp();
    }
  }
}
