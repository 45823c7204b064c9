<# A depthwise convolution: a thread computes a strip of `rows` times `outputs` pixels for a vector of channels. It walks the rows of the
   image under the strip: each pixel is read and converted once, and enters the sums of all rows of outputs that are in flight. The weights
   of a block's channels lie in shared memory, taps outermost. Pixels in the padding are zeros, of whose products nothing is left but with weights that are not
   finite: `inside` is for these. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
float* const weights = reinterpret_cast<float*>(shared_bytes);  // ${ taps }$ taps of ${ block_channels }$ channels
const unsigned block_channel = blockIdx.x % ${ channel_blocks }$ * ${ block_channels }$;
fw_wait_for_previous_launch();
const unsigned column = threadIdx.x % ${ columns }$ * ${ vector }$, channel = block_channel + column;
const ${ index }$ strip = ${ index }$(blockIdx.x / ${ channel_blocks }$) * ${ strips_of_a_block }$ + threadIdx.x / ${ columns }$;
<%- for line in first_output %>
${ line }$
<%- endfor %>
const int h0 = ${ first_row }$, w0 = ${ first_pixel }$;
fw_raw<${ storage }$, ${ vector }$> pixels[${ rows_ahead }$][${ reach }$];
<%- if not outer %>
${ fetch }$
#pragma unroll
for (int slot = 0; slot < ${ rows_ahead }$; ++slot) {
#pragma unroll
for (int at = 0; at < ${ reach }$; ++at) fetch(slot, at, h0 + slot);
}
<%- endif %>
<%- if inside %>
bool is_finite = true;
<%- endif %>
for (unsigned i = threadIdx.x; i < ${ taps * block_channels }$; i += ${ threads }$) {
const unsigned tap = i / ${ block_channels }$, channel = block_channel + i % ${ block_channels }$;
<%- for line in weight_taps %>
${ line }$
<%- endfor %>
weights[i] = <% if weight_guard %>${ weight_guard }$ ? ${ weight }$ : 0.0f<% else %>${ weight }$<% endif %>;
<%- if inside %>
is_finite = is_finite && isfinite(weights[i]);
<%- endif %>
}
<%- if inside %>
const bool are_finite = __syncthreads_and(is_finite);
<%- else %>
__syncthreads();
<%- endif %>
<%- if strip_guard %>
if (!(${ strip_guard }$)) return;
<%- endif %>
<%- if inside %>
if (!are_finite) {
${ inside }$
return;
}
<%- endif %>
<%- if holds_weights %>
float weight[${ taps }$][${ vector }$];
#pragma unroll
for (int tap = 0; tap < ${ taps }$; ++tap) fw_load_vector(weights + tap * ${ block_channels }$ + column, weight[tap]);
<%- endif %>
float totals[${ rows_in_flight }$][${ outputs }$][${ vector }$] = {};
${ place }$
#pragma unroll 1
for (int step = 0; step < ${ steps }$; step += ${ steps_of_a_turn }$) {
#pragma unroll
for (int u = 0; u < ${ steps_of_a_turn }$; ++u) {
const int h = h0 + step + u, point = ${ point }$, slot = u % ${ rows_ahead }$;
<%- for axis in outer %>
#pragma unroll 1
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
#pragma unroll
for (int ended = point; ended < point + ${ gap }$; ++ended) {
const int row_at = place(ended, ${ walked_taps - 1 }$);
if (row_at < 0) continue;
const int row = int(${ turn_row }$) + (ended - ${ span }$) / ${ walked_stride }$;
if (${ row_guard }$) {
<%- for line in point_of_output.row %>
${ line }$
<%- endfor %>
#pragma unroll
for (unsigned j = 0; j < ${ outputs }$; ++j) {
<%- if point_of_output.guard %>
if (!(${ point_of_output.guard }$)) continue;
<%- endif %>
<%- for line in point_of_output.coordinates %>
${ line }$
<%- endfor %>
const auto& sums = totals[row_at][j];
${ evaluate }$
}
}
#pragma unroll
for (int j = 0; j < ${ outputs }$; ++j) {
#pragma unroll
for (int e = 0; e < ${ vector }$; ++e) totals[row_at][j][e] = 0.0f;
}
}
}
}
}
