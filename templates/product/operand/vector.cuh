<# An operand whose vectors are computed in registers while a stage is multiplied, and placed in the next one after that. -#>
${ result }$ fetched_${ name }$[${ passes }$];
const auto fetch_${ name }$ = [&](${ index }$ k0) {
<%- if passes > 1 %>
#pragma unroll
for (unsigned pass = 0; pass < ${ passes }$; ++pass) {
const unsigned i = pass * ${ threads }$ + threadIdx.x;
<%- else %>
const unsigned i = threadIdx.x;
<%- endif %>
<%- if has_rest %>
if (i >= ${ pieces }$) return;
<%- endif %>
const unsigned row = ${ row }$, piece = ${ piece }$;
fetched_${ name }$[<% if passes > 1 %>pass<% else %>0<% endif %>] = operand_${ name }$(${ call }$);
<%- if passes > 1 %>
}
<%- endif %>
};
const auto place_${ name }$ = [&](unsigned stage) {
<%- if passes > 1 %>
#pragma unroll
for (unsigned pass = 0; pass < ${ passes }$; ++pass) {
const unsigned i = pass * ${ threads }$ + threadIdx.x;
<%- else %>
const unsigned i = threadIdx.x;
<%- endif %>
<%- if has_rest %>
if (i >= ${ pieces }$) return;
<%- endif %>
const unsigned row = ${ row }$, piece = ${ piece }$;
const unsigned at = ${ stage }$ + ${ place }$;
*reinterpret_cast<${ result }$*>(shared_bytes + (at - shared)) = fetched_${ name }$[<% if passes > 1 %>pass<% else %>0<% endif %>];
<%- if passes > 1 %>
}
<%- endif %>
};
