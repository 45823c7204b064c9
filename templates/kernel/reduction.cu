<# Reads function, parameters, threads, index, kept, reduced, accumulations, accumulators, sweep, tree. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
  FW_SHARED(shared_bytes);
  float* const shared = reinterpret_cast<float*>(shared_bytes);
  const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
<%- for accumulation in accumulations %>
  float ${ accumulation.name }$[${ accumulators }$];
#pragma unroll
  for (int e = 0; e < ${ accumulators }$; ++e) ${ accumulation.name }$[e] = ${ accumulation.identity }$;
<%- endfor %>

  const ${ index }$ kept = (${ index }$)(blockIdx.x) * ${ kept.threads }$ + ${ kept.thread }$;
<%- for line in kept.coordinates %>
  ${ line }$
<%- endfor %>
  const ${ index }$ last = kept < ${ kept.count }$ ? ${ reduced.count }$ : 0;
#pragma unroll 4
  for (${ index }$ r = (${ index }$)(blockIdx.y) * ${ reduced.threads }$ + ${ reduced.thread }$; r < last; r += ${ reduced.step }$) {
<%- for line in reduced.coordinates %>
    ${ line }$
<%- endfor %>
<%- include "evaluate.cuh" %>
  }
<%- for accumulation in accumulations %>
<% include "tree.cuh" -%>
<%- endfor %>
}
