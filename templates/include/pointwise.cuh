// Pointwise modes in float and int registers, some in double. No template syntax. Formulas: operations.md section 4, PW-R5 … PW-R8.

//@ fw_add: FW_INLINE
FW_INLINE float fw_add(float x, float b) { return x + b; }
FW_INLINE int fw_add(int x, int b) { return int(unsigned(x) + unsigned(b)); }

//@ fw_add_square: FW_INLINE
FW_INLINE float fw_add_square(float x, float b) { return fmaf(b, b, x); }
FW_INLINE int fw_add_square(int x, int b) { return int(unsigned(x) + unsigned(b) * unsigned(b)); }

//@ fw_sub: FW_INLINE
FW_INLINE float fw_sub(float x, float b) { return x - b; }
FW_INLINE int fw_sub(int x, int b) { return int(unsigned(x) - unsigned(b)); }

//@ fw_mul: FW_INLINE
FW_INLINE float fw_mul(float x, float b) { return x * b; }
FW_INLINE int fw_mul(int x, int b) { return int(unsigned(x) * unsigned(b)); }

//@ fw_div: FW_INLINE
FW_INLINE float fw_div(float x, float b) { return x / b; }
FW_INLINE int fw_div(int x, int b) {  // b = 0 is unspecified, never a trap; the smallest int by -1 wraps
  return b == 0 ? 0 : b == -1 ? int(0u - unsigned(x)) : x / b;
}

//@ fw_mod: FW_INLINE
FW_INLINE float fw_mod(float x, float b) { return fmodf(x, b); }
FW_INLINE int fw_mod(int x, int b) { return b == 0 || b == -1 ? 0 : x % b; }

//@ fw_pow: FW_INLINE
FW_INLINE float fw_pow(float x, float b) { return powf(x, b); }

//@ fw_atan2: FW_INLINE
FW_INLINE float fw_atan2(float x, float b) { return atan2f(x, b); }

//@ fw_max: FW_INLINE fw_max_nan
FW_INLINE float fw_max(float x, float b) { return fw_max_nan(x, b); }
FW_INLINE int fw_max(int x, int b) { return x > b ? x : b; }

//@ fw_min: FW_INLINE fw_min_nan
FW_INLINE float fw_min(float x, float b) { return fw_min_nan(x, b); }
FW_INLINE int fw_min(int x, int b) { return x < b ? x : b; }

//@ fw_max_skip_nan: FW_INLINE
FW_INLINE float fw_max_skip_nan(float x, float b) { return fmaxf(x, b); }
FW_INLINE int fw_max_skip_nan(int x, int b) { return x > b ? x : b; }

//@ fw_min_skip_nan: FW_INLINE
FW_INLINE float fw_min_skip_nan(float x, float b) { return fminf(x, b); }
FW_INLINE int fw_min_skip_nan(int x, int b) { return x < b ? x : b; }

//@ fw_abs: FW_INLINE
FW_INLINE float fw_abs(float x) { return fabsf(x); }
FW_INLINE int fw_abs(int x) { return x < 0 ? int(0u - unsigned(x)) : x; }

//@ fw_neg: FW_INLINE
FW_INLINE float fw_neg(float x) { return -x; }
FW_INLINE int fw_neg(int x) { return int(0u - unsigned(x)); }

//@ fw_ceil: FW_INLINE
FW_INLINE float fw_ceil(float x) { return ceilf(x); }
FW_INLINE int fw_ceil(int x) { return x; }

//@ fw_floor: FW_INLINE
FW_INLINE float fw_floor(float x) { return floorf(x); }
FW_INLINE int fw_floor(int x) { return x; }

//@ fw_sqrt: FW_INLINE
FW_INLINE float fw_sqrt(float x) { return sqrtf(x); }

//@ fw_rsqrt: FW_INLINE
FW_INLINE float fw_rsqrt(float x) { return rsqrtf(x); }

//@ fw_reciprocal: FW_INLINE
FW_INLINE float fw_reciprocal(float x) { return 1.0f / x; }

//@ fw_exp: FW_INLINE
FW_INLINE float fw_exp(float x) { return expf(x); }

//@ fw_log: FW_INLINE
FW_INLINE float fw_log(float x) { return logf(x); }

//@ fw_erf: FW_INLINE
FW_INLINE float fw_erf(float x) { return erff(x); }

//@ fw_sin: FW_INLINE
FW_INLINE float fw_sin(float x) { return sinf(x); }

//@ fw_cos: FW_INLINE
FW_INLINE float fw_cos(float x) { return cosf(x); }

//@ fw_tan: FW_INLINE
FW_INLINE float fw_tan(float x) { return tanf(x); }

//@ fw_tanh: FW_INLINE
FW_INLINE float fw_tanh(float x) { return tanhf(x); }

//@ fw_relu: FW_INLINE
FW_INLINE float fw_relu(float x, float lower, float upper, float slope) {
  if (x < lower) return slope == 0.0f ? lower : fmaf(slope, x - lower, lower);  // 0·∞ is not the clip
  return x > upper ? upper : x;  // NaN passes
}

//@ fw_relu_skip_nan: FW_INLINE fw_relu
FW_INLINE float fw_relu_skip_nan(float x, float lower, float upper, float slope) {
  return x != x ? lower : fw_relu(x, lower, upper, slope);
}

//@ fw_relu_bwd: FW_INLINE
FW_INLINE float fw_relu_bwd(float dy, float x, float lower, float upper, float slope) {
  return dy * (x <= lower ? slope : x >= upper ? 0.0f : x == x ? 1.0f : x);  // NaN stays NaN
}

//@ fw_relu_bwd_skip_nan: FW_INLINE fw_relu_bwd
FW_INLINE float fw_relu_bwd_skip_nan(float dy, float x, float lower, float upper, float slope) {
  return fw_relu_bwd(dy, x != x ? lower : x, lower, upper, slope);
}

//@ fw_logistic: FW_INLINE fw_fast_reciprocal
// sigmoid(x), sigmoid(-x) and their product, each to a few ulp: e^-|x| never overflows, and the divisor is in [1, 2].
struct fw_logistic_t { float up, down, slope; };
FW_INLINE fw_logistic_t fw_logistic(float x) {
  const float e = expf(-fabsf(x));
  const float large = fw_fast_reciprocal(1.0f + e);
  const float small = e * large;
  return {x < 0.0f ? small : large, x < 0.0f ? large : small, small * large};
}

//@ fw_gate: FW_INLINE
// x·s where s vanishes faster than x grows: the limit at infinity is a zero, not NaN.
FW_INLINE float fw_gate(float x, float s) { return s == 0.0f ? copysignf(0.0f, x) : x * s; }

//@ fw_logistic_base2: FW_INLINE fw_fast_exp2 fw_fast_reciprocal
// s = 1 / (1 + 2^-t) and s·(1 - s), which is accurate on either side: two special functions and a few operations. The
// error of t grows with |t|; what lies below 2^-126 is 0.
struct fw_logistic_base2_t { float up, slope; };
FW_INLINE fw_logistic_base2_t fw_logistic_base2(float t) {
  const float e = fw_fast_exp2(-t);
  const float s = fw_fast_reciprocal(1.0f + e);
  return {s, t < 0.0f ? fmaf(-s, s, s) : e * s * s};
}

//@ fw_clamp: FW_INLINE
// For factors of what has vanished beyond the bound.
FW_INLINE float fw_clamp(float x, float bound) { return fminf(fmaxf(x, -bound), bound); }

//@ fw_sigmoid: FW_INLINE fw_logistic
FW_INLINE float fw_sigmoid(float x) { return fw_logistic(x).up; }

//@ fw_sigmoid_bwd: FW_INLINE fw_logistic
FW_INLINE float fw_sigmoid_bwd(float dy, float x) { return dy * fw_logistic(x).slope; }

//@ fw_tanh_bwd: FW_INLINE fw_logistic
FW_INLINE float fw_tanh_bwd(float dy, float x) { return dy * (4.0f * fw_logistic(2.0f * x).slope); }

//@ fw_small_tanh: FW_INLINE
// tanh x for |x| < 0.625 by a series, fitted, 0.1 ulp beside its rounding.
FW_INLINE float fw_small_tanh(float x, float square) {
  return fmaf(x * square, fmaf(fmaf(fmaf(fmaf(-0.00570499f, square, 0.02063909f), square, -0.05373972f), square, 0.13331442f), square, -0.33333282f), x);
}

//@ fw_tanh_and_slope: FW_INLINE fw_small_tanh fw_fast_exp2 fw_fast_reciprocal
// tanh x, to 4 ulp, and 1 − tanh² x, to 4 + 3|x| ulp, both of e = exp(−2|x|): (1 − e) / (1 + e), but for small x, where e is near 1 and a series
// (fitted, 0.1 ulp beside its rounding) takes its place; and 4e / (1 + e)², which is accurate where tanh is near 1.
struct fw_tanh_t { float value, slope; };
FW_INLINE fw_tanh_t fw_tanh_and_slope(float x) {
  const float size = fabsf(x), square = x * x;
  const float e = fw_fast_exp2(-2.8853900817779268f * size);
  const float large = fw_fast_reciprocal(1.0f + e);
  return {size < 0.625f ? fw_small_tanh(x, square) : copysignf((1.0f - e) * large, x), 4.0f * e * large * large};
}

//@ fw_tanh_select: FW_INLINE fw_small_tanh fw_fast_exp2 fw_fast_reciprocal
// tanh x to 2.5 ulp, without a branch: the same series, and 1 − 2 / (1 + exp(2|x|)) beyond it.
FW_INLINE float fw_tanh_select(float x) {
  const float size = fabsf(x), square = x * x;
  const float large = fmaf(-2.0f, fw_fast_reciprocal(1.0f + fw_fast_exp2(2.8853900817779268f * size)), 1.0f);
  return size < 0.625f ? fw_small_tanh(x, square) : copysignf(large, x);
}

//@ fw_cap_scores: FW_INLINE fw_tanh_select
// b · tanh(a · x) of scores, to 4 ulp, where ab = a · b. Where no score of a warp is beyond its cap this is a series, x · ab · (1 + u · P(u)) of
// u = (a · x)² ≤ 1, a shorter one for u ≤ 0.1 (both fitted, 0.2 ulp beside their rounding); otherwise exponentials, one score after the other,
// so that they are few instructions. Numbers b / a are at least 2⁻¹²⁶.
template <int N>
FW_INLINE void fw_cap_scores(float (&x)[N], float a, float b, float ab) {
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < N; ++i) most = fmaxf(most, fabsf(x[i]));
  const float top = most * fabsf(a);
  const bool is_plain = fabsf(ab) < 1e30f;
  if (__any_sync(0xffffffffu, !(top <= 1.0f && is_plain))) {
    float scores[N];
#pragma unroll
    for (int i = 0; i < N; ++i) scores[i] = x[i];
#pragma unroll 1
    for (int i = 0; i < N; ++i) scores[i] = b * fw_tanh_select(a * scores[i]);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = scores[i];
  } else if (__any_sync(0xffffffffu, top > 0.3125f)) {
    const float c0 = ab * -0.33333296f, c1 = ab * 0.13332345f, c2 = ab * -0.0538798f, c3 = ab * 0.02148665f, c4 = ab * -0.0079460964f, c5 = ab * 0.0023013577f, c6 = ab * -0.00035845002f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float inside = a * x[i], u = inside * inside;
      x[i] *= fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(c6, u, c5), u, c4), u, c3), u, c2), u, c1), u, c0), u, ab);
    }
  } else {
    const float c0 = ab * -0.33332962f, c1 = ab * 0.13310651f, c2 = ab * -0.04998706f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float inside = a * x[i], u = inside * inside;
      x[i] *= fmaf(fmaf(fmaf(c2, u, c1), u, c0), u, ab);
    }
  }
}

//@ fw_elu: FW_INLINE
FW_INLINE float fw_elu(float x, float alpha) { return x < 0.0f ? alpha * expm1f(x) : x; }

//@ fw_elu_bwd: FW_INLINE
FW_INLINE float fw_elu_bwd(float dy, float x, float alpha) { return x < 0.0f ? dy * (alpha * expf(x)) : x != x ? x : dy; }

//@ fw_softplus: FW_INLINE
FW_INLINE float fw_softplus(float x, float beta) {
  const float z = beta * x;
  const float linear = z > 0.0f ? x : 0.0f;  // max(z, 0) / beta, also where z overflows
  return z != z ? z : linear + log1pf(expf(-fabsf(z))) / beta;
}

//@ fw_softplus_bwd: FW_INLINE fw_logistic_base2
FW_INLINE float fw_softplus_bwd(float dy, float x, float beta) {
  return dy * fw_logistic_base2(1.4426950408889634f * beta * x).up;
}

//@ fw_swish: FW_INLINE fw_logistic_base2 fw_gate
// log2(e) is folded into beta.
FW_INLINE float fw_swish(float x, float beta) { return fw_gate(x, fw_logistic_base2(1.4426950408889634f * beta * x).up); }

//@ fw_swish_bwd: FW_INLINE fw_logistic_base2 fw_clamp
FW_INLINE float fw_swish_bwd(float dy, float x, float beta) {
  const fw_logistic_base2_t s = fw_logistic_base2(1.4426950408889634f * beta * x);
  return dy * fmaf(fw_clamp(beta * x, 128.0f), s.slope, s.up);
}

//@ fw_normal_cdf: FW_INLINE
FW_INLINE float fw_normal_cdf(float x) { return 0.5f * erfcf(-0.70710678118654752f * x); }

//@ fw_gelu: FW_INLINE fw_normal_cdf fw_gate
FW_INLINE float fw_gelu(float x) { return fw_gate(x, fw_normal_cdf(x)); }

//@ fw_gelu_bwd: FW_INLINE fw_normal_cdf fw_gate
FW_INLINE float fw_gelu_bwd(float dy, float x) {
  const float density = 0.39894228040143268f * expf(-0.5f * x * x);
  return dy * (fw_normal_cdf(x) + fw_gate(x, density));
}

//@ fw_gelu_approx_tanh: FW_INLINE fw_logistic_base2
// 0.5·x·(1 + tanh u) = x·sigmoid(2u): no cancellation for negative x. The factors hold log2(e); at -∞ a finite x
// makes the product with the vanished sigmoid a zero.
FW_INLINE float fw_gelu_approx_tanh(float x) {
  const float t = x * fmaf(0.10294323958f, x * x, 2.3022081987f);
  return fmaxf(x, -3.402823466e38f) * fw_logistic_base2(t).up;
}

//@ fw_gelu_approx_tanh_bwd: FW_INLINE fw_logistic_base2 fw_clamp
FW_INLINE float fw_gelu_approx_tanh_bwd(float dy, float x) {
  const fw_logistic_base2_t s = fw_logistic_base2(x * fmaf(0.10294323958f, x * x, 2.3022081987f));
  const float near = fw_clamp(x, 32.0f);
  const float steepness = near * fmaf(0.21406444882f, near * near, 1.5957691216f);
  return dy * fmaf(steepness, s.slope, s.up);
}

//@ fw_cmp_eq: FW_INLINE
FW_INLINE int fw_cmp_eq(float x, float b) { return x == b; }
FW_INLINE int fw_cmp_eq(int x, int b) { return x == b; }

//@ fw_cmp_neq: FW_INLINE
FW_INLINE int fw_cmp_neq(float x, float b) { return x != b; }
FW_INLINE int fw_cmp_neq(int x, int b) { return x != b; }

//@ fw_cmp_gt: FW_INLINE
FW_INLINE int fw_cmp_gt(float x, float b) { return x > b; }
FW_INLINE int fw_cmp_gt(int x, int b) { return x > b; }

//@ fw_cmp_ge: FW_INLINE
FW_INLINE int fw_cmp_ge(float x, float b) { return x >= b; }
FW_INLINE int fw_cmp_ge(int x, int b) { return x >= b; }

//@ fw_cmp_lt: FW_INLINE
FW_INLINE int fw_cmp_lt(float x, float b) { return x < b; }
FW_INLINE int fw_cmp_lt(int x, int b) { return x < b; }

//@ fw_cmp_le: FW_INLINE
FW_INLINE int fw_cmp_le(float x, float b) { return x <= b; }
FW_INLINE int fw_cmp_le(int x, int b) { return x <= b; }

//@ fw_logical_and: FW_INLINE
FW_INLINE int fw_logical_and(int x, int b) { return x != 0 && b != 0; }

//@ fw_logical_or: FW_INLINE
FW_INLINE int fw_logical_or(int x, int b) { return x != 0 || b != 0; }

//@ fw_logical_not: FW_INLINE
FW_INLINE int fw_logical_not(int x) { return x == 0; }

//@ fw_identity: FW_INLINE
FW_INLINE float fw_identity(float x) { return x; }
FW_INLINE int fw_identity(int x) { return x; }
FW_INLINE long long fw_identity(long long x) { return x; }

//@ fw_select: FW_INLINE
FW_INLINE float fw_select(int t, float x, float b) { return t ? x : b; }
FW_INLINE int fw_select(int t, int x, int b) { return t ? x : b; }

//@ fw_add_f64: FW_INLINE
FW_INLINE double fw_add_f64(double x, double b) { return x + b; }

//@ fw_sub_f64: FW_INLINE
FW_INLINE double fw_sub_f64(double x, double b) { return x - b; }

//@ fw_mul_f64: FW_INLINE
FW_INLINE double fw_mul_f64(double x, double b) { return x * b; }

//@ fw_div_f64: FW_INLINE
FW_INLINE double fw_div_f64(double x, double b) { return x / b; }

//@ fw_max_f64: FW_INLINE
FW_INLINE double fw_max_f64(double x, double b) { return x > b || x != x ? x : b; }  // NaN where either is

//@ fw_sqrt_f64: FW_INLINE
FW_INLINE double fw_sqrt_f64(double x) { return sqrt(x); }

//@ fw_reciprocal_f64: FW_INLINE
FW_INLINE double fw_reciprocal_f64(double x) { return 1.0 / x; }
