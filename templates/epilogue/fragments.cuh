<# The epilogue of a tile in the registers of its accumulators: a warp takes 16 rows by a few columns at a time, and TMA
   brings and takes the boxes of the tensors. Reads index, accumulator, wgmma, fragments.*, sweep.*. -#>
#pragma unroll 1
      for (unsigned rows = 0; rows < ${ wgmma.blocks_m }$; ++rows) {
        const ${ index }$ warp_m0 = m0 + <% if not wgmma.ping_pong %>consumer * ${ wgmma.consumer_m }$ + <% endif %>rows * 64 + warp % 4 * 16;
<%- for line in fragments.totals.before_columns %>
        ${ line }$
<%- endfor %>
#pragma unroll 1
        for (unsigned chunk = 0; chunk < ${ fragments.chunks }$; ++chunk, ++taken) {
          const ${ index }$ chunk_n0 = n0 + chunk * ${ fragments.columns }$;
          const unsigned part = rows * ${ fragments.chunks }$ + chunk, set = taken % ${ fragments.sets }$;
          unsigned char* const box = shared_bytes + (boxes_at - shared) + set * ${ fragments.set_bytes }$;
<%- if fragments.row_set_bytes > 0 %>
          const unsigned char* const row = shared_bytes + (rows_at - shared) + set * ${ fragments.row_set_bytes }$;
<%- endif %>
<%- if fragments.loads %>
          fw_mbarrier_wait(arrived + 8 * set, taken / ${ fragments.sets }$ & 1);
<%- endif %>
          if (lane == 0) fw_tma_store_wait_read<${ fragments.sets - 1 }$>();  // what the set held before has left
          __syncwarp();
<%- if fragments.steps > 1 %>
#pragma unroll 1
          for (unsigned step = 0; step < ${ fragments.steps }$; ++step) {
<%- else %>
          {
            constexpr unsigned step = 0;
<%- endif %>
            ${ accumulator }$ sums[${ fragments.fragments }$][4];
            switch (part * ${ fragments.steps }$ + step) {
<%- for take in fragments.takes %>
              case ${ loop.index0 }$: ${ take }$ break;
<%- endfor %>
            }
#pragma unroll
            for (unsigned j = 0; j < ${ fragments.fragments }$; ++j) {
#pragma unroll
              for (unsigned half = 0; half < 2; ++half) {
                const unsigned line = lane / 4 + 8 * half, piece = step * ${ fragments.step_columns }$ + 8 * j + lane % 4 * 2;
<%- for line in fragments.coordinates %>
                ${ line }$
<%- endfor %>
<% filter indent(width=12, first=true) -%>
<% include "evaluate.cuh" %>
<%- endfilter %>
              }
            }
          }
          fw_fence_async();
          __syncwarp();
          if (lane == 0) {
<%- for line in fragments.stores %>
            ${ line }$
<%- endfor %>
            fw_tma_store_commit();
          }
<%- if fragments.loads and fragments.parts > fragments.sets %>
          if (part + ${ fragments.sets }$ < ${ fragments.parts }$) ask_for(part + ${ fragments.sets }$, set);
<%- endif %>
        }
<%- for line in fragments.totals.after_rows %>
        ${ line }$
<%- endfor %>
      }
