<# Rows of O from those of all parts of their keys, each by its share of the sum of exponentials. A warp has a row; a lane holds what
   one part weighs, and two columns of every 64. Parts are added in their order. #>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
const unsigned lane = threadIdx.x % 32, row_of_all = blockIdx.x * ${ rows_of_block }$ + threadIdx.x / 32;
if (row_of_all >= ${ all_rows }$u) return;
const unsigned head = row_of_all / ${ rows }$u;
[[maybe_unused]] const unsigned b = head / ${ heads }$u, h = head % ${ heads }$u;
[[maybe_unused]] const int row = int(row_of_all % ${ rows }$u);
<%- for line in sequences %>
${ line }$
<%- endfor %>
<%- if is_ragged %>
const int rows = queries * ${ packed }$;
<%- endif %>
const float negative = -fw_infinity();
fw_vector<float, 2> own = {{negative, 0.0f}};
if (lane < ${ parts }$) own = reinterpret_cast<const fw_vector<float, 2>*>(partial1)[lane * ${ all_rows }$ull + row_of_all];
float top = own.at[0];
#pragma unroll
for (int lanes = 16; lanes > 0; lanes /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lanes));
const float weight = own.at[0] == negative ? 0.0f : fw_fast_exp2(own.at[0] - top + own.at[1]);
float total = weight;
#pragma unroll
for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(0xffffffffu, total, lanes);
const float share = total == 0.0f ? 0.0f : weight / total;
const float* const first = partial0 + row_of_all * ${ columns }$ull;
#pragma unroll
for (unsigned from = 0; from < ${ columns }$; from += 64) {
const unsigned column = min(from + 2 * lane, ${ columns - 2 }$u);
fw_vector<float, 2> y = {{0.0f, 0.0f}};
#pragma unroll 8
for (int part = 0; part < ${ parts }$; ++part) {
const float share_of_part = __shfl_sync(0xffffffffu, share, part);
const auto x = *reinterpret_cast<const fw_vector<float, 2>*>(first + part * ${ elements }$ull + column);
y.at[0] = fmaf(share_of_part, x.at[0], y.at[0]), y.at[1] = fmaf(share_of_part, x.at[1], y.at[1]);
}
if (column == from + 2 * lane<% if output_exists %> && ${ output_exists }$<% endif %>) {
auto* const to = ${ output }$;
#pragma unroll
for (int e = 0; e < 2; ++e) to[(column + e) * ${ output_step }$ull] = ${ value }$;
}
}
<%- if stats %>
${ stats }$ = total == 0.0f ? negative : (top + log2f(total)) * ${ ln2 }$;
<%- endif %>
}
