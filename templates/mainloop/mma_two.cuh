<# Mainloop with two sets of fragments. Reads index, tile, mma, operands. -#>
  // fragments are loaded one part ahead, tiles ${ mma.stages - 1 }$ steps ahead
  unsigned even_left[${ mma.fragments_m }$][4], even_right[${ mma.fragments_n }$][2];
  unsigned odd_left[${ mma.fragments_m }$][4], odd_right[${ mma.fragments_n }$][2];
  load_fragments(0, 0, even_left, even_right);
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) {
    const bool fills = step + ${ mma.stages - 1 }$ < steps;
#pragma unroll 1
    for (unsigned part = 0; part < ${ mma.parts }$; part += 2) {
      load_fragments(stage, part + 1, odd_left, odd_right);
      if (part == 0) {
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
      }
      multiply(even_left, even_right);
      if (part == ${ mma.parts - 2 }$) {
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
      load_fragments(stage, (part + 2) % ${ mma.parts }$, even_left, even_right);
      multiply(odd_left, odd_right);
    }
  }
