<# The fragments of A that a multiplying warp computes. Reads index, tile, wgmma, computed_a. -#>
  const auto fill_a = [&](unsigned (&fragment)[4], const unsigned char* raw, ${ index }$ k0, unsigned block, unsigned part) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = <% if not wgmma.ping_pong %>consumer * ${ wgmma.consumer_m }$ + <% endif %>block * 64 + warp % 4 * 16 + lane / 4 + i % 2 * 8;
      const unsigned column = part * 16 + lane % 4 * 2 + i / 2 * 8;
      const unsigned char* const at = raw + fw_boxed<${ computed_a.raw_row }$>(row, column<% if computed_a.raw_bytes > 1 %> * ${ computed_a.raw_bytes }$<% endif %>);
      fragment[i] = fw_as_word(operand_a(m0 + row, k0 + column, reinterpret_cast<const ${ computed_a.raw_type }$*>(at)));
    }
  };
