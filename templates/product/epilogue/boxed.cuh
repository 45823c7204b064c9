<# The epilogue of a tile in the registers of its accumulators: a warp takes 16 rows by a few columns at a time (`takes`), and the tensor
   memory accelerator brings and takes the boxes of the tensors, a set of them for each part, `sets` in turns. -#>
// epilogue fusion: a warp takes 16 rows and ${ columns }$ columns at a time, beside boxes of the tensors
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
for (unsigned chunk = 0; chunk < ${ chunks }$; ++chunk, ++taken) {
<%- else %>
{
<%- endif %>
const ${ index }$ chunk_n0 = n0<% if chunks > 1 %> + chunk * ${ columns }$<% endif %>;
const unsigned <% if parts > 1 %>part = ${ part }$, <% endif %>set = taken % ${ sets }$;
unsigned char* const box = shared_bytes + (boxes_at - shared) + set * ${ set_bytes }$;
<%- if reads %>
fw_mbarrier_wait(arrived + 8 * set, taken / ${ sets }$ & 1);
<%- endif %>
<%- if stores %>
if (lane == 0) fw_tma_store_wait_read<${ sets - 1 }$>();  // what the set held before has left
__syncwarp();
<%- endif %>
<%- if steps > 1 %>
#pragma unroll 1
for (unsigned step = 0; step < ${ steps }$; ++step) {
<%- else %>
{
<%- endif %>
<%- for line in totals.before_rows %>
${ line }$
<%- endfor %>
${ accumulator }$ sums[${ fragments }$][4];
<%- if parts * steps > 1 %>
switch (${ step }$) {
<%- for take in takes %>
case ${ loop.index0 }$:
${ take }$
break;
<%- endfor %>
}
<%- else %>
${ takes[0] }$
<%- endif %>
<%- if packed %>
unsigned packed[${ fragments }$][2];  // pairs, as they lie in matrices of 8×8
<%- endif %>
#pragma unroll
for (unsigned j = 0; j < ${ fragments }$; ++j) {
#pragma unroll
for (unsigned half = 0; half < 2; ++half) {
const unsigned line = lane / 4 + 8 * half, piece = ${ piece }$;
<%- if told %>
const bool in_c = ${ told }$;
<%- endif %>
<%- for index in point.indices %>
${ index }$
<%- endfor %>
<%- if point.guard %>
if (!(${ point.guard }$)) continue;
<%- endif %>
<%- for digit in point.digits %>
${ digit }$
<%- endfor %>
${ evaluate }$
}
}
<%- if packed %>
#pragma unroll
for (unsigned j = 0; j < ${ fragments }$; j += 2) {
fw_stmatrix_x4(${ packed.at }$, packed[j][0], packed[j][1], packed[j + 1][0], packed[j + 1][1]);
}
<%- endif %>
<%- for line in totals.after_columns %>
${ line }$
<%- endfor %>
}
<%- if stores %>
fw_fence_async();
__syncwarp();
if (lane == 0) {
<%- for store in stores %>
${ store }$
<%- endfor %>
fw_tma_store_commit();
}
<%- else %>
__syncwarp();
<%- for copy in copies %>
${ copy }$
<%- endfor %>
__syncwarp();  // the set has been read
<%- endif %>
<%- if reads and parts > sets %>
if (part + ${ sets }$ < ${ parts }$) ask_for(part + ${ sets }$, set);
<%- endif %>
<%- if chunks == 1 %>
++taken;
<%- endif %>
}
<%- for line in totals.after_rows %>
${ line }$
<%- endfor %>
<%- if blocks > 1 %>
}
<%- endif %>
