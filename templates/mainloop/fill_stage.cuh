<# How an operand that goes through registers reaches a stage, by the threads of one warpgroup. Reads operand.*, index. -#>
        const auto fill_${ operand.name }$ = [&](unsigned tile, ${ index }$ k0) {
#pragma unroll ${ operand.unroll }$
          for (unsigned i = thread; i < ${ operand.pieces }$; i += 128) {
            const unsigned row = i / ${ operand.row_pieces }$, piece = i % ${ operand.row_pieces }$;
            const unsigned at = tile + ${ operand.tile_offset }$ + ${ operand.place }$;
            *reinterpret_cast<${ operand.result }$*>(shared_bytes + (at - shared)) = operand_${ operand.name }$(${ operand.call }$);
          }
        };
