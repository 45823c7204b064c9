<#- Combines one accumulator over the threads of a block in a fixed tree. Reads tree.*, accumulation.*. #>
  // ${ accumulation.name }$: one result for every ${ tree.along }$, from all threads of the block
#pragma unroll
  for (int e = 0; e < ${ tree.width }$; ++e) shared[lane * ${ tree.width }$ + e] = ${ accumulation.name }$[e];
#pragma unroll 1
  for (unsigned half = ${ tree.half }$; half > 0; half /= 2) {
    __syncthreads();
    if (${ tree.thread }$ < half) {
#pragma unroll
      for (int e = 0; e < ${ tree.width }$; ++e) {
        const unsigned mine = lane * ${ tree.width }$ + e;
        shared[mine] = ${ accumulation.combine }$(shared[mine], shared[mine + half * ${ tree.stride }$]);
      }
    }
  }
  if (${ tree.writes }$) {
#pragma unroll
    for (int e = 0; e < ${ tree.width }$; ++e) {
<%- if tree.guard %>
      if (!(${ tree.guard }$)) continue;
<%- endif %>
      const float total = shared[lane * ${ tree.width }$ + e];
      ${ accumulation.write }$
    }
  }
  __syncthreads();
