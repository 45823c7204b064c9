<# The filter gradient of a depthwise convolution: a thread adds up, for a vector of channels, the products of all taps over groups of
   `outputs` neighbouring pixels of the gradient; a block's sums meet in shared memory, and each row of blocks leaves those of all
   channels in the workspace, taps outermost. Taps outside of the image are left out. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
float* const totals = reinterpret_cast<float*>(shared_bytes);  // of ${ rows }$ rows of threads, ${ block_channels }$ channels
const unsigned thread = threadIdx.x / ${ columns }$, channel = blockIdx.y * ${ block_channels }$ + threadIdx.x % ${ columns }$ * ${ vector }$;
fw_wait_for_previous_launch();
float sums[${ taps }$][${ vector }$] = {};
<%- if has_rest %>
const ${ index }$ groups = channel < ${ channels }$ ? ${ groups }$ : 0;
<%- else %>
const ${ index }$ groups = ${ groups }$;
<%- endif %>
#pragma unroll 1
for (${ index }$ group = blockIdx.x * ${ rows }$ + thread; group < groups; group += gridDim.x * ${ rows }$) {
<%- for line in first_output %>
${ line }$
<%- endfor %>
const auto* const line = ${ gradient }$ + (${ gradient_offset }$);
float gradient[${ outputs }$][${ vector }$] = {};
#pragma unroll
for (unsigned j = 0; j < ${ outputs }$; ++j)
<%- if output_guard %>
if (${ output_guard }$)
<%- endif %>
fw_load_vector(line + (int(q0) + int(j)) * ${ gradient_stride }$, gradient[j]);
const int w0 = ${ first_pixel }$;
<%- for axis in outer %>
#pragma unroll
for (int ${ axis.tap }$ = 0; ${ axis.tap }$ < ${ axis.taps }$; ++${ axis.tap }$) {
<%- for line in axis.pixel %>
${ line }$
<%- endfor %>
<%- endfor %>
${ row }$
<%- for axis in outer %>
}
<%- endfor %>
}
#pragma unroll
for (unsigned i = 0; i < ${ taps }$; ++i) {
fw_tree<${ vector }$>(totals, sums[i], threadIdx.x, thread, ${ rows }$ / 2, ${ block_channels }$, fw_sum);
<%- if is_turned %>
const unsigned tap = ${ taps - 1 }$ - i;
<%- else %>
const unsigned tap = i;
<%- endif %>
if (thread == 0<% if has_rest %> && channel < ${ channels }$<% endif %>) {
#pragma unroll
for (int e = 0; e < ${ vector }$; ++e)
accumulators[(blockIdx.x * ${ taps }$ + tap) * ${ channels }$ + channel + e] = totals[threadIdx.x * ${ vector }$ + e];
}
__syncthreads();
}
}
