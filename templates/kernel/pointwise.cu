<# One thread, one vector. Reads function, parameters, threads, blocks, index, vectors, coordinates, sweep. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$<% if blocks %>, ${ blocks }$<% endif %>)
${ function }$(${ parameters }$) {
  fw_wait_for_previous_launch();
  const ${ index }$ vector = (${ index }$)(blockIdx.x) * ${ threads }$ + threadIdx.x;
  if (vector < ${ vectors }$) {
<%- for line in coordinates %>
    ${ line }$
<%- endfor %>
<%- include "evaluate.cuh" %>
  }
}
