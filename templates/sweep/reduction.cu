<# One pass over an iteration space, some of whose axes are reduced. A thread keeps the accumulators of its `kept` point, or vector of
   kept points, and goes over the reduced points by `steps`; then `trees` combine the block's threads. -#>
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
const ${ index }$ last = kept < ${ kept.count }$ ? ${ reduced_count }$ : 0;
${ steps }$
<%- for tree in trees %>
${ tree }$
<%- endfor %>
}
