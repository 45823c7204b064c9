<# Shares the totals `name` of columns among the lanes that hold their parts, and adds them, a vector a lane, to those that the warp
   carries from tile to tile. -#>
{
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
}
