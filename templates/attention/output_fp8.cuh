<# Rows of O to memory, scaled, 64 columns at a time: in FP8 fragments change lanes, so that each stores 16 columns side by side; else an element
   at a time. -#>
<%- for group in groups %>
{
float y[${ group.values }$] = {};
if (steps > 0) {
fw_take_all<${ group.register }$>(y);
<%- if adds_sums %>
if (has_sums) {
#pragma unroll
for (int i = 0; i < ${ group.values }$; ++i) y[i] = fmaf(sums[${ group.vector }$ + i / 4 * 128].at[i % 4], since[i >> 1 & 1], y[i]);
}
<%- endif %>
}
#pragma unroll
for (int i = 0; i < ${ group.values }$; ++i) {
y[i] *= scaled[i >> 1 & 1];
<%- if largest %>
if (row + 8 * (i >> 1 & 1) < ${ rows }$) ${ largest }$ = fw_max_nan(${ largest }$, fabsf(y[i]));
<%- endif %>
y[i] *= of_stored;
}
<%- if pack %>
unsigned w[2][4] = {};
#pragma unroll
for (int i = 0; i < ${ group.pairs }$; ++i) {
#pragma unroll
for (int e = 0; e < 2; ++e) w[e][i] = ${ pack }$(y[8 * i + 2 * e], y[8 * i + 2 * e + 1], y[8 * i + 2 * e + 4], y[8 * i + 2 * e + 5]);
}
#pragma unroll
for (int e = 0; e < 2; ++e) {
fw_quad_transpose(w[e], lane);
const int row_of = row + 8 * e, column = ${ group.column }$ + 16 * quad;
if (row_of < ${ rows }$ && column < ${ columns }$) {
const fw_vector<unsigned, 4> words = {{fw_low_halves(w[e][0], w[e][1]), fw_low_halves(w[e][2], w[e][3]), fw_high_halves(w[e][0], w[e][1]), fw_high_halves(w[e][2], w[e][3])}};
fw_store_vector(reinterpret_cast<unsigned*>(${ pointer }$ + ${ offset }$ + column), words);
}
}
<%- else %>
#pragma unroll
for (int i = 0; i < ${ group.values }$; ++i) {
const int row_of = row + 8 * (i >> 1 & 1), column = ${ group.column }$ + 8 * (i >> 2) + 2 * quad + (i & 1);
if (row_of < ${ rows }$ && column < ${ columns }$) ${ pointer }$[${ offset }$ + column * ${ step }$ull] = ${ value }$;
}
<%- endif %>
}
<%- endfor %>
