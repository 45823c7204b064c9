<# A step: its scores, beside what is multiplied by those of the step before; then what they become. -#>
{
${ walk }$
place_last = place_before, place_before = place;
place = (b * ${ heads }$ + h<% if members > 1 %> * ${ members }$ + member<% endif %>) * ${ steps_of_head }$ + block;
fw_mbarrier_wait(full + 8 * stage, parity);
const unsigned tile = shared + ${ others_at }$ + stage * ${ stage_bytes }$;
<%- if zeros %>
${ zeros }$
<%- endif %>
<%- if not is_first %>
fw_wgmma_wait<0>();
release(before);
float part[${ sum_count }$];  // of dQ, of the queries of the step before the one before
fw_take_all<${ scores }$>(part);
<%- endif %>
FW_PRODUCTS(own_0, fw_matrix_descriptor<128>(tile, 0, 1024), false,
<%- for product in score_products %>
${ product }$
<%- endfor %>);
<%- if not is_first %>
if (step > 1) add(part, tile_count - 2, place_last);
<%- endif %>
FW_PRODUCTS(own_1, fw_matrix_descriptor<128>(tile + ${ other_1_at }$, 0, 1024), false,
<%- for product in difference_products %>
${ product }$
<%- endfor %>);
<%- if kept %>
${ kept }$
<%- endif %>
const bool is_cut = block >= plain_end || block < plain_begin;
const float* const rows_of = reinterpret_cast<const float*>(shared_bytes + ${ rows_at }$ + stage * ${ 8 * others }$) + 2 * quad;
fw_wgmma_wait<1>();
float x[${ scores }$];
fw_take_all<0>(x);
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) x[i] = fw_fast_exp2(fmaf(x[i], c, -rows_of[8 * (i >> 2) + (i & 1)]));
if (is_cut) cut(x, block);
unsigned p[${ packed }$];
<%- if kept %>
{
float values[${ scores }$];
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) values[i] = x[i];
fw_drop(values, kept);
#pragma unroll
for (int i = 0; i < ${ packed }$; ++i) p[i] = ${ pack }$(values[2 * i], values[2 * i + 1]);
}
<%- else %>
#pragma unroll
for (int i = 0; i < ${ packed }$; ++i) p[i] = ${ pack }$(x[2 * i], x[2 * i + 1]);
<%- endif %>
FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile + ${ other_1_at }$, ${ 128 * others }$, 1024), ${ adds }$,
<%- for product in value_products %>
${ product }$
<%- endfor %>, ${ p_words }$);
fw_wgmma_wait<1>();
float y[${ scores }$];
fw_take_all<${ scores }$>(y);
<%- if kept %>
fw_drop(y, kept);
<%- endif %>
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) y[i] = x[i] * fmaf(y[i], ${ factor }$, -rows_of[${ others }$ + 8 * (i >> 2) + (i & 1)]);
if (is_cut) cut(y, block);
unsigned s[${ packed }$];
#pragma unroll
for (int i = 0; i < ${ packed }$; ++i) s[i] = ${ pack }$(y[2 * i], y[2 * i + 1]);
fw_mbarrier_wait(done + 8 * (tile_count & 1), ~tile_count >> 1 & 1);
fw_store_fragments<${ 128 * keys }$>(own_scores + (tile_count & 1) * ${ scores_bytes }$, lane, s);
fw_fence_async();
__syncwarp();
if (lane == 0) fw_mbarrier_arrive(written + 8 * (tile_count & 1));
if (consumer == 0) fw_named_barrier<1, 128>();
else fw_named_barrier<2, 128>();
FW_PRODUCTS(scores_of_own + (tile_count & 1) * ${ slot_units }$, fw_matrix_descriptor<128>(tile, ${ 128 * others }$, 1024), ${ adds }$,
<%- for product in sum_products %>
${ product }$
<%- endfor %>);
<%- if is_first %>
// there is no step before; the next waits for as many products, whose sums nobody reads
FW_PRODUCTS(scores_of_all, columns_of_keys, false,
${ idle_product }$);
<%- else %>
fw_mbarrier_wait(written + 8 * (~tile_count & 1), (tile_count - 1) >> 1 & 1);
const unsigned slot = ~tile_count & 1;
${ query_products }$
if (step > 1 && lane == 0) fw_pass_turn(turns + place_last);
<%- endif %>
++tile_count;
before = stage;
if (++stage == ${ stages }$) stage = 0, parity ^= 1;
}
