<# Combines partial results in order of their split: a column of threads for each kept element, then a tree over the column. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
float* const shared = reinterpret_cast<float*>(shared_bytes);
const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
const ${ index }$ k = ${ k }$;
<%- for line in coordinates %>
${ line }$
<%- endfor %>

fw_let_next_launch_start();
<%- if following %>
if (threadIdx.y == 0 && k < ${ kept }$) {  // what is read of other tensors
<%- for operand in following.operands %>
fw_prefetch(${ operand }$);
<%- endfor %>
}
<%- endif %>
fw_wait_for_previous_launch();
<%- if part %>
const ${ index }$ first = blockIdx.y * ${ part.each }$, end = min(first + ${ part.each }$, (${ index }$)${ part.all }$);
<%- endif %>
<%- for accumulation in accumulations %>
float ${ accumulation.name }$[1] = {${ accumulation.identity }$};
<%- endfor %>
if (k < ${ kept }$) {
#pragma unroll 1
for (${ index }$ next = <% if part %>first + <% endif %>threadIdx.y; next < <% if part %>end<% else %>${ splits }$<% endif %>; next += ${ group * rows }$) {
<%- for accumulation in accumulations %>
float read_${ accumulation.name }$[${ group }$];
<%- endfor %>
#pragma unroll
for (unsigned g = 0; g < ${ group }$; ++g) {
const ${ index }$ split = next + g * ${ rows }$;
if (split >= <% if part %>end<% else %>${ splits }$<% endif %>) continue;
<%- for accumulation in accumulations %>
read_${ accumulation.name }$[g] = ${ accumulation.partial }$[${ partial }$];
<%- endfor %>
}
#pragma unroll
for (unsigned g = 0; g < ${ group }$; ++g) {
if (next + g * ${ rows }$ >= <% if part %>end<% else %>${ splits }$<% endif %>) continue;
<%- for accumulation in accumulations %>
${ accumulation.name }$[0] = ${ accumulation.combine }$(${ accumulation.name }$[0], read_${ accumulation.name }$[g]);
<%- endfor %>
}
}
}
<%- for accumulation in accumulations %>
<%- if accumulation.result %>
float ${ accumulation.result }$ = 0.0f;
<%- endif %>
${ accumulation.tree }$
<%- endfor %>
<%- if following %>
if (threadIdx.y == 0 && k < ${ kept }$) {
<%- for total in following.totals %>
const float ${ total.variable }$[1] = {${ total.value }$};
<%- endfor %>
${ following.evaluate }$
}
<%- endif %>
}
