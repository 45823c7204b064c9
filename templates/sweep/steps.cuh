<# A thread's steps over the points before `last`, `group` of them at a time, and what is left of the last group one by one. -#>
${ index }$ next = ${ first }$;
for (; next + ${ threads * (group - 1) }$ < last; next += ${ step }$) {
#pragma unroll
for (unsigned g = 0; g < ${ group }$; ++g) {
const ${ index }$ r = ${ of_group }$;
<%- for line in coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
}
#pragma unroll 1
for (${ index }$ r = next; r < last; r += ${ threads }$) {  // what is left of the last group
<%- for line in coordinates %>
${ line }$
<%- endfor %>
${ evaluate }$
}
