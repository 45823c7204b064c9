<# Reads function, parameters, threads, index, extents.*, tile.*, tiles, units, splits, sides, operands, wgmma.*, accumulator, sweep.*,
   and epilogue.* or fragments.*. -#>
<%- for list in wgmma.registers -%>
#define FW_ROWS_${ loop.index0 }$ "${ list }$"
<% endfor -%>
extern "C" __global__ void __launch_bounds__(${ threads }$, 1)
${ function }$(${ parameters }$) {
  FW_SHARED(shared_bytes);
  ${ wgmma.declare }$(${ wgmma.accumulators }$);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned full = shared + ${ wgmma.barriers_at }$, empty = full + ${ 8 * wgmma.stages }$;  // an mbarrier each for a stage
<%- if wgmma.fills %>
  const unsigned raw = empty + ${ 8 * wgmma.stages }$;  // another for the boxes of a stage
<%- endif %>
<%- if wgmma.ping_pong %>
  const unsigned turn = <% if wgmma.fills %>raw<% else %>empty<% endif %> + ${ 8 * wgmma.stages }$;  // and one for each consumer
<%- endif %>
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
<%- for map in wgmma.maps %>
    fw_tma_prefetch(&map${ map }$);
<%- endfor %>
#pragma unroll 1
    for (unsigned stage = 0; stage < ${ wgmma.stages }$; ++stage) {
      fw_mbarrier_init(full + 8 * stage, ${ wgmma.filling }$);
<%- if wgmma.fills %>
      fw_mbarrier_init(raw + 8 * stage, 1);
<%- endif %>
      fw_mbarrier_init(empty + 8 * stage, ${ wgmma.releasing }$);  // warps that multiply what is in it
    }
<%- if wgmma.ping_pong %>
    fw_mbarrier_init(turn, 4);
    fw_mbarrier_init(turn + 8, 4);
<%- endif %>
<%- if fragments and fragments.loads %>
#pragma unroll 1
    for (unsigned set = 0; set < ${ fragments.barriers }$; ++set) fw_mbarrier_init(shared + ${ fragments.barriers_at }$ + 8 * set, 1);
<%- endif %>
    fw_mbarrier_init_fence();
  }
  __syncthreads();
  fw_wait_for_previous_launch();

  if (warp < 4) {
    fw_decrease_registers<${ wgmma.producer_registers }$>();
<%- if wgmma.fills %>
<% include "filling.cuh" %>
<%- else %>
    // one thread asks for the tiles of A and B, up to ${ wgmma.stages }$ ahead
    if (warp == 0 && fw_elect()) {
      unsigned stage = 0, parity = 1;
#pragma unroll 1
      for (unsigned unit = blockIdx.x; unit < ${ units }$u; unit += gridDim.x) {
<% filter indent(width=6, first=true) -%>
<% include "unit.cuh" %>
<%- endfilter %>
<% filter indent(width=6, first=true) -%>
<% include "block.cuh" %>
<%- endfilter %>
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
          fw_mbarrier_wait(empty + 8 * stage, parity);
          fw_mbarrier_expect(full + 8 * stage, ${ wgmma.boxed_bytes }$);
          const unsigned tile = shared + stage * ${ tile.stage_bytes }$;
          const ${ index }$ k0 = (${ index }$)(first + step) * ${ tile.k }$;
<%- for side in sides %>
          // ${ side.title }$
<%- for line in side.loads %>
          ${ line }$
<%- endfor %>
<%- endfor %>
          if (++stage == ${ wgmma.stages }$) stage = 0, parity ^= 1;
        }
      }
    }
<%- endif %>
  } else {
    fw_increase_registers<${ wgmma.consumer_registers }$>();
    const unsigned consumer = warp / 4 - 1;
<%- if fragments %>
    const unsigned boxes_at = shared + ${ fragments.boxes_at }$ + (warp - 4) * ${ fragments.sets * fragments.set_bytes }$;  // of the warp, of C
<%- if fragments.row_set_bytes > 0 %>
    const unsigned rows_at = shared + ${ fragments.rows_at }$ + (warp - 4) * ${ fragments.sets * fragments.row_set_bytes }$;  // of one row each
<%- endif %>
<%- if fragments.loads %>
    const unsigned arrived = shared + ${ fragments.barriers_at }$ + (warp - 4) * ${ 8 * fragments.sets }$;  // an mbarrier for each set of them
<%- endif %>
    unsigned taken = 0;  // sets of boxes so far
<%- else %>
    ${ accumulator }$* const piece_c = reinterpret_cast<${ accumulator }$*>(shared_bytes + ${ epilogue.staging_at }$ + (warp - 4) * ${ epilogue.piece_bytes }$);  // of ${ epilogue.rows }$ rows, ${ epilogue.columns }$ columns
<%- if epilogue.swizzled %>
    const unsigned lane_c = ${ epilogue.lane_c }$;
<%- else %>
    ${ accumulator }$* const lane_c = piece_c + ${ epilogue.lane_c }$;
<%- endif %>
<%- endif %>
<%- if wgmma.ping_pong %>
<%- if splits > 1 %>
    const auto steps_of = [&](unsigned unit) { return min(${ tile.steps_per_split }$u, ${ tile.steps }$u - unit / ${ tiles }$u * ${ tile.steps_per_split }$u); };
    const unsigned skipped = consumer == 0 || blockIdx.x >= ${ units }$u ? 0 : steps_of(blockIdx.x);
<%- else %>
    const unsigned skipped = consumer == 0 ? 0 : ${ tile.steps }$;  // the first tile is the other's
<%- endif %>
    unsigned stage = skipped % ${ wgmma.stages }$, parity = skipped / ${ wgmma.stages }$ & 1, turn_parity = consumer == 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x + consumer * gridDim.x; unit < ${ units }$u; unit += 2 * gridDim.x) {
<%- else %>
    unsigned stage = 0, parity = 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x; unit < ${ units }$u; unit += gridDim.x) {
<%- endif %>
<% filter indent(width=4, first=true) -%>
<% include "unit.cuh" %>
<%- endfilter %>
<% filter indent(width=4, first=true) -%>
<% include "block.cuh" %>
<%- endfilter %>
<%- if fragments and fragments.loads %>
<% include "fragments_ask.cuh" %>
<%- endif %>
<%- if computed_a %>
<%- set operand = computed_a.operand %>
<% filter indent(width=4, first=true) -%>
<% include "operand.cuh" %>
<%- endfilter %>
<% filter indent(width=4, first=true) -%>
<% include "fragments_of_a.cuh" %>
<%- endfilter %>
      unsigned <% for name in computed_a.names %>${ name }$<% if not loop.last %>, <% endif %><% endfor %>;
<%- endif %>
<%- if wgmma.ping_pong %>
      fw_mbarrier_wait(turn + 8 * consumer, turn_parity);
      turn_parity ^= 1;
<%- endif %>
<%- if wgmma.promotes %>
      FW_CLEAR(${ wgmma.zeros }$);
<%- endif %>
      unsigned multiplied = 0;  // the stage before, which may still be read
#pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        fw_mbarrier_wait(full + 8 * stage, parity);
<%- if wgmma.fills and wgmma.boxed_bytes > 0 %>
        fw_mbarrier_wait(raw + 8 * stage, parity);  // has been so: what came in boxes is seen from here on
<%- endif %>
        const unsigned tile = shared + stage * ${ tile.stage_bytes }$;
<%- if computed_a %>
        const ${ index }$ k0 = (${ index }$)(first + step) * ${ tile.k }$;
        const unsigned char* const raw_a = shared_bytes + (tile - shared);
        const unsigned long long b = ${ sides[1].descriptor }$;
<%- if computed_a.at_once %>
        fw_wgmma_wait<0>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
<%- for fragment in computed_a.fragments %>
        fill_a(${ fragment.name }$, raw_a, k0, ${ fragment.block }$, ${ fragment.part }$);
<%- endfor %>
<%- for fragment in computed_a.fragments %>
        FW_PRODUCTS_A(${ fragment.name }$, b, ${ fragment.accumulate }$, ${ fragment.product }$);
<%- endfor %>
<%- else %>
<%- for fragment in computed_a.fragments %>
        fw_wgmma_wait<${ computed_a.pending }$>();  // all but the products that are under way: nothing reads ${ fragment.name }$
<%- if fragment.is_last %>
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
<%- endif %>
        fill_a(${ fragment.name }$, raw_a, k0, ${ fragment.block }$, ${ fragment.part }$);
        FW_PRODUCTS_A(${ fragment.name }$, b, ${ fragment.accumulate }$, ${ fragment.product }$);
<%- endfor %>
<%- endif %>
<%- else %>
        const unsigned long long a = ${ sides[0].descriptor }$;
        const unsigned long long b = ${ sides[1].descriptor }$;
        FW_PRODUCTS(a, b, <% if wgmma.promotes %>0<% else %>step<% endif %>,
<%- for product in wgmma.products %>
          ${ product }$
<%- endfor %>);
<%- endif %>
<%- if wgmma.ping_pong %>
        if (step == steps - 1 && lane == 0) fw_mbarrier_arrive(turn + 8 * (consumer ^ 1));  // the other's products come next
<%- endif %>
<%- if wgmma.promotes %>
        fw_wgmma_wait<0>();
        if (lane == 0) fw_mbarrier_arrive(empty + 8 * stage);
        FW_SUM(${ wgmma.additions }$);
<%- elif computed_a %>
        multiplied = stage;
<%- else %>
        fw_wgmma_wait<1>();
        if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
        multiplied = stage;
<%- endif %>
        if (++stage == ${ wgmma.stages }$) stage = 0, parity ^= 1;
      }
<%- if not wgmma.promotes %>
      fw_wgmma_wait<0>();
      if (lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
<%- endif %>
<%- if wgmma.ping_pong %>
<%- if splits > 1 %>
      if (unit + gridDim.x < ${ units }$u) stage += steps_of(unit + gridDim.x);
<%- else %>
      stage += steps;  // those of the other's tile
<%- endif %>
      parity ^= stage / ${ wgmma.stages }$ & 1;
      stage %= ${ wgmma.stages }$;
<%- endif %>
<%- if fragments %>

      // epilogue fusion: a warp takes 16 rows and ${ fragments.columns }$ columns at a time, beside boxes of the tensors
<% include "fragments.cuh" %>
<%- else %>

      // epilogue fusion: a warp takes ${ epilogue.rows }$ rows and ${ epilogue.columns }$ columns at a time through its own piece of shared memory
<% include "warp.cuh" %>
<%- endif %>
    }
<%- if fragments %>
    if (lane == 0) fw_tma_store_wait_read<0>();
<%- endif %>
  }
}
