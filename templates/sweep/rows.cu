<# Rows, phase after phase. `columns` threads have a row: each evaluates `each` vectors of points of it, then all of them get the phase's
   totals, which later phases read. What is evaluated once a row is done by its first thread. The blocks of a cluster share a row: each stores its
   totals in the shared memory of all, once they are known to have begun; none reads another's, so that it may end when it is done. -#>
extern "C" __global__ void <% if cluster > 1 %>__cluster_dims__(${ cluster }$, 1, 1) <% endif %>__launch_bounds__(${ threads }$, ${ resident }$)
${ function }$(${ parameters }$) {
<%- if cluster > 1 %>
fw_cluster_arrive();
<%- endif %>
fw_wait_for_previous_launch();
<%- if shares %>
FW_SHARED(shared_bytes);
float* const shared = reinterpret_cast<float*>(shared_bytes);
const unsigned warp = threadIdx.x / 32;
<%- endif %>
<%- if cluster > 1 %>
const unsigned rank = blockIdx.x % ${ cluster }$, thread = rank * ${ columns }$ + threadIdx.x;
<%- endif %>
const ${ index }$ row = ${ row }$;
<%- for phase in phases %>

<%- if phase.row %>
if (${ thread }$ == 0) {
<%- for line in phase.row.of_kept %>
${ line }$
<%- endfor %>
${ phase.row.evaluate }$
}
<%- endif %>
<%- for total in phase.totals %>
float ${ total.variable }$[1];
<%- endfor %>
{
<%- for total in phase.totals %>
float ${ total.name }$[1] = {${ total.identity }$};
<%- endfor %>
<%- if phase.points %>
<%- for line in phase.points.of_kept %>
${ line }$
<%- endfor %>
<%- if is_unrolled %>
#pragma unroll
<%- else %>
#pragma unroll 4
<%- endif %>
for (int g = 0; g < ${ each }$; ++g) {
const ${ index }$ r = ${ thread }$ + g * ${ span }$;
<%- if is_short %>
if (r >= ${ vectors }$) continue;
<%- endif %>
<%- for line in phase.points.of_reduced %>
${ line }$
<%- endfor %>
${ phase.points.evaluate }$
}
<%- endif %>
<%- for total in phase.totals %>
${ total.name }$[0] = fw_lanes_total<${ half }$, 1>(${ total.name }$[0], [](float a, float b) { return ${ total.combine }$(a, b); });
<%- endfor %>
<%- if phase.totals %>
<%- if shares %>
if (threadIdx.x % 32 == 0) {
<%- for total in phase.totals %>
shared[${ total.place }$ + threadIdx.y * ${ pitch }$ + warp] = ${ total.name }$[0];
<%- endfor %>
}
__syncthreads();
<%- for total in phase.totals %>
${ total.name }$[0] = fw_warps_total<${ warps }$>(shared + ${ total.place }$ + threadIdx.y * ${ pitch }$, [](float a, float b) { return ${ total.combine }$(a, b); });
<%- endfor %>
<%- endif %>
<%- if cluster > 1 %>
<%- if loop.first %>
fw_cluster_wait();
<%- endif %>
<%- for total in phase.totals %>
if (threadIdx.x < ${ cluster }$) fw_store_to_block(shared + ${ total.met }$ + rank, threadIdx.x, ${ total.name }$[0]);
<%- endfor %>
fw_cluster_arrive();
fw_cluster_wait();
<%- for total in phase.totals %>
${ total.name }$[0] = fw_warps_total<${ cluster }$>(shared + ${ total.met }$, [](float a, float b) { return ${ total.combine }$(a, b); });
<%- endfor %>
<%- endif %>
<%- for total in phase.totals %>
{
const float total = ${ total.name }$[0];
${ total.variable }$[0] = ${ total.finished }$;
}
<%- endfor %>
<%- endif %>
}
<%- endfor %>
}
