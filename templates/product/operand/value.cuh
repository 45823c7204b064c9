<# The function `operand_a` or `operand_b`: a piece of the operand from its index of m or n and of k, an element or a vector in registers.
   Outside the operand it is zero: by an early return (`guard`), or by choice (`choice`) between what lies nearest and zero. -#>
// ${ title }$: ${ piece }$, zero outside
const auto operand_${ name }$ = [&](${ arguments }$) -> ${ result }$ {
<%- if choice %>
// outside, what lies nearest is computed and left: a branch would keep products from running beside it, and loads from overlapping
<%- endif %>
<%- for line in coordinates %>
${ line }$
<%- endfor %>
<%- if guard %>
if (!(${ guard }$)) return ${ zero }$;
<%- endif %>
<%- for line in before %>
${ line }$
<%- endfor %>
<%- if points %>
${ points.room }$
#pragma unroll
for (int e = 0; e < ${ points.count }$; ++e) {
<%- for line in points.body %>
${ line }$
<%- endfor %>
${ points.keep }$
}
<%- endif %>
return ${ value }$;
};
