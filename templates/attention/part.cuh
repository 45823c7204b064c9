<# A part's rows of O to the workspace. -#>
if (steps == 0) {
FW_CLEAR(<% for zero in zeros %>${ zero }$ <% endfor %>);
}
float* const part_row = partial0 + (${ row_of_part }$) * ${ columns }$ull + 2 * quad;
const auto store_part = [&](unsigned column, const float (&y)[4]) {
#pragma unroll
for (int e = 0; e < 2; ++e) {
if (row + 8 * e < ${ rows }$) *reinterpret_cast<fw_vector<float, 2>*>(part_row + ${ 8 * columns }$ * e + column) = {{y[2 * e] * scaled[e], y[2 * e + 1] * scaled[e]}};
}
};
<%- for register in takes %>
{
float y[4];
fw_take<${ register }$>(y);
store_part(${ 8 * loop.index0 }$, y);
}
<%- endfor %>
