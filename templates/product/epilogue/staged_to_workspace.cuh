<# The sums in a warp's piece of the tile go to the workspace, where later functions take them from. -#>
// the sums go to the workspace, where later functions take them from
#pragma unroll 4
for (unsigned i = lane; i < ${ rows * columns }$; i += 32) {
const unsigned line = i / ${ columns }$, piece = i % ${ columns }$;
const ${ index }$ m = warp_m0 + line, n = chunk_n0 + piece;
<%- if digits %>
if (m >= ${ extents[0] }$ || n >= ${ extents[1] }$) continue;
<%- for digit in digits %>
${ digit }$
<%- endfor %>
<%- if guard %>
if (!(${ guard }$)) continue;
<%- endif %>
accumulators[${ workspace }$] = piece_c[${ staged }$];
<%- else %>
if (m < ${ extents[0] }$ && n < ${ extents[1] }$) accumulators[${ workspace }$] = piece_c[${ staged }$];
<%- endif %>
}
