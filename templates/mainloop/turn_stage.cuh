<# How an operand whose boxes run along m or n reaches a stage along k, by the threads of one warpgroup. Reads operand.*, index. -#>
  // ${ operand.title }$: ${ operand.vector }$ elements of ${ operand.lines }$ lines of k are turned at a time; neighbours write to one row
  const auto fill_${ operand.name }$ = [&](unsigned tile, ${ index }$) {
#pragma unroll 1
    for (unsigned i = thread; i < ${ operand.pieces }$; i += 128) {
      const unsigned group = i % ${ operand.groups }$, piece = i / ${ operand.groups }$;
      fw_vector<unsigned, 4> read[${ operand.lines }$];
#pragma unroll
      for (unsigned line = 0; line < ${ operand.lines }$; ++line) {
        const unsigned row = group * ${ operand.lines }$ + line;
        read[line] = *reinterpret_cast<const fw_vector<unsigned, 4>*>(shared_bytes + (tile - shared) + ${ operand.raw }$);
      }
#pragma unroll
      for (unsigned e = 0; e < ${ operand.vector }$; ++e) {
        const unsigned at = tile + ${ operand.tile_offset }$ + fw_swizzled<128>(piece * ${ operand.vector }$ + e, group * 4);
        *reinterpret_cast<unsigned*>(shared_bytes + (at - shared)) = ${ operand.word }$;
      }
    }
  };
