<# How an operand that goes through registers reaches a stage, by the threads of one warpgroup. Reads operand.*, index. -#>
  const auto fill_${ operand.name }$ = [&](unsigned tile, ${ index }$ k0) {
#pragma unroll 1
    for (unsigned pass = 0; pass < ${ operand.passes }$; pass += ${ operand.unroll }$) {
      ${ operand.result }$ pieces[${ operand.unroll }$];
#pragma unroll
      for (unsigned u = 0; u < ${ operand.unroll }$; ++u) {
        const unsigned i = (pass + u) * 128 + thread, row = i / ${ operand.row_pieces }$, piece = i % ${ operand.row_pieces }$;
<%- if operand.has_rest %>
        if (i >= ${ operand.pieces }$) continue;
<%- endif %>
        pieces[u] = operand_${ operand.name }$(${ operand.call }$);
      }
#pragma unroll
      for (unsigned u = 0; u < ${ operand.unroll }$; ++u) {
        const unsigned i = (pass + u) * 128 + thread, row = i / ${ operand.row_pieces }$, piece = i % ${ operand.row_pieces }$;
<%- if operand.has_rest %>
        if (i >= ${ operand.pieces }$) continue;
<%- endif %>
        const unsigned at = tile + ${ operand.tile_offset }$ + ${ operand.place }$;
        *reinterpret_cast<${ operand.result }$*>(shared_bytes + (at - shared)) = pieces[u];
      }
    }
  };
