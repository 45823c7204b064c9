<# Rows, phase after phase. `columns` threads have a row: each evaluates `each` vectors of points of it, then all of them get the phase's
   totals, which later phases read. What is evaluated once a row is done by its first thread. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ resident }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
<%- if uses_shared %>
FW_SHARED(shared_bytes);
<%- endif %>
<%- if shares %>
float* shared = reinterpret_cast<float*>(shared_bytes);
const unsigned warp = threadIdx.x / 32;
<%- endif %>
<%- if staying %>
<%- for sum in staying.sums %>
float ${ sum.name }$[${ each }$][${ staying.vector }$];
#pragma unroll
for (int g = 0; g < ${ each }$; ++g) {
#pragma unroll
for (int e = 0; e < ${ staying.vector }$; ++e) ${ sum.name }$[g][e] = ${ sum.identity }$;
}
<%- endfor %>
#pragma unroll 1
for (${ index }$ round = blockIdx.x * ${ staying.rows }$; round < ${ staying.count }$; round += ${ staying.stride }$) {
if (round + ${ staying.stride }$ < ${ staying.count }$) {  // what the next round reads
const ${ index }$ row = ${ row }$ + ${ staying.stride }$;
<%- for line in staying.ahead.of_row %>
${ line }$
<%- endfor %>
#pragma unroll
for (int g = 0; g < ${ each }$; ++g) {
const ${ index }$ r = threadIdx.x + g * ${ columns }$;
<%- if is_short %>
if (r >= ${ vectors }$) continue;
<%- endif %>
<%- for line in staying.ahead.of_vector %>
${ line }$
<%- endfor %>
<%- for address in staying.ahead.addresses %>
fw_prefetch(${ address }$);
<%- endfor %>
}
}
<%- endif %>
const ${ index }$ row = ${ row }$;
<%- for phase in phases %>

<%- if phase.row %>
if (threadIdx.x == 0) {
<%- for line in phase.row.coordinates %>
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
<%- for line in phase.points.of_row %>
${ line }$
<%- endfor %>
<%- if is_unrolled %>
#pragma unroll
<%- else %>
#pragma unroll 4
<%- endif %>
for (int g = 0; g < ${ each }$; ++g) {
const ${ index }$ r = threadIdx.x + g * ${ columns }$;
<%- if is_short %>
if (r >= ${ vectors }$) continue;
<%- endif %>
<%- for line in phase.points.of_vector %>
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
shared[${ total.place }$ + threadIdx.y * ${ warps }$ + warp] = ${ total.name }$[0];
<%- endfor %>
}
__syncthreads();
<%- for total in phase.totals %>
${ total.name }$[0] = fw_warps_total<${ warps }$>(shared + ${ total.place }$ + threadIdx.y * ${ warps }$, [](float a, float b) { return ${ total.combine }$(a, b); });
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
<%- if staying %>
<%- if shares %>
shared = shared == reinterpret_cast<float*>(shared_bytes) ? shared + ${ staying.round }$ : reinterpret_cast<float*>(shared_bytes);  // the round before may still be read
<%- endif %>
}
fw_let_next_launch_start();
<%- for sum in staying.sums %>
<%- if staying.rows > 1 %>
{
float* const sums = reinterpret_cast<float*>(shared_bytes);
__syncthreads();
#pragma unroll
for (int g = 0; g < ${ each }$; ++g) {
const unsigned r = threadIdx.x + g * ${ columns }$;
<%- if is_short %>
if (r >= ${ vectors }$) continue;
<%- endif %>
fw_vector<float, ${ staying.vector }$> parts;
#pragma unroll
for (int e = 0; e < ${ staying.vector }$; ++e) parts.at[e] = ${ sum.name }$[g][e];
fw_store_vector(sums + threadIdx.y * ${ staying.elements }$ + r * ${ staying.vector }$, parts);
}
__syncthreads();
for (unsigned column = threadIdx.y * ${ columns }$ + threadIdx.x; column < ${ staying.elements }$; column += ${ threads }$) {
float total = sums[column];
#pragma unroll
for (int y = 1; y < ${ staying.rows }$; ++y) total = ${ sum.combine }$(total, sums[y * ${ staying.elements }$ + column]);
${ sum.partial }$[(unsigned long long)(blockIdx.x) * ${ staying.elements }$ + column] = total;
}
}
<%- else %>
#pragma unroll
for (int g = 0; g < ${ each }$; ++g) {
const unsigned r = threadIdx.x + g * ${ columns }$;
<%- if is_short %>
if (r >= ${ vectors }$) continue;
<%- endif %>
fw_vector<float, ${ staying.vector }$> parts;
#pragma unroll
for (int e = 0; e < ${ staying.vector }$; ++e) parts.at[e] = ${ sum.name }$[g][e];
fw_store_vector(${ sum.partial }$ + (unsigned long long)(blockIdx.x) * ${ staying.elements }$ + r * ${ staying.vector }$, parts);
}
<%- endif %>
<%- endfor %>
<%- endif %>
}
