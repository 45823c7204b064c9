<# A value of each score of a step, such as what is added to it, asked for while scores are multiplied; beyond the last query, or key, that of the last. -#>
const ${ storage }$* const ${ name }$_of_head = ${ pointer }$ + ${ head_offset }$;
<%- if is_paired %>
fw_vector<${ storage }$, 2> ${ name }$[${ pairs }$];
#pragma unroll
for (int i = 0; i < ${ pairs }$; ++i) {
[[maybe_unused]] const int ${ name }$_query = min(row + 8 * (i & 1), ${ last_query }$);
const int ${ name }$_key = min(block * ${ columns }$ + 2 * int(quad) + 8 * (i >> 1), ${ last_key }$ - 1);
${ name }$[i] = *reinterpret_cast<const fw_vector<${ storage }$, 2>*>(${ name }$_of_head + ${ offset }$);
}
<%- else %>
${ storage }$ ${ name }$[${ scores }$];
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) {
const int of_row = row + 8 * (i >> 1 & 1), of_column = block * ${ columns }$ + 2 * int(quad) + 8 * (i >> 2) + (i & 1);
[[maybe_unused]] const int ${ name }$_query = min(<% if of_keys %>of_column<% else %>of_row<% endif %>, ${ last_query }$);
[[maybe_unused]] const int ${ name }$_key = min(<% if of_keys %>of_row<% else %>of_column<% endif %>, ${ last_key }$);
${ name }$[i] = ${ name }$_of_head[${ offset }$];
}
<%- endif %>
