<# Mainloop with two sets of fragments. Reads index, tile, mma, operands. -#>
  // tiles are loaded ${ mma.stages - 1 }$ steps ahead, so the first steps only load; fragments one part of a step
  unsigned even_left[${ mma.fragments_m }$][4], even_right[${ mma.fragments_n }$][2];
  unsigned odd_left[${ mma.fragments_m }$][4], odd_right[${ mma.fragments_n }$][2];
#pragma unroll 1
  for (int step = ${ 1 - mma.stages }$; step < steps; ++step) {
    const bool fills = step + ${ mma.stages - 1 }$ < steps;
#pragma unroll
    for (unsigned part = 0; part < ${ mma.parts }$; part += 2) {
<%- for operand in operands %>
      if (part == ${ operand.filled_in_part }$) {
<% include "fill.cuh" %>
      }
<%- endfor %>
      if (step >= 0) {
        load_fragments(stage, part + 1, odd_left, odd_right);
        multiply(even_left, even_right);
      }
      if (part == ${ mma.parts - 2 }$) {
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
        if (step == -1) load_fragments(stage, 0, even_left, even_right);
      }
      if (step < 0) continue;
      load_fragments(stage, (part + 2) % ${ mma.parts }$, even_left, even_right);
      multiply(odd_left, odd_right);
    }
  }
