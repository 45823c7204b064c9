<# dQ from its sums: a thread has sixteen columns of a query, which four lanes had side by side. Queries to which nobody has added have no gradient. #>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
const unsigned long long item = (unsigned long long)blockIdx.x * ${ threads }$ + threadIdx.x;
const unsigned long long place = item / ${ items }$u;
if (place >= ${ places }$ull) return;
const unsigned i = item % ${ items }$u, part = i / ${ items_of_part }$, line = i % ${ items_of_part }$ / 64, e = i / 32 % 2, of_part = i % 32;
const unsigned head = place / ${ steps }$u, b = head / ${ heads }$u, h = head % ${ heads }$u;
const unsigned query = place % ${ steps }$u * ${ step }$ + of_part / 8 * 16 + 8 * e + of_part % 8;
const unsigned column = line * 16 + part * ${ columns }$;
<%- if length %>
${ length }$
<%- endif %>
<%- for line in sequences %>
${ line }$
<%- endfor %>
if (query >= ${ rows }$ || column >= ${ head_columns }$u) return;
float x[16] = {};
if (reinterpret_cast<const unsigned*>(partial1)[place] > 0) {
#pragma unroll
for (int lane = 0; lane < 4; ++lane) {
float y[4];
fw_load_vector(partial0 + place * ${ floats }$ull + part * ${ part }$ + line * 1024 + e * 512 + (of_part * 4 + lane) * 4, y);
x[2 * lane] = y[0], x[2 * lane + 1] = y[1], x[8 + 2 * lane] = y[2], x[9 + 2 * lane] = y[3];
}
}
${ storage }$* const to = ${ pointer }$ + ${ offset }$;
#pragma unroll
for (unsigned half = 0; half < 2; ++half) {
if (column + 8 * half < ${ head_columns }$u) {
unsigned w[4];
#pragma unroll
for (int j = 0; j < 4; ++j) w[j] = ${ pack }$(x[8 * half + 2 * j], x[8 * half + 2 * j + 1]);
<%- if vectors %>
fw_store_vector(reinterpret_cast<unsigned*>(to + 8 * half), fw_vector<unsigned, 4>{{w[0], w[1], w[2], w[3]}});
<%- else %>
#pragma unroll
for (int j = 0; j < 8; ++j) reinterpret_cast<unsigned short*>(to)[8 * half + j] = (unsigned short)(w[j / 2] >> 16 * (j % 2));
<%- endif %>
}
}
}
