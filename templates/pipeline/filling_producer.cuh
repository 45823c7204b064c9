<# The producer that computes operands on their way to a stage, all threads of a warpgroup; one of them asks for boxes, if any come. -#>
const unsigned thread = threadIdx.x;
<%- if ask %>
// one thread asks for boxes, ${ ask.ahead }$ steps ahead of what is computed
unsigned asked_unit = blockIdx.x, asked_stage = 0, asked_parity = 1;
int asked_step = 0;
const auto ask = [&] {
if (asked_unit >= ${ units }$u) return;
const unsigned unit = asked_unit;
${ unit }$
fw_mbarrier_wait(empty + 8 * asked_stage, asked_parity);
fw_mbarrier_expect(raw + 8 * asked_stage, ${ ask.boxed_bytes }$);
const unsigned tile = shared + asked_stage * ${ stage_bytes }$;
<%- for line in ask.origin %>
${ line }$
<%- endfor %>
<%- for side in ask.sides %>
// ${ side.title }$
<%- for load in side.loads %>
${ load }$
<%- endfor %>
<%- endfor %>
<%- if ask.end %>
${ ask.end }$
<%- endif %>
if (++asked_step == ${ steps }$) asked_step = 0, asked_unit += gridDim.x;
if (++asked_stage == ${ stages }$) asked_stage = 0, asked_parity ^= 1;
};
if (thread == 0) {
#pragma unroll 1
for (int step = 0; step < ${ ask.ahead }$; ++step) ask();
}
<%- endif %>
unsigned stage = 0, parity = 0;
#pragma unroll 1
for (unsigned unit = blockIdx.x; unit < ${ units }$u; unit += gridDim.x) {
${ unit }$
<%- for operand in operands %>
${ operand }$
<%- endfor %>
#pragma unroll 1
for (int step = 0; step < ${ steps }$; ++step) {
<%- if ask %>
fw_mbarrier_wait(raw + 8 * stage, parity);
<%- else %>
fw_mbarrier_wait(empty + 8 * stage, parity ^ 1);
<%- endif %>
const unsigned tile = shared + stage * ${ stage_bytes }$;
${ origin }$
<%- for name in names %>
fill_${ name }$(tile, k0);
<%- endfor %>
fw_fence_async();
__syncwarp();
if (thread % 32 == 0) fw_mbarrier_arrive(full + 8 * stage);
<%- if ask %>
if (thread == 0) ask();
<%- endif %>
if (++stage == ${ stages }$) stage = 0, parity ^= 1;
}
}
