<# Shares the totals `name` among the lanes that hold their parts, and stores each once. -#>
<%- if count > 1 %>
#pragma unroll
for (unsigned e = 0; e < ${ count }$; ++e) {
const float sum = fw_lanes_total<${ from }$, ${ to }$>(${ name }$[e], [](float a, float b) { return ${ combine }$(a, b); });
if (${ stores }$) {
${ store }$
}
}
<%- else %>
{
const float sum = fw_lanes_total<${ from }$, ${ to }$>(${ name }$[0], [](float a, float b) { return ${ combine }$(a, b); });
if (${ stores }$) {
${ store }$
}
}
<%- endif %>
