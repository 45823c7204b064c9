<# One pass over the points of an iteration space, with operands that are contiguous along another axis than what is stored: of these a block brings its tile
   to shared memory, in vectors along that axis, where threads find the elements of their points. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
fw_wait_for_previous_launch();
const ${ index }$ block = ${ block }$;
<%- for line in coordinates %>
${ line }$
<%- endfor %>
<%- for operand in operands %>
fw_raw<${ operand.storage }$, ${ operand.vector }$> brought_${ operand.name }$[${ operand.place.each }$];
#pragma unroll
for (unsigned step = 0; step < ${ operand.place.each }$; ++step) {
<%- for line in operand.place.within %>
${ line }$
<%- endfor %>
<%- for line in operand.place.coordinates %>
${ line }$
<%- endfor %>
brought_${ operand.name }$[step] = *reinterpret_cast<const fw_raw<${ operand.storage }$, ${ operand.vector }$>*>(${ operand.from }$);
}
<%- endfor %>
<%- if ahead %>
<%- for operand in ahead %>
fw_raw<${ operand.storage }$, ${ operand.vector }$> ahead_${ operand.name }$[${ points.each }$];
<%- endfor %>
#pragma unroll
for (unsigned step = 0; step < ${ points.each }$; ++step) {
<%- for line in points.within %>
${ line }$
<%- endfor %>
<%- for line in points.coordinates %>
${ line }$
<%- endfor %>
<%- for operand in ahead %>
ahead_${ operand.name }$[step] = *reinterpret_cast<const fw_raw<${ operand.storage }$, ${ operand.vector }$>*>(${ operand.from }$);
<%- endfor %>
}
<%- endif %>
<%- for operand in operands %>
${ operand.storage }$* const tile_${ operand.name }$ = reinterpret_cast<${ operand.storage }$*>(shared_bytes + ${ operand.first_byte }$);
#pragma unroll
for (unsigned step = 0; step < ${ operand.place.each }$; ++step) {
<%- for line in operand.place.within %>
${ line }$
<%- endfor %>
fw_store_words(tile_${ operand.name }$ + along * ${ operand.pitch }$ + across, brought_${ operand.name }$[step]);
}
<%- endfor %>
__syncthreads();
#pragma unroll
for (unsigned step = 0; step < ${ points.each }$; ++step) {
<%- for line in points.within %>
${ line }$
<%- endfor %>
<%- for line in points.coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
}
