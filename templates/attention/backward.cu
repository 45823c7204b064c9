<# Attention, backward, for a tile of own rows: keys, whose gradients are sums over queries, or queries, whose are sums over keys. One warpgroup
   brings own rows once and the others step by step; the rest multiply, each for 64 own rows. Scores, the gradients of probabilities and the
   sums are in registers. -#>
#define FW_SCORES "${ score_registers }$"
<%- if difference_registers %>
#define FW_DIFFERENCES "${ difference_registers }$"
<%- endif %>
<%- for product in sums %>
#define ${ product.name }$ "${ product.registers }$"
<%- endfor %>

extern "C" __global__ void __launch_bounds__(${ threads }$, 1)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
FW_ACCUMULATORS_float(${ accumulators }$);
const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
const unsigned full = shared + ${ barriers }$, empty = full + ${ 8 * stages }$;  // mbarriers for each stage
const unsigned own_full = empty + ${ 8 * stages }$, own_empty = own_full + 8;  // and for own rows
<%- if claimed %>
unsigned* const claimed = reinterpret_cast<unsigned*>(shared_bytes + ${ claimed }$);  // the tile that the producer claimed
<%- endif %>
if (threadIdx.x == 0) {
fw_tma_prefetch(&map0);
fw_tma_prefetch(&map1);
fw_tma_prefetch(&map2);
fw_tma_prefetch(&map3);
#pragma unroll 1
for (unsigned stage = 0; stage < ${ stages }$; ++stage) {
fw_mbarrier_init(full + 8 * stage, ${ arrivals }$);
fw_mbarrier_init(empty + 8 * stage, ${ 4 * consumers }$);  // warps that multiply what is in it
}
fw_mbarrier_init(own_full, 1);
fw_mbarrier_init(own_empty, ${ 4 * consumers + readers }$);
fw_mbarrier_init_fence();
}
__syncthreads();
fw_wait_for_previous_launch();

if (warp < 4) {
fw_decrease_registers<${ producer_registers }$>();
${ producer }$
} else {
fw_increase_registers<${ consumer_registers }$>();
${ consumer }$
}
}
