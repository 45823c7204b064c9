<# Combines the accumulators `name` over the threads of a block in a fixed tree, then writes `total`, for each of `width` kept points of
   a thread: one result for every `along`. -#>
// ${ name }$: one result for every ${ along }$, from all threads of the block
fw_tree<${ width }$>(shared, ${ name }$, lane, ${ thread }$, ${ leaves }$, ${ stride }$, ${ threads }$, [](float a, float b) { return ${ combine }$(a, b); });
if (${ writes }$) {
<%- if width > 1 %>
#pragma unroll
for (int e = 0; e < ${ width }$; ++e) {
<%- if guard %>
if (!(${ guard }$)) continue;
<%- endif %>
const float total = shared[e * ${ threads }$ + lane];
${ write }$
}
<%- else %>
const float total = shared[lane];
${ write }$
<%- endif %>
}
__syncthreads();
