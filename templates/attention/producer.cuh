<# The producer: one thread asks for the boxes of a tile's queries once, and of K and V step by step; of K and V in pages the threads of a warp. -#>
if (warp == 0<% if not by_warp %> && fw_elect()<% endif %>) {
unsigned k_stage = 0, k_parity = 1, v_stage = 0, v_parity = 1, q_parity = 1;
#pragma unroll 1
for (unsigned unit = blockIdx.x<% if not claims %>, turn = 0<% endif %>; unit < ${ units }$u; <% if not claims %>++turn, <% endif %>unit = ${ next }$) {
${ unit }$
<%- for line in sequences %>
${ line }$
<%- endfor %>
const unsigned key_head = h / ${ key_group }$, value_head = h / ${ value_group }$;
<%- for load in loads %>
${ load }$
<%- endfor %>
<%- if leaves_out %>
int block = before(end);
if (block >= begin) load_k(block);
<%- else %>
if (begin < end) load_k(end - 1);
<%- endif %>
fw_mbarrier_wait(q_empty, q_parity);
q_parity ^= 1;
<%- if by_warp %>
if (lane == 0) {
<%- endif %>
<%- if claims %>
*claimed = unit;
<%- endif %>
fw_mbarrier_expect(q_full, ${ query_bytes }$);
<%- for line in query_lines %>
fw_tma_load(shared + ${ line.at }$, &map0, q_full, ${ line.element }$, ${ query_at }$);
<%- endfor %>
<%- if by_warp %>
}
<%- endif %>
<%- if leaves_out %>
if (block < begin) continue;
#pragma unroll 1
for (int next = before(block); next >= begin; block = next, next = before(block)) {
load_k(next);
load_v(block);
}
load_v(block);
<%- else %>
if (begin >= end) continue;
#pragma unroll 1
for (int block = end - 1; block > begin; --block) {
load_k(block - 1);
load_v(block);
}
load_v(begin);
<%- endif %>
}
<%- if claims %>
fw_mbarrier_wait(q_empty, q_parity);
<% if by_warp %>if (lane == 0) {
<% endif %>*claimed = ${ units }$u;  // no tile is left
fw_mbarrier_arrive(q_full);
<%- if by_warp %>
}
<%- endif %>
<%- endif %>
}
