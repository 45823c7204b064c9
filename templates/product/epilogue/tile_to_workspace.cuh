<# The sums of a tile in shared memory go to the workspace, where later functions take them from. -#>
// the sums go to the workspace, where later functions take them from
#pragma unroll 4
for (unsigned i = threadIdx.x; i < ${ m * n }$; i += ${ threads }$) {
const unsigned m_in = i / ${ n }$, n_in = i % ${ n }$;
const ${ index }$ m = m0 + m_in, n = n0 + n_in;
<%- if digits %>
if (m >= ${ extents[0] }$ || n >= ${ extents[1] }$) continue;
<%- for digit in digits %>
${ digit }$
<%- endfor %>
<%- if guard %>
if (!(${ guard }$)) continue;
<%- endif %>
accumulators[${ workspace }$] = tile_c[${ at }$];
<%- else %>
if (m < ${ extents[0] }$ && n < ${ extents[1] }$) accumulators[${ workspace }$] = tile_c[${ at }$];
<%- endif %>
}
