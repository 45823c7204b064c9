FW_MMA_FP8(fw_mma, "e4m3.e5m2")

// d[m][n] = sum over k of a[m][k] * b[n][k] for 16 rows, 8 columns and k up to 64, by one warp; rows of a and b are 16 words.
extern "C" __global__ void product(const unsigned* __restrict__ a, const unsigned* __restrict__ b, float* __restrict__ d) {
  FW_ACCUMULATORS_float(4);
  FW_CLEAR(FW_ZERO(0) FW_ZERO(1) FW_ZERO(2) FW_ZERO(3))
  const unsigned row = threadIdx.x / 4, word = threadIdx.x % 4;
  for (unsigned k = 0; k < 16; k += 8) {
    const unsigned *const top = a + row * 16 + k + word, *const column = b + row * 16 + k + word;
    const unsigned left[4] = {top[0], top[128], top[4], top[132]}, right[2] = {column[0], column[4]};
    fw_mma<0>(left, right);
  }
  float x[4];
  fw_take<0>(x);
  for (unsigned i = 0; i < 4; ++i) d[(row + i / 2 * 8) * 8 + word * 2 + i % 2] = x[i];
}
