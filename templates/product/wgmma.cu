<# A matrix product by wgmma: one warpgroup brings tiles to a ring of stages in shared memory, two multiply them. Blocks stay and walk
   units of work: tiles of C, and parts of k. -#>
<%- for list in registers -%>
#define FW_ROWS_${ loop.index0 }$ "${ list }$"
<% endfor -%>
extern "C" __global__ void <% if cluster %>__cluster_dims__(${ cluster }$, 1, 1) <% endif %>__launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
${ declare }$(${ accumulators }$);
const unsigned shared = fw_shared_address(shared_bytes);
const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
${ ring }$
<%- if cluster %>
// the blocks of a cluster multiply a part of k each; the first one adds up what the others have
const unsigned rank = blockIdx.x % ${ cluster }$;
const auto meet = [] {
fw_cluster_arrive();
fw_cluster_wait();
};
<%- endif %>
fw_wait_for_previous_launch();

if (warp < 4) {
fw_decrease_registers<${ producer_registers }$>();
${ producer }$
<%- if cluster %>
__syncwarp();
meet();
meet();
<%- endif %>
} else {
fw_increase_registers<${ consumer_registers }$>();
${ consumer }$
}
}
