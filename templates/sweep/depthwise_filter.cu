<# The filter gradient of a depthwise convolution: a thread adds up, for a vector of channels, the products of all taps over strips of `rows`
   times `outputs` pixels of the gradient. It walks the rows of the image under a strip: each pixel is read and converted once, and meets all
   rows of the gradient that are in flight. A block's sums meet in shared memory, and each row of blocks leaves those of all channels in the
   workspace, taps outermost. Pixels in the padding and gradients beyond the strip are zeros, of whose products nothing is left but with what is
   not finite: sums that are NaN are computed once more, over what lies `inside`. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
float* const totals = reinterpret_cast<float*>(shared_bytes);  // of ${ strips_of_a_block }$ strips, ${ taps_at_a_time }$ taps, ${ block_channels }$ channels
const unsigned thread = threadIdx.x / ${ columns }$, column = threadIdx.x % ${ columns }$ * ${ vector }$;
const unsigned split = blockIdx.x / ${ channel_blocks }$, block_channel = blockIdx.x % ${ channel_blocks }$ * ${ block_channels }$;
const unsigned channel = block_channel + column;
fw_wait_for_previous_launch();
float sums[${ taps }$][${ vector }$] = {};
<%- if channel_guard %>
const ${ index }$ strips = ${ channel_guard }$ ? ${ strips }$ : 0;
<%- else %>
const ${ index }$ strips = ${ strips }$;
<%- endif %>
${ place }$
#pragma unroll 1
for (${ index }$ strip = split * ${ strips_of_a_block }$ + thread; strip < strips; strip += ${ splits * strips_of_a_block }$) {
<%- for line in first_output %>
${ line }$
<%- endfor %>
const int h0 = ${ first_row }$, w0 = ${ first_pixel }$;
const auto* const line = ${ gradient }$ + (${ gradient_offset }$);
fw_raw<${ gradient_storage }$, ${ vector }$> next[${ outputs }$];
const auto fetch_gradient = [&](int row) {  // zeros where there is none
#pragma unroll
for (int j = 0; j < ${ outputs }$; ++j) {
const bool is_inside = ${ row_guard }$<% if output_guard %> && ${ output_guard }$<% endif %>;
const auto* const from = line + ${ gradient_row }$ + j * ${ gradient_stride }$;
next[j] = is_inside ? *reinterpret_cast<const fw_raw<${ gradient_storage }$, ${ vector }$>*>(from) : fw_raw<${ gradient_storage }$, ${ vector }$>{};
}
};
float gradient[${ rows_in_flight }$][${ outputs }$][${ vector }$] = {};
fw_raw<${ storage }$, ${ vector }$> pixels[${ rows_ahead }$][${ reach }$];
<%- if not outer %>
${ fetch }$
#pragma unroll
for (int slot = 0; slot < ${ rows_ahead }$; ++slot) {
#pragma unroll
for (int at = 0; at < ${ reach }$; ++at) fetch(slot, at, h0 + slot);
}
<%- endif %>
fetch_gradient(0);
#pragma unroll 1
for (int step = 0; step < ${ steps }$; step += ${ steps_of_a_turn }$) {
#pragma unroll
for (int u = 0; u < ${ steps_of_a_turn }$; ++u) {
const int h = h0 + step + u, point = ${ point }$, slot = u % ${ rows_ahead }$;
if (place(point, 0) >= 0) {
const int row_at = place(point, 0);
#pragma unroll
for (int j = 0; j < ${ outputs }$; ++j) fw_load_raw(next[j], gradient[row_at][j]);
fetch_gradient(int(${ turn_row }$) + point / ${ walked_stride }$ + 1);
}
<%- for axis in outer %>
#pragma unroll
for (int ${ axis.tap }$ = 0; ${ axis.tap }$ < ${ axis.taps }$; ++${ axis.tap }$) {
<%- for line in axis.pixel %>
${ line }$
<%- endfor %>
<%- endfor %>
<%- if outer %>
${ fetch }$
#pragma unroll
for (int at = 0; at < ${ reach }$; ++at) fetch(slot, at, h);
<%- endif %>
${ row }$
<%- for axis in outer %>
}
<%- endfor %>
}
}
}
#pragma unroll
for (int first = 0; first < ${ taps }$; first += ${ taps_at_a_time }$) {
<%- if inside %>
bool is_nan = false;
<%- endif %>
#pragma unroll
for (int i = first; i < first + ${ taps_at_a_time }$ && i < ${ taps }$; ++i) {
#pragma unroll
for (int e = 0; e < ${ vector }$; ++e) {
totals[(thread * ${ taps_at_a_time }$ + (i - first)) * ${ block_channels }$ + column + e] = sums[i][e];
<%- if inside %>
is_nan = is_nan || sums[i][e] != sums[i][e];
<%- endif %>
}
}
<%- if inside %>
if (is_nan) {
${ inside }$
}
<%- endif %>
__syncthreads();
#pragma unroll 1
for (unsigned i = threadIdx.x; i < ${ taps_at_a_time * block_channels }$; i += ${ threads }$) {
const unsigned at = first + i / ${ block_channels }$, channel = block_channel + i % ${ block_channels }$;
if (at >= ${ taps }$<% if channel_guard %> || !(${ channel_guard }$)<% endif %>) continue;
float total = totals[i];
for (unsigned other = 1; other < ${ strips_of_a_block }$; ++other) total += totals[other * ${ taps_at_a_time * block_channels }$ + i];
accumulators[(split * ${ taps }$ + <% if is_turned %>${ taps - 1 }$ - at<% else %>at<% endif %>) * ${ channels }$ + channel] = total;
}
__syncthreads();
}
}
