// fusewright 0.1.0, engine config: scalar threads=256
// t0 = input FLOAT [1, 40, 1, 1] stride [40, 1, 1, 1]
// t2 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t3 = scalar INT64 [1, 1, 1, 1] stride [1, 1, 1, 1]
// t4 = input FLOAT [1, 40, 1, 1] stride [40, 1, 40, 40]
// t5 = input FLOAT [1, 40, 1, 1] stride [40, 1, 40, 40]
// t6 = input FLOAT [1, 40, 1, 1] stride [40, 1, 40, 40]
// t7 = input FLOAT [1, 40, 1, 1] stride [40, 1, 40, 40]
// t8 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t19 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t21 = scalar FLOAT [1, 1, 1, 1] stride [1, 1, 1, 1]
// t1_mul = POINTWISE(IN_0=t0, IN_1=t0) MUL compute FLOAT -> virtual FLOAT [1, 40, 1, 1] stride [40, 1, 1, 1]
// t15_div = POINTWISE(IN_0=t0, IN_1=t3) DIV compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t16_div = POINTWISE(IN_0=t1_mul, IN_1=t3) DIV compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t17_mul = POINTWISE(IN_0=t15_div, IN_1=t15_div) MUL compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t18_sub = POINTWISE(IN_0=t16_div, IN_1=t17_mul) SUB compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t20_max = POINTWISE(IN_0=t18_sub, IN_1=t19) MAX compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t22_sub = POINTWISE(IN_0=t3, IN_1=t21) SUB compute DOUBLE -> virtual DOUBLE [1, 1, 1, 1] stride [1, 1, 1, 1]
// t23_max = POINTWISE(IN_0=t22_sub, IN_1=t21) MAX compute DOUBLE -> virtual DOUBLE [1, 1, 1, 1] stride [1, 1, 1, 1]
// t24_div = POINTWISE(IN_0=t3, IN_1=t23_max) DIV compute DOUBLE -> virtual DOUBLE [1, 1, 1, 1] stride [1, 1, 1, 1]
// t25_mul = POINTWISE(IN_0=t20_max, IN_1=t24_div) MUL compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t26_sub = POINTWISE(IN_0=t15_div, IN_1=t6) SUB compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t27_mul = POINTWISE(IN_0=t26_sub, IN_1=t8) MUL compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t28_add = POINTWISE(IN_0=t6, IN_1=t27_mul) ADD compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t13_identity = POINTWISE(IN_0=t28_add) IDENTITY compute FLOAT -> output FLOAT [1, 40, 1, 1] stride [40, 1, 40, 40]
// t29_sub = POINTWISE(IN_0=t25_mul, IN_1=t7) SUB compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t30_mul = POINTWISE(IN_0=t29_sub, IN_1=t8) MUL compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t31_add = POINTWISE(IN_0=t7, IN_1=t30_mul) ADD compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t14_identity = POINTWISE(IN_0=t31_add) IDENTITY compute FLOAT -> output FLOAT [1, 40, 1, 1] stride [40, 1, 40, 40]
// t32_add = POINTWISE(IN_0=t20_max, IN_1=t2) ADD compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t33_sqrt = POINTWISE(IN_0=t32_add) SQRT compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t34_reciprocal = POINTWISE(IN_0=t33_sqrt) RECIPROCAL compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t11_identity = POINTWISE(IN_0=t15_div) IDENTITY compute FLOAT -> output FLOAT [1, 40, 1, 1] stride [40, 1, 40, 40]
// t12_identity = POINTWISE(IN_0=t34_reciprocal) IDENTITY compute FLOAT -> output FLOAT [1, 40, 1, 1] stride [40, 1, 40, 40]
// t35_mul = POINTWISE(IN_0=t4, IN_1=t34_reciprocal) MUL compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t9_identity = POINTWISE(IN_0=t35_mul) IDENTITY compute FLOAT -> output FLOAT [1, 40, 1, 1] stride [40, 1, 40, 40]
// t36_mul = POINTWISE(IN_0=t15_div, IN_1=t35_mul) MUL compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t37_sub = POINTWISE(IN_0=t5, IN_1=t36_mul) SUB compute DOUBLE -> virtual DOUBLE [1, 40, 1, 1] stride [40, 1, 1, 1]
// t10_identity = POINTWISE(IN_0=t37_sub) IDENTITY compute FLOAT -> output FLOAT [1, 40, 1, 1] stride [40, 1, 40, 40]

//@ FW_INLINE

//@ fw_wait_for_previous_launch

//@ fw_f32

//@ fw_f64

//@ fw_mul

//@ fw_identity

//@ fw_add_f64

//@ fw_sub_f64

//@ fw_mul_f64

//@ fw_div_f64

//@ fw_max_f64

//@ fw_sqrt_f64

//@ fw_reciprocal_f64

extern "C" __global__ void __launch_bounds__(32)
fw_pointwise(const float* __restrict__ p_t0,
  const long long t3,
  const float t19,
  const float t21,
  const float* __restrict__ p_t6,
  const float t8,
  const float* __restrict__ p_t7,
  const float t2,
  const float* __restrict__ p_t4,
  const float* __restrict__ p_t5,
  float* __restrict__ p_t13_identity,
  float* __restrict__ p_t14_identity,
  float* __restrict__ p_t11_identity,
  float* __restrict__ p_t12_identity,
  float* __restrict__ p_t9_identity,
  float* __restrict__ p_t10_identity) {
  fw_wait_for_previous_launch();
  const unsigned vector = blockIdx.x * 32 + threadIdx.x;
  if (vector < 40) {
    const unsigned i0 = vector;
    const unsigned o_t0 = i0;
    const unsigned o_t4 = i0;
    const unsigned o_t5 = i0;
    const unsigned o_t6 = i0;
    const unsigned o_t7 = i0;
    const unsigned o_t9_identity = i0;
    const unsigned o_t10_identity = i0;
    const unsigned o_t11_identity = i0;
    const unsigned o_t12_identity = i0;
    const unsigned o_t13_identity = i0;
    const unsigned o_t14_identity = i0;
    const float t0 = fw_value(p_t0[o_t0]);
    const float t6 = fw_value(p_t6[o_t6]);
    const float t7 = fw_value(p_t7[o_t7]);
    const float t4 = fw_value(p_t4[o_t4]);
    const float t5 = fw_value(p_t5[o_t5]);
    const float t1_mul = fw_mul(t0, t0);
    const double t15_div = fw_div_f64(fw_to_f64(t0), fw_to_f64(t3));
    const double t16_div = fw_div_f64(fw_to_f64(t1_mul), fw_to_f64(t3));
    const double t17_mul = fw_mul_f64(t15_div, t15_div);
    const double t18_sub = fw_sub_f64(t16_div, t17_mul);
    const double t20_max = fw_max_f64(t18_sub, fw_to_f64(t19));
    const double t22_sub = fw_sub_f64(fw_to_f64(t3), fw_to_f64(t21));
    const double t23_max = fw_max_f64(t22_sub, fw_to_f64(t21));
    const double t24_div = fw_div_f64(fw_to_f64(t3), t23_max);
    const double t25_mul = fw_mul_f64(t20_max, t24_div);
    const double t26_sub = fw_sub_f64(t15_div, fw_to_f64(t6));
    const double t27_mul = fw_mul_f64(t26_sub, fw_to_f64(t8));
    const double t28_add = fw_add_f64(fw_to_f64(t6), t27_mul);
    const float t13_identity = fw_identity(fw_to_f32(t28_add));
    const double t29_sub = fw_sub_f64(t25_mul, fw_to_f64(t7));
    const double t30_mul = fw_mul_f64(t29_sub, fw_to_f64(t8));
    const double t31_add = fw_add_f64(fw_to_f64(t7), t30_mul);
    const float t14_identity = fw_identity(fw_to_f32(t31_add));
    const double t32_add = fw_add_f64(t20_max, fw_to_f64(t2));
    const double t33_sqrt = fw_sqrt_f64(t32_add);
    const double t34_reciprocal = fw_reciprocal_f64(t33_sqrt);
    const float t11_identity = fw_identity(fw_to_f32(t15_div));
    const float t12_identity = fw_identity(fw_to_f32(t34_reciprocal));
    const double t35_mul = fw_mul_f64(fw_to_f64(t4), t34_reciprocal);
    const float t9_identity = fw_identity(fw_to_f32(t35_mul));
    const double t36_mul = fw_mul_f64(t15_div, t35_mul);
    const double t37_sub = fw_sub_f64(fw_to_f64(t5), t36_mul);
    const float t10_identity = fw_identity(fw_to_f32(t37_sub));
    p_t13_identity[o_t13_identity] = fw_to_f32(t13_identity);
    p_t14_identity[o_t14_identity] = fw_to_f32(t14_identity);
    p_t11_identity[o_t11_identity] = fw_to_f32(t11_identity);
    p_t12_identity[o_t12_identity] = fw_to_f32(t12_identity);
    p_t9_identity[o_t9_identity] = fw_to_f32(t9_identity);
    p_t10_identity[o_t10_identity] = fw_to_f32(t10_identity);
  }
}
