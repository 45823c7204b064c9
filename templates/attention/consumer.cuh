<# A consumer: the products of step n + 1's probabilities and values run beside the softmax of step n's scores. -#>
const unsigned consumer = warp / 4 - 1, quad = lane % 4;
const unsigned long long q = fw_matrix_descriptor<128>(shared + consumer * ${ 64 * 128 }$, 0, 1024);
const float negative = -fw_infinity();
${ scale }$
<%- if dropout %>
${ dropout }$
<%- endif %>
<%- for line in factors %>
${ line }$
<%- endfor %>
unsigned k_stage = 0, k_parity = 0, v_stage = 0, v_parity = 0, q_parity = 0;
#pragma unroll 1
<%- if claims %>
for (;; q_parity ^= 1) {
fw_mbarrier_wait(q_full, q_parity);
const unsigned unit = fw_uniform(*claimed);  // before the queries are released
if (unit >= ${ units }$u) break;
<%- else %>
for (unsigned unit = blockIdx.x, turn = 0; unit < ${ units }$u; ++turn, unit = ${ next }$) {
<%- endif %>
${ unit }$
const int first_row = m0 + consumer * 64, row = first_row + warp % 4 * 16 + lane / 4;
const int own_last = min(first_row + 64, rows) - 1;
const int own_end = own_last < first_row ? begin : min(max((keys_of(own_last) + ${ keys - 1 }$) / ${ keys }$, begin), end);
const int own_begin = min(max(first_key(first_row) / ${ keys }$, begin), own_end);
// steps of which all rows keep all keys
const int plain_end = ${ plain_end }$, plain_begin = (first_key(first_row + 63) + ${ keys - 1 }$) / ${ keys }$;
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
<%- if seen %>
float seen[2] = {negative, negative};
<%- endif %>
float bound[2] = {<% if vast %>fw_bound(m[0], c, room), fw_bound(m[1], c, room)<% else %>m[0] + room, m[1] + room<% endif %>}, factor[2] = {1.0f, 1.0f};
bool moves = false;
<%- if fold %>
// tensor cores keep 14 bits of a sum in FP8: every few steps theirs is added to one in shared memory, which has a factor since then
float since[2] = {1.0f, 1.0f};
int steps_of_sum = 0;
bool has_sums = false;
auto* const sums = reinterpret_cast<fw_vector<float, 4>*>(shared_bytes + ${ sums_at }$) + consumer * ${ vectors_of_sums }$ + threadIdx.x % 128;
<%- endif %>

<%- if pairs %>
<%- for room in pairs %>
${ room }$
<%- endfor %>
const auto ask = [&](int block) {  // what is done with scores reads, while these are multiplied
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
const auto release_k = [&] {
if (lane == 0) fw_mbarrier_arrive(k_empty + 8 * k_stage);
if (++k_stage == ${ stages }$) k_stage = 0, k_parity ^= 1;
};
const auto release_v = [&] {
if (lane == 0) fw_mbarrier_arrive(v_empty + 8 * v_stage);
if (++v_stage == ${ stages }$) v_stage = 0, v_parity ^= 1;
};
const auto skip = [&](int steps) {  // steps that are other consumers' alone
#pragma unroll 1
for (int step = 0; step < steps; ++step) {
fw_mbarrier_wait(k_full + 8 * k_stage, k_parity);
__syncwarp();
release_k();
fw_mbarrier_wait(v_full + 8 * v_stage, v_parity);
__syncwarp();
release_v();
}
};
const auto multiply_keys = [&] {
fw_mbarrier_wait(k_full + 8 * k_stage, k_parity);
const unsigned long long k = fw_matrix_descriptor<128>(shared + ${ keys_at }$ + k_stage * ${ key_bytes }$, 0, 1024);
FW_PRODUCTS(q, k, false,
<%- for product in key_products %>
${ product }$
<%- endfor %>);
};
unsigned p[${ packed }$] = {};
const auto multiply_values = [&](int block, bool adds) {
fw_mbarrier_wait(v_full + 8 * v_stage, v_parity);
const unsigned tile = shared + ${ values_at }$ + v_stage * ${ value_bytes }$;
<%- if lengths %>
if ((block + 1) * ${ keys }$ > keys) {  // values beyond the sequence may be NaN, which no probability of 0 makes 0
const unsigned thread = threadIdx.x % 128;
#pragma unroll 1
for (unsigned chunk = max(keys - block * ${ keys }$, 0) * 8 + thread; chunk < ${ 8 * keys }$; chunk += 128) {
#pragma unroll
for (unsigned line = 0; line < ${ value_line_count }$; ++line) {
fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + line * ${ 128 * keys }$ + chunk * 16), fw_vector<unsigned, 4>{});
}
}
fw_fence_async();
<%- for barrier in barrier_ids %>
<% if not loop.first %>else <% endif %><% if not loop.last %>if (consumer == ${ loop.index0 }$) <% endif %>fw_named_barrier<${ barrier }$, 128>();
<%- endfor %>
}
<%- endif %>
const unsigned long long v = ${ value_descriptor }$;
FW_PRODUCTS_OF(v, adds,
<%- for product in value_products %>
${ product }$
<%- endfor %>, ${ words }$);
};

<%- if leaves_out %>

const int steps = kept_steps(own_begin, own_end);
skip(kept_steps(own_end, end));
int last = before(own_end);  // the step whose values are multiplied next
<%- else %>

const int steps = own_end - own_begin;
skip(end - own_end);
<%- endif %>
<%- if not claims %>
fw_mbarrier_wait(q_full, q_parity);
q_parity ^= 1;
<%- endif %>
if (steps == 0) {
__syncwarp();
if (lane == 0) fw_mbarrier_arrive(q_empty);
} else {
multiply_keys();
<%- if pairs %>
ask(<% if leaves_out %>last<% else %>own_end - 1<% endif %>);
<%- endif %>
fw_wgmma_wait<0>();
if (steps == 1 && lane == 0) fw_mbarrier_arrive(q_empty);
release_k();
{
float x[${ scores }$];
fw_take_all<0>(x);
softmax(x, <% if leaves_out %>last<% else %>own_end - 1<% endif %>);
${ weights }$
}
#pragma unroll 1
<%- if leaves_out %>
for (int step = 1; step < steps; ++step) {
const int block = before(last);
multiply_keys();
multiply_values(last, <% if fold %>steps_of_sum > 0<% else %>step > 1<% endif %>);
last = block;
<%- else %>
for (int block = own_end - 2; block >= own_begin; --block) {
multiply_keys();
multiply_values(block + 1, <% if fold %>steps_of_sum > 0<% else %>block != own_end - 2<% endif %>);
<%- endif %>
<%- if pairs %>
ask(block);
<%- endif %>
fw_wgmma_wait<1>();
if (<% if leaves_out %>step + 1 == steps<% else %>block == own_begin<% endif %> && lane == 0) fw_mbarrier_arrive(q_empty);
release_k();
float x[${ scores }$];
fw_take_all<0>(x);
softmax(x, block);
<%- if fold %>
fw_wgmma_wait<0>();
release_v();
${ weights }$
if (moves) fw_scale_all<${ scores }$, ${ values }$>(factor);
<%- else %>
fw_behind(sum[0] + sum[1]);
fw_wgmma_wait<0>();
release_v();
if (moves) fw_scale_all<${ scores }$, ${ values }$>(factor);
${ weights }$
<%- endif %>
<%- if fold %>
if (moves) since[0] *= factor[0], since[1] *= factor[1];
if (++steps_of_sum == ${ fold }$) {
fw_fold_all<${ scores }$, ${ values }$>(sums, since, has_sums);
since[0] = since[1] = 1.0f, steps_of_sum = 0, has_sums = true;
}
<%- endif %>
}
multiply_values(<% if leaves_out %>last<% else %>own_begin<% endif %>, <% if fold %>steps_of_sum > 0<% else %>steps > 1<% endif %>);
}
${ rows }$
fw_wgmma_wait<0>();
if (steps > 0) release_v();
skip(<% if leaves_out %>kept_steps(begin, own_begin)<% else %>own_begin - begin<% endif %>);
${ output }$
}
<%- for line in kept %>
${ line }$
<%- endfor %>
