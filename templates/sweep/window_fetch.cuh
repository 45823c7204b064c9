<# `fetch`: pixel `at` of the strip in row `h` of the image, as it lies in memory, to its registers among those of the rows ahead; zeros
   outside of the image and below the strip. -#>
const auto* const image = ${ image }$ + (${ offset }$);
<%- if strip_guard %>
const int end = !(${ strip_guard }$) ? h0 : h0 + ${ steps }$ < ${ height }$ ? h0 + ${ steps }$ : ${ height }$;
<%- else %>
const int end = h0 + ${ steps }$ < ${ height }$ ? h0 + ${ steps }$ : ${ height }$;
<%- endif %>
const auto fetch = [&](int slot, int at, int h) {
const auto* const from = image + ${ row_stride }$ + at * ${ pixel_stride }$;
const bool is_inside = ${ row_guard }$<% if pixel_guard %> && ${ pixel_guard }$<% endif %>;
pixels[slot][at] = is_inside ? *reinterpret_cast<const fw_raw<${ storage }$, ${ vector }$>*>(from) : fw_raw<${ storage }$, ${ vector }$>{};
};
