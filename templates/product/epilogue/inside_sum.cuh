<# `inside`: the sum of row `m` and column `n` over the products inside both operands. -#>
float inside = 0.0f;
#pragma unroll 1
for (${ index }$ k = ${ first }$; k < ${ last }$ && inside == inside; ++k) {
float factors[2];
<%- for factor in factors %>
{
<%- for line in factor.lines %>
${ line }$
<%- endfor %>
<%- if factor.guard %>
if (!(${ factor.guard }$)) continue;
<%- endif %>
<%- for line in factor.values %>
${ line }$
<%- endfor %>
factors[${ loop.index0 }$] = ${ factor.value }$;
}
<%- endfor %>
inside = fmaf(factors[0], factors[1], inside);
}
