<# Shares the totals `name` of columns among the lanes that hold their parts in fragments: each lane gets those of `count` columns. They are
   stored one by one (`store`), or side by side where the warp carries its totals from tile to tile. -#>
fw_share_columns(${ name }$, lane, [](float a, float b) { return ${ combine }$(a, b); });
<%- if carried %>
<%- if stores %>
if (${ stores }$) {
<%- else %>
{
<%- endif %>
fw_vector<float, ${ count }$> columns;
#pragma unroll
for (unsigned e = 0; e < ${ count }$; ++e) columns.at[e] = ${ carried.sum }$;
fw_store_vector(${ carried.at }$, columns);
}
<%- else %>
#pragma unroll
for (unsigned e = 0; e < ${ count }$; ++e) {
<%- if stores %>
if (${ stores }$) ${ store }$
<%- else %>
${ store }$
<%- endif %>
}
<%- endif %>
