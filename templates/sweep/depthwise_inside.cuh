<# Each output of a strip by itself, under the taps that lie inside of the image. -#>
#pragma unroll 1
for (unsigned at = 0; at < ${ rows * outputs }$; ++at) {
const unsigned j = at % ${ outputs }$;
<%- for line in output %>
${ line }$
<%- endfor %>
<%- if guard %>
if (!(${ guard }$)) continue;
<%- endif %>
float sums[${ vector }$] = {};
<%- for axis in axes %>
#pragma unroll 1
for (int ${ axis.tap }$ = 0; ${ axis.tap }$ < ${ axis.taps }$; ++${ axis.tap }$) {
<%- for line in axis.pixel %>
${ line }$
<%- endfor %>
<%- endfor %>
float value[${ vector }$], weight[${ vector }$];
fw_load_vector(${ image }$ + (${ offset }$), value);
fw_load_vector(weights + (${ tap }$) * ${ block_channels }$ + column, weight);
#pragma unroll
for (int e = 0; e < ${ vector }$; ++e) sums[e] = fmaf(value[e], weight[e], sums[e]);
<%- for axis in axes %>
}
<%- endfor %>
<%- for line in coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
