<# Channels, phase after phase. A thread copies its points of a vector of channels to shared memory, evaluates them, then gets the phase's totals,
   which later phases read. As many threads as a block has channels finish totals, evaluate what is done once a channel, and what is the same for all
   its points. The blocks of a cluster share the points of their channels: each stores its totals in the shared memory of all, once they are known to
   have begun; none reads another's, so that it may end when it is done. -#>
extern "C" __global__ void <% if cluster > 1 %>__cluster_dims__(${ cluster }$, 1, 1) <% endif %>__launch_bounds__(${ threads }$, ${ resident }$)
${ function }$(${ parameters }$) {
<%- if cluster > 1 %>
fw_cluster_arrive();
<%- endif %>
fw_wait_for_previous_launch();
FW_SHARED(shared_bytes);
float* const shared = reinterpret_cast<float*>(shared_bytes);
const unsigned thread = threadIdx.y * ${ columns }$ + threadIdx.x<% if of_group == 1 %>, warp = thread / 32<% endif %>;
<%- if cluster > 1 %>
const unsigned rank = blockIdx.x % ${ cluster }$, first = rank * ${ rows }$ + threadIdx.y;
<%- else %>
const unsigned first = threadIdx.y;
<%- endif %>
const ${ index }$ kept = ${ kept }$, channel = ${ channel }$;
<%- if operands %>
if (thread < ${ channels }$) {  // what is read later
<%- for line in of_channel %>
${ line }$
<%- endfor %>
<%- for operand in operands %>
fw_prefetch(${ operand }$);
<%- endfor %>
}
<%- endif %>
<%- for total in totals %>
float ${ total }$ = 0.0f;
<%- endfor %>
unsigned char* const own = shared_bytes + ${ points_at }$ + thread * ${ vector_bytes }$;
const auto place = [&](int tensor, int g) { return own + (g * ${ ahead_count }$ + tensor) * ${ threads * vector_bytes }$; };
{
<%- for line in of_kept %>
${ line }$
<%- endfor %>
#pragma unroll 4
for (int g = 0; g < ${ each }$; ++g) {
const ${ index }$ r = first + g * ${ span }$;
<%- if is_short %>
if (r >= ${ count }$) continue;
<%- endif %>
<%- for line in of_reduced %>
${ line }$
<%- endfor %>
<%- for address in ahead %>
fw_cp_async<${ vector_bytes }$>(fw_shared_address(place(${ loop.index0 }$, g)), ${ address }$, true);
<%- endfor %>
}
}
fw_cp_async_commit();
fw_cp_async_wait<0>();
<%- if cluster > 1 %>
fw_cluster_wait();
<%- endif %>
<%- for phase in phases %>

<%- if phase.once or phase.hold or phase.before %>
if (thread < ${ channels }$) {
<%- for total in phase.before %>
{
float total = shared[${ total.met }$ + ${ set }$];
<%- if cluster > 1 %>
#pragma unroll
for (int block = 1; block < ${ cluster }$; ++block) total = ${ total.combine }$(total, shared[${ total.met }$ + block * ${ sets }$ + ${ set }$]);
<%- endif %>
${ total.variable }$ = ${ total.finished }$;
<% if of_group > 1 %>if (thread % ${ of_group }$ == 0) <% endif %>shared[${ total.whole }$ + ${ set }$] = ${ total.variable }$;
}
<%- endfor %>
<%- if phase.once %>
<% if writes %>if (${ writes }$) <% endif %>{
<%- for line in phase.once.of_kept %>
${ line }$
<%- endfor %>
${ phase.once.evaluate }$
}
<%- endif %>
<%- if phase.hold %>
{
<%- for line in phase.hold.of_kept %>
${ line }$
<%- endfor %>
${ phase.hold.evaluate }$
}
<%- endif %>
}
__syncthreads();
<%- for total in phase.before %>
<%- if of_group > 1 %>
const float ${ total.vector }$[1] = {shared[${ total.whole }$ + threadIdx.x / ${ of_group_columns }$]};
<%- else %>
float ${ total.vector }$[${ vector }$];
fw_load_vector(shared + ${ total.whole }$ + threadIdx.x * ${ vector }$, ${ total.vector }$);
<%- endif %>
<%- endfor %>
<%- endif %>
{
<%- for value in phase.held %>
float ${ value.vector }$[${ vector }$];
fw_load_vector(shared + ${ value.place }$ + threadIdx.x * ${ vector }$, ${ value.vector }$);
<%- endfor %>
<%- for total in phase.totals %>
float ${ total.name }$[${ width }$];
#pragma unroll
for (int e = 0; e < ${ width }$; ++e) ${ total.name }$[e] = ${ total.identity }$;
<%- endfor %>
<%- if phase.points %>
<%- for line in phase.points.of_kept %>
${ line }$
<%- endfor %>
#pragma unroll 4
for (int g = 0; g < ${ each }$; ++g) {
const ${ index }$ r = first + g * ${ span }$;
<%- if is_short %>
if (r >= ${ count }$) continue;
<%- endif %>
<%- for line in phase.points.of_reduced %>
${ line }$
<%- endfor %>
${ phase.points.evaluate }$
}
<%- endif %>
<%- if phase.totals %>
<%- for total in phase.totals %>
<%- if of_group > 1 %>
shared[${ total.place }$ + thread] = ${ total.name }$[0];
<%- else %>
#pragma unroll
for (int e = 0; e < ${ vector }$; ++e) {
${ total.name }$[e] = fw_lanes_total<16, ${ columns }$>(${ total.name }$[e], [](float a, float b) { return ${ total.combine }$(a, b); });
if (thread % 32 < ${ columns }$) shared[${ total.place }$ + warp * ${ channels }$ + threadIdx.x * ${ vector }$ + e] = ${ total.name }$[e];
}
<%- endif %>
<%- endfor %>
__syncthreads();
<%- if of_group > 1 %>
if (thread < ${ columns }$) {
<%- for total in phase.totals %>
{
float part = shared[${ total.place }$ + thread];
#pragma unroll
for (int y = 1; y < ${ rows }$; ++y) part = ${ total.combine }$(part, shared[${ total.place }$ + y * ${ columns }$ + thread]);
shared[${ total.place + threads }$ + thread] = part;
}
<%- endfor %>
}
__syncthreads();
<%- endif %>
if (thread < ${ sets }$) {
<%- for total in phase.totals %>
{
<%- if of_group > 1 %>
float part = shared[${ total.place + threads }$ + thread * ${ of_group_columns }$];
#pragma unroll
for (int x = 1; x < ${ of_group_columns }$; ++x) part = ${ total.combine }$(part, shared[${ total.place + threads }$ + thread * ${ of_group_columns }$ + x]);
<%- else %>
float part = shared[${ total.place }$ + thread];
#pragma unroll
for (int w = 1; w < ${ warps }$; ++w) part = ${ total.combine }$(part, shared[${ total.place }$ + w * ${ channels }$ + thread]);
<%- endif %>
<%- if cluster > 1 %>
#pragma unroll
for (int block = 0; block < ${ cluster }$; ++block) fw_store_to_block(shared + ${ total.met }$ + rank * ${ sets }$ + thread, block, part);
<%- else %>
shared[${ total.met }$ + thread] = part;
<%- endif %>
}
<%- endfor %>
}
<%- if cluster > 1 %>
fw_cluster_arrive();
fw_cluster_wait();
<%- elif of_group > 1 %>
__syncthreads();
<%- endif %>
<%- endif %>
}
<%- endfor %>
}
