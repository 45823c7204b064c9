<# Shares the totals `name` of columns among the lanes that hold their parts, and adds them to those that the warp carries from tile to
   tile: as a vector, where the columns of a lane all exist or none does. -#>
{
<%- if guard %>
float sums[${ count }$];
#pragma unroll
for (unsigned e = 0; e < ${ count }$; ++e) {
sums[e] = fw_lanes_total<${ from }$, ${ to }$>(${ name }$[e], [](float a, float b) { return ${ combine }$(a, b); });
}
if (${ stores }$) {
#pragma unroll
for (unsigned e = 0; e < ${ count }$; ++e) {
if (${ guard }$) (${ carried }$)[e] = ${ combine }$((${ carried }$)[e], sums[e]);
}
}
<%- else %>
fw_vector<float, ${ count }$> sums;
#pragma unroll
for (unsigned e = 0; e < ${ count }$; ++e) {
sums.at[e] = fw_lanes_total<${ from }$, ${ to }$>(${ name }$[e], [](float a, float b) { return ${ combine }$(a, b); });
}
if (${ stores }$) {
fw_vector<float, ${ count }$>* const carried = reinterpret_cast<fw_vector<float, ${ count }$>*>(${ carried }$);
const fw_vector<float, ${ count }$> before = *carried;
#pragma unroll
for (unsigned e = 0; e < ${ count }$; ++e) sums.at[e] = ${ combine }$(before.at[e], sums.at[e]);
*carried = sums;
}
<%- endif %>
}
