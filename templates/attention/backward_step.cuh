<# A step of the backward pass: its scores, and gradients of probabilities, beside the sums of the step before, unless it is the first. -#>
fw_mbarrier_wait(full + 8 * stage, parity);
const unsigned tile = shared + ${ others_at }$ + stage * ${ stage_bytes }$;
<%- if lengths %>
if ((block + 1) * ${ others }$ > others) {  // what lies beyond the sequence may be NaN, which no factor of 0 makes 0
const unsigned thread = threadIdx.x % 128;
#pragma unroll 1
for (unsigned chunk = max(others - block * ${ others }$, 0) * 8 + thread; chunk < ${ 8 * others }$; chunk += 128) {
#pragma unroll
for (unsigned line = 0; line < ${ other_line_count }$; ++line) {
fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + line * ${ 128 * others }$ + chunk * 16), fw_vector<unsigned, 4>{});
}
}
fw_fence_async();
<%- for barrier in barrier_ids %>
<% if not loop.first %>else <% endif %><% if not loop.last %>if (consumer == ${ loop.index0 }$) <% endif %>fw_named_barrier<${ barrier }$, 128>();
<%- endfor %>
}
<%- endif %>
FW_PRODUCTS(own_0, fw_matrix_descriptor<128>(tile, 0, 1024), false,
<%- for product in score_products %>
${ product }$
<%- endfor %>);
<%- if has_sums %>
FW_PRODUCTS(own_1, fw_matrix_descriptor<128>(tile + ${ other_1_at }$, 0, 1024), false,
<%- for product in difference_products %>
${ product }$
<%- endfor %>);
<%- endif %>
<%- if not is_first %>
const unsigned tile_before = shared + ${ others_at }$ + before * ${ stage_bytes }$;
${ sums_of_before }$
<%- endif %>
<%- if kept %>
${ kept }$
<%- endif %>
<%- if bias %>
${ bias }$
<%- endif %>
fw_wgmma_wait<${ pending }$>();
const bool is_cut = block >= plain_end || block < plain_begin;
<%- if of_keys %>
const float* const rows_of = reinterpret_cast<const float*>(shared_bytes + ${ rows_at }$ + stage * ${ 8 * others }$) + 2 * quad;
<%- endif %>
float x[${ scores }$];
fw_take_all<0>(x);
<%- if not capped %>
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) x[i] = fw_fast_exp2(fmaf(${ score }$, c, -${ statistic }$));
if (is_cut) cut(x, block);
<%- endif %>
<%- if has_sums %>
fw_wgmma_wait<${ pending - 1 }$>();
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
<%- if largest %>
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) ${ largest }$
<%- endif %>
<%- endif %>
fw_wgmma_wait<0>();
<%- if not is_first %>
release(before);
<%- endif %>
<%- if has_values %>
<%- if drops_values %>
${ drops_values }$
<%- endif %>
#pragma unroll
for (int i = 0; i < ${ packed }$; ++i) p[i] = ${ p_word }$;
<%- endif %>
<%- if has_sums %>
#pragma unroll
for (int i = 0; i < ${ packed }$; ++i) s[i] = ${ s_word }$;
<%- if left %><# 8 queries of a fragment are a chunk (ScoreGradients), of which a warp has two pieces of 8 keys #>
#pragma unroll
for (int i = 0; i < ${ packed }$; ++i) __stcs(${ left }$ + (i / 2 * 256 + i % 2 * 32), s[i]);
<%- endif %>
<%- endif %>
before = stage;
advance();
