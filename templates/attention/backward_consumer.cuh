<# A consumer of the backward pass. A step's scores and the gradients of its probabilities are multiplied at once; the products that they become
   operands of run beside the arithmetic of the step, and of the next. -#>
const unsigned consumer = warp / 4 - 1, quad = lane % 4;
const unsigned long long own_0 = fw_matrix_descriptor<128>(shared + consumer * ${ 64 * 128 }$, 0, 1024);
<%- if has_sums %>
const unsigned long long own_1 = fw_matrix_descriptor<128>(shared + ${ own_1_at }$ + consumer * ${ 64 * 128 }$, 0, 1024);
<%- endif %>
const float scale = ${ scale }$<% if cap %>, cap = ${ cap }$, of_cap = scale / cap<% endif %>, c = ${ unit_of_scores }$;
<%- if dropout %>
${ dropout }$
<%- endif %>
<%- for line in scaling %>
${ line }$
<%- endfor %>
unsigned stage = 0, parity = 0, own_parity = 0;
#pragma unroll 1
<%- if claims %>
for (;; own_parity ^= 1) {
fw_mbarrier_wait(own_full, own_parity);
const unsigned unit = fw_uniform(*claimed);
if (unit >= ${ units }$u) break;
<%- else %>
for (unsigned unit = ${ first }$, turn = 0; unit < ${ units }$u; ++turn, unit = ${ next }$) {
<%- endif %>
${ unit }$
const int first_row = m0 + consumer * 64, row = first_row + warp % 4 * 16 + lane / 4;
const int own_last = min(first_row + 64, rows) - 1;
// steps of which some rows keep some columns, and of which all keep all
<% if members == 1 %>const <% endif %>int own_begin = own_last < first_row ? end : max(${ own_first }$, begin);
<% if members == 1 %>const <% endif %>int own_end = own_last < first_row ? end : min(${ own_end }$, end);
<%- if members > 1 %>
if (own_begin < own_end) {  // from head to head a stage is kept, and the next step needs another one: the others are as many as may be left out
own_begin = min(own_begin, begin + max(${ stages - 2 }$ - (end - own_end), 0));
own_end = max(own_end, end - max(${ stages - 2 }$ - (own_begin - begin), 0));
}
<%- endif %>
const int plain_begin = (first_of(first_row + 63) + ${ others - 1 }$) / ${ others }$;
const int plain_end = first_row + 63 < rows ? end_of(first_row) / ${ others }$ : 0;
<%- if not of_keys %>
float statistic[2], delta[2];
#pragma unroll
for (int e = 0; e < 2; ++e) {
const unsigned long long place = (b * ${ heads }$ull + h) * ${ padded }$ull + min(row + 8 * e, ${ last_row }$);
statistic[e] = partial0[place], delta[e] = partial1[place];
}
<%- endif %>
${ cut }$
const auto release = [&](unsigned stage) {
if (lane == 0) fw_mbarrier_arrive(empty + 8 * stage);
};
<%- if left %>
${ left }$
<%- endif %>
<%- if has_values %>
unsigned p[${ packed }$] = {};
<%- endif %>
<%- if has_sums %>
unsigned s[${ packed }$] = {};
<%- endif %>
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
const int own = max(own_end - own_begin, 0), steps = own * ${ members }$;
<%- if kept %>
float largest_y = 0.0f;
<%- endif %>
unsigned before = 0;  // the stage of the step before, whose rows are multiplied by what its scores became
if (begin < end) {
<%- if not claims %>
fw_mbarrier_wait(own_full, own_parity);
own_parity ^= 1;
<%- endif %>
if (own == 0) skip((end - begin) * ${ members }$);
}
int block = own_begin;
<%- if counts_members %>
unsigned member = 0;
<%- endif %>
if (steps > 0) {
skip(own_begin - begin);
${ first_step }$
}
bool adds = false;  // whether there are sums of a step before
#pragma unroll 1
for (int left = steps; --left > 0;) {
if (++block == own_end) {  // of the next head
skip(end - own_end + own_begin - begin);
block = own_begin;
<%- if counts_members %>
++member;
<%- endif %>
}
${ next_step }$
adds = true;
}
if (steps > 0) {
const unsigned tile_before = shared + ${ others_at }$ + before * ${ stage_bytes }$;
${ last_sums }$
fw_wgmma_wait<0>();
release(before);
skip(end - own_end);
}
<%- if claims %>
__syncwarp();
<%- endif %>
if (<% if not claims %>begin < end && <% endif %>lane == 0) fw_mbarrier_arrive(own_empty);
<%- if kept %>
${ kept }$
<%- endif %>
<%- for output in outputs %>
{
<% if output.factor == "1.0f" %>constexpr<% else %>const<% endif %> float scaled[2] = {${ output.factor }$, ${ output.factor }$};
${ output.store }$
}
<%- endfor %>
}
