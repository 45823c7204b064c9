<# What is added to the scores of a step, asked for while these are multiplied; beyond the last query, or key, that of the last. -#>
const ${ storage }$* const bias_of_head = ${ pointer }$ + ${ head_offset }$;
<%- if is_paired %>
fw_vector<${ storage }$, 2> bias[${ pairs }$];
#pragma unroll
for (int i = 0; i < ${ pairs }$; ++i) {
[[maybe_unused]] const int bias_query = min(row + 8 * (i & 1), ${ last_query }$);
const int bias_key = min(block * ${ columns }$ + 2 * int(quad) + 8 * (i >> 1), ${ last_key }$ - 1);
bias[i] = *reinterpret_cast<const fw_vector<${ storage }$, 2>*>(bias_of_head + ${ offset }$);
}
<%- else %>
${ storage }$ bias[${ scores }$];
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) {
const int of_row = row + 8 * (i >> 1 & 1), of_column = block * ${ columns }$ + 2 * int(quad) + 8 * (i >> 2) + (i & 1);
[[maybe_unused]] const int bias_query = min(<% if of_keys %>of_column<% else %>of_row<% endif %>, ${ last_query }$);
[[maybe_unused]] const int bias_key = min(<% if of_keys %>of_row<% else %>of_column<% endif %>, ${ last_key }$);
bias[i] = bias_of_head[${ offset }$];
}
<%- endif %>
