<# A row of pixels under one tap after the other: all are converted once, and each weight is read once for all outputs. Where the rows ahead
   are known, the pixels of the last of them are asked for as soon as these are converted. -#>
float values[${ reach }$][${ vector }$];
#pragma unroll
for (int at = 0; at < ${ reach }$; ++at) {
fw_load_raw(pixels[slot][at], values[at]);
<%- if fetches_ahead %>
fetch(slot, at, h + ${ rows_ahead }$);
<%- endif %>
}
#pragma unroll
for (int r = 0; r < ${ walked_taps }$; ++r) {
const int row_at = place(point, r);
if (row_at < 0) continue;
#pragma unroll
for (int s = 0; s < ${ taps }$; ++s) {
float weight[${ vector }$];
fw_load_anew(${ weight }$, weight);
#pragma unroll
for (int j = 0; j < ${ outputs }$; ++j) {
const int over = j * ${ stride }$ + s * ${ dilation }$ + ${ ahead }$;
if (over % ${ gap }$ != 0) continue;
#pragma unroll
for (int e = 0; e < ${ vector }$; ++e) totals[row_at][j][e] = fmaf(values[over / ${ gap }$][e], weight[e], totals[row_at][j][e]);
}
}
}
