<# An operand that is multiplied as it is stored: `cp.async` brings its pieces straight to a stage of shared memory. -#>
// ${ title }$: ${ piece_bytes }$ bytes at a time straight to shared memory, zeros outside
const auto ${ verb }$_${ name }$ = [&](unsigned ${ argument }$, ${ index }$ k0) {
<%- if passes > 1 %>
#pragma unroll<% if unroll %> ${ unroll }$<% endif %>
for (unsigned pass = 0; pass < ${ passes }$; ++pass) {
const unsigned i = pass * ${ threads }$ + threadIdx.x;
<%- else %>
const unsigned i = threadIdx.x;
<%- endif %>
<%- if has_rest %>
if (i >= ${ pieces }$) return;
<%- endif %>
const unsigned row = ${ row }$, piece = ${ piece }$;
const ${ index }$ ${ outer }$ = ${ at[0] }$, k = ${ at[1] }$;
<%- for line in coordinates %>
${ line }$
<%- endfor %>
<%- for line in before %>
${ line }$
<%- endfor %>
fw_cp_async<${ piece_bytes }$>(${ stage }$ + ${ place }$, ${ source }$, ${ inside }$);
<%- if passes > 1 %>
}
<%- endif %>
};
