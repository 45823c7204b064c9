<# A warpgroup that multiplies: it waits for stages, starts products, releases each stage when its products are done, then evaluates the
   epilogue of its tile. With `turns`, the two warpgroups take tiles in turns: the products of one run beside the epilogue of the other. -#>
const unsigned consumer = warp / 4 - 1;
<%- if release.told %>
${ release.told }$  // a lane for each block that fills stages here
<%- endif %>
${ declarations }$
<%- if turns %>
<%- if turns.steps_of %>
${ turns.steps_of }$
<%- endif %>
const unsigned skipped = ${ turns.skipped }$;  // the first tile is the other's
unsigned stage = skipped % ${ stages }$, parity = skipped / ${ stages }$ & 1, turn_parity = consumer == 0;
#pragma unroll 1
for (unsigned unit = blockIdx.x + consumer * gridDim.x; unit < ${ units }$u; unit += 2 * gridDim.x) {
<%- else %>
unsigned stage = 0, parity = 0;
#pragma unroll 1
for (unsigned unit = blockIdx.x; unit < ${ units }$u; unit += gridDim.x) {
<%- endif %>
${ unit }$
<%- if is_in_c %>
${ is_in_c }$
<%- endif %>
<%- if ask %>
${ ask }$
<%- endif %>
<%- if functions %>
${ functions }$
<%- endif %>
<%- if turns %>
fw_mbarrier_wait(turn + 8 * consumer, turn_parity);
turn_parity ^= 1;
<%- endif %>
<%- if clear %>
FW_CLEAR(${ clear }$);
<%- else %>
unsigned multiplied = 0;  // the stage before, which may still be read
<%- endif %>
#pragma unroll 1
for (int step = 0; step < ${ steps }$; ++step) {
fw_mbarrier_wait(full + 8 * stage, parity);
<%- if transforms %>
fw_mbarrier_wait(raw + 8 * stage, parity);  // has been so: what came in boxes is seen from here on
<%- endif %>
<%- if is_first %>
if (${ is_first }$) fw_mbarrier_wait(arrived_b + 8 * step, 0);
<%- endif %>
const unsigned tile = shared + stage * ${ stage_bytes }$;
${ products }$
<%- if turns %>
if (step == ${ turns.last_step }$ && lane == 0) fw_mbarrier_arrive(turn + 8 * (consumer ^ 1));  // the other's products come next
<%- endif %>
<%- if additions %>
fw_wgmma_wait<0>();
if (${ release.who }$) ${ release.arrive }$(empty + 8 * stage${ release.at }$);
FW_SUM(${ additions }$);
<%- else %>
<%- if waits %>
fw_wgmma_wait<1>();
if (step > 0 && ${ release.who }$) ${ release.arrive }$(empty + 8 * multiplied${ release.at }$);
<%- endif %>
multiplied = stage;
<%- endif %>
if (++stage == ${ stages }$) stage = 0, parity ^= 1;
}
<%- if not additions %>
fw_wgmma_wait<0>();
if (${ release.who }$) ${ release.arrive }$(empty + 8 * multiplied${ release.at }$);
<%- endif %>
<%- if turns %>
${ turns.left }$  // the stages of the other's tile
parity ^= stage / ${ stages }$ & 1;
stage %= ${ stages }$;
<%- endif %>
<%- if inside %>
${ inside }$
<%- endif %>
<%- if meeting %>
${ meeting }$
<%- endif %>
<%- if evaluates %>
if (!${ evaluates }$) continue;
<%- endif %>

${ epilogue }$
}
<%- if finish %>
${ finish }$
<%- endif %>
