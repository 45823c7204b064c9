<# One operand of a matrix product with its mainloop fusion. Reads operand.*, index, threads. -#>
<%- if operand.fetch == "async" %>
  // ${ operand.title }$: ${ operand.piece_bytes }$ bytes at a time straight to shared memory, zeros outside
  const auto copy_${ operand.name }$ = [&](unsigned stage, ${ index }$ k0) {
#pragma unroll
    for (unsigned pass = 0; pass < ${ operand.passes }$; ++pass) {
      const unsigned i = pass * ${ threads }$ + threadIdx.x;
<%- if operand.has_rest %>
      if (i >= ${ operand.pieces }$) break;
<%- endif %>
      const unsigned row = i / ${ operand.row_pieces }$, piece = i % ${ operand.row_pieces }$;
      const ${ index }$ ${ operand.outer }$ = ${ operand.outer }$0 + ${ operand.outer_in }$, k = k0 + ${ operand.k_in }$;
<%- for line in operand.coordinates %>
      ${ line }$
<%- endfor %>
<%- for line in operand.before %>
      ${ line }$
<%- endfor %>
      fw_cp_async<${ operand.piece_bytes }$>(${ operand.tile }$ + stage * ${ tile.stage_bytes }$ + fw_swizzled<${ operand.row_bytes }$>(row, piece * ${ operand.piece_bytes }$), ${ operand.source }$, ${ operand.inside }$);
    }
  };
<%- else %>
  // ${ operand.title }$: <% if operand.vector > 1 %>${ operand.vector }$ elements<% else %>one element<% endif %>, zero outside
  const auto operand_${ operand.name }$ = [&](${ operand.arguments }$) -> ${ operand.result }$ {
<%- if operand.nearest %>
    // outside, what lies nearest is computed and left: a branch here would keep products from running beside it
    const bool is_inside = ${ operand.inside }$;
<%- for line in operand.nearest %>
    ${ line }$
<%- endfor %>
<%- endif %>
<%- for line in operand.coordinates %>
    ${ line }$
<%- endfor %>
<%- if operand.pair %>
<%- if operand.inside != "true" and not operand.nearest %>
    if (!(${ operand.inside }$)) return {};
<%- endif %>
<%- for line in operand.before %>
    ${ line }$
<%- endfor %>
    return {<% if operand.nearest %>is_inside ? ${ operand.pair }$ : 0<% else %>${ operand.pair }$<% endif %>};
<%- elif operand.vector > 1 %>
<%- if operand.pack %>
    float out[${ operand.vector }$];
<%- else %>
    ${ operand.result }$ out;
<%- endif %>
<%- if operand.inside != "true" and not operand.nearest %>
    if (!(${ operand.inside }$)) return {};
<%- endif %>
<%- for line in operand.before %>
    ${ line }$
<%- endfor %>
#pragma unroll
    for (int e = 0; e < ${ operand.vector }$; ++e) {
<%- for line in operand.body %>
      ${ line }$
<%- endfor %>
      out<% if not operand.pack %>.at<% endif %>[e] = ${ operand.value }$;
    }
    return <% if operand.nearest %>!is_inside ? ${ operand.result }${} : <% endif %><% if operand.pack %>${ operand.pack }$(out)<% else %>out<% endif %>;
<%- else %>
<%- if operand.inside != "true" %>
    if (!(${ operand.inside }$)) return ${ operand.zero }$;
<%- endif %>
<%- for line in operand.before %>
    ${ line }$
<%- endfor %>
<%- for line in operand.body %>
    ${ line }$
<%- endfor %>
    return ${ operand.value }$;
<%- endif %>
  };
<%- endif %>
