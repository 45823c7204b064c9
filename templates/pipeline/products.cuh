<# The products of a stage whose operands both lie in shared memory. -#>
const unsigned long long a = ${ a }$;
const unsigned long long b = ${ b }$;
<%- if tail %>
if (${ tail.condition }$) {  // the last of k, or of the channels under a tap
FW_PRODUCTS(a, b, ${ accumulate }$,
<%- for product in tail.products %>
${ product }$
<%- endfor %>);
} else {
<%- endif %>
FW_PRODUCTS(a, b, ${ accumulate }$,
<%- for product in products %>
${ product }$
<%- endfor %>);
<%- if tail %>
}
<%- endif %>
