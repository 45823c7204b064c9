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
const ${ index }$ last = kept < ${ kept.count }$ ? ${ reduced.count }$ : 0;
${ index }$ next = ${ reduced.first }$;

float mean[${ width }$] = {};
#pragma unroll
for (unsigned g = 0; g < ${ first_points }$; ++g) {
const ${ index }$ r = ${ first_of_block }$ + g;
if (r < last) {
<%- for line in reduced.coordinates %>
${ line }$
<%- endfor %>
${ evaluate_mean }$
}
}
float shift[${ width }$];
#pragma unroll
for (int e = 0; e < ${ width }$; ++e) shift[e] = __uint_as_float(0x7f800000u);
#pragma unroll
for (unsigned g = 0; g < ${ first_points }$; ++g) {
const ${ index }$ r = ${ first_of_block }$ + g;
if (r < last) {
<%- for line in reduced.coordinates %>
${ line }$
<%- endfor %>
${ evaluate_shift }$
}
}
#pragma unroll
for (int e = 0; e < ${ width }$; ++e) shift[e] = isfinite(shift[e]) ? shift[e] : 0.0f;
if (${ writes }$) {
#pragma unroll
for (int e = 0; e < ${ width }$; ++e) partial3[${ place }$] = shift[e];
}

<%- for declaration in declarations %>
${ declaration }$
<%- endfor %>
for (; next + ${ reduced.threads * (reduced.group - 1) }$ < last; next += ${ reduced.step }$) {
#pragma unroll
for (unsigned g = 0; g < ${ reduced.group }$; ++g) {
const ${ index }$ r = ${ reduced.of_group }$;
<%- for line in reduced.coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
}
#pragma unroll 1
for (${ index }$ r = next; r < last; r += ${ reduced.threads }$) {  // what is left of the last group
<%- for line in reduced.coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
<%- for tree in trees %>
${ tree }$
<%- endfor %>
}
