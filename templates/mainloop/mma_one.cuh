<# Mainloop with one set of fragments: other warps multiply while one loads. Reads index, tile, mma, operands. -#>
  // tiles are loaded ${ mma.stages - 1 }$ steps ahead, so the first steps only load
#pragma unroll 1
  for (int step = ${ 1 - mma.stages }$; step < steps; ++step) {
    const bool fills = step + ${ mma.stages - 1 }$ < steps;
#pragma unroll
    for (unsigned part = 0; part < ${ mma.parts }$; ++part) {
<%- for operand in operands %>
      if (part == ${ operand.filled_in_part }$) {
<% include "fill.cuh" %>
      }
<%- endfor %>
      if (step < 0) continue;
      unsigned left[${ mma.fragments_m }$][4], right[${ mma.fragments_n }$][2];
      load_fragments(stage, part, left, right);
      multiply(left, right);
    }
<%- for operand in operands %>
<%- if operand.fetch == "vector" %>
    if (fills) place_${ operand.name }$(filled);
<%- endif %>
<%- endfor %>
    fw_cp_async_commit();
    fw_cp_async_wait<${ mma.stages - 2 }$>();
    __syncthreads();
    stage = stage + 1 == ${ mma.stages }$ ? 0 : stage + 1;
    filled = filled + 1 == ${ mma.stages }$ ? 0 : filled + 1;
  }
