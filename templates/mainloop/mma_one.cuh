<# Mainloop with one set of fragments: other warps multiply while one loads. Reads index, tile, mma, operands. -#>
  // tiles are loaded ${ mma.stages - 1 }$ steps ahead
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) {
    const bool fills = step + ${ mma.stages - 1 }$ < steps;
    if (fills) {
      const ${ index }$ k0 = ${ index }$(first + step + ${ mma.stages - 1 }$) * ${ tile.k }$;
<%- for operand in operands %>
<%- if operand.fetch == "async" %>
      copy_${ operand.name }$(filled, k0);
<%- elif operand.fetch == "vector" %>
      fetch_${ operand.name }$(k0);
<%- else %>
      place_${ operand.name }$(filled, k0);
<%- endif %>
<%- endfor %>
    }
    fw_cp_async_commit();
#pragma unroll 1
    for (unsigned part = 0; part < ${ mma.parts }$; ++part) {
      unsigned left[${ mma.fragments_m }$][4], right[${ mma.fragments_n }$][2];
      load_fragments(stage, part, left, right);
      multiply(left, right);
    }
<%- for operand in operands %>
<%- if operand.fetch == "vector" %>
    if (fills) place_${ operand.name }$(filled);
<%- endif %>
<%- endfor %>
    fw_cp_async_wait<${ mma.stages - 2 }$>();
    __syncthreads();
    stage = stage + 1 == ${ mma.stages }$ ? 0 : stage + 1;
    filled = filled + 1 == ${ mma.stages }$ ? 0 : filled + 1;
  }
