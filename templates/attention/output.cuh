<# O to memory: fragments of 32 columns change lanes, so that each stores eight columns side by side. -#>
<%- if zeros %>
if (steps == 0) {
FW_CLEAR(${ zeros }$);
}
<%- endif %>
<%- for group in groups %>
{
unsigned w[2][4] = {};
float y[4];
<%- for take in group.takes %>
fw_take<${ take.register }$>(y);
w[0][${ take.fragment }$] = ${ pack }$(y[0] * scaled[0], y[1] * scaled[0]), w[1][${ take.fragment }$] = ${ pack }$(y[2] * scaled[1], y[3] * scaled[1]);
<%- endfor %>
#pragma unroll
for (int e = 0; e < 2; ++e) {
fw_quad_transpose(w[e], lane);
const int row_of = row + 8 * e, column = ${ group.column }$ + 8 * quad;
if (row_of < ${ rows }$<% if group.guard %> && column < ${ columns }$<% endif %>) {
${ storage }$* const to = ${ pointer }$ + ${ offset }$;
<%- if vectors %>
fw_store_vector(reinterpret_cast<unsigned*>(to), fw_vector<unsigned, 4>{{w[e][0], w[e][1], w[e][2], w[e][3]}});
<%- else %>
#pragma unroll
for (int i = 0; i < 8; ++i) reinterpret_cast<unsigned short*>(to)[i] = (unsigned short)(w[e][i / 2] >> 16 * (i % 2));
<%- endif %>
}
}
}
<%- endfor %>
