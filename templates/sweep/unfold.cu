<# An operand of a convolution as a matrix: vector number `vector` of it, whose `count` elements along k are gathered one by one, zeros in the
   padding, and stored at once. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
const ${ index }$ vector = ${ block }$ * ${ threads }$ + threadIdx.x;
if (vector < ${ vectors }$) {
<%- for line in of_vector %>
${ line }$
<%- endfor %>
const ${ element }$* const from = reinterpret_cast<const ${ element }$*>(${ source }$);
fw_vector<${ element }$, ${ count }$> gathered = {};
#pragma unroll
for (${ index }$ e = 0; e < ${ count }$; ++e) {
<%- for line in of_element %>
${ line }$
<%- endfor %>
<%- if guard %>
if (${ guard }$) gathered.at[e] = from[${ at }$];
<%- else %>
gathered.at[e] = from[${ at }$];
<%- endif %>
}
fw_store_vector(reinterpret_cast<${ element }$*>(${ copy }$) + ${ to }$, gathered);
}
}
