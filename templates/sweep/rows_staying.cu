<# Rows, phase after phase, by blocks that stay: a thread has the same columns in each row, and adds up over rows. Rounds are of `at_once` rows a
   thread; the vectors that it reads anew for each row come to shared memory, each thread's own, a round before. The blocks of a cluster share rows,
   as in `rows.cu`; a total is read before the next round's is known, and its place is used again after that. -#>
extern "C" __global__ void <% if cluster > 1 %>__cluster_dims__(${ cluster }$, 1, 1) <% endif %>__launch_bounds__(${ threads }$, ${ resident }$)
${ function }$(${ parameters }$) {
<%- if cluster > 1 %>
fw_cluster_arrive();
<%- endif %>
fw_wait_for_previous_launch();
fw_let_next_launch_start();
FW_SHARED(shared_bytes);
<%- if shares %>
float* shared = reinterpret_cast<float*>(shared_bytes);
const unsigned warp = threadIdx.x / 32;
<%- endif %>
<%- if cluster > 1 %>
const unsigned rank = blockIdx.x % ${ cluster }$, thread = rank * ${ columns }$ + threadIdx.x;
<%- endif %>
<%- if ahead %>
unsigned char* const ring = shared_bytes + ${ ring }$ + (threadIdx.y * ${ columns }$ + threadIdx.x) * ${ vector_bytes }$;
const auto place = [&](unsigned slot, int u, int tensor, int g) { return ring + (((slot * ${ at_once }$ + u) * ${ ahead_count }$ + tensor) * ${ each }$ + g) * ${ threads * vector_bytes }$; };
const auto ask = [&](${ index }$ round, unsigned slot) {
if (round < ${ count }$) {
#pragma unroll
for (int u = 0; u < ${ at_once }$; ++u) {
const ${ index }$ row = ${ row }$;
<%- for line in of_row %>
${ line }$
<%- endfor %>
#pragma unroll
for (int g = 0; g < ${ each }$; ++g) {
const ${ index }$ r = ${ thread }$ + g * ${ span }$;
<%- if is_short %>
if (r >= ${ vectors }$) continue;
<%- endif %>
<%- for line in of_vector %>
${ line }$
<%- endfor %>
<%- for address in ahead %>
fw_cp_async<${ vector_bytes }$>(fw_shared_address(place(slot, u, ${ loop.index0 }$, g)), ${ address }$, true);
<%- endfor %>
}
}
}
fw_cp_async_commit();
};
unsigned slot = 0;
ask(${ group }$ * ${ rows * at_once }$, 0);
<%- endif %>
<%- for sum in sums %>
float ${ sum.name }$[${ each }$][${ vector }$];
#pragma unroll
for (int g = 0; g < ${ each }$; ++g) {
#pragma unroll
for (int e = 0; e < ${ vector }$; ++e) ${ sum.name }$[g][e] = ${ sum.identity }$;
}
<%- endfor %>
<%- if cluster > 1 %>
fw_cluster_wait();
<%- endif %>
#pragma unroll 1
for (${ index }$ round = ${ group }$ * ${ rows * at_once }$; round < ${ count }$; round += ${ stride }$) {
<%- if ahead %>
ask(round + ${ stride }$, slot ^ 1);
fw_cp_async_wait<1>();
<%- endif %>
<%- for phase in phases %>

<%- for total in phase.totals %>
float ${ total.variable }$_of[${ at_once }$][1];
<%- endfor %>
{
<%- for total in phase.totals %>
float ${ total.name }$[${ at_once }$];
<%- endfor %>
#pragma unroll
for (int u = 0; u < ${ at_once }$; ++u) {
<%- for total in phase.totals %>
${ total.name }$[u] = ${ total.identity }$;
<%- endfor %>
const ${ index }$ row = ${ row }$;
<%- for variable in phase.known %>
float (&${ variable }$)[1] = ${ variable }$_of[u];
<%- endfor %>
<%- if phase.row %>
if (${ thread }$ == 0) {
<%- for line in phase.row.of_kept %>
${ line }$
<%- endfor %>
${ phase.row.evaluate }$
}
<%- endif %>
<%- if phase.points %>
<%- for line in phase.points.of_kept %>
${ line }$
<%- endfor %>
#pragma unroll
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
}
<%- if phase.totals %>
<%- if phase.halved %>
{
float parts[${ phase.halved.count }$] = {${ phase.halved.values }$};
const float part = fw_lanes_totals(parts, [](float a, float b) { return ${ phase.halved.combine }$(a, b); });
if (threadIdx.x % ${ phase.halved.lanes }$ == 0)
shared[${ phase.halved.place }$ + threadIdx.x % 32 / ${ phase.halved.lanes }$ * ${ pitch * rows }$ + threadIdx.y * ${ pitch }$ + warp] = part;
}
<%- else %>
<%- for total in phase.totals %>
#pragma unroll
for (int u = 0; u < ${ at_once }$; ++u) {
${ total.name }$[u] = fw_lanes_total<${ half }$, 1>(${ total.name }$[u], [](float a, float b) { return ${ total.combine }$(a, b); });
<%- if shares %>
if (threadIdx.x % 32 == 0) shared[${ total.place }$ + u * ${ pitch * rows }$ + threadIdx.y * ${ pitch }$ + warp] = ${ total.name }$[u];
<%- endif %>
}
<%- endfor %>
<%- endif %>
<%- if shares %>
__syncthreads();
<%- endif %>
<%- if cluster > 1 %>
<%- for total in phase.totals %>
#pragma unroll
for (int u = 0; u < ${ at_once }$; ++u) {
const float part = fw_warps_total<${ warps }$>(shared + ${ total.place }$ + u * ${ pitch }$, [](float a, float b) { return ${ total.combine }$(a, b); });
if (threadIdx.x < ${ cluster }$) fw_store_to_block(shared + ${ total.met }$ + u * ${ cluster }$ + rank, threadIdx.x, part);
}
<%- endfor %>
fw_cluster_arrive();
fw_cluster_wait();
<%- endif %>
<%- for total in phase.totals %>
#pragma unroll
for (int u = 0; u < ${ at_once }$; ++u) {
<%- if cluster > 1 %>
const float total = fw_warps_total<${ cluster }$>(shared + ${ total.met }$ + u * ${ cluster }$, [](float a, float b) { return ${ total.combine }$(a, b); });
<%- elif shares %>
const float total = fw_warps_total<${ warps }$>(shared + ${ total.place }$ + u * ${ pitch * rows }$ + threadIdx.y * ${ pitch }$, [](float a, float b) { return ${ total.combine }$(a, b); });
<%- else %>
const float total = ${ total.name }$[u];
<%- endif %>
${ total.variable }$_of[u][0] = ${ total.finished }$;
}
<%- endfor %>
<%- endif %>
}
<%- endfor %>
<%- if ahead %>
slot ^= 1;
<%- endif %>
<%- if not shares %>
__syncwarp();  // ptxas takes ten times as long where rounds have no barrier
<%- else %>
shared = shared == reinterpret_cast<float*>(shared_bytes) ? shared + ${ round }$ : reinterpret_cast<float*>(shared_bytes);  // the round before may still be read
<%- endif %>
}
<%- for sum in sums %>
{
<%- if rows > 1 %>
float* const sums = reinterpret_cast<float*>(shared_bytes);
float* const own = sums + threadIdx.y * ${ elements }$;
__syncthreads();
<%- else %>
float* const own = ${ sum.partial }$ + (unsigned long long)(${ group }$) * ${ elements }$;
<%- endif %>
#pragma unroll
for (int g = 0; g < ${ each }$; ++g) {
const unsigned r = ${ thread }$ + g * ${ span }$;
<%- if is_short %>
if (r >= ${ vectors }$) continue;
<%- endif %>
fw_vector<float, ${ vector }$> parts;
#pragma unroll
for (int e = 0; e < ${ vector }$; ++e) parts.at[e] = ${ sum.name }$[g][e];
fw_store_vector(own + r * ${ vector }$, parts);
}
<%- if rows > 1 %>
__syncthreads();
for (unsigned column = threadIdx.y * ${ columns }$ + threadIdx.x; column < ${ elements }$; column += ${ threads }$) {
float total = sums[column];
#pragma unroll
for (int y = 1; y < ${ rows }$; ++y) total = ${ sum.combine }$(total, sums[y * ${ elements }$ + column]);
${ sum.partial }$[(unsigned long long)(blockIdx.x) * ${ elements }$ + column] = total;
}
<%- endif %>
}
<%- endfor %>
}
