<# The producer: one thread asks for the boxes of a tile's queries once, and of K and V step by step. -#>
if (warp == 0 && fw_elect()) {
unsigned k_stage = 0, k_parity = 1, v_stage = 0, v_parity = 1, q_parity = 1;
#pragma unroll 1
for (unsigned unit = blockIdx.x, turn = 0; unit < ${ units }$u; ++turn, unit = ${ next }$) {
${ unit }$
<%- for line in sequences %>
${ line }$
<%- endfor %>
const unsigned key_head = h / ${ key_group }$, value_head = h / ${ value_group }$;
const auto load_k = [&](int block) {
fw_mbarrier_wait(k_empty + 8 * k_stage, k_parity);
fw_mbarrier_expect(k_full + 8 * k_stage, ${ key_bytes }$);
const unsigned tile = shared + ${ keys_at }$ + k_stage * ${ key_bytes }$;
<%- for line in key_lines %>
fw_tma_load(tile + ${ line.at }$, &map1, k_full + 8 * k_stage, ${ line.element }$, ${ key_at }$);
<%- endfor %>
if (++k_stage == ${ stages }$) k_stage = 0, k_parity ^= 1;
};
const auto load_v = [&](int block) {
fw_mbarrier_wait(v_empty + 8 * v_stage, v_parity);
fw_mbarrier_expect(v_full + 8 * v_stage, ${ value_bytes }$);
const unsigned tile = shared + ${ values_at }$ + v_stage * ${ value_bytes }$;
<%- for line in value_lines %>
fw_tma_load(tile + ${ line.at }$, &map2, v_full + 8 * v_stage, ${ line.element }$, ${ value_at }$);
<%- endfor %>
if (++v_stage == ${ stages }$) v_stage = 0, v_parity ^= 1;
};
<%- if blocks %>
int block = before(end);
if (block >= begin) load_k(block);
<%- else %>
if (begin < end) load_k(end - 1);
<%- endif %>
fw_mbarrier_wait(q_empty, q_parity);
q_parity ^= 1;
fw_mbarrier_expect(q_full, ${ query_bytes }$);
<%- for line in query_lines %>
fw_tma_load(shared + ${ line.at }$, &map0, q_full, ${ line.element }$, ${ query_at }$);
<%- endfor %>
<%- if blocks %>
if (block < begin) continue;
#pragma unroll 1
for (int next = before(block); next >= begin; block = next, next = before(block)) {
load_k(next);
load_v(block);
}
load_v(block);
<%- else %>
if (begin >= end) continue;
#pragma unroll 1
for (int block = end - 1; block > begin; --block) {
load_k(block - 1);
load_v(block);
}
load_v(begin);
<%- endif %>
}
}
