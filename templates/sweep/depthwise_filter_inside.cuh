<# The sums of a thread that are NaN, once more: each tap and channel by itself, over the pixels that lie inside of the image. -#>
#pragma unroll 1
for (unsigned i = 0; i < ${ taps_at_a_time * vector }$; ++i) {
const unsigned tap = first + i / ${ vector }$, e = i % ${ vector }$;
if (tap >= ${ taps }$) break;
float& sum = totals[(thread * ${ taps_at_a_time }$ + (tap - first)) * ${ block_channels }$ + column + e];
if (sum == sum) continue;
<%- for line in tap_of_axes %>
${ line }$
<%- endfor %>
float inside = 0.0f;
#pragma unroll 1
for (${ index }$ strip = split * ${ strips_of_a_block }$ + thread; strip < strips; strip += ${ splits * strips_of_a_block }$) {
<%- for line in first_output %>
${ line }$
<%- endfor %>
#pragma unroll 1
for (unsigned at = 0; at < ${ rows * outputs }$; ++at) {
const unsigned j = at % ${ outputs }$;
<%- for line in output %>
${ line }$
<%- endfor %>
<%- if guard %>
if (!(${ guard }$)) continue;
<%- endif %>
<%- for line in pixel %>
${ line }$
<%- endfor %>
const float value = fw_to_f32(fw_value(${ image }$[${ offset }$ + e])), factor = fw_to_f32(fw_value(${ gradient }$[${ gradient_offset }$ + e]));
inside = fmaf(value, factor, inside);
}
}
sum = inside;
}
