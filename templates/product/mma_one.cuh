<# The mainloop of mma.sync with one set of fragments: other warps multiply while one loads. -#>
<%- if steps_line %>
${ steps_line }$
<%- endif %>
unsigned stage = 1, filled = 0;  // stage 0 is multiplied after the first ${ stages - 1 }$ steps
// tiles are loaded ${ stages - 1 }$ steps ahead, so the first steps only load
#pragma unroll 1
for (int step = ${ 1 - stages }$; step < ${ steps }$; ++step) {
const bool fills = step + ${ stages - 1 }$ < ${ steps }$;
#pragma unroll
for (unsigned part = 0; part < ${ parts }$; ++part) {
<%- for operand in operands %>
if (part == ${ operand.load_in_part }$) {
if (fills) {
${ origin }$
${ operand.load }$
}
}
<%- endfor %>
if (step < 0) continue;
unsigned left[${ fragments_m }$][4], right[${ fragments_n }$][2];
load_fragments(stage, part, left, right);
multiply(left, right);
}
<%- for operand in operands %>
<%- if operand.place %>
if (fills) ${ operand.place }$
<%- endif %>
<%- endfor %>
fw_cp_async_commit();
fw_cp_async_wait<${ stages - 2 }$>();
__syncthreads();
stage = stage + 1 == ${ stages }$ ? 0 : stage + 1;
filled = filled + 1 == ${ stages }$ ? 0 : filled + 1;
}
