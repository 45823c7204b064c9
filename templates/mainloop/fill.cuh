<# Starts an operand's part of the tile that is filled while another is multiplied. Reads operand, index, tile, mma. -#>
        if (fills) {
          const ${ index }$ k0 = (${ index }$)(first + step + ${ mma.stages - 1 }$) * ${ tile.k }$;
<%- if operand.fetch == "async" %>
          copy_${ operand.name }$(filled, k0);
<%- elif operand.fetch == "vector" %>
          fetch_${ operand.name }$(k0);
<%- else %>
          place_${ operand.name }$(filled, k0);
<%- endif %>
        }
