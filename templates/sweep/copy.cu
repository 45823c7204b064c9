<# A tensor in another layout: `coordinates` of vector number `vector`, whose `count` units are gathered from the source one by one and stored
   at once. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
const ${ index }$ vector = ${ block }$ * ${ threads }$ + threadIdx.x;
if (vector < ${ vectors }$) {
<%- for line in coordinates %>
${ line }$
<%- endfor %>
const ${ unit }$* const from = reinterpret_cast<const ${ unit }$*>(${ source }$) + ${ from }$;
fw_vector<${ unit }$, ${ count }$> gathered = {};
#pragma unroll
for (${ index }$ e = 0; e < ${ count }$; ++e) {
<%- if guard %>
if (${ guard }$) gathered.at[e] = from[${ at }$];
<%- else %>
gathered.at[e] = from[${ at }$];
<%- endif %>
}
fw_store_vector(reinterpret_cast<${ unit }$*>(${ copy }$) + ${ to }$, gathered);
}
}
