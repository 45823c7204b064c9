<# The epilogue of a tile of C in shared memory: the threads of the block take its vectors in turns, then reduce the `values` they kept. -#>
// epilogue fusion
<%- for line in values %>
${ line }$
<%- endfor %>
#pragma unroll 1
for (unsigned i = threadIdx.x; i < ${ vectors }$; i += ${ threads }$) {
const unsigned line = ${ line }$, piece = ${ piece }$;
<%- for index in point.indices %>
${ index }$
<%- endfor %>
<%- if point.guard %>
if (!(${ point.guard }$)) continue;
<%- endif %>
<%- for digit in point.digits %>
${ digit }$
<%- endfor %>
${ evaluate }$
}
<%- if reductions %>
__syncthreads();

// one partial result a block for every kept element, in a fixed order
<%- for reduction in reductions %>
${ reduction }$
<%- endfor %>
<%- endif %>
