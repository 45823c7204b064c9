<# Attention, forward, by mma.sync: each warp has 16 queries of its block's. Scores and O are in registers; keys are walked from right to left, so that
   a row's first steps are those that a mask may cut. While a tile of keys is multiplied, values are on their way, and the next keys while these are. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
FW_SHARED(shared_bytes);
FW_ACCUMULATORS_float(${ accumulators }$);
const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane % 4;
// the lane's parts of fragments: of the warp's queries, of keys, of values
const unsigned char* const own_queries = shared_bytes + warp * ${ 16 * pitch }$ + fw_left_of_lane<${ pitch }$>(lane);
const unsigned char* const own_keys = shared_bytes + ${ keys_at }$ + fw_right_of_lane<${ pitch }$>(lane);
const unsigned char* const own_values = shared_bytes + ${ values_at }$ + ${ of }$::columns_of_lane<${ value_pitch }$>(lane);
const float negative = -fw_infinity();
${ scale }$
<%- if dropout %>
${ dropout }$
<%- endif %>
#pragma unroll 1
for (unsigned unit = blockIdx.x; unit < ${ units }$u; unit += gridDim.x) {
${ unit }$
<%- for load in loads %>
${ load }$
<%- endfor %>
const int first_row = m0 + int(warp) * 16, row = first_row + int(lane) / 4;
const int own_last = min(first_row + 16, rows) - 1;
const int own_end = own_last < first_row ? begin : min(max((keys_of(own_last) + ${ keys - 1 }$) / ${ keys }$, begin), end);
const int own_begin = min(max(first_key(first_row) / ${ keys }$, begin), own_end);
// steps of which all rows keep all keys
const int plain_end = ${ plain_end }$, plain_begin = (first_key(first_row + 15) + ${ keys - 1 }$) / ${ keys }$;
<%- if sink %>
// the sink is a row's first score, of one lane of its quad
float m[2], reference[2], sum[2];
#pragma unroll
for (int e = 0; e < 2; ++e) {
const float sink = ${ sink }$;
m[e] = sink / unit_of_scores, reference[e] = sink == negative ? 0.0f : <% if vast %>fw_reference(m[e], c)<% else %>m[e] * c<% endif %><% if top %> ${ top }$<% endif %>;
// as the rows' exponentials are, which are of a rounded reference
sum[e] = sink != sink ? sink : quad == 0 && sink != negative ? fw_fast_exp2(fmaf(<% if vast %>fw_is_vast(m[e], c) ? 0.0f : <% endif %>m[e], c, -reference[e])) : 0.0f;
}
<%- else %>
float m[2] = {negative, negative}, reference[2] = {0.0f, 0.0f}, sum[2] = {0.0f, 0.0f};
<%- endif %>
<%- if largest %>
float largest[2] = {negative, negative};
<%- endif %>
float bound[2] = {<% if vast %>fw_bound(m[0], c, room), fw_bound(m[1], c, room)<% else %>m[0] + room, m[1] + room<% endif %>}, factor[2] = {1.0f, 1.0f};
bool moves = false;

<%- if pairs %>
<%- for room in pairs %>
${ room }$
<%- endfor %>
const auto ask = [&](int block) {  // what is done with scores reads, before these are multiplied
#pragma unroll
for (int i = 0; i < ${ scores / 2 }$; ++i) {
<%- for read in pair_reads %>
${ read }$
<%- endfor %>
}
};
<%- endif %>
// scores of a step become probabilities; `factor` is that of what was added up before, where it `moves`
<%- for line in of_tile %>
${ line }$
<%- endfor %>
const auto softmax = [&](float (&x)[${ scores }$], int block) {
${ softmax }$
};
__syncthreads();  // nobody reads what the unit before brought
<%- if leaves_out %>
const int last = before(end);
if (last >= begin) load_queries(m0), load_keys(last * ${ keys }$);
<%- else %>
if (begin < end) load_queries(m0), load_keys((end - 1) * ${ keys }$);
<%- endif %>
fw_cp_async_commit();
fw_clear_all<${ scores }$, ${ values }$>();
#pragma unroll 1
<%- if leaves_out %>
for (int block = last, next; block >= begin; block = next) {
next = before(block);
<%- else %>
for (int block = end - 1; block >= begin; --block) {
<%- endif %>
const bool is_own = block >= own_begin && block < own_end;
fw_cp_async_wait<0>();
__syncthreads();  // keys are there, and values of the step before are multiplied
load_values(block * ${ keys }$);
fw_cp_async_commit();
if (is_own) {
<%- if pairs %>
ask(block);
<%- endif %>
fw_clear_all<0, ${ scores }$>();
fw_multiply_rows<${ of }$, 0, ${ scores }$, ${ steps }$, ${ pitch }$>(own_queries, own_keys);
}
fw_cp_async_wait<0>();
__syncthreads();  // values are there, and keys are multiplied
<%- if leaves_out %>
if (next >= begin) load_keys(next * ${ keys }$);
<%- else %>
if (block > begin) load_keys((block - 1) * ${ keys }$);
<%- endif %>
fw_cp_async_commit();
if (is_own) {
float x[${ scores }$];
fw_take_all<0>(x);
softmax(x, block);
if (moves) fw_scale_all<${ scores }$, ${ values }$>(factor);
unsigned p[${ words }$];
${ of }$::pack(x, p);
fw_multiply_columns<${ of }$, ${ scores }$, ${ values }$, ${ value_pitch }$>(p, own_values);
}
}
${ rows }$
${ output }$
}
}
