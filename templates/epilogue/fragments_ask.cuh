<# Asks for the first boxes of a tile that its epilogue reads. Reads index, wgmma, fragments.*. -#>
      const ${ index }$ tile_m0 = m0 + <% if not wgmma.ping_pong %>consumer * ${ wgmma.consumer_m }$ + <% endif %>warp % 4 * 16;
      const auto ask_for = [&](unsigned part, unsigned set) {
        if (lane == 0) {
          const ${ index }$ box_n0 = n0 + part % ${ fragments.chunks }$ * ${ fragments.columns }$;
          fw_mbarrier_expect(arrived + 8 * set, ${ fragments.read_bytes }$);
<%- for line in fragments.loads %>
          ${ line }$
<%- endfor %>
        }
      };
      ask_for(0, taken % ${ fragments.sets }$);
<%- if fragments.parts > 1 %>
      ask_for(1, (taken + 1) % ${ fragments.sets }$);
<%- endif %>
