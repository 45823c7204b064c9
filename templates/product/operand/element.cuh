<# An operand of any layout, element by element through registers to a stage of shared memory. -#>
const auto place_${ name }$ = [&](unsigned stage, ${ index }$ k0) {
#pragma unroll ${ unroll }$
for (unsigned i = threadIdx.x; i < ${ pieces }$; i += ${ threads }$) {
const unsigned row = ${ row }$, column = ${ column }$;
const unsigned at = ${ stage }$ + ${ place }$;
*reinterpret_cast<${ result }$*>(shared_bytes + (at - shared)) = operand_${ name }$(${ call }$);
}
};
