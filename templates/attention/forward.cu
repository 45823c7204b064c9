<# Attention, forward: one warpgroup brings Q, K and V to shared memory, the others multiply, each for 64 queries. Scores and O are in
   registers; keys are walked from right to left, so that a row's first steps are those that a mask may cut. Blocks stay and walk tiles of
   queries. -#>
#define FW_SCORES "${ score_registers }$"
#define FW_VALUES "${ value_registers }$"

extern "C" __global__ void __launch_bounds__(${ threads }$, 1)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
FW_ACCUMULATORS_float(${ accumulators }$);
const unsigned shared = fw_uniform(fw_shared_address(shared_bytes));
const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
const unsigned k_full = shared + ${ barriers }$, k_empty = k_full + ${ 8 * stages }$;  // mbarriers for each stage of K
const unsigned v_full = k_empty + ${ 8 * stages }$, v_empty = v_full + ${ 8 * stages }$;  // of V
const unsigned q_full = v_empty + ${ 8 * stages }$, q_empty = q_full + 8;  // and for Q
<%- if claimed %>
unsigned* const claimed = reinterpret_cast<unsigned*>(shared_bytes + ${ claimed }$);  // the tile that the producer claimed
<%- endif %>
if (threadIdx.x == 0) {
fw_tma_prefetch(&map0);
fw_tma_prefetch(&map1);
fw_tma_prefetch(&map2);
#pragma unroll
for (unsigned stage = 0; stage < ${ stages }$; ++stage) {
fw_mbarrier_init(k_full + 8 * stage, 1);
fw_mbarrier_init(v_full + 8 * stage, 1);
fw_mbarrier_init(k_empty + 8 * stage, ${ 4 * consumers }$);  // warps that multiply what is in it
fw_mbarrier_init(v_empty + 8 * stage, ${ 4 * consumers }$);
}
fw_mbarrier_init(q_full, 1);
fw_mbarrier_init(q_empty, ${ 4 * consumers }$);
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
