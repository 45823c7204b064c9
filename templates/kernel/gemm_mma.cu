<# Reads function, parameters, threads, blocks, index, extents.*, tile.*, splits, mma.*, operands, accumulator, epilogue.*, sweep.*. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_${ accumulator }$(${ mma.accumulators }$);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned shared_a = shared, shared_b = shared + ${ operands[1].tile_offset }$;  // tiles of stage 0
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned warp_m = warp % ${ mma.warps_m }$ * ${ mma.warp_m }$, warp_n = warp / ${ mma.warps_m }$ * ${ mma.warp_n }$;
<% include "block.cuh" %>
<%- for operand in operands %>
<% include "operand.cuh" %>
<%- include "place.cuh" %>
<%- endfor %>

  // where the lane's rows of fragments lie in a tile
<%- if operands[0].k_major %>
  const unsigned lane_a = shared_a + (warp_m + lane % 16) * ${ operands[0].row_bytes }$, phase_a = fw_phase<${ operands[0].row_bytes }$>(lane % 16);
<%- else %>
  const unsigned lane_a = shared_a + (lane % 8 + lane / 16 * 8) * ${ operands[0].row_bytes }$, phase_a = fw_phase<${ operands[0].row_bytes }$>(lane % 8 + lane / 16 * 8);
<%- endif %>
<%- if operands[1].k_major %>
  const unsigned lane_b = shared_b + (warp_n + lane % 8 + lane / 16 * 8) * ${ operands[1].row_bytes }$, phase_b = fw_phase<${ operands[1].row_bytes }$>(lane % 8 + lane / 16 * 8);
<%- else %>
  const unsigned lane_b = shared_b + lane % 16 * ${ operands[1].row_bytes }$, phase_b = fw_phase<${ operands[1].row_bytes }$>(lane % 16);
<%- endif %>

  // ${ mma.step_k }$ elements of k: ${ mma.fragments_m }$ fragments of 16 rows, ${ mma.fragments_n }$ of 8 columns
  const auto load_fragments = [&](unsigned stage, unsigned part, unsigned (&left)[${ mma.fragments_m }$][4], unsigned (&right)[${ mma.fragments_n }$][2]) {
<%- if operands[0].k_major %>
    const unsigned at_a = lane_a + stage * ${ tile.stage_bytes }$ + (part * 32 + lane / 16 * 16 ^ phase_a);
#pragma unroll
    for (unsigned i = 0; i < ${ mma.fragments_m }$; ++i) fw_ldmatrix_x4(left[i], at_a + i * ${ 16 * operands[0].row_bytes }$);
<%- else %>
    const unsigned at_a = lane_a + stage * ${ tile.stage_bytes }$ + part * ${ 16 * operands[0].row_bytes }$;
#pragma unroll
    for (unsigned i = 0; i < ${ mma.fragments_m }$; ++i) fw_ldmatrix_x4_trans(left[i], at_a + ((warp_m + i * 16 + lane / 8 % 2 * 8) * 2 ^ phase_a));
<%- endif %>
<%- if operands[1].k_major %>
    const unsigned at_b = lane_b + stage * ${ tile.stage_bytes }$ + (part * 32 + lane / 8 % 2 * 16 ^ phase_b);
#pragma unroll
    for (unsigned j = 0; j < ${ mma.fragments_n }$; j += 2) fw_ldmatrix_x4(right[j], right[j + 1], at_b + j * ${ 8 * operands[1].row_bytes }$);
<%- else %>
    const unsigned at_b = lane_b + stage * ${ tile.stage_bytes }$ + part * ${ 16 * operands[1].row_bytes }$;
#pragma unroll
    for (unsigned j = 0; j < ${ mma.fragments_n }$; j += 2) fw_ldmatrix_x4_trans(right[j], right[j + 1], at_b + ((warp_n + j * 8 + lane / 16 * 8) * 2 ^ phase_b));
<%- endif %>
<%- if mma.rounds %>
#pragma unroll
    for (unsigned i = 0; i < ${ mma.fragments_m }$; ++i) fw_round_tf32(left[i]);
#pragma unroll
    for (unsigned j = 0; j < ${ mma.fragments_n }$; ++j) fw_round_tf32(right[j]);
<%- endif %>
  };
  FW_CLEAR(${ mma.zeros }$);
  const auto multiply = [&](const unsigned (&left)[${ mma.fragments_m }$][4], const unsigned (&right)[${ mma.fragments_n }$][2]) {
<%- for product in mma.products %>
    ${ mma.instruction }$<${ product.accumulator }$>(left[${ product.i }$], right[${ product.j }$]);
<%- endfor %>
  };

<%- if splits > 1 %>
  const int first = blockIdx.y * ${ tile.steps_per_split }$, steps = min(${ tile.steps_per_split }$, ${ tile.steps }$ - first);
<%- else %>
  constexpr int first = 0, steps = ${ tile.steps }$;
<%- endif %>
  unsigned stage = 1, filled = 0;  // stage 0 is multiplied after the first ${ mma.stages - 1 }$ steps
<%- if mma.fragments == 2 %>
<% include "mma_two.cuh" %>
<%- else %>
<% include "mma_one.cuh" %>
<%- endif %>
  fw_cp_async_wait<0>();
  __syncthreads();

  // the accumulators go through shared memory, so that the epilogue is one rolled loop with coalesced accesses
  ${ accumulator }$* const tile_c = reinterpret_cast<${ accumulator }$*>(shared_bytes);  // ${ tile.c_layout }$, rows padded
  ${ accumulator }$* const lane_c = tile_c + ${ mma.lane_c }$;
<%- for product in mma.products %>
  ${ mma.put }$<${ product.accumulator }$, ${ mma.pitch }$>(lane_c + ${ product.offset }$);
<%- endfor %>
  __syncthreads();
<% include "tile.cuh" %>
}
