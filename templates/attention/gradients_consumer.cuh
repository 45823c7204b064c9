<# A consumer of the pass that computes all gradients. Scores of 64 keys are rows of a fragment, so that probabilities are operands of dV as they lie
   in registers. Gradients of scores go to shared memory, from which dK is multiplied, and a step later a part of dQ: each consumer has columns
   of it, for all keys of the block. It is added to memory another step later, in its turn. -#>
const unsigned consumer = warp / 4 - 1, quad = lane % 4;
const unsigned long long own_0 = fw_matrix_descriptor<128>(shared + consumer * ${ 64 * 128 }$, 0, 1024);
const unsigned long long own_1 = fw_matrix_descriptor<128>(shared + ${ own_1_at }$ + consumer * ${ 64 * 128 }$, 0, 1024);
const float scale = ${ scale }$, c = scale * ${ log2e }$;
<%- if dropout %>
${ dropout }$
<%- endif %>
const unsigned own_scores = shared + ${ scores_at }$ + (consumer * 64 + warp % 4 * 16 + lane % 16) * 128;
const unsigned long long scores_of_own = fw_matrix_descriptor<128>(shared + ${ scores_at }$ + consumer * ${ 64 * 128 }$, 0, 1024);
const unsigned long long scores_of_all = fw_matrix_descriptor<128>(shared + ${ scores_at }$, ${ 128 * keys }$, 1024);
const unsigned long long columns_of_keys = fw_matrix_descriptor<128>(shared + consumer * ${ columns_at }$, ${ 128 * keys }$, 1024);
float* const sums = ${ sums }$ + consumer * ${ part }$ + threadIdx.x % 128 * 4;
unsigned* const turns = reinterpret_cast<unsigned*>(${ turns }$);
${ barriers }$
unsigned stage = 0, parity = 0, own_parity = 0;
unsigned tile_count = 0;  // of gradients of scores: the slot, its parity and those of its turn
#pragma unroll 1
for (unsigned unit = ${ first }$, turn = 0; unit < ${ units }$u; ++turn, unit = ${ next }$) {
${ unit }$
const int first_row = m0 + consumer * 64, row = first_row + warp % 4 * 16 + lane / 4;
const int plain_begin = (first_of(first_row + 63) + ${ others - 1 }$) / ${ others }$;
const int plain_end = first_row + 63 < rows ? end_of(first_row) / ${ others }$ : 0;
// what a mask leaves out is 0, whatever it was
const auto cut = [&](float (&x)[${ scores }$], int block) {
const int at = block * ${ others }$ + 2 * quad;
int kept[2], low[2];
#pragma unroll
for (int e = 0; e < 2; ++e) kept[e] = end_of(row + 8 * e) - at, low[e] = first_of(row + 8 * e) - at;
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) {
const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
if (column >= kept[e] || column < low[e]) x[i] = 0.0f;
}
};
const auto release = [&](unsigned stage) {
if (lane == 0) fw_mbarrier_arrive(empty + 8 * stage);
};
// a part of dQ to memory, behind all that come before it
const auto add = [&](const float (&x)[${ sum_count }$], unsigned number, unsigned place) {
fw_mbarrier_wait(turn_come + 8 * (number & 1), number >> 1 & 1);
const bool is_first = *reinterpret_cast<const volatile unsigned*>(shared_bytes + ${ firsts_at }$ + 4 * (number & 1));
float* const to = sums + place * ${ floats }$ull;
if (is_first) fw_part<false>(to, x);
else fw_part<true>(to, x);
__syncwarp();
if (lane == 0) fw_mbarrier_arrive(done + 8 * (number & 1));
};
const int steps = max(end - begin, 0) * ${ members }$;
unsigned before = 0;  // the stage of the step before
unsigned place = 0, place_before = 0, place_last = 0;  // of a step's queries among all, of the step before, of the one before that
int at = 0, member = 0;
if (steps > 0) {
fw_mbarrier_wait(own_full, own_parity);
own_parity ^= 1;
<%- if lengths %>
if (first_row + 64 > rows) {  // keys beyond the sequence may be NaN
#pragma unroll 1
for (unsigned chunk = max(rows - first_row, 0) * 8 + threadIdx.x % 128; chunk < 512; chunk += 128) {
#pragma unroll
for (unsigned line = 0; line < ${ key_lines }$; ++line) {
fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + line * ${ 128 * keys }$ + consumer * ${ 64 * 128 }$ + chunk * 16), fw_vector<unsigned, 4>{});
}
}
fw_fence_async();
}
<%- endif %>
${ first_step }$
#pragma unroll 1
for (int step = 1; step < steps; ++step) {
if (++at == end - begin) at = 0, ++member;
${ next_step }$
}
fw_wgmma_wait<0>();
release(before);
float part[${ sum_count }$];
fw_take_all<${ scores }$>(part);
if (steps > 1) add(part, tile_count - 2, place_before);
fw_mbarrier_wait(written + 8 * (~tile_count & 1), (tile_count - 1) >> 1 & 1);
const unsigned slot = ~tile_count & 1;
${ query_products }$
fw_wgmma_wait<0>();
if (lane == 0) {
fw_mbarrier_arrive(own_empty);
if (steps > 1) fw_pass_turn(turns + place_before);
}
fw_take_all<${ scores }$>(part);
add(part, tile_count - 1, place);
if (lane == 0) fw_pass_turn(turns + place);
}
<%- for output in outputs %>
{
<% if output.factor == "1.0f" %>constexpr<% else %>const<% endif %> float scaled[2] = {${ output.factor }$, ${ output.factor }$};
${ output.store }$
}
<%- endfor %>
}
