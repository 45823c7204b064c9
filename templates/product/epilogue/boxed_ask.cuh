<# Asks for the first boxes of a tile that its epilogue reads; they come while products are computed. -#>
const ${ index }$ tile_m0 = m0 + ${ warp_row }$;
const auto ask_for = [&](unsigned part, unsigned set) {
if (lane == 0) {
const ${ index }$ box_n0 = n0<% if chunks > 1 %> + part % ${ chunks }$ * ${ columns }$<% endif %>;
<%- if walk %>
${ walk }$
<%- endif %>
fw_mbarrier_expect(arrived + 8 * set, ${ read_bytes }$);
<%- for load in loads %>
${ load }$
<%- endfor %>
}
};
<%- if evaluates %>
if (${ evaluates }$) {
<%- endif %>
ask_for(0, taken % ${ sets }$);
<%- if parts > 1 %>
ask_for(1, (taken + 1) % ${ sets }$);
<%- endif %>
<%- if evaluates %>
}
<%- endif %>
