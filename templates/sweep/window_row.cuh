<# The pixels of a row that a thread's windows read, each once: `add` enters one for each output `j` that has it under tap `s`. Pixels
   outside of the image are left out. -#>
const auto* const row = ${ image }$ + (${ offset }$);
const auto add = [&](int at) {
float value[${ vector }$];
fw_load_vector(row + (w0 + at) * ${ pixel_stride }$, value);
#pragma unroll
for (int s = 0; s < ${ taps }$; ++s) {
const int j = ${ point }$ - s * ${ dilation }$;
if (j < 0 || j % ${ stride }$ != 0 || j / ${ stride }$ >= ${ outputs }$) continue;
#pragma unroll
for (int e = 0; e < ${ vector }$; ++e) ${ sum }$ = fmaf(value[e], ${ factor }$, ${ sum }$);
}
};
<%- if is_padded %>
if (w0 >= 0 && w0 + ${ reach }$ <= ${ pixels }$) {
#pragma unroll
for (int at = 0; at < ${ reach }$; ++at) add(at);
} else {
#pragma unroll
for (int at = 0; at < ${ reach }$; ++at)
if (w0 + at >= 0 && w0 + at < ${ pixels }$) add(at);
}
<%- else %>
#pragma unroll
for (int at = 0; at < ${ reach }$; ++at) add(at);
<%- endif %>
