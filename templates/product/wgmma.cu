<# A matrix product by wgmma: one warpgroup brings tiles to a ring of stages in shared memory, two multiply them. Blocks stay and walk
   units of work: tiles of C, and parts of k. -#>
<%- for list in registers -%>
#define FW_ROWS_${ loop.index0 }$ "${ list }$"
<% endfor -%>
extern "C" __global__ void <% if cluster %>__cluster_dims__(${ cluster.blocks }$, 1, 1) <% endif %>__launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
${ declare }$(${ accumulators }$);
const unsigned shared = fw_shared_address(shared_bytes);
const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
${ ring }$
<%- if cluster %>
const unsigned rank = blockIdx.x % ${ cluster.blocks }$;
const auto meet = [] {
fw_cluster_arrive();
fw_cluster_wait();
};
<%- if cluster.tiles_m %>
// blocks of the same row, or column, of tiles need the same of A, or of B: each asks for a part of it, which all of them receive
const unsigned rank_m = rank % ${ cluster.tiles_m }$, rank_n = rank / ${ cluster.tiles_m }$;
meet();  // all have their barriers
<%- else %>
// each multiplies a part of k; the first one adds up what the others have
<%- endif %>
<%- endif %>
fw_wait_for_previous_launch();

if (warp < 4) {
fw_decrease_registers<${ producer_registers }$>();
${ producer }$
<%- if cluster %>
__syncwarp();
meet();
<%- if not cluster.tiles_m %>
meet();
<%- endif %>
<%- endif %>
} else {
fw_increase_registers<${ consumer_registers }$>();
${ consumer }$
<%- if cluster and cluster.tiles_m %>
meet();  // nobody needs this block's memory any more
<%- endif %>
}
}
