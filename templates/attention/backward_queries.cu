<# Attention, backward: gradients of queries from gradients of scores that a pass over keys left in the workspace. One thread brings chunks of these and
   the keys, step by step; the warpgroups multiply, each for its own queries, which are the rows of the product. -#>
<%- for part in parts %>
#define ${ part.name }$ "${ part.registers }$"
<%- endfor %>

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
for (unsigned unit = ${ first }$, turn = 0; unit < ${ units }$u; ++turn, unit = ${ next }$) {
${ unit }$
<%- for line in sequences %>
${ line }$
<%- endfor %>
const unsigned first_chunk = ${ local_head }$ * ${ chunks_of_head }$u + m0 / 8;
#pragma unroll 1
for (int block = begin; block < end; ++block) {
fw_mbarrier_wait(empty + 8 * stage, parity);
fw_mbarrier_expect(full + 8 * stage, ${ stage_bytes }$);
const unsigned tile = shared + stage * ${ stage_bytes }$;
fw_tma_load(tile, &map0, full + 8 * stage, 0, (first_chunk + block * ${ chunks_of_keys }$u) * 8);
<%- for line in key_lines %>
fw_tma_load(tile + ${ line.at }$, &${ line.map }$, full + 8 * stage, ${ line.element }$, ${ line.coordinates }$);
<%- endfor %>
if (++stage == ${ stages }$) stage = 0, parity ^= 1;
}
}
}
} else {
fw_increase_registers<${ consumer_registers }$>();
const unsigned consumer = warp / 4 - 1, quad = lane % 4;
unsigned stage = 0, parity = 0;
#pragma unroll 1
for (unsigned unit = ${ first }$, turn = 0; unit < ${ units }$u; ++turn, unit = ${ next }$) {
${ stored_unit }$
const int first_row = m0 + consumer * ${ consumer_rows }$, own_last = min(first_row + ${ consumer_rows }$, rows) - 1;
// steps of which some rows keep some columns: the others' chunks may hold anything
const bool keeps = own_last >= first_row && first_of(first_row) < end_of(own_last)<% if has_width %> && ${ has_width }$<% endif %>;
const int own_begin = keeps ? max(first_of(first_row) / ${ step }$, begin) : end;
const int own_end = keeps ? min((end_of(own_last) + ${ step - 1 }$) / ${ step }$, end) : end;
const int steps = max(own_end - own_begin, 0);
const auto release = [&](unsigned stage) {
if (lane == 0) fw_mbarrier_arrive(empty + 8 * stage);
};
const auto advance = [&] {
if (++stage == ${ stages }$) stage = 0, parity ^= 1;
};
const auto skip = [&](int steps) {  // steps that are other consumers' alone
#pragma unroll 1
for (int step = 0; step < steps; ++step) {
fw_mbarrier_wait(full + 8 * stage, parity);
__syncwarp();
release(stage);
advance();
}
};
skip(steps > 0 ? own_begin - begin : max(end - begin, 0));
unsigned before = 0;  // the stage of the step before
#pragma unroll 1
for (int block = own_begin; block < own_end; ++block) {
fw_mbarrier_wait(full + 8 * stage, parity);
const unsigned tile = shared + stage * ${ stage_bytes }$;
<%- if lengths %>
if ((block + 1) * ${ step }$ > others) {  // keys beyond the sequence may be NaN, which no factor of 0 makes 0
#pragma unroll 1
for (unsigned chunk = max(others - block * ${ step }$, 0) * 8 + threadIdx.x % 128; chunk < ${ 8 * step }$; chunk += 128) {
#pragma unroll
for (unsigned line = 0; line < ${ line_count }$; ++line) {
fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + ${ keys_at }$ + line * ${ 128 * step }$ + chunk * 16), fw_vector<unsigned, 4>{});
}
}
fw_fence_async();
<%- for barrier in barrier_ids %>
<% if not loop.first %>else <% endif %><% if not loop.last %>if (consumer == ${ loop.index0 }$) <% endif %>fw_named_barrier<${ barrier }$, 128>();
<%- endfor %>
}
<%- endif %>
const unsigned long long keys_of = fw_matrix_descriptor<128>(tile + ${ keys_at }$, ${ 128 * step }$, 1024);
<%- for part in parts %>
FW_PRODUCTS(fw_matrix_descriptor<0>(tile + (consumer * ${ parts_count }$ + ${ loop.index0 }$) * ${ part_bytes }$, 128, 1024), keys_of, block > own_begin,
<%- for product in part.products %>
${ product }$
<%- endfor %>);
<%- endfor %>
fw_wgmma_wait<${ parts_count }$>();
if (block > own_begin) release(before);
before = stage;
advance();
}
fw_wgmma_wait<0>();
if (steps > 0) {
release(before);
skip(end - own_end);
}
<%- for part in parts %>
{
const int row = first_row + ${ 64 * loop.index0 }$ + warp % 4 * 16 + lane / 4;
<%- for output in part.outputs %>
<% if output.factor == "1.0f" %>constexpr<% else %>const<% endif %> float scaled[2] = {${ output.factor }$, ${ output.factor }$};
${ output.store }$
<%- endfor %>
}
<%- endfor %>
}
}
}
