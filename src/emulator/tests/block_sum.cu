// Sum of each block's elements: shuffles in each warp, then in the first. The last warp may be partial.
//
// A lane adds only lanes that exist: the value of any other is undefined.
__device__ __forceinline__ float warp_sum(float sum, int lanes) {
  const int lane = threadIdx.x & 31;
  for (int delta = 16; delta > 0; delta >>= 1) {
    const float other = __shfl_down_sync(0xffffffffu, sum, delta);
    if (lane + delta < lanes) sum += other;
  }
  return sum;
}

extern "C" __global__ void __launch_bounds__(256)
block_sum(const float* __restrict__ x, float* __restrict__ sums) {
  FW_SHARED(shared);
  float* partial = reinterpret_cast<float*>(shared);
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5, threads = blockDim.x;
  const int warps = (threads + 31) / 32, lanes = min(threads - warp * 32, 32);
  float sum = warp_sum(x[blockIdx.x * threads + thread], lanes);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = warp_sum(lane < warps ? partial[lane] : 0.0f, lanes);
    if (lane == 0) sums[blockIdx.x] = sum;
  }
}
