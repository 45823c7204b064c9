// Windows over images in device memory (operations.md section 7). No template syntax.
// Images have three spatial axes z, y, x; an absent one has extent 1. The values of N neighbouring channels come at once.

//@ fw_plane: FW_INLINE fw_vector
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

//@ fw_pool: fw_plane
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

//@ fw_pool_mean: fw_pool
template <bool COUNTS_PADDING, typename Storage, typename Index, int N>
FW_INLINE void fw_pool_mean(fw_plane<Storage, Index> image, fw_pool<Index> pool, fw_point<Index> window, float (&mean)[N]) {
#pragma unroll
  for (int e = 0; e < N; ++e) mean[e] = 0.0f;
  pool.for_each_pixel(window, [&](fw_point<Index> pixel, int) {
    float values[N];
    image.load(pixel, values);
#pragma unroll
    for (int e = 0; e < N; ++e) mean[e] += values[e];
  });
  const float divisor = pool.template divisor<COUNTS_PADDING>(window);
#pragma unroll
  for (int e = 0; e < N; ++e) mean[e] = divisor == 0.0f ? 0.0f : mean[e] / divisor;
}

//@ fw_pool_max: fw_pool fw_infinity
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

//@ fw_pool_mean_bwd: fw_pool
template <bool COUNTS_PADDING, typename Storage, typename Index, int N>
FW_INLINE void fw_pool_mean_bwd(fw_plane<Storage, Index> dy, fw_pool<Index> pool, fw_point<Index> pixel, float (&dx)[N]) {
#pragma unroll
  for (int e = 0; e < N; ++e) dx[e] = 0.0f;
  pool.for_each_window(pixel, [&](fw_point<Index> window, int) {
    const float divisor = pool.template divisor<COUNTS_PADDING>(window);
    float gradient[N];
    dy.load(window, gradient);
#pragma unroll
    for (int e = 0; e < N; ++e) dx[e] += gradient[e] / divisor;
  });
}

//@ fw_pool_max_bwd: fw_pool fw_i64
// Gradients of the windows whose index is the pixel's place.
template <typename Storage, typename Place, typename Index, int N>
FW_INLINE void fw_pool_max_bwd(fw_plane<Storage, Index> dy, fw_plane<Place, Index> index, fw_pool<Index> pool, fw_point<Index> pixel, float (&dx)[N]) {
#pragma unroll
  for (int e = 0; e < N; ++e) dx[e] = 0.0f;
  pool.for_each_window(pixel, [&](fw_point<Index> window, int place) {
    float gradient[N];
    long long places[N];
    dy.load(window, gradient);
    index.load(window, places);
#pragma unroll
    for (int e = 0; e < N; ++e) dx[e] += places[e] == place ? gradient[e] : 0.0f;
  });
}

//@ fw_pool_max_bwd_of: fw_pool_max
// Gradients of the windows whose first maximum the pixel is.
template <typename Storage, typename Pixel, typename Index, int N>
FW_INLINE void fw_pool_max_bwd_of(fw_plane<Storage, Index> dy, fw_plane<Pixel, Index> image, fw_pool<Index> pool, fw_point<Index> pixel, float (&dx)[N]) {
#pragma unroll
  for (int e = 0; e < N; ++e) dx[e] = 0.0f;
  pool.for_each_window(pixel, [&](fw_point<Index> window, int place) {
    float gradient[N], best[N];
    int places[N];
    dy.load(window, gradient);
    fw_pool_max(image, pool, window, best, places);
#pragma unroll
    for (int e = 0; e < N; ++e) dx[e] += places[e] == place ? gradient[e] : 0.0f;
  });
}

//@ fw_interpolate: fw_plane
// One axis of a linear interpolation: sample o lies at pixel (o * scale - shift) / parts.
template <typename Index>
struct fw_sample_axis { Index pixels, scale, shift, parts; };
template <typename Index>
struct fw_samples { fw_sample_axis<Index> z, y, x; };
// Two pixels along an axis, clamped to the edges, and the weight of the second.
template <typename Index>
struct fw_neighbours { Index low, high; float weight; };
template <typename Index>
FW_INLINE fw_neighbours<Index> fw_neighbours_of(fw_sample_axis<Index> axis, Index sample) {
  const Index at = sample * axis.scale - axis.shift;
  const Index low = at < 0 ? -((axis.parts - 1 - at) / axis.parts) : at / axis.parts;
  const Index edge = axis.pixels - 1;
  const auto clamped = [&](Index pixel) { return pixel < 0 ? Index(0) : pixel > edge ? edge : pixel; };
  return {clamped(low), clamped(low + 1), float(at - low * axis.parts) / float(axis.parts)};
}
template <int N>
FW_INLINE void fw_blend(float (&low)[N], const float (&high)[N], float weight) {
#pragma unroll
  for (int e = 0; e < N; ++e) low[e] = (1.0f - weight) * low[e] + weight * high[e];
}
// Separable, innermost axis first; a neighbour of weight 0 is not read.
template <typename Storage, typename Index, int N>
FW_INLINE void fw_interpolate_row(fw_plane<Storage, Index> image, Index z, Index y, fw_neighbours<Index> x, float (&result)[N]) {
  image.load({z, y, x.low}, result);
  if (x.weight != 0.0f) {
    float high[N];
    image.load({z, y, x.high}, high);
    fw_blend(result, high, x.weight);
  }
}
template <typename Storage, typename Index, int N>
FW_INLINE void fw_interpolate_plane(fw_plane<Storage, Index> image, Index z, fw_neighbours<Index> y, fw_neighbours<Index> x, float (&result)[N]) {
  fw_interpolate_row(image, z, y.low, x, result);
  if (y.weight != 0.0f) {
    float high[N];
    fw_interpolate_row(image, z, y.high, x, high);
    fw_blend(result, high, y.weight);
  }
}
template <typename Storage, typename Index, int N>
FW_INLINE void fw_interpolate(fw_plane<Storage, Index> image, fw_samples<Index> samples, fw_point<Index> at, float (&result)[N]) {
  const auto z = fw_neighbours_of(samples.z, at.z), y = fw_neighbours_of(samples.y, at.y), x = fw_neighbours_of(samples.x, at.x);
  fw_interpolate_plane(image, z.low, y, x, result);
  if (z.weight != 0.0f) {
    float high[N];
    fw_interpolate_plane(image, z.high, y, x, high);
    fw_blend(result, high, z.weight);
  }
}
