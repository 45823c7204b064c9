<# Probabilities of capped scores, and gradients of theirs before probabilities are multiplied, at once: no register keeps the slope of a cap. -#>
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) {
const fw_tanh_t capped = fw_tanh_and_slope(x[i] * of_cap);
x[i] = fw_fast_exp2(fmaf(${ score }$, c, -${ statistic }$));
<%- if has_sums %>
y[i] = capped.slope * fmaf(y[i], ${ factor }$, -${ delta }$);
<%- endif %>
}
