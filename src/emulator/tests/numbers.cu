// Conversions of every 16-bit value to float, and of given floats to 16 bits.
extern "C" __global__ void __launch_bounds__(256)
widen(unsigned* __restrict__ f16, unsigned* __restrict__ bf16) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  f16[i] = __float_as_uint(fw_f16_bits_to_f32((unsigned short)i));
  bf16[i] = __float_as_uint(fw_bf16_bits_to_f32((unsigned short)i));
}

extern "C" __global__ void __launch_bounds__(256)
narrow(const float* __restrict__ x, unsigned* __restrict__ pairs) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned lo = fw_pack_f16x2(x[i], 0.0f) & 0xffff, hi = fw_pack_bf16x2(0.0f, x[i]) & 0xffff0000;
  pairs[i] = lo | hi;
}
