<# One pass over an iteration space, some of whose axes are reduced. A thread keeps the accumulators of its `kept` point, or vector of
   kept points, and steps over `reduced` points, `group` of them at a time; then `trees` combine the block's threads. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ resident }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
<%- if signals %>
fw_let_next_launch_start();
<%- endif %>
FW_SHARED(shared_bytes);
float* const shared = reinterpret_cast<float*>(shared_bytes);
const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
<%- for declaration in declarations %>
${ declaration }$
<%- endfor %>

const ${ index }$ kept = ${ kept.first }$;
<%- for line in kept.coordinates %>
${ line }$
<%- endfor %>
const ${ index }$ last = kept < ${ kept.count }$ ? ${ reduced.count }$ : 0;
${ index }$ next = ${ reduced.first }$;
for (; next + ${ reduced.threads * (reduced.group - 1) }$ < last; next += ${ reduced.step }$) {
#pragma unroll
for (unsigned g = 0; g < ${ reduced.group }$; ++g) {
const ${ index }$ r = ${ reduced.of_group }$;
<%- for line in reduced.coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
}
#pragma unroll 1
for (${ index }$ r = next; r < last; r += ${ reduced.threads }$) {  // what is left of the last group
<%- for line in reduced.coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
<%- for tree in trees %>
${ tree }$
<%- endfor %>
}
