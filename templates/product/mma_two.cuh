<# The mainloop of mma.sync with two sets of fragments: one is loaded while the other is multiplied. -#>
<%- if steps_line %>
${ steps_line }$
<%- endif %>
unsigned stage = 1, filled = 0;  // stage 0 is multiplied after the first ${ stages - 1 }$ steps
// tiles are loaded ${ stages - 1 }$ steps ahead, so the first steps only load; fragments one part of a step
unsigned even_left[${ fragments_m }$][4], even_right[${ fragments_n }$][2];
unsigned odd_left[${ fragments_m }$][4], odd_right[${ fragments_n }$][2];
#pragma unroll 1
for (int step = ${ 1 - stages }$; step < ${ steps }$; ++step) {
const bool fills = step + ${ stages - 1 }$ < ${ steps }$;
#pragma unroll
for (unsigned part = 0; part < ${ parts }$; part += 2) {
<%- for operand in operands %>
if (part == ${ operand.load_in_part }$) {
if (fills) {
${ origin }$
${ operand.load }$
}
}
<%- endfor %>
if (step >= 0) {
load_fragments(stage, part + 1, odd_left, odd_right);
multiply(even_left, even_right);
}
if (part == ${ parts - 2 }$) {
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
if (step == -1) load_fragments(stage, 0, even_left, even_right);
}
if (step < 0) continue;
load_fragments(stage, (part + 2) % ${ parts }$, even_left, even_right);
multiply(odd_left, odd_right);
}
}
