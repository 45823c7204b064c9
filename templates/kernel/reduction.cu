<# Reads function, parameters, threads, resident, signals, index, kept, reduced, accumulations, accumulators, sweep, tree. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ resident }$)
${ function }$(${ parameters }$) {
  fw_wait_for_previous_launch();
<%- if signals %>
  fw_let_next_launch_start();
<%- endif %>
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
  ${ index }$ next = (${ index }$)(blockIdx.y) * ${ reduced.group * reduced.threads }$ + ${ reduced.thread }$;
  for (; next + ${ reduced.threads * (reduced.group - 1) }$ < last; next += ${ reduced.step }$)
#pragma unroll
  for (unsigned g = 0; g < ${ reduced.group }$; ++g) {
    const ${ index }$ r = next + g * ${ reduced.threads }$;
<%- for line in reduced.coordinates %>
    ${ line }$
<%- endfor %>
<%- include "evaluate.cuh" %>
  }
#pragma unroll 1
  for (${ index }$ r = next; r < last; r += ${ reduced.threads }$) {  // what is left of the last group
<%- for line in reduced.coordinates %>
    ${ line }$
<%- endfor %>
<%- include "evaluate.cuh" %>
  }
<%- for accumulation in accumulations %>
<% include "tree.cuh" -%>
<%- endfor %>
}
