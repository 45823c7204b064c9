<# The barriers of a ring of stages between warpgroups; README.md in this folder has their protocol. -#>
const unsigned full = shared + ${ at }$, empty = full + ${ 8 * stages }$;  // an mbarrier each for a stage
<%- if transforms %>
const unsigned raw = empty + ${ 8 * stages }$;  // another for the boxes of a stage
<%- endif %>
<%- if ping_pong %>
const unsigned turn = <% if transforms %>raw<% else %>empty<% endif %> + ${ 8 * stages }$;  // and one for each consumer
<%- endif %>
<%- if stationary %>
const unsigned stationary = shared + ${ stationary.at }$, arrived_b = shared + ${ stationary.barriers }$;  // B, a barrier for each step
<%- endif %>
<%- for zeros in zeros %>
// boxes of ${ zeros.name }$ end before what is multiplied: a chunk of zeros in each row, which stays
#pragma unroll 1
for (unsigned row = threadIdx.x; row < ${ zeros.tiles * zeros.rows }$; row += blockDim.x) {
const unsigned chunk = ${ zeros.at }$ + row / ${ zeros.rows }$ * ${ zeros.stride }$ + row % ${ zeros.rows }$ * ${ zeros.row_bytes }$ + ${ zeros.chunk }$;
fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (chunk ^ (chunk >> 3 & ${ zeros.chunk_bits }$))), fw_vector<unsigned, 4>{});
}
<%- if loop.last %>
fw_fence_async();
<%- endif %>
<%- endfor %>
if (threadIdx.x == 0) {
<%- for map in maps %>
fw_tma_prefetch(&map${ map }$);
<%- endfor %>
#pragma unroll
for (unsigned stage = 0; stage < ${ stages }$; ++stage) {
fw_mbarrier_init(full + 8 * stage, ${ filling }$);
<%- if transforms %>
fw_mbarrier_init(raw + 8 * stage, 1);
<%- endif %>
fw_mbarrier_init(empty + 8 * stage, ${ releasing }$);  // warps that multiply what is in it
}
<%- if ping_pong %>
fw_mbarrier_init(turn, ${ warps }$);
fw_mbarrier_init(turn + 8, ${ warps }$);
<%- endif %>
<%- if boxes %>
#pragma unroll 1
for (unsigned set = 0; set < ${ boxes.count }$; ++set) fw_mbarrier_init(shared + ${ boxes.at }$ + 8 * set, 1);
<%- endif %>
<%- if stationary %>
#pragma unroll 1
for (unsigned step = 0; step < ${ stationary.steps }$; ++step) fw_mbarrier_init(arrived_b + 8 * step, 1);
<%- endif %>
fw_mbarrier_init_fence();
}
__syncthreads();
