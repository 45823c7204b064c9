<# The warpgroup that computes operands on their way: one of its threads asks for boxes. Reads index, tile, tiles, units, splits,
   sides, operands, wgmma. -#>
    const unsigned thread = threadIdx.x;
<%- if wgmma.boxed_bytes > 0 %>
    // one thread asks for boxes, ${ wgmma.ahead }$ steps ahead of what is computed
    unsigned asked_unit = blockIdx.x, asked_stage = 0, asked_parity = 1;
    int asked_step = 0;
    const auto ask = [&] {
      if (asked_unit >= ${ units }$u) return;
      const unsigned unit = asked_unit;
<% filter indent(width=4, first=true) -%>
<% include "unit.cuh" %>
<%- endfilter %>
<% filter indent(width=4, first=true) -%>
<% include "block.cuh" %>
<%- endfilter %>
      fw_mbarrier_wait(empty + 8 * asked_stage, asked_parity);
      fw_mbarrier_expect(raw + 8 * asked_stage, ${ wgmma.boxed_bytes }$);
      const unsigned tile = shared + asked_stage * ${ tile.stage_bytes }$;
      const ${ index }$ k0 = (${ index }$)(first + asked_step) * ${ tile.k }$;
<%- for side in sides %>
<%- if side.loads %>
      // ${ side.title }$
<%- for line in side.loads %>
      ${ line }$
<%- endfor %>
<%- endif %>
<%- endfor %>
      if (++asked_step == steps) asked_step = 0, asked_unit += gridDim.x;
      if (++asked_stage == ${ wgmma.stages }$) asked_stage = 0, asked_parity ^= 1;
    };
    if (thread == 0) {
#pragma unroll 1
      for (int step = 0; step < ${ wgmma.ahead }$; ++step) ask();
    }
<%- endif %>
    unsigned stage = 0, parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x; unit < ${ units }$u; unit += gridDim.x) {
<% filter indent(width=4, first=true) -%>
<% include "unit.cuh" %>
<%- endfilter %>
<% filter indent(width=4, first=true) -%>
<% include "block.cuh" %>
<%- endfilter %>
<%- for operand in operands %>
<%- if operand.fetch == "turned" %>
<% filter indent(width=4, first=true) -%>
<% include "turn_stage.cuh" %>
<%- endfilter %>
<%- else %>
<% filter indent(width=4, first=true) -%>
<% include "operand.cuh" %>
<%- endfilter %>
<% filter indent(width=4, first=true) -%>
<% include "fill_stage.cuh" %>
<%- endfilter %>
<%- endif %>
<%- endfor %>
#pragma unroll 1
      for (int step = 0; step < steps; ++step) {
<%- if wgmma.boxed_bytes > 0 %>
        fw_mbarrier_wait(raw + 8 * stage, parity);
<%- else %>
        fw_mbarrier_wait(empty + 8 * stage, parity ^ 1);
<%- endif %>
        const unsigned tile = shared + stage * ${ tile.stage_bytes }$;
        const ${ index }$ k0 = (${ index }$)(first + step) * ${ tile.k }$;
<%- for operand in operands %>
        fill_${ operand.name }$(tile, k0);
<%- endfor %>
        fw_fence_async();
        __syncwarp();
        if (thread % 32 == 0) fw_mbarrier_arrive(full + 8 * stage);
<%- if wgmma.boxed_bytes > 0 %>
        if (thread == 0) ask();
<%- endif %>
        if (++stage == ${ wgmma.stages }$) stage = 0, parity ^= 1;
      }
    }
