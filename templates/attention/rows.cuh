<# What softmax knows of a row, and the factor of its part of O. -#>
float scaled[2];
#pragma unroll
for (int e = 0; e < 2; ++e) {
const float total = fw_quad_total(sum[e]);
scaled[e] = total == 0.0f ? 0.0f : 1.0f / total;
<%- if dropout %>
scaled[e] *= drop_scale;
<%- endif %>
<%- if scaling %>
scaled[e] *= of_output;
<%- endif %>
<%- if largest %>
const float greatest = fw_quad_largest_nan(largest[e]);
<%- if sink %>
const float sink = ${ sink }$;
const float greatest_of_all = fw_max_nan(greatest, sink / unit_of_scores);
<%- endif %>
<%- endif %>
<%- if largest_p %>
${ largest_p }$
<%- endif %>
<%- if stores %>
if (quad == 0 && row + 8 * e < ${ rows }$) {
<%- for store in stores %>
${ store }$
<%- endfor %>
}
<%- endif %>
}
