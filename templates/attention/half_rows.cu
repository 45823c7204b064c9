<# Heads in FP8 as FP16, which holds all of them: blocks of a tensor's rows, 16 elements a thread. Rows beyond a sequence stay as they are. #>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
<%- if cleared %>
if (blockIdx.x == 0 && threadIdx.x == 0) {
<%- for pointer in cleared %>
*${ pointer }$ = 0.0f;
<%- endfor %>
}
<%- endif %>
<%- for side in heads %>
<% if not loop.first %>else <% endif %><% if not loop.last %>if (blockIdx.x < ${ side.end }$u) <% endif %>{
const unsigned long long item = (blockIdx.x - ${ side.begin }$u) * ${ threads }$ull + threadIdx.x;
if (item >= ${ side.items }$ull) return;
const unsigned at = item % ${ side.vectors }$u * 16;
const unsigned long long line = item / ${ side.vectors }$u, head = line / ${ side.rows }$u;
const unsigned row = line % ${ side.rows }$u, b = head / ${ side.heads }$u, h = head % ${ side.heads }$u;
<%- if side.length %>
${ side.length }$
if (int(row) >= length) return;
<%- endif %>
<%- for sequence in side.sequences %>
${ sequence }$
<%- endfor %>
const ${ side.storage }$* const from = ${ side.pointer }$ + ${ side.offset }$;
fw_vector<unsigned, 4> x;
<%- if side.is_vector %>
x = *reinterpret_cast<const fw_vector<unsigned, 4>*>(from + at);
<%- else %>
#pragma unroll
for (int i = 0; i < 4; ++i) {
x.at[i] = 0;
#pragma unroll
for (int e = 0; e < 4; ++e) x.at[i] |= unsigned(from[(at + 4 * i + e) * ${ side.step }$ull].bits) << 8 * e;
}
<%- endif %>
fw_vector<unsigned, 4>* const to = reinterpret_cast<fw_vector<unsigned, 4>*>(reinterpret_cast<unsigned short*>(${ side.region }$) + line * ${ 16 * side.vectors }$ + at);
#pragma unroll
for (int i = 0; i < 2; ++i) {
to[i] = {{${ side.convert }$(x.at[2 * i]), ${ side.convert }$(x.at[2 * i] >> 16), ${ side.convert }$(x.at[2 * i + 1]), ${ side.convert }$(x.at[2 * i + 1] >> 16)}};
}
}
<%- endfor %>
}
