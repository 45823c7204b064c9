<# The gradient of a bias: a block has a tile of it, for which it adds up gradients of scores, one tile of scores after the other in a fixed order.
   A producer brings the queries, dO, keys and values of each; a consumer multiplies 64 queries. #>
#define FW_SCORES "${ score_registers }$"
#define FW_DIFFERENCES "${ difference_registers }$"

extern "C" __global__ void __launch_bounds__(${ threads }$, 1)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
FW_ACCUMULATORS_float(${ accumulators }$);
const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
const unsigned full = shared + ${ barriers }$, empty = full + ${ 8 * stages }$;  // mbarriers for each stage
if (threadIdx.x == 0) {
fw_tma_prefetch(&map0);
fw_tma_prefetch(&map1);
fw_tma_prefetch(&map2);
fw_tma_prefetch(&map3);
#pragma unroll 1
for (unsigned stage = 0; stage < ${ stages }$; ++stage) {
fw_mbarrier_init(full + 8 * stage, 1);
fw_mbarrier_init(empty + 8 * stage, ${ 4 * consumers }$);  // warps that multiply what is in it
}
fw_mbarrier_init_fence();
}
__syncthreads();
fw_wait_for_previous_launch();

if (warp < 4) {
fw_decrease_registers<${ producer_registers }$>();
if (warp == 0 && fw_elect()) {
unsigned stage = 0, parity = 1;
#pragma unroll 1
for (unsigned unit = blockIdx.x; unit < ${ units }$u; unit += gridDim.x) {
#pragma unroll 1
for (unsigned member = 0; member < ${ members }$u; ++member) {
${ member }$
<%- for line in sequences %>
${ line }$
<%- endfor %>
fw_mbarrier_wait(empty + 8 * stage, parity);
fw_mbarrier_expect(full + 8 * stage, ${ stage_bytes }$);
const unsigned tile = shared + stage * ${ stage_bytes }$;
<%- for line in lines %>
fw_tma_load(tile + ${ line.at }$, &${ line.map }$, full + 8 * stage, ${ line.element }$, ${ line.coordinates }$);
<%- endfor %>
if (++stage == ${ stages }$) stage = 0, parity ^= 1;
}
}
}
} else {
fw_increase_registers<${ consumer_registers }$>();
const unsigned consumer = warp / 4 - 1, quad = lane % 4;
const float scale = ${ scale }$<% if cap %>, cap = ${ cap }$, of_cap = scale / cap<% endif %>, c = ${ unit }$;
<%- if dropout %>
${ dropout }$
<%- endif %>
unsigned stage = 0, parity = 0;
#pragma unroll 1
for (unsigned unit = blockIdx.x; unit < ${ units }$u; unit += gridDim.x) {
float sums[${ scores }$] = {};
#pragma unroll 1
for (unsigned member = 0; member < ${ members }$u; ++member) {
${ member }$
const int first_row = m0 + consumer * 64, row = first_row + warp % 4 * 16 + lane / 4;
float statistic[2], delta[2];
#pragma unroll
for (int e = 0; e < 2; ++e) {
const unsigned long long place = (b * ${ heads }$ull + h) * ${ padded }$ull + min(row + 8 * e, ${ last_query }$);
statistic[e] = partial0[place], delta[e] = partial1[place]<% if of_delta %> * ${ of_delta }$<% endif %>;
}
fw_mbarrier_wait(full + 8 * stage, parity);
const unsigned tile = shared + stage * ${ stage_bytes }$;
FW_PRODUCTS(fw_matrix_descriptor<128>(tile + consumer * ${ 64 * 128 }$, 0, 1024), fw_matrix_descriptor<128>(tile + ${ keys_at }$, 0, 1024), false,
<%- for product in score_products %>
${ product }$
<%- endfor %>);
FW_PRODUCTS(fw_matrix_descriptor<128>(tile + ${ gradients_at }$ + consumer * ${ 64 * 128 }$, 0, 1024), fw_matrix_descriptor<128>(tile + ${ values_at }$, 0, 1024), false,
<%- for product in difference_products %>
${ product }$
<%- endfor %>);
<%- if bias %>
${ bias }$
<%- endif %>
fw_wgmma_wait<1>();
float x[${ scores }$];
fw_take_all<0>(x);
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) <% if cap %>{
const fw_tanh_t capped = fw_tanh_and_slope(x[i] * of_cap);
<% endif %>x[i] = fw_fast_exp2(fmaf(${ score }$, c, -statistic[i >> 1 & 1]));
<%- if cap %>
}
<%- endif %>
fw_wgmma_wait<0>();
if (lane == 0) fw_mbarrier_arrive(empty + 8 * stage);
if (++stage == ${ stages }$) stage = 0, parity ^= 1;
float y[${ scores }$];
fw_take_all<${ scores }$>(y);
<%- if drops %>
${ drops }$
<%- endif %>
// what a mask leaves out is 0, whatever it was
const bool is_cut = first_row + 63 >= rows || block * ${ columns }$ < first_of(first_row + 63) || (block + 1) * ${ columns }$ > end_of(first_row);
const int at = block * ${ columns }$ + 2 * quad;
int kept[2], low[2];
#pragma unroll
for (int e = 0; e < 2; ++e) kept[e] = end_of(row + 8 * e) - at, low[e] = first_of(row + 8 * e) - at;
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) {
const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
if (!is_cut || (column < kept[e] && column >= low[e])) sums[i] += x[i] * (y[i]<% if factor %> * ${ factor }$<% endif %> - delta[e]);
}
}
${ store }$
}
}
}
