// y[column][row] = x[row][column] by tiles of 32 x 32; blocks of 32 x 8 threads.
extern "C" __global__ void __launch_bounds__(256)
transpose(const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
  FW_SHARED(shared);
  float (*tile)[33] = reinterpret_cast<float (*)[33]>(shared);
  const int row0 = blockIdx.y * 32, column0 = blockIdx.x * 32;
  for (int i = threadIdx.y; i < 32; i += blockDim.y)
    if (row0 + i < rows && column0 + (int)threadIdx.x < columns)
      tile[i][threadIdx.x] = x[(row0 + i) * columns + column0 + threadIdx.x];
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += blockDim.y)
    if (column0 + i < columns && row0 + (int)threadIdx.x < rows)
      y[(column0 + i) * rows + row0 + threadIdx.x] = tile[threadIdx.x][i];
}
