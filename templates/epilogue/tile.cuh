<# The epilogue of a tile of C in shared memory. Reads threads, index, tile, epilogue.*. -#>
<%- if epilogue.workspace %>
  // the sums go to the workspace, where later functions take them from
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < ${ tile.m }$ * ${ tile.n }$; i += ${ threads }$) {
    const unsigned m_in = i / ${ tile.n }$, n_in = i % ${ tile.n }$;
    const ${ index }$ m = m0 + m_in, n = n0 + n_in;
    if (m < ${ extents.m }$ && n < ${ extents.n }$) accumulators[${ epilogue.workspace }$] = tile_c[${ epilogue.at }$];
  }
<%- else %>
  // epilogue fusion
<%- for line in epilogue.values %>
  ${ line }$
<%- endfor %>
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < ${ epilogue.vectors }$; i += ${ threads }$) {
    const unsigned line = i / ${ epilogue.row_vectors }$, piece = i % ${ epilogue.row_vectors }$ * ${ sweep.vector }$;
<%- for line in epilogue.coordinates %>
    ${ line }$
<%- endfor %>
<% include "evaluate.cuh" %>
  }
<%- if epilogue.reductions %>
  __syncthreads();

  // one partial result a block for every kept element, in a fixed order
<%- for reduction in epilogue.reductions %>
<%- for line in reduction.lines %>
  ${ line }$
<%- endfor %>
<%- endfor %>
<%- endif %>
<%- endif %>
