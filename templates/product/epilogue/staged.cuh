<# How a warp takes its part of a tile, whose accumulators are those of wgmma: 16 rows by a few columns at a time go to its own piece of
   shared memory (`cases`), where `body` treats them. -#>
// a warp takes ${ rows }$ rows and ${ columns }$ columns at a time through its own piece of shared memory
<%- if blocks > 1 %>
#pragma unroll 1
for (unsigned rows = 0; rows < ${ blocks }$; ++rows) {
<%- endif %>
const ${ index }$ warp_m0 = m0 + ${ warp_row }$;
<%- for line in totals.before_columns %>
${ line }$
<%- endfor %>
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
<%- for line in totals.before_rows %>
${ line }$
<%- endfor %>
${ body }$
<%- for line in totals.after_columns %>
${ line }$
<%- endfor %>
__syncwarp();
<%- if chunks > 1 %>
}
<%- endif %>
<%- for line in totals.after_rows %>
${ line }$
<%- endfor %>
<%- if blocks > 1 %>
}
<%- endif %>
