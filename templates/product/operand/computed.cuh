<# An operand that the threads of the first warpgroup compute to a stage, `unroll` pieces of a thread under way at once. -#>
const auto fill_${ name }$ = [&](unsigned tile, ${ index }$ k0) {
<%- if passes > unroll %>
#pragma unroll 1
for (unsigned pass = 0; pass < ${ passes }$; pass += ${ unroll }$) {
<%- endif %>
<%- if unroll > 1 %>
${ result }$ pieces[${ unroll }$];
#pragma unroll
for (unsigned u = 0; u < ${ unroll }$; ++u) {
const unsigned i = ${ number }$, row = ${ row }$, piece = ${ piece }$;
<%- if has_rest %>
if (i >= ${ pieces }$) continue;
<%- endif %>
pieces[u] = operand_${ name }$(${ call }$);
}
#pragma unroll
for (unsigned u = 0; u < ${ unroll }$; ++u) {
const unsigned i = ${ number }$, row = ${ row }$, piece = ${ piece }$;
<%- if has_rest %>
if (i >= ${ pieces }$) continue;
<%- endif %>
const unsigned at = ${ tile }$ + ${ place }$;
*reinterpret_cast<${ result }$*>(shared_bytes + (at - shared)) = pieces[u];
}
<%- else %>
const unsigned i = ${ number }$, row = ${ row }$, piece = ${ piece }$;
<%- if has_rest %>
if (i >= ${ pieces }$) return;
<%- endif %>
const unsigned at = ${ tile }$ + ${ place }$;
*reinterpret_cast<${ result }$*>(shared_bytes + (at - shared)) = operand_${ name }$(${ call }$);
<%- endif %>
<%- if passes > unroll %>
}
<%- endif %>
};
