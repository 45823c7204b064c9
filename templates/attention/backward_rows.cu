<# What the backward pass knows of each query: its statistic in powers of two, and Δ = Σ dO ∘ O times the
   scale, since gradients of scores are scaled before they are rounded. Lanes of a row have eight columns each. #>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
const unsigned lane = threadIdx.x % ${ lanes }$u;
const unsigned long long at = (unsigned long long)blockIdx.x * ${ rows_of_block }$ + threadIdx.x / ${ lanes }$u;
if (at >= ${ rows }$ull) return;  // rows of a warp end together
const unsigned long long query = at % ${ queries }$ull, head = at / ${ queries }$ull;
const unsigned long long b = head / ${ heads }$u, h = head % ${ heads }$u;
<%- if length %>
${ length }$
const bool exists = int(query) < length;
<%- endif %>
<%- for line in sequences %>
${ line }$
<%- endfor %>
float delta = 0.0f;
if (<% if length %>exists && <% endif %>8 * lane < ${ columns }$u) {
const ${ storage[0] }$* const o = ${ output }$ + ${ output_offset }$;
const ${ storage[1] }$* const d_o = ${ gradient }$ + ${ gradient_offset }$;
<%- if vectors %>
float x[8], y[8];
fw_load_vector(o, x);
fw_load_vector(d_o, y);
#pragma unroll
for (int i = 0; i < 8; ++i) delta = fmaf(x[i], y[i], delta);
<%- else %>
#pragma unroll
for (int i = 0; i < 8; ++i) <% if is_partial %>if (8 * lane + i < ${ columns }$u) <% endif %>delta = fmaf(fw_value(o[${ output_step }$]), fw_value(d_o[${ gradient_step }$]), delta);
<%- endif %>
}
#pragma unroll
for (unsigned step = ${ lanes }$ / 2; step > 0; step /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, step);
if (lane == 0) {
const unsigned long long place = head * ${ padded }$ull + query;
<%- if may_be_empty %>
const float stored = <% if length %>exists ? <% endif %>${ stats }$[${ stats_offset }$]<% if length %> : 0.0f<% endif %>;
const float statistic = stored == -fw_infinity() ? fw_infinity() : stored;  // a row without a finite score has no probabilities
<%- else %>
const float statistic = <% if length %>exists ? <% endif %>${ stats }$[${ stats_offset }$]<% if length %> : 0.0f<% endif %>;
<%- endif %>
partial0[place] = statistic * ${ log2e }$;
partial1[place] = delta${ factors }$ * ${ scale }$;
<%- if delta_region %>
${ delta_region }$[place] = delta${ factors }$;
<%- endif %>
<%- if sink_region %>
${ sink_region }$[place] = fw_fast_exp2((${ sink }$ - statistic) * ${ log2e }$) * (delta${ factors }$);
<%- endif %>
}
}
