// Rounds of totals: a warp's part goes to all blocks of its cluster, and each thread adds the parts up in order. Rounds take turns in shared memory.
extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(64)
cluster(const float* __restrict__ x, const float* __restrict__, float* __restrict__ y) {
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned rank = blockIdx.x % BLOCKS, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  fw_cluster_arrive();
  fw_cluster_wait();
  for (unsigned round = 0; round < ROUNDS; ++round) {
    float* const parts = shared + round % 2 * BLOCKS * 2;
    const unsigned at = (round * gridDim.x + blockIdx.x) * 64 + threadIdx.x;
    float part = x[at];
    for (unsigned distance = 16; distance > 0; distance /= 2) part += __shfl_xor_sync(0xffffffffu, part, distance);
    if (lane < BLOCKS) fw_store_to_block(parts + rank * 2 + warp, lane, part);
    fw_cluster_arrive();
    fw_cluster_wait();
    float total = 0.0f;
    for (unsigned other = 0; other < BLOCKS * 2; ++other) total = (other % 4 < 3 ? total : -total) + parts[other];
    y[at] = total + lane;
  }
}
