<# Reads function, parameters, threads, blocks, index, extents.*, tile.*, splits, fma.*, operands, accumulator, epilogue.*, sweep.*. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
  fw_wait_for_previous_launch();
  FW_SHARED(shared_bytes);
  ${ accumulator }$* const tile_a = reinterpret_cast<${ accumulator }$*>(shared_bytes);  // [k][m], rows padded
  ${ accumulator }$* const tile_b = tile_a + ${ tile.k }$ * ${ fma.row_a }$;  // [k][n], rows padded
<% include "block.cuh" %>
<%- for operand in operands %>
<% include "operand.cuh" %>
<%- endfor %>

  const unsigned thread_row = threadIdx.x / ${ fma.threads_n }$, thread_column = threadIdx.x % ${ fma.threads_n }$;
  ${ accumulator }$ sums[${ fma.thread_m }$][${ fma.thread_n }$] = {};
<%- if splits > 1 %>
  const ${ index }$ first = (${ index }$)(blockIdx.y) * ${ tile.steps_per_split * tile.k }$;
  const ${ index }$ last = min(first + ${ tile.steps_per_split * tile.k }$, (${ index }$)(${ extents.k }$));
<%- else %>
  constexpr ${ index }$ first = 0, last = ${ extents.k }$;
<%- endif %>
#pragma unroll 1
  for (${ index }$ k0 = first; k0 < last; k0 += ${ tile.k }$) {
#pragma unroll 2
    for (unsigned i = threadIdx.x; i < ${ tile.m }$ * ${ tile.k }$; i += ${ threads }$) {
      const unsigned row = ${ operands[0].row }$, column = ${ operands[0].column }$;
      tile_a[column * ${ fma.row_a }$ + row] = operand_a(${ operands[0].call }$);
    }
#pragma unroll 2
    for (unsigned i = threadIdx.x; i < ${ tile.n }$ * ${ tile.k }$; i += ${ threads }$) {
      const unsigned row = ${ operands[1].row }$, column = ${ operands[1].column }$;
      tile_b[column * ${ fma.row_b }$ + row] = operand_b(${ operands[1].call }$);
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned k = 0; k < ${ tile.k }$; ++k) {
      ${ accumulator }$ left[${ fma.thread_m }$], right[${ fma.thread_n }$];
#pragma unroll
      for (int i = 0; i < ${ fma.thread_m }$; ++i) left[i] = tile_a[k * ${ fma.row_a }$ + i * ${ fma.threads_m }$ + thread_row];
#pragma unroll
      for (int j = 0; j < ${ fma.thread_n }$; ++j) right[j] = tile_b[k * ${ fma.row_b }$ + j * ${ fma.threads_n }$ + thread_column];
#pragma unroll
      for (int i = 0; i < ${ fma.thread_m }$; ++i) {
#pragma unroll
        for (int j = 0; j < ${ fma.thread_n }$; ++j) sums[i][j] = ${ fma.multiply_add }$(left[i], right[j], sums[i][j]);
      }
    }
    __syncthreads();
  }

  // the accumulators go through shared memory, so that the epilogue is one rolled loop with coalesced accesses
  ${ accumulator }$* const tile_c = reinterpret_cast<${ accumulator }$*>(shared_bytes);  // ${ tile.c_layout }$
#pragma unroll
  for (int i = 0; i < ${ fma.thread_m }$; ++i) {
#pragma unroll
    for (int j = 0; j < ${ fma.thread_n }$; ++j) {
      const unsigned row = i * ${ fma.threads_m }$ + thread_row, column = j * ${ fma.threads_n }$ + thread_column;
      tile_c[${ tile.c_index }$] = sums[i][j];
    }
  }
  __syncthreads();
<% include "tile.cuh" %>
}
