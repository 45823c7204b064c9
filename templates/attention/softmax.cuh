<# From a step's scores to its probabilities, against a reference of each row that moves where a score is far above it: the sums and O are then
   multiplied by what the new reference makes of the old one. -#>
<%- for line in of_step %>
${ line }$
<%- endfor %>
<%- if program %>
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) {
${ program }$
}
<%- endif %>
<%- if scales_first %>
if (${ scales_first }$) {
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) x[i] *= scale;
}
<%- endif %>
if (block >= plain_end || block < plain_begin) {
const int at = block * ${ keys }$ + 2 * quad;
int kept[2]<% if left %>, low[2]<% endif %>;
#pragma unroll
for (int e = 0; e < 2; ++e) {
kept[e] = <% if lengths %>row + 8 * e >= rows ? 0 : <% endif %>keys_of(row + 8 * e) - at;
<%- if left %>
low[e] = first_key(row + 8 * e) - at;
<%- endif %>
}
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) {
const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
if (column >= kept[e]<% if left %> || column < low[e]<% endif %>) x[i] = negative;
}
}
float top[2];
<%- if largest %>
fw_row_maxima_nan(x, top);
#pragma unroll
for (int e = 0; e < 2; ++e) largest[e] = fw_max_nan(largest[e], top[e]), top[e] = fmaxf(top[e], m[e]);
<%- else %>
fw_row_maxima(x, m, top);
<%- if seen %>
seen[0] = fmaxf(seen[0], top[0]), seen[1] = fmaxf(seen[1], top[1]);
<%- endif %>
<%- endif %>
moves = __any_sync(0xffffffffu, top[0] > bound[0] || top[1] > bound[1]);
<%- if vast %>
if (moves) top[0] = fw_quad_largest(top[0]), top[1] = fw_quad_largest(top[1]);
if (moves && (fw_is_vast(top[0], c) || fw_is_vast(top[1], c) || fw_is_vast(m[0], c) || fw_is_vast(m[1], c))) {
// scores of which no exponential can be taken against a rounded reference
#pragma unroll
for (int e = 0; e < 2; ++e) {
const float next = top[e], before = reference[e];
reference[e] = next == negative ? 0.0f : fw_reference(next, c)<% if top %> ${ top }$<% endif %>;
factor[e] = fw_factor(m[e], next, c, before, reference[e]);
m[e] = next, bound[e] = fw_bound(next, c, room);
sum[e] *= factor[e];
}
fw_above_largest(x, m, c);
} else if (moves) {
<%- else %>
if (moves) {
<%- endif %>
#pragma unroll
for (int e = 0; e < 2; ++e) {
const float next = <% if vast %>top[e]<% else %>fw_quad_largest(top[e])<% endif %>, before = reference[e];
reference[e] = next == negative ? 0.0f : next * c<% if top %> ${ top }$<% endif %>;
factor[e] = m[e] == negative ? 0.0f : fw_fast_exp2(before - reference[e]);
m[e] = next, bound[e] = next + room;
sum[e] *= factor[e];
}
}
<%- if exponentials %>
fw_exponentials(x, c, reference, sum);
<%- endif %>
<%- if dropout %>
${ dropout }$
<%- endif %>
