// What the emulator's built-in functions give, thread by thread.
extern "C" __global__ void __launch_bounds__(32)
clear(unsigned* __restrict__ counters, float* __restrict__ sum) {
  if (threadIdx.x < 4) counters[threadIdx.x] = 0;
  if (threadIdx.x == 0) *sum = 0.0f;
}

// Each thread writes the line of the first of its expectations that does not hold, or 0.
#define EXPECT(condition) do { if (!(condition) && failed == 0) failed = __LINE__; } while (0)

extern "C" __global__ void __launch_bounds__(64)
intrinsics(int* __restrict__ out, unsigned* __restrict__ counters, float* __restrict__ sum) {
  const int thread = threadIdx.x, lane = thread & 31;
  const unsigned full = 0xffffffffu;
  int failed = 0;

  EXPECT(__shfl_sync(full, lane, 5) == 5);
  EXPECT(__shfl_sync(full, lane, 1, 8) == (lane & ~7) + 1);
  EXPECT(__shfl_up_sync(full, 2.5f * lane, 3) == 2.5f * (lane < 3 ? lane : lane - 3));
  EXPECT(__shfl_down_sync(full, (long long)lane << 33, 4) >> 33 == (lane < 28 ? lane + 4 : lane));
  EXPECT(__shfl_down_sync(full, lane, 2, 4) == ((lane & 3) < 2 ? lane + 2 : lane));
  EXPECT(__shfl_xor_sync(full, (double)lane, 31) == (double)(31 - lane));
  EXPECT(__shfl_xor_sync(full, (unsigned)lane, 4, 4) == (unsigned)(lane & 4 ? lane - 4 : lane));
  EXPECT(__ballot_sync(full, lane % 4 == 1) == 0x22222222u);
  EXPECT(__any_sync(full, lane == 31) && !__any_sync(full, 0));
  EXPECT(__all_sync(full, 1) && !__all_sync(full, lane != 7));
  if (lane < 16) EXPECT(__shfl_xor_sync(0x0000ffffu, lane, 1) == (lane ^ 1));
  else EXPECT(__ballot_sync(0xffff0000u, 1) == 0xffff0000u);
  __syncwarp();

  EXPECT(__popc(0xf0f0u) == 8 && __clz(1) == 31 && __clz(0) == 32 && __brev(1u) == 0x80000000u);
  EXPECT(__byte_perm(0x33221100u, 0x77665544u, 0x7531u) == 0x77553311u);
  EXPECT(__byte_perm(0x00008000u, 0u, 0x9919u) == 0xffff80ffu);
  EXPECT(__umulhi(0xffffffffu, 0xffffffffu) == 0xfffffffeu);
  EXPECT(__umul64hi(~0ull, ~0ull) == ~0ull - 1);
  EXPECT(__float2int_rn(2.5f) == 2 && __float2int_rn(-3.5f) == -4 && __float2int_rz(-3.5f) == -3);
  EXPECT(__float2int_rn(__uint_as_float(0x7fc00000u)) == 0);
  EXPECT(__float2int_rn(1e10f) == 0x7fffffff && __float2int_rn(-1e10f) == -0x7fffffff - 1);
  EXPECT(__float2uint_rn(-1.0f) == 0u && __float2uint_rn(1e10f) == 0xffffffffu);
  EXPECT(__float2ll_rn(1e30f) == 0x7fffffffffffffffll && __int2float_rn(16777217) == 16777216.0f);

  const float nan = __uint_as_float(0x7fc00000u), inf = __uint_as_float(0x7f800000u);
  EXPECT(isnan(nan) && !isnan(inf) && isinf(-inf) && !isinf(1.0f));
  EXPECT(fmaxf(nan, 1.0f) == 1.0f && max(nan, 1.0f) == 1.0f);
  EXPECT(isnan(fw_max_nan(nan, 1.0f)) && isnan(fw_max_nan(1.0f, nan)) && isnan(fw_min_nan(nan, -inf)));
  EXPECT(fw_max_nan(1.0f, 2.0f) == 2.0f && fw_min_nan(1.0f, 2.0f) == 1.0f);
  EXPECT(__float_as_uint(fw_max_nan(-0.0f, 0.0f)) == 0u && __float_as_uint(fw_max_nan(0.0f, -0.0f)) == 0u);
  EXPECT(__float_as_uint(fw_min_nan(-0.0f, 0.0f)) == 0x80000000u);
  EXPECT(__float_as_uint(fw_min_nan(0.0f, -0.0f)) == 0x80000000u);
  EXPECT(min(3, 4) == 3 && max(3u, 4u) == 4u && max(-1, 1u) == 0xffffffffu && min(-1ll, 1ll) == -1ll);

  const float a = 1.0f + 0x1p-12f;  // the square's last bit is lost without fusion
  volatile float square = a * a;
  EXPECT(fw_fma(a, a, -square) != 0.0f && __fmaf_rn(a, a, -square) == 0x1p-24f && a * a - square == 0.0f);
  EXPECT(expf(0.0f) == 1.0f && exp2f(10.0f) == 1024.0f && rsqrtf(4.0f) == 0.5f && rintf(0.5f) == 0.0f);
  EXPECT(copysignf(1.0f, -0.0f) == -1.0f && fmodf(5.5f, 2.0f) == 1.5f && erff(0.0f) == 0.0f);
  EXPECT(__fdividef(1.0f, 4.0f) == 0.25f && __logf(1.0f) == 0.0f && __expf(0.0f) == 1.0f);

  EXPECT(sizeof(float3) == 12 && alignof(float4) == 16 && sizeof(double4) == 32);
  EXPECT(alignof(uchar4) == 4 && alignof(ushort2) == 4);
  const int4 vector = make_int4(1, 2, 3, 4);
  EXPECT(vector.x + vector.w == 5 && make_uint2(1, 2).y == 2 && dim3(7).y == 1);
  EXPECT(warpSize == 32 && blockDim.x * blockDim.y == 64 && gridDim.y == 6 && gridDim.z == 1);

  atomicAdd(counters, 1u);
  atomicAdd(sum, 1.0f);
  const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  atomicMax(reinterpret_cast<int*>(counters) + 1, block);
  atomicAdd(reinterpret_cast<unsigned long long*>(counters + 2), 1ull << 32);
  out[(block * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x] = failed;
}
