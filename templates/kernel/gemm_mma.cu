<# Reads function, parameters, threads, blocks, index, extents.*, tile.*, splits, mma.*, operands, accumulator, epilogue.*, sweep.*. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
  FW_SHARED(shared_bytes);
  const unsigned shared = fw_shared_address(shared_bytes);
  const unsigned shared_a = shared, shared_b = shared + ${ operands[1].tile_offset }$;  // tiles of stage 0
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned warp_m = warp % ${ mma.warps_m }$ * ${ mma.warp_m }$, warp_n = warp / ${ mma.warps_m }$ * ${ mma.warp_n }$;
<% include "block.cuh" %>
<%- for operand in operands %>
<% include "operand.cuh" %>
<%- include "place.cuh" %>
<%- endfor %>

  // one k step of ${ mma.step_k }$: ${ mma.fragments_m }$ fragments of 16 rows, ${ mma.fragments_n }$ of 8 columns
  const auto load_fragments = [&](unsigned stage, unsigned step, unsigned (&left)[${ mma.fragments_m }$][4], unsigned (&right)[${ mma.fragments_n }$][2]) {
    const unsigned tile_a = shared_a + stage * ${ tile.stage_bytes }$, tile_b = shared_b + stage * ${ tile.stage_bytes }$;
#pragma unroll
    for (unsigned i = 0; i < ${ mma.fragments_m }$; ++i) {
<%- if operands[0].k_major %>
      fw_ldmatrix_x4(left[i], tile_a + fw_swizzled<${ operands[0].row_bytes }$>(warp_m + i * 16 + lane % 16, step * 32 + lane / 16 * 16));
<%- else %>
      fw_ldmatrix_x4_trans(left[i], tile_a + fw_swizzled<${ operands[0].row_bytes }$>(step * 16 + lane % 8 + lane / 16 * 8, (warp_m + i * 16 + lane / 8 % 2 * 8) * 2));
<%- endif %>
    }
#pragma unroll
    for (unsigned j = 0; j < ${ mma.fragments_n }$; j += 2) {
      unsigned pair[4];
<%- if operands[1].k_major %>
      fw_ldmatrix_x4(pair, tile_b + fw_swizzled<${ operands[1].row_bytes }$>(warp_n + j * 8 + lane % 8 + lane / 16 * 8, step * 32 + lane / 8 % 2 * 16));
<%- else %>
      fw_ldmatrix_x4_trans(pair, tile_b + fw_swizzled<${ operands[1].row_bytes }$>(step * 16 + lane % 16, (warp_n + j * 8 + lane / 16 * 8) * 2));
<%- endif %>
      right[j][0] = pair[0], right[j][1] = pair[1], right[j + 1][0] = pair[2], right[j + 1][1] = pair[3];
    }
<%- if mma.rounds %>
#pragma unroll
    for (unsigned i = 0; i < ${ mma.fragments_m }$; ++i) fw_round_tf32(left[i]);
#pragma unroll
    for (unsigned j = 0; j < ${ mma.fragments_n }$; ++j) fw_round_tf32(right[j]);
<%- endif %>
  };

  // tiles of the first steps
<%- if splits > 1 %>
  const unsigned first = blockIdx.y * ${ tile.steps_per_split }$;
  const unsigned steps = min(${ tile.steps_per_split }$u, ${ tile.steps }$u - first);
<%- else %>
  constexpr unsigned first = 0, steps = ${ tile.steps }$;
<%- endif %>
#pragma unroll
  for (unsigned stage = 0; stage < ${ mma.stages - 1 }$; ++stage) {
    if (stage < steps) {
      const ${ index }$ k0 = ${ index }$(first + stage) * ${ tile.k }$;
<%- for operand in operands %>
<%- if operand.fetch == "async" %>
      copy_${ operand.name }$(stage, k0);
<%- elif operand.fetch == "vector" %>
      fetch_${ operand.name }$(k0);
      place_${ operand.name }$(stage);
<%- else %>
      place_${ operand.name }$(stage, k0);
<%- endif %>
<%- endfor %>
    }
    fw_cp_async_commit();
  }
  fw_cp_async_wait<${ mma.stages - 2 }$>();
  __syncthreads();

  ${ accumulator }$ sums[${ mma.fragments_m }$][${ mma.fragments_n }$][4] = {};
  unsigned left[2][${ mma.fragments_m }$][4], right[2][${ mma.fragments_n }$][2];
  load_fragments(0, 0, left[0], right[0]);
  unsigned stage = 0, filled = ${ mma.stages - 1 }$;
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) {
    const bool fills = step + ${ mma.stages - 1 }$ < steps;
#pragma unroll
    for (unsigned part = 0; part < ${ mma.parts }$; ++part) {
      if (part == ${ mma.parts - 1 }$) {
<%- for operand in operands %>
<%- if operand.fetch == "vector" %>
        if (fills) place_${ operand.name }$(filled);
<%- endif %>
<%- endfor %>
        fw_cp_async_wait<${ mma.stages - 2 }$>();
        __syncthreads();
        stage = stage + 1 == ${ mma.stages }$ ? 0 : stage + 1;
        filled = filled + 1 == ${ mma.stages }$ ? 0 : filled + 1;
      }
      load_fragments(stage, (part + 1) % ${ mma.parts }$, left[(part + 1) % 2], right[(part + 1) % 2]);
      if (part == 0) {
        if (fills) {
          const ${ index }$ k0 = ${ index }$(first + step + ${ mma.stages - 1 }$) * ${ tile.k }$;
<%- for operand in operands %>
<%- if operand.fetch == "async" %>
          copy_${ operand.name }$(filled, k0);
<%- elif operand.fetch == "vector" %>
          fetch_${ operand.name }$(k0);
<%- else %>
          place_${ operand.name }$(filled, k0);
<%- endif %>
<%- endfor %>
        }
        fw_cp_async_commit();
      }
#pragma unroll
      for (unsigned i = 0; i < ${ mma.fragments_m }$; ++i) {
#pragma unroll
        for (unsigned j = 0; j < ${ mma.fragments_n }$; ++j) ${ mma.instruction }$(sums[i][j], left[part % 2][i], right[part % 2][j]);
      }
    }
  }
  fw_cp_async_wait<0>();
  __syncthreads();

  // the accumulators go through shared memory, so that the epilogue is one rolled loop with coalesced accesses
  ${ accumulator }$* const tile_c = reinterpret_cast<${ accumulator }$*>(shared_bytes);  // ${ tile.c_layout }$, rows padded
#pragma unroll
  for (unsigned i = 0; i < ${ mma.fragments_m }$; ++i) {
#pragma unroll
    for (unsigned j = 0; j < ${ mma.fragments_n }$; ++j) {
#pragma unroll
      for (unsigned r = 0; r < 4; ++r) {
        const unsigned row = warp_m + i * 16 + lane / 4 + r / 2 * 8, column = warp_n + j * 8 + lane % 4 * 2 + r % 2;
        tile_c[${ tile.c_index }$] = sums[i][j][r];
      }
    }
  }
  __syncthreads();
<% include "tile.cuh" %>
}
