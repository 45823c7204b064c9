<# The epilogue of a tile whose accumulators are those of wgmma: a warp takes 16 rows by a few columns at a time through its
   own piece of shared memory. Reads index, tile, wgmma, epilogue.*, sweep.*. -#>
#pragma unroll 1
      for (unsigned rows = 0; rows < ${ wgmma.blocks_m }$; ++rows) {
        const ${ index }$ warp_m0 = m0 + <% if not wgmma.ping_pong %>consumer * ${ wgmma.consumer_m }$ + <% endif %>rows * 64 + warp % 4 * 16;
<%- for line in epilogue.totals.before_columns %>
        ${ line }$
<%- endfor %>
#pragma unroll 1
        for (unsigned chunk = 0; chunk < ${ epilogue.chunks }$; ++chunk) {
          const ${ index }$ chunk_n0 = n0 + chunk * ${ epilogue.columns }$;
          switch (rows * ${ epilogue.chunks }$ + chunk) {
<%- for case in epilogue.cases %>
            case ${ loop.index0 }$:<% for line in case %> ${ line }$<% endfor %> break;
<%- endfor %>
          }
          __syncwarp();
<%- if epilogue.workspace %>
          // the sums go to the workspace, where later functions take them from
#pragma unroll 4
          for (unsigned i = lane; i < ${ epilogue.rows * epilogue.columns }$; i += 32) {
            const unsigned line = i / ${ epilogue.columns }$, piece = i % ${ epilogue.columns }$;
            const ${ index }$ m = warp_m0 + line, n = chunk_n0 + piece;
            if (m < ${ extents.m }$ && n < ${ extents.n }$) accumulators[${ epilogue.workspace }$] = piece_c[${ epilogue.staged }$];
          }
<%- else %>
<%- for line in epilogue.totals.before_rows %>
          ${ line }$
<%- endfor %>
#pragma unroll ${ epilogue.unroll }$
          for (unsigned pass = 0; pass < ${ epilogue.passes }$; ++pass) {
            const unsigned i = pass * 32 + lane;
<%- if epilogue.vectors < 32 %>
            if (i >= ${ epilogue.vectors }$) continue;
<%- endif %>
            const unsigned line = i / ${ epilogue.line_vectors }$, piece = i % ${ epilogue.line_vectors }$ * ${ sweep.vector }$;
<%- for line in epilogue.coordinates %>
            ${ line }$
<%- endfor %>
<% filter indent(width=8, first=true) -%>
<% include "evaluate.cuh" %>
<%- endfilter %>
          }
<%- for line in epilogue.totals.after_columns %>
          ${ line }$
<%- endfor %>
<%- endif %>
          __syncwarp();
        }
<%- for line in epilogue.totals.after_rows %>
        ${ line }$
<%- endfor %>
      }
