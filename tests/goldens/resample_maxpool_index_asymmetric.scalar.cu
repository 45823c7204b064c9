// fusewright 0.1.0, engine config: scalar threads=256
// t0 = input HALF [2, 24, 8, 9] stride [1728, 1, 216, 24]
// t1_resample, t2_resample = RESAMPLE(X=t0) MAXPOOL NEG_INF_PAD window=[3, 2] stride=[2, 3] pre_padding=[0, 2] post_padding=[2, 1] compute FLOAT -> output HALF [2, 24, 4, 4] stride [384, 1, 96, 24], output INT8 [2, 24, 4, 4] stride [384, 1, 96, 24]

#define FW_INLINE __device__ __forceinline__

#ifndef FW_EMULATOR
__device__ __forceinline__ unsigned short fw_f32_to_f16_bits(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ __forceinline__ float fw_f16_bits_to_f32(unsigned short bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ __forceinline__ unsigned fw_pack_f16x2(float lo, float hi) {
#if __CUDA_ARCH__ >= 800
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
#else
  return fw_f32_to_f16_bits(lo) | unsigned(fw_f32_to_f16_bits(hi)) << 16;
#endif
}
#endif

// Until the launch before this one has finished and its memory is visible. ptxas would move loads of read-only memory
// (`const __restrict__`) above that; it moves none above an exit, even if no launch takes it: grids have one layer.
#ifndef FW_EMULATOR
__device__ __forceinline__ void fw_wait_for_previous_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred never; .reg .u32 layers;\n"
      "griddepcontrol.wait;\n"
      "mov.u32 layers, %nctaid.z;\n"
      "setp.ne.u32 never, layers, 1;\n"
      "@never exit; }" ::: "memory");
#endif
}
#endif

FW_INLINE float fw_infinity() { return __uint_as_float(0x7f800000u); }

FW_INLINE int fw_value(int x) { return x; }
FW_INLINE int fw_to_i32(int x) { return x; }
FW_INLINE int fw_to_i32(long long x) { return x < -2147483647 - 1 ? -2147483647 - 1 : x > 2147483647 ? 2147483647 : int(x); }
FW_INLINE int fw_to_i32(float x) { return __float2int_rn(x); }  // saturates; NaN gives 0

FW_INLINE int fw_value(signed char x) { return x; }
FW_INLINE signed char fw_to_i8(int x) { return (signed char)(x < -128 ? -128 : x > 127 ? 127 : x); }
FW_INLINE signed char fw_to_i8(float x) { return fw_to_i8(fw_to_i32(x)); }

struct fw_f16 { unsigned short bits; };
FW_INLINE float fw_value(fw_f16 x) { return fw_f16_bits_to_f32(x.bits); }
FW_INLINE fw_f16 fw_to_f16(float x) { return {fw_f32_to_f16_bits(x)}; }
FW_INLINE fw_f16 fw_to_f16(int x) { return fw_to_f16(float(x)); }  // all that is inexact in float overflows here

// N consecutive elements, moved in accesses of up to 16 bytes.
template <typename Storage, int N>
struct alignas(sizeof(Storage) * N < 16 ? sizeof(Storage) * N : 16) fw_vector { Storage at[N]; };
template <typename Storage, typename Value, int N>
FW_INLINE void fw_load_vector(const Storage* from, Value (&values)[N]) {
  const fw_vector<Storage, N> raw = *reinterpret_cast<const fw_vector<Storage, N>*>(from);
#pragma unroll
  for (int e = 0; e < N; ++e) values[e] = fw_value(raw.at[e]);
}
template <typename Storage, int N>
FW_INLINE void fw_store_vector(Storage* to, const fw_vector<Storage, N>& raw) {
  *reinterpret_cast<fw_vector<Storage, N>*>(to) = raw;
}

template <int N>
FW_INLINE fw_vector<unsigned, N / 2> fw_pack_f16(const float (&values)[N]) {
  fw_vector<unsigned, N / 2> raw;
#pragma unroll
  for (int e = 0; e < N / 2; ++e) raw.at[e] = fw_pack_f16x2(values[2 * e], values[2 * e + 1]);
  return raw;
}

template <typename Index>
struct fw_point { Index z, y, x; };
// A plane of an image: its first pixel, and the elements from a pixel to the next along each axis.
template <typename Storage, typename Index>
struct fw_plane {
  const Storage* first;
  Index z, y, x;
  template <typename Value, int N>
  FW_INLINE void load(fw_point<Index> at, Value (&values)[N]) const {
    fw_load_vector(first + (at.z * z + at.y * y + at.x * x), values);
  }
};

// One axis of a pooling: window w starts at pixel w * stride - padding.
template <typename Index>
struct fw_pool_axis {
  Index pixels, windows, window, stride, padding;
  FW_INLINE Index start(Index w) const { return w * stride - padding; }
  // the positions of a window that are pixels, from the first to one past the last
  FW_INLINE Index begin(Index start) const { return padding > 0 && start < 0 ? -start : 0; }
  FW_INLINE Index end(Index start) const {
    const bool all = (windows - 1) * stride - padding + window <= pixels;
    return all || pixels - start > window ? window : pixels - start;
  }
  FW_INLINE unsigned count(Index w) const {
    const Index n = end(start(w)) - begin(start(w));
    return n > 0 ? unsigned(n) : 0u;
  }
  // the windows that hold a pixel
  FW_INLINE Index first(Index pixel) const {
    const Index at = pixel + padding;
    return at < window ? 0 : (at - window) / stride + 1;
  }
  FW_INLINE Index last(Index pixel) const {
    const Index at = pixel + padding;
    return at < 0 ? -1 : at / stride < windows ? at / stride : windows - 1;
  }
};
template <typename Index>
struct fw_pool {
  fw_pool_axis<Index> z, y, x;
  // Calls visit(pixel, place) for the pixels of a window in scan order; places count padded positions.
  template <typename Visit>
  FW_INLINE void for_each_pixel(fw_point<Index> w, Visit visit) const {
    const Index z0 = z.start(w.z), y0 = y.start(w.y), x0 = x.start(w.x);
    const Index z1 = z.end(z0), y1 = y.end(y0), x1 = x.end(x0);
#pragma unroll 1
    for (Index dz = z.begin(z0); dz < z1; ++dz) {
#pragma unroll 1
      for (Index dy = y.begin(y0); dy < y1; ++dy) {
#pragma unroll 2
        for (Index dx = x.begin(x0); dx < x1; ++dx)
          visit(fw_point<Index>{z0 + dz, y0 + dy, x0 + dx}, int((dz * y.window + dy) * x.window + dx));
      }
    }
  }
  // Calls visit(window, place) for the windows that hold a pixel, in order, with the pixel's place there.
  template <typename Visit>
  FW_INLINE void for_each_window(fw_point<Index> pixel, Visit visit) const {
    const Index z1 = z.last(pixel.z), y1 = y.last(pixel.y), x1 = x.last(pixel.x);
#pragma unroll 1
    for (Index wz = z.first(pixel.z); wz <= z1; ++wz) {
#pragma unroll 1
      for (Index wy = y.first(pixel.y); wy <= y1; ++wy) {
#pragma unroll 1
        for (Index wx = x.first(pixel.x); wx <= x1; ++wx) {
          const Index dz = pixel.z - z.start(wz), dy = pixel.y - y.start(wy), dx = pixel.x - x.start(wx);
          visit(fw_point<Index>{wz, wy, wx}, int((dz * y.window + dy) * x.window + dx));
        }
      }
    }
  }
  // What the sum over a window is divided by; 0 where nothing counts.
  template <bool COUNTS_PADDING>
  FW_INLINE float divisor(fw_point<Index> w) const {
    if (COUNTS_PADDING) return float(unsigned(z.window) * unsigned(y.window) * unsigned(x.window));
    return float(z.count(w.z) * y.count(w.y) * x.count(w.x));
  }
};

// The largest value and its place: the first of equal ones, the first NaN; minus infinity at place 0 without pixels.
template <typename Storage, typename Index, int N>
FW_INLINE void fw_pool_max(fw_plane<Storage, Index> image, fw_pool<Index> pool, fw_point<Index> window, float (&best)[N], int (&places)[N]) {
#pragma unroll
  for (int e = 0; e < N; ++e) best[e] = -fw_infinity(), places[e] = 0;
  pool.for_each_pixel(window, [&](fw_point<Index> pixel, int place) {
    float values[N];
    image.load(pixel, values);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const bool exceeds = !(values[e] <= best[e]) && best[e] == best[e];
      best[e] = exceeds ? values[e] : best[e];
      places[e] = exceeds ? place : places[e];
    }
  });
}

extern "C" __global__ void __launch_bounds__(256, 1)
fw_pointwise(const fw_f16* __restrict__ p_t0, fw_f16* __restrict__ p_t1_resample, signed char* __restrict__ p_t2_resample) {
  fw_wait_for_previous_launch();
  const unsigned vector = (unsigned)(blockIdx.x) * 256 + threadIdx.x;
  if (vector < 96) {
    const unsigned i0 = vector / 48;
    const unsigned i1 = vector / 12 % 4;
    const unsigned i2 = vector / 3 % 4;
    const unsigned i3 = vector % 3 * 8;
    const unsigned o_t1_resample = i0 * 384 + i1 * 96 + i2 * 24 + i3;
    const unsigned o_t2_resample = i0 * 384 + i1 * 96 + i2 * 24 + i3;
    const fw_pool<int> pool_t1_resample = {{1, 1, 1, 1, 0}, {8, 4, 3, 2, 0}, {9, 4, 2, 3, 2}};  // pixels, windows, window, stride, padding
    float v_t1_resample[8];
    int at_t1_resample[8];
    fw_pool_max(fw_plane<fw_f16, int>{p_t0 + (int(i0) * 1728 + int(i3)), 0, 216, 24}, pool_t1_resample, fw_point<int>{0, int(i1), int(i2)}, v_t1_resample, at_t1_resample);
    float w_t1_resample[8];
    fw_vector<signed char, 8> w_t2_resample;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float t1_resample = v_t1_resample[e];
      const int t2_resample = at_t1_resample[e];
      w_t1_resample[e] = t1_resample;
      w_t2_resample.at[e] = fw_to_i8(t2_resample);
    }
    fw_store_vector(reinterpret_cast<unsigned*>(p_t1_resample + o_t1_resample), fw_pack_f16(w_t1_resample));
    fw_store_vector(p_t2_resample + o_t2_resample, w_t2_resample);
  }
}
