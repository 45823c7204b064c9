<# Evaluates one vector of points. Reads sweep.before, .vector, .guard, .body, .after. -#>
<%- for line in sweep.before %>
    ${ line }$
<%- endfor %>
#pragma unroll
    for (int e = 0; e < ${ sweep.vector }$; ++e) {
<%- if sweep.guard %>
      if (!(${ sweep.guard }$)) continue;
<%- endif %>
<%- for line in sweep.body %>
      ${ line }$
<%- endfor %>
    }
<%- for line in sweep.after %>
    ${ line }$
<%- endfor %>
