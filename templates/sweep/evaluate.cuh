<# Evaluates one vector of points: `before` it, each point by `body` where `guard` lets it, `after` it. A vector of one point has no
   loop. -#>
<%- for line in before %>
${ line }$
<%- endfor %>
<%- if vector > 1 %>
#pragma unroll
for (int e = 0; e < ${ vector }$; ++e) {
<%- if guard %>
if (!(${ guard }$)) continue;
<%- endif %>
<%- endif %>
<%- for line in body %>
${ line }$
<%- endfor %>
<%- if vector > 1 %>
}
<%- endif %>
<%- for line in after %>
${ line }$
<%- endfor %>
