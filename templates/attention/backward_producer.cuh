<# The producer of the backward pass: one thread asks for the boxes of own rows once, and of the others step by step; beside it, where these are
   queries, a warp copies what is known of each. -#>
if (warp == 0 && fw_elect()) {
unsigned stage = 0, parity = 1, own_parity = 1;
#pragma unroll 1
for (unsigned unit = ${ first }$<% if not claims %>, turn = 0<% endif %>; unit < ${ units }$u; <% if not claims %>++turn, <% endif %>unit = ${ next }$) {
${ unit }$
<%- for line in sequences %>
${ line }$
<%- endfor %>
<%- if not claims %>
if (begin >= end) continue;
<%- endif %>
fw_mbarrier_wait(own_empty, own_parity);
own_parity ^= 1;
<%- if claims %>
*claimed = unit;
if (begin >= end) {  // its rows are zeros
fw_mbarrier_arrive(own_full);
continue;
}
<%- endif %>
fw_mbarrier_expect(own_full, ${ own_bytes }$);
<%- for line in own_lines %>
fw_tma_load(shared + ${ line.at }$, &${ line.map }$, own_full, ${ line.element }$, ${ line.coordinates }$);
<%- endfor %>
#pragma unroll 1
for (unsigned member = 0; member < ${ members }$u; ++member) {
#pragma unroll 1
for (int block = begin; block < end; ++block) {
fw_mbarrier_wait(empty + 8 * stage, parity);
fw_mbarrier_expect(full + 8 * stage, ${ other_bytes }$);
const unsigned tile = shared + ${ others_at }$ + stage * ${ stage_bytes }$;
<%- for line in other_lines %>
fw_tma_load(tile + ${ line.at }$, &${ line.map }$, full + 8 * stage, ${ line.element }$, ${ line.coordinates }$);
<%- endfor %>
if (++stage == ${ stages }$) stage = 0, parity ^= 1;
}
}
}
<%- if claims %>
fw_mbarrier_wait(own_empty, own_parity);
*claimed = ${ units }$u;  // no tile is left
fw_mbarrier_arrive(own_full);
<%- endif %>
<%- if copies_rows %>
} else if (warp == 1) {  // statistics and Δ of queries
unsigned stage = 0, parity = 1<% if claims %>, own_parity = 0<% endif %>;
#pragma unroll 1
<%- if claims %>
for (;; own_parity ^= 1) {
fw_mbarrier_wait(own_full, own_parity);
const unsigned unit = *claimed;
__syncwarp();
if (lane == 0) fw_mbarrier_arrive(own_empty);
if (unit >= ${ units }$u) break;
<%- else %>
for (unsigned unit = ${ first }$, turn = 0; unit < ${ units }$u; ++turn, unit = ${ next }$) {
<%- endif %>
${ unit }$
if (begin >= end) continue;
#pragma unroll 1
for (unsigned member = 0; member < ${ members }$u; ++member) {
const unsigned long long first = (b * ${ heads }$ull + h * ${ members }$u + member) * ${ padded }$ull + begin * ${ others }$ + lane;
const float *statistic = partial0 + first, *delta = partial1 + first;
#pragma unroll 1
for (int block = begin; block < end; ++block) {
fw_mbarrier_wait(empty + 8 * stage, parity);
float* const rows = reinterpret_cast<float*>(shared_bytes + ${ rows_at }$ + stage * ${ 8 * others }$) + lane;
#pragma unroll
for (unsigned i = 0; i < ${ others }$u; i += 32) {
if (i + lane < ${ others }$u) rows[i] = statistic[i], rows[${ others }$ + i] = delta[i];
}
statistic += ${ others }$, delta += ${ others }$;
__syncwarp();
if (lane == 0) fw_mbarrier_arrive(full + 8 * stage);
if (++stage == ${ stages }$) stage = 0, parity ^= 1;
}
}
}
<%- endif %>
}
