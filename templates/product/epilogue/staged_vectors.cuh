<# The lanes of a warp evaluate the vectors of its piece of the tile. -#>
<%- if passes > 1 %>
#pragma unroll ${ unroll }$
for (unsigned pass = 0; pass < ${ passes }$; ++pass) {
const unsigned i = pass * 32 + lane;
<%- else %>
<%- if vectors < 32 %>
if (lane < ${ vectors }$) {
<%- else %>
{
<%- endif %>
const unsigned i = lane;
<%- endif %>
const unsigned line = ${ line }$, piece = ${ piece }$;
<%- for index in point.indices %>
${ index }$
<%- endfor %>
<%- if point.guard %>
if (${ point.guard }$) {
<%- endif %>
<%- for digit in point.digits %>
${ digit }$
<%- endfor %>
${ evaluate }$
<%- if point.guard %>
}
<%- endif %>
}
