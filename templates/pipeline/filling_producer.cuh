<# The producer that computes or copies operands on their way to a stage, all threads of a warpgroup; one of them asks for boxes, if any come. -#>
const unsigned thread = threadIdx.x;
<%- if ask %>
// one thread asks for boxes, ${ ask.ahead }$ steps ahead of what is computed
unsigned asked_unit = blockIdx.x, asked_stage = 0<% if not ask.apart %>, asked_parity = 1<% endif %>;
int asked_step = 0;
const auto ask = [&] {
if (asked_unit >= ${ units }$u) return;
const unsigned unit = asked_unit;
${ unit }$
<%- if not ask.apart %>
fw_mbarrier_wait(empty + 8 * asked_stage, asked_parity);
<%- endif %>
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
if (++asked_stage == ${ stages }$) asked_stage = 0<% if not ask.apart %>, asked_parity ^= 1<% endif %>;
};
if (thread == 0) {
#pragma unroll 1
for (int step = 0; step < ${ ask.ahead }$; ++step) ask();
}
<%- endif %>
unsigned stage = 0, parity = 0;
<%- if copies_ahead %>
// pieces of ${ copies_ahead }$ steps arrive while those of the next are asked for; the oldest is told to be there
unsigned arriving = 0, oldest = 0;
const auto tell_oldest = [&] {
fw_fence_async();
__syncwarp();
if (thread % 32 == 0) fw_mbarrier_arrive(full + 8 * oldest);
if (++oldest == ${ stages }$) oldest = 0;
};
<%- endif %>
#pragma unroll 1
for (unsigned unit = blockIdx.x; unit < ${ units }$u; unit += gridDim.x) {
${ unit }$
<%- for operand in operands %>
${ operand }$
<%- endfor %>
#pragma unroll 1
for (int step = 0; step < ${ steps }$; ++step) {
<%- if ask and not ask.apart %>
fw_mbarrier_wait(raw + 8 * stage, parity);
<%- else %>
fw_mbarrier_wait(empty + 8 * stage, parity ^ 1);
<%- endif %>
const unsigned tile = shared + stage * ${ stage_bytes }$;
${ origin }$
<%- if direct %>
if (thread == 0) {
fw_mbarrier_expect(full + 8 * stage, ${ direct.boxed_bytes }$);
<%- for line in direct.origin %>
${ line }$
<%- endfor %>
<%- for side in direct.sides %>
// ${ side.title }$, as it is
<%- for load in side.loads %>
${ load }$
<%- endfor %>
<%- endfor %>
<%- if direct.end %>
${ direct.end }$
<%- endif %>
}
<%- endif %>
<%- if ask and ask.apart %>
fw_mbarrier_wait(raw + 8 * stage, parity);
<%- endif %>
<%- for name in names %>
fill_${ name }$(tile, k0);
<%- endfor %>
<%- if copies_ahead %>
fw_cp_async_commit();
if (arriving < ${ copies_ahead }$) {
++arriving;
} else {
fw_cp_async_wait<${ copies_ahead }$>();
tell_oldest();
}
<%- else %>
fw_fence_async();
__syncwarp();
if (thread % 32 == 0) fw_mbarrier_arrive(full + 8 * stage);
<%- endif %>
<%- if ask %>
<%- if ask.apart %>
fw_named_barrier<1, 128>();  // all have read what came: other boxes may take its place
<%- endif %>
if (thread == 0) ask();
<%- endif %>
if (++stage == ${ stages }$) stage = 0, parity ^= 1;
}
}
<%- if copies_ahead %>
fw_cp_async_wait<0>();
#pragma unroll 1
for (; arriving > 0; --arriving) tell_oldest();
<%- endif %>
