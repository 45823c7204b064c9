<# One pass over bytes of packed booleans, a byte a thread: the points of its bits that are `inside`, each at its `coordinates` by
   `evaluate`, then the `stores`. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
const ${ index }$ byte = ${ block }$ * ${ threads }$ + threadIdx.x;
if (byte < ${ bytes }$) {
<%- for store in stores %>
unsigned ${ store.byte }$ = 0;
<%- endfor %>
bool holds_points = false;
for (unsigned bit = 0; bit < 8; ++bit) {
const ${ index }$ at = byte * 8 + bit;
<%- for line in coordinates %>
${ line }$
<%- endfor %>
if (!(${ inside }$)) continue;
holds_points = true;
${ evaluate }$
}
if (holds_points) {
<%- for store in stores %>
${ store.pointer }$[byte] = (unsigned char)${ store.byte }$;
<%- endfor %>
}
}
}
