<# Attention, backward, by mma.sync, for a tile of own rows: keys, whose gradients are sums over queries, or queries, whose are sums over keys. Each warp
   has 16 own rows of its block's, which stay in shared memory; the others come step by step. Scores, the gradients of probabilities and the sums are
   in registers. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
FW_SHARED(shared_bytes);
FW_ACCUMULATORS_float(${ accumulators }$);
const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane % 4;
unsigned char* const stages = shared_bytes + ${ others_at }$;
const float scale = ${ scale }$<% if cap %>, cap = ${ cap }$, of_cap = scale / cap<% endif %>, c = ${ unit_of_scores }$;
<%- if dropout %>
${ dropout }$
<%- endif %>
#pragma unroll 1
for (unsigned unit = blockIdx.x; unit < ${ units }$u; unit += gridDim.x) {
${ unit }$
// the step that is brought next: of which head of others, where, to which stage
[[maybe_unused]] unsigned next_member = 0, next_stage = 0;
int next_block = begin;
<%- if reloads %>
unsigned own_member = 0;  // whose own rows are there
<%- endif %>
<%- for load in loads %>
${ load }$
<%- endfor %>
const auto load_step = [&] {
if (next_member < ${ members }$u) {
load_other_0(next_block * ${ others }$), load_other_1(next_block * ${ others }$);
<%- if of_keys %>
// statistics and Δ of queries
const unsigned long long first = (b * ${ heads }$ull + h * ${ members }$u + next_member) * ${ padded }$ull + next_block * ${ others }$;
float* const facts = reinterpret_cast<float*>(stages + next_stage * ${ stage_bytes }$ + ${ facts_at }$);
for (unsigned i = threadIdx.x; i < ${ others }$u; i += ${ threads }$) facts[i] = partial0[first + i], facts[${ others }$ + i] = partial1[first + i];
<%- endif %>
if (++next_block == end) next_block = begin, ++next_member;
<%- if stage_count > 1 %>
next_stage ^= 1;
<%- endif %>
}
fw_cp_async_commit();
};
const int first_row = m0 + int(warp) * 16, row = first_row + int(lane) / 4;
const int own_last = min(first_row + 16, rows) - 1;
// steps of which some rows keep some columns, and of which all keep all
const int own_begin = own_last < first_row ? end : max(first_of(first_row) / ${ others }$, begin);
const int own_end = own_last < first_row ? end : min((end_of(own_last) + ${ others - 1 }$) / ${ others }$, end);
const int plain_begin = (first_of(first_row + 15) + ${ others - 1 }$) / ${ others }$;
const int plain_end = first_row + 15 < rows ? end_of(first_row) / ${ others }$ : 0;
<%- if not of_keys %>
float statistic[2], delta[2];
#pragma unroll
for (int e = 0; e < 2; ++e) {
const unsigned long long place = (b * ${ heads }$ull + h) * ${ padded }$ull + min(row + 8 * e, ${ last_row }$);
statistic[e] = partial0[place], delta[e] = partial1[place];
}
<%- endif %>
${ cut }$
__syncthreads();  // nobody reads what the unit before brought
if (begin < end) {
load_own_0(m0);
<%- if has_sums %>
load_own_1(m0);
<%- endif %>
load_step();
}
fw_clear_all<${ first_sum }$, ${ accumulators - first_sum }$>();
<%- if stage_count > 1 %>
unsigned stage = 0;
<%- endif %>
#pragma unroll 1
for (unsigned member = 0; member < ${ members }$u; ++member) {
<%- if reloads %>
if (member > 0 && begin < end) {  // keys, or values, may be of another head
__syncthreads();
own_member = member;
${ reloads }$(m0);
fw_cp_async_commit();
}
<%- endif %>
#pragma unroll 1
for (int block = begin; block < end; ++block) {
fw_cp_async_wait<0>();
__syncthreads();  // the step's rows are there, and those of the step before are multiplied
<%- if stage_count > 1 %>
load_step();
<%- endif %>
if (block >= own_begin && block < own_end) {
const unsigned char* const other_0 = stages<% if stage_count > 1 %> + stage * ${ stage_bytes }$<% endif %>;
const unsigned char* const other_1 = other_0 + ${ other_1_at }$;
<%- if bias %>
${ bias }$
<%- endif %>
fw_clear_all<0, ${ first_sum }$>();
fw_multiply_rows<${ of }$, 0, ${ scores }$, ${ steps_0 }$, ${ pitch_0 }$>(
shared_bytes + warp * ${ 16 * pitch_0 }$ + fw_left_of_lane<${ pitch_0 }$>(lane), other_0 + fw_right_of_lane<${ pitch_0 }$>(lane));
<%- if has_sums %>
fw_multiply_rows<${ of }$, ${ scores }$, ${ scores }$, ${ steps_1 }$, ${ pitch_1 }$>(
shared_bytes + ${ own_1_at }$ + warp * ${ 16 * pitch_1 }$ + fw_left_of_lane<${ pitch_1 }$>(lane), other_1 + fw_right_of_lane<${ pitch_1 }$>(lane));
<%- endif %>
<%- if kept %>
${ kept }$
<%- endif %>
const bool is_cut = block >= plain_end || block < plain_begin;
<%- if of_keys %>
const float* const rows_of = reinterpret_cast<const float*>(other_0 + ${ facts_at }$) + 2 * quad;
<%- endif %>
float x[${ scores }$];
fw_take_all<0>(x);
<%- if not capped %>
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) x[i] = fw_fast_exp2(fmaf(${ score }$, c, -${ statistic }$));
if (is_cut) cut(x, block);
<%- endif %>
<%- if has_sums %>
float y[${ scores }$];
fw_take_all<${ scores }$>(y);
<%- if drops %>
${ drops }$
<%- endif %>
<%- endif %>
<%- if capped %>
${ capped }$
if (is_cut) cut(x, block);
<%- endif %>
<%- if has_sums %>
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) y[i] = x[i] * <% if capped %>y[i]<% else %>fmaf(y[i], ${ factor }$, -${ delta }$)<% endif %>;
if (is_cut) cut(y, block);
<%- endif %>
<%- if has_values %>
<%- if drops_values %>
${ drops_values }$
<%- endif %>
unsigned p[${ words }$];
${ of }$::pack(x, p);
fw_multiply_columns<${ of }$, ${ values_from }$, ${ values }$, ${ pitch_1 }$>(p, other_1 + ${ of }$::columns_of_lane<${ pitch_1 }$>(lane));
<%- endif %>
<%- if has_sums %>
unsigned s[${ words }$];
${ of }$::pack(y, s);
fw_multiply_columns<${ of }$, ${ sums_from }$, ${ sums }$, ${ pitch_0 }$>(s, other_0 + ${ of }$::columns_of_lane<${ pitch_0 }$>(lane));
<%- endif %>
}
<%- if stage_count > 1 %>
stage ^= 1;
<%- else %>
__syncthreads();  // the step's rows are multiplied
load_step();
<%- endif %>
}
}
<%- for output in outputs %>
{
<% if output.factor == "1.0f" %>constexpr<% else %>const<% endif %> float scaled[2] = {${ output.factor }$, ${ output.factor }$};
${ output.store }$
}
<%- endfor %>
}
}
