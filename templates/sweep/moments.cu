<# Partial moments of a value: as `reduction.cu` steps over points, for differences from a `shift`, and their squares. The shift is the value
   that is closest to the mean of the block's first points: one of the values, so that differences are as exact as these, and no
   outlier. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ resident }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
fw_let_next_launch_start();
FW_SHARED(shared_bytes);
float* const shared = reinterpret_cast<float*>(shared_bytes);
const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
const ${ index }$ kept = ${ kept.first }$;
<%- for line in kept.coordinates %>
${ line }$
<%- endfor %>
const ${ index }$ last = kept < ${ kept.count }$ ? ${ reduced_count }$ : 0;

float mean[${ width }$] = {}, shift[${ width }$];
#pragma unroll
for (int e = 0; e < ${ width }$; ++e) shift[e] = __uint_as_float(0x7f800000u);
<%- for look in first.looks %>
#pragma unroll
for (unsigned g = 0; g < ${ first.points }$; ++g) {
const ${ index }$ r = ${ first.of_block }$ + g;
if (r < last) {
<%- for line in coordinates %>
${ line }$
<%- endfor %>
${ look }$
}
}
<%- endfor %>
#pragma unroll
for (int e = 0; e < ${ width }$; ++e) shift[e] = isfinite(shift[e]) ? shift[e] : 0.0f;
if (${ writes }$) {
#pragma unroll
for (int e = 0; e < ${ width }$; ++e) partial3[${ place }$] = shift[e];
}

float sums[${ sums }$] = {};  // of differences, of their squares, and of values
${ steps }$
<%- for part in parts %>
{
float part[${ at_once }$];
#pragma unroll
for (int sum = 0; sum < ${ at_once }$; ++sum) part[sum] = sums[${ part }$];
fw_tree<${ at_once }$>(shared, part, lane, ${ tree }$, [](float a, float b) { return fw_sum(a, b); });
if (${ writes }$) {
#pragma unroll
for (int sum = 0; sum < ${ at_once }$; ++sum) {
const int which = (${ part }$) / ${ width }$, e = (${ part }$) % ${ width }$;
<%- if guard %>
if (!(${ guard }$)) continue;
<%- endif %>
float* const partial = which == 0 ? partial0 : which == 1 ? partial1 : partial2;
partial[${ place }$] = shared[sum * ${ threads }$ + lane];
}
}
__syncthreads();
}
<%- endfor %>
}
