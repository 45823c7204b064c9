<# One pass over the points of an iteration space, of which operands have one value for many: a thread keeps them for its vector of
   points, number `kept`, and steps over `each` points along the other axes. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ resident }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
<%- if is_reversed %>
const ${ index }$ block = gridDim.x - 1 - blockIdx.x;  // what was read last is read first
<%- else %>
const ${ index }$ block = blockIdx.x;
<%- endif %>
const ${ index }$ inner = ${ inner }$;
<%- if is_ragged %>
if (inner >= ${ inner_vectors }$) return;
<%- endif %>
const ${ index }$ kept = ${ kept }$;
<%- for line in kept_coordinates %>
${ line }$
<%- endfor %>
const ${ index }$ first = ${ first }$;
<%- if is_short %>
if (first + ${ rows * (each - 1) }$ >= ${ steps }$) {
#pragma unroll 1
for (${ index }$ r = first; r < ${ steps }$; r += ${ rows }$) {
<%- for line in step_coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
return;
}
<%- endif %>
#pragma unroll
for (unsigned g = 0; g < ${ each }$; ++g) {
const ${ index }$ r = first + g * ${ rows }$;
<%- for line in step_coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
}
