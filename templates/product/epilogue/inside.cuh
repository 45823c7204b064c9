<# The function by which a lane mends the sums that it has put to an array: those that are NaN are summed up once more. -#>
// a zero outside an operand, times what is not finite, is no product: sums that are NaN once more, over elements inside
static __device__ __noinline__ void ${ function }$(float* sums, unsigned first_row, unsigned first_column, ${ parameters }$) {
#pragma unroll 1
for (unsigned i = 0; i < ${ count }$; ++i) {
const unsigned row = first_row + ${ row }$, column = first_column + ${ column }$;
float& sum = sums[${ at }$];
if (sum == sum) continue;
const unsigned line = ${ line }$, piece = ${ piece }$;
<%- for line in point.indices %>
${ line }$
<%- endfor %>
<%- if point.guard %>
if (!(${ point.guard }$)) continue;
<%- endif %>
<%- for line in point.digits %>
${ line }$
<%- endfor %>
float inside = 0.0f;
#pragma unroll 1
for (${ index }$ k = ${ first }$; k < ${ last }$ && inside == inside; ++k) {
asm volatile("" ::: "memory");  // keeps in the loop what does not change in it: NVRTC 13.0.88 crashes where it takes some conditions out
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
sum = inside;
}
}
