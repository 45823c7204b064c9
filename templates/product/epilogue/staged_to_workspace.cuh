<# The sums of a tile go to the workspace through the warp's own piece of shared memory: 16 rows by a few columns at a time (`cases`). -#>
// the sums go to the workspace, where later functions take them from
<%- if blocks > 1 %>
#pragma unroll 1
for (unsigned rows = 0; rows < ${ blocks }$; ++rows) {
<%- endif %>
const ${ index }$ warp_m0 = m0 + ${ warp_row }$;
<%- if chunks > 1 %>
#pragma unroll 1
for (unsigned chunk = 0; chunk < ${ chunks }$; ++chunk) {
<%- endif %>
const ${ index }$ chunk_n0 = n0<% if chunks > 1 %> + chunk * ${ columns }$<% endif %>;
<%- if blocks * chunks > 1 %>
switch (${ case }$) {
<%- for case in cases %>
case ${ loop.index0 }$:
${ case }$
break;
<%- endfor %>
}
<%- else %>
${ cases[0] }$
<%- endif %>
__syncwarp();
#pragma unroll 4
for (unsigned i = lane; i < ${ rows * columns }$; i += 32) {
const unsigned line = i / ${ columns }$, piece = i % ${ columns }$;
const ${ index }$ m = warp_m0 + line, n = chunk_n0 + piece;
if (m < ${ extents[0] }$ && n < ${ extents[1] }$) accumulators[${ workspace }$] = piece_c[${ staged }$];
}
__syncwarp();
<%- if chunks > 1 %>
}
<%- endif %>
<%- if blocks > 1 %>
}
<%- endif %>
