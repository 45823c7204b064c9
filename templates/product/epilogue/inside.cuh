<# Sums in shared memory that are NaN, once more: a zero outside an operand, times what is not finite, is none of their products. Threads
   look at the sums that tell first. -#>
// zeros outside an operand have no products: where they met what is not finite, sums are computed once more
bool is_finite = true;
for (unsigned i = ${ thread }$; i < ${ told }$; i += ${ threads }$) {
const unsigned line = ${ told_line }$, piece = ${ told_point }$;
is_finite = is_finite && isfinite(${ array }$[${ at }$]);
}
if (!${ agree }$is_finite)) {
#pragma unroll 1
for (unsigned i = ${ thread }$; i < ${ lines * points }$; i += ${ threads }$) {
const unsigned line = i / ${ points }$, piece = i % ${ points }$;
float& sum = ${ array }$[${ at }$];
if (sum == sum) continue;
<%- for line in point.indices %>
${ line }$
<%- endfor %>
<%- if point.guard %>
if (!(${ point.guard }$)) continue;
<%- endif %>
<%- for line in point.digits %>
${ line }$
<%- endfor %>
${ sum }$
sum = inside;
}
${ wait }$;
}
