<# The fragments of A that a multiplying warp computes. Reads index, tile, wgmma, computed_a. -#>
  const auto fill_a = [&](unsigned (&fragment)[4], const unsigned char* raw, ${ index }$ k0, unsigned block, unsigned part) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      // eight rows below lie eight lines further: the exchange of chunks repeats after as many
      const unsigned row = <% if not wgmma.ping_pong %>consumer * ${ wgmma.consumer_m }$ + <% endif %>block * 64 + warp % 4 * 16 + lane / 4;
      const unsigned column = part * 16 + lane % 4 * 2;
      const unsigned below = i % 2 * 8, right = i / 2 * 8;
      const unsigned at = <% if computed_a.raw_bytes > 1 %>fw_boxed<${ computed_a.raw_row }$>(row, (column + right) * ${ computed_a.raw_bytes }$)<% else %>fw_boxed<${ computed_a.raw_row }$>(row, column) + right<% endif %> + below * ${ computed_a.raw_row }$;
      fragment[i] = fw_as_word(operand_a(m0 + row + below, k0 + column + right, reinterpret_cast<const ${ computed_a.raw_type }$*>(raw + at)));
    }
  };
