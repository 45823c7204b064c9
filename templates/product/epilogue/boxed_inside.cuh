<# Sums in fragments that are NaN, once more: a zero outside an operand, times what is not finite, is none of their products. A lane looks
   at the sums that tell first. The accumulators themselves are mended, so that nothing is copied where all is finite. -#>
// zeros outside an operand have no products: where they met what is not finite, sums are computed once more
float told = 0.0f, take[4];
<%- for line in tell %>
${ line }$
<%- endfor %>
if (!isfinite(told)) {
float again[${ fragments }$][4];
<%- for line in takes %>
${ line }$
<%- endfor %>
#pragma unroll 1
for (unsigned i = 0; i < ${ 4 * fragments }$; ++i) {
float& sum = again[i / 4][i % 4];
if (sum == sum) continue;
<%- if blocks > 1 %>
const unsigned rows = i / ${ 4 * fragments_of_a_block }$;
<%- endif %>
const unsigned line = lane / 4 + i / 2 % 2 * 8, piece = i / 4 % ${ fragments_of_a_block }$ * 8 + lane % 4 * 2 + i % 2;
const ${ index }$ warp_m0 = m0 + ${ warp_row }$, chunk_n0 = n0;
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
<%- for line in gives %>
${ line }$
<%- endfor %>
}
