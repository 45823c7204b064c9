// c[m][n] = sum over k of a[m][k] * b[k][n]; 16-bit in and out, float accumulation; m, n and k are multiples of 8.
// Blocks of 128 threads compute 64 x 64 with a pipeline of three stages of 32 along k.
constexpr int TILE = 64, TILE_K = 32, STAGES = 3, THREADS = 128;
constexpr int A_PITCH = 80, B_PITCH = 144;  // bytes of a row in shared memory
constexpr int A_BYTES = TILE * A_PITCH, STAGE_BYTES = A_BYTES + TILE_K * B_PITCH;

__device__ __forceinline__ void load_stage(unsigned stage, const unsigned short* a, const unsigned short* b, int m0,
                                           int n0, int k0, int m, int n, int k) {
  for (int chunk = threadIdx.x; chunk < TILE * 4; chunk += THREADS) {
    const int row = chunk >> 2, column = (chunk & 3) * 8;
    const bool inside = m0 + row < m && k0 + column < k;
    fw_cp_async<16>(stage + row * A_PITCH + column * 2, a + (long long)(m0 + row) * k + k0 + column, inside);
  }
  for (int chunk = threadIdx.x; chunk < TILE_K * 8; chunk += THREADS) {
    const int row = chunk >> 3, column = (chunk & 7) * 8;
    const bool inside = k0 + row < k && n0 + column < n;
    fw_cp_async<16>(stage + A_BYTES + row * B_PITCH + column * 2, b + (long long)(k0 + row) * n + n0 + column, inside);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const unsigned short* __restrict__ a, const unsigned short* __restrict__ b, unsigned short* __restrict__ c, int m,
     int n, int k) {
  FW_SHARED(shared);
  const unsigned base = fw_shared_address(shared);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int warp_m = (warp & 1) * 32, warp_n = (warp >> 1) * 32;
  const int m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE, steps = (k + TILE_K - 1) / TILE_K;
  FW_ACCUMULATORS_float(32);
  FW_CLEAR(FW_ZERO(0) FW_ZERO(1) FW_ZERO(2) FW_ZERO(3) FW_ZERO(4) FW_ZERO(5) FW_ZERO(6) FW_ZERO(7)
           FW_ZERO(8) FW_ZERO(9) FW_ZERO(10) FW_ZERO(11) FW_ZERO(12) FW_ZERO(13) FW_ZERO(14) FW_ZERO(15)
           FW_ZERO(16) FW_ZERO(17) FW_ZERO(18) FW_ZERO(19) FW_ZERO(20) FW_ZERO(21) FW_ZERO(22) FW_ZERO(23)
           FW_ZERO(24) FW_ZERO(25) FW_ZERO(26) FW_ZERO(27) FW_ZERO(28) FW_ZERO(29) FW_ZERO(30) FW_ZERO(31))

  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < steps) load_stage(base + s * STAGE_BYTES, a, b, m0, n0, s * TILE_K, m, n, k);
    fw_cp_async_commit();
  }
  for (int step = 0; step < steps; ++step) {
    fw_cp_async_wait<STAGES - 2>();
    __syncthreads();
    const int next = step + STAGES - 1;
    if (next < steps) load_stage(base + next % STAGES * STAGE_BYTES, a, b, m0, n0, next * TILE_K, m, n, k);
    fw_cp_async_commit();
    const unsigned tile_a = base + step % STAGES * STAGE_BYTES, tile_b = tile_a + A_BYTES;
    for (int k16 = 0; k16 < TILE_K; k16 += 16) {
      unsigned fragment_a[2][4], fragment_b[2][4];
      const int row = lane & 15, column = (lane >> 4) * 8;
      for (int i = 0; i < 2; ++i)
        fw_ldmatrix_x4(fragment_a[i], tile_a + (warp_m + i * 16 + row) * A_PITCH + (k16 + column) * 2);
      for (int j = 0; j < 2; ++j)
        fw_ldmatrix_x4_trans(fragment_b[j], tile_b + (k16 + row) * B_PITCH + (warp_n + j * 16 + column) * 2);
      unsigned right[4][2];
      for (int j = 0; j < 4; ++j)
        for (int r = 0; r < 2; ++r) right[j][r] = fragment_b[j >> 1][(j & 1) * 2 + r];
      fw_mma_f16<0>(fragment_a[0], right[0]), fw_mma_f16<4>(fragment_a[0], right[1]);
      fw_mma_f16<8>(fragment_a[0], right[2]), fw_mma_f16<12>(fragment_a[0], right[3]);
      fw_mma_f16<16>(fragment_a[1], right[0]), fw_mma_f16<20>(fragment_a[1], right[1]);
      fw_mma_f16<24>(fragment_a[1], right[2]), fw_mma_f16<28>(fragment_a[1], right[3]);
    }
  }

  float acc[8][4];
  fw_take<0>(acc[0]), fw_take<4>(acc[1]), fw_take<8>(acc[2]), fw_take<12>(acc[3]);
  fw_take<16>(acc[4]), fw_take<20>(acc[5]), fw_take<24>(acc[6]), fw_take<28>(acc[7]);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int half = 0; half < 2; ++half) {
        const int row = m0 + warp_m + i * 16 + (lane >> 2) + half * 8, column = n0 + warp_n + j * 8 + (lane & 3) * 2;
        const unsigned pair = fw_pack_f16x2(acc[i * 4 + j][half * 2], acc[i * 4 + j][half * 2 + 1]);
        if (row < m && column < n) *reinterpret_cast<unsigned*>(c + (long long)row * n + column) = pair;
      }
}
