<# A depthwise convolution: a thread computes `outputs` neighbouring pixels along the last axis for a vector of channels; the weights of a
   block's channels lie in shared memory, taps outermost. Taps outside of the image are left out. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
float* const weights = reinterpret_cast<float*>(shared_bytes);  // ${ taps }$ taps of ${ block_channels }$ channels
const unsigned block_channel = blockIdx.y * ${ block_channels }$;
fw_wait_for_previous_launch();
for (unsigned i = threadIdx.x; i < ${ taps * block_channels }$; i += ${ threads }$) {
const unsigned tap = i / ${ block_channels }$, channel = block_channel + i % ${ block_channels }$;
<%- for line in weight_taps %>
${ line }$
<%- endfor %>
<%- if has_rest %>
weights[i] = channel < ${ channels }$ ? ${ weight }$ : 0.0f;
<%- else %>
weights[i] = ${ weight }$;
<%- endif %>
}
__syncthreads();
const unsigned column = threadIdx.x % ${ columns }$ * ${ vector }$, channel = block_channel + column;
<%- if has_rest %>
if (channel >= ${ channels }$) return;
<%- endif %>
#pragma unroll 1
for (${ index }$ group = blockIdx.x * ${ rows }$ + threadIdx.x / ${ columns }$; group < ${ groups }$; group += gridDim.x * ${ rows }$) {
<%- for line in first_output %>
${ line }$
<%- endfor %>
const int w0 = ${ first_pixel }$;
float sums[${ outputs }$][${ vector }$] = {};
<%- for axis in outer %>
#pragma unroll 1
for (int ${ axis.tap }$ = 0; ${ axis.tap }$ < ${ axis.taps }$; ++${ axis.tap }$) {
<%- for line in axis.pixel %>
${ line }$
<%- endfor %>
<%- endfor %>
float weight[${ last_taps }$][${ vector }$];
#pragma unroll
for (int s = 0; s < ${ last_taps }$; ++s) fw_load_vector(weights + (${ row_of_taps }$ + s) * ${ block_channels }$ + column, weight[s]);
${ row }$
<%- for axis in outer %>
}
<%- endfor %>
#pragma unroll
for (unsigned j = 0; j < ${ outputs }$; ++j) {
<%- if point.guard %>
if (!(${ point.guard }$)) continue;
<%- endif %>
<%- for line in point.coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
}
}
