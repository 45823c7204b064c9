<# What a lane does about its accumulators that are NaN: where those that tell are not finite, a function mends a copy of all of them. -#>
float told = 0.0f;  // finite unless some sum is not
<%- for line in tell %>
${ line }$
<%- endfor %>
if (!isfinite(told)) {
alignas(16) float again[${ count }$];
FW_KEEP(again,${ keeps }$);
${ call }$
FW_KEEP(again,${ gives }$);
}
