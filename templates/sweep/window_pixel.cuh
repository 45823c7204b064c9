<# A row of pixels, one after the other: each is converted once, and enters the sum of every output and tap that it belongs to. Where the
   rows ahead are known, the pixel of the last of them is asked for as soon as this one is converted. -#>
#pragma unroll
for (int at = 0; at < ${ reach }$; ++at) {
float value[${ vector }$];
fw_load_raw(pixels[slot][at], value);
<%- if fetches_ahead %>
fetch(slot, at, h + ${ rows_ahead }$);
<%- endif %>
#pragma unroll
for (int r = 0; r < ${ walked_taps }$; ++r) {
const int row_at = place(point, r);
if (row_at < 0) continue;
#pragma unroll
for (int s = 0; s < ${ taps }$; ++s) {
const int j = ${ point }$ - s * ${ dilation }$;
if (j < 0 || j % ${ stride }$ != 0 || j / ${ stride }$ >= ${ outputs }$) continue;
#pragma unroll
for (int e = 0; e < ${ vector }$; ++e) ${ sum }$ = fmaf(value[e], ${ factor }$, ${ sum }$);
}
}
}
