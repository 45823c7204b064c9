<# One pass over the points of an iteration space, a vector of them a thread: `coordinates` of vector number `vector`, then `evaluate`.
   `blocks` is the least number of blocks on a multiprocessor, where the compiler's own guess would spill registers. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$<% if blocks %>, ${ blocks }$<% endif %>)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
const ${ index }$ vector = ${ block }$ * ${ threads }$ + threadIdx.x;
if (vector < ${ vectors }$) {
<%- for line in coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
}
