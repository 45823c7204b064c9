<# A tile of the gradient of a bias to memory: of all queries, and of all keys, together where the bias has one row, or one column. -#>
${ place }$
const int row = m0 + consumer * 64 + warp % 4 * 16 + lane / 4;
<%- if sums_queries %>
// totals of a warp's rows, then of all warps in their order
float* const totals = reinterpret_cast<float*>(shared_bytes + ${ totals }$);
const unsigned thread = threadIdx.x - 128;
<%- if sums_keys %>
float of_rows = 0.0f;
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) of_rows += sums[i];
#pragma unroll
for (int step = 16; step > 0; step /= 2) of_rows += __shfl_xor_sync(0xffffffffu, of_rows, step);
if (lane == 0) totals[thread / 32] = of_rows;
<%- else %>
#pragma unroll
for (int i = 0; i < ${ scores }$; i += i & 1 ? 3 : 1) {
float of_rows = sums[i] + sums[i + 2];
#pragma unroll
for (int step = 16; step >= 4; step /= 2) of_rows += __shfl_xor_sync(0xffffffffu, of_rows, step);
if (lane < 4) totals[thread / 32 * ${ columns }$ + 8 * (i >> 2) + 2 * quad + (i & 1)] = of_rows;
}
<%- endif %>
fw_named_barrier<1, ${ 128 * consumers }$>();
<%- if sums_keys %>
if (thread == 0) {
constexpr unsigned column = 0;
[[maybe_unused]] constexpr int query = 0, key = 0;
<%- else %>
for (unsigned column = thread; column < ${ columns }$; column += ${ 128 * consumers }$) {
[[maybe_unused]] constexpr int query = 0;
const int key = block * ${ columns }$ + int(column);
if (key >= ${ keys }$) break;
<%- endif %>
float total = 0.0f;
#pragma unroll
for (unsigned of_warp = 0; of_warp < ${ 4 * consumers }$; ++of_warp) total += totals[of_warp * <% if sums_keys %>1<% else %>${ columns }$<% endif %> + column];
${ pointer }$[${ offset }$] = ${ total }$;
}
fw_named_barrier<1, ${ 128 * consumers }$>();  // before the next totals
<%- elif sums_keys %>
#pragma unroll
for (int e = 0; e < 2; ++e) {
float total = 0.0f;
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) {
if ((i >> 1 & 1) == e) total += sums[i];
}
total = fw_quad_total(total);
const int query = row + 8 * e;
[[maybe_unused]] constexpr int key = 0;
if (quad == 0 && query < ${ queries }$) ${ pointer }$[${ offset }$] = ${ total }$;
}
<%- else %>
#pragma unroll
for (int i = 0; i < ${ scores }$; <% if stores_pairs %>i += 2<% else %>++i<% endif %>) {
const int query = row + 8 * (i >> 1 & 1), key = block * ${ columns }$ + 8 * (i >> 2) + 2 * int(quad) + (i & 1);
if (query < ${ queries }$ && key < ${ keys }$) {
<%- if stores_pairs %>
*reinterpret_cast<fw_vector<${ storage }$, 2>*>(${ pointer }$ + ${ offset }$) = {{${ first }$, ${ second }$}};
<%- else %>
${ pointer }$[${ offset }$] = ${ first }$;
<%- endif %>
}
}
<%- endif %>
