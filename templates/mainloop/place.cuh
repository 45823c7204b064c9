<# How an operand that goes through registers reaches a stage of shared memory. Reads operand.*, index, threads, tile. -#>
<%- if operand.fetch == "vector" %>
  ${ operand.result }$ fetched_${ operand.name }$[${ operand.passes }$];
  const auto fetch_${ operand.name }$ = [&](${ index }$ k0) {
#pragma unroll
    for (unsigned pass = 0; pass < ${ operand.passes }$; ++pass) {
      const unsigned i = pass * ${ threads }$ + threadIdx.x;
<%- if operand.has_rest %>
      if (i >= ${ operand.pieces }$) break;
<%- endif %>
      const unsigned row = i / ${ operand.row_pieces }$, piece = i % ${ operand.row_pieces }$;
      fetched_${ operand.name }$[pass] = operand_${ operand.name }$(${ operand.call }$);
    }
  };
  const auto place_${ operand.name }$ = [&](unsigned stage) {
#pragma unroll
    for (unsigned pass = 0; pass < ${ operand.passes }$; ++pass) {
      const unsigned i = pass * ${ threads }$ + threadIdx.x;
<%- if operand.has_rest %>
      if (i >= ${ operand.pieces }$) break;
<%- endif %>
      const unsigned row = i / ${ operand.row_pieces }$, piece = i % ${ operand.row_pieces }$;
      const unsigned at = ${ operand.tile }$ + stage * ${ tile.stage_bytes }$ + fw_swizzled<${ operand.row_bytes }$>(row, piece * ${ operand.piece_bytes }$);
      *reinterpret_cast<${ operand.result }$*>(shared_bytes + (at - shared)) = fetched_${ operand.name }$[pass];
    }
  };
<%- elif operand.fetch == "element" %>
  const auto place_${ operand.name }$ = [&](unsigned stage, ${ index }$ k0) {
#pragma unroll ${ operand.unroll }$
    for (unsigned i = threadIdx.x; i < ${ operand.pieces }$; i += ${ threads }$) {
      const unsigned row = ${ operand.row }$, column = ${ operand.column }$;
      const unsigned at = ${ operand.tile }$ + stage * ${ tile.stage_bytes }$ + fw_swizzled<${ operand.row_bytes }$>(row, column * ${ operand.piece_bytes }$);
      *reinterpret_cast<${ operand.result }$*>(shared_bytes + (at - shared)) = operand_${ operand.name }$(${ operand.call }$);
    }
  };
<%- endif %>
