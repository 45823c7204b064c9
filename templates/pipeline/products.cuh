<# The products of a stage whose operands both lie in shared memory. -#>
const unsigned long long a = ${ a }$;
const unsigned long long b = ${ b }$;
FW_PRODUCTS(a, b, ${ accumulate }$,
<%- for product in products %>
${ product }$
<%- endfor %>);
