<# The producer whose boxes are multiplied as they come: one thread asks for them, stage after stage. -#>
// one thread asks for the tiles of A and B, up to ${ stages }$ ahead
if (warp == 0 && fw_elect()) {
unsigned stage = 0, parity = 1;
#pragma unroll 1
for (unsigned unit = blockIdx.x; unit < ${ units }$u; unit += gridDim.x) {
${ unit }$
<%- if edge %>
// boxes end where C does
<%- endif %>
<%- for line in edge %>
${ line }$
<%- endfor %>
<%- for line in tile_digits %>
${ line }$
<%- endfor %>
#pragma unroll 1
for (int step = 0; step < ${ steps }$; ++step) {
fw_mbarrier_wait(empty + 8 * stage, parity);
<%- if tail %>
const bool is_tail = ${ tail }$;  // of k, or of the channels under a tap
<%- endif %>
fw_mbarrier_expect(full + 8 * stage, ${ boxed_bytes }$);
const unsigned tile = shared + stage * ${ stage_bytes }$;
<%- if stationary %>
const bool is_first = unit == blockIdx.x;  // B comes once
const unsigned tile_b = stationary + step * ${ stationary.bytes }$;
if (is_first) fw_mbarrier_expect(arrived_b + 8 * step, ${ stationary.boxed_bytes }$);
<%- endif %>
<%- for line in origin %>
${ line }$
<%- endfor %>
<%- for side in sides %>
// ${ side.title }$
<%- for load in side.loads %>
${ load }$
<%- endfor %>
<%- endfor %>
<%- if end %>
${ end }$
<%- endif %>
if (++stage == ${ stages }$) stage = 0, parity ^= 1;
}
}
}
