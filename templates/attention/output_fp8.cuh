<# Rows of O to memory, scaled: in FP8 fragments of 64 columns change lanes, so that each stores 16 columns side by side; else an element at a
   time. -#>
const auto scaled_value = [&](int i) {
const float y = o[i] * scaled[i >> 1 & 1];
<%- if largest %>
if (row + 8 * (i >> 1 & 1) < ${ rows }$) ${ largest }$ = fw_max_nan(${ largest }$, fabsf(y));
<%- endif %>
return y * of_stored;
};
<%- for group in groups %>
{
unsigned w[2][4] = {};
#pragma unroll
for (int i = 0; i < ${ group.pairs }$; ++i) {
#pragma unroll
for (int e = 0; e < 2; ++e) {
const int at = ${ 4 * group.fragment }$ + 8 * i + 2 * e;
w[e][i] = ${ pack }$(scaled_value(at), scaled_value(at + 1), scaled_value(at + 4), scaled_value(at + 5));
}
}
#pragma unroll
for (int e = 0; e < 2; ++e) {
fw_quad_transpose(w[e], lane);
const int row_of = row + 8 * e, column = ${ group.column }$ + 16 * quad;
if (row_of < ${ rows }$ && column < ${ columns }$) {
const fw_vector<unsigned, 4> y = {{fw_low_halves(w[e][0], w[e][1]), fw_low_halves(w[e][2], w[e][3]), fw_high_halves(w[e][0], w[e][1]), fw_high_halves(w[e][2], w[e][3])}};
fw_store_vector(reinterpret_cast<unsigned*>(${ pointer }$ + ${ offset }$ + column), y);
}
}
}
<%- else %>
#pragma unroll
for (int i = 0; i < ${ values }$; ++i) {
const int row_of = row + 8 * (i >> 1 & 1), column = 8 * (i >> 2) + 2 * quad + (i & 1);
const float y = scaled_value(i);
if (row_of < ${ rows }$ && column < ${ columns }$) ${ pointer }$[${ offset }$ + column * ${ step }$ull] = ${ value }$;
}
<%- endfor %>
