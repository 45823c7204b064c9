<# The place of a tile in C. Reads index, extents, tile. -#>
  // neighbouring blocks share rows and columns of tiles, so that operands stay in L2
<%- if tile.batch > 1 %>
  const ${ index }$ b = ${ tile.number }$ / ${ tile.per_batch }$u;
  const unsigned block = ${ tile.number }$ % ${ tile.per_batch }$u;
<%- else %>
  const unsigned block = ${ tile.number }$;
<%- endif %>
<%- if tile.raster > 1 %>
  const unsigned band = block / ${ tile.raster * tile.count_n }$u, inside_band = block % ${ tile.raster * tile.count_n }$u;
  const unsigned band_rows = min(${ tile.raster }$u, ${ tile.count_m }$u - band * ${ tile.raster }$u);
  const unsigned block_m = band * ${ tile.raster }$u + inside_band % band_rows, block_n = inside_band / band_rows;
<%- else %>
  const unsigned block_m = block % ${ tile.count_m }$u, block_n = block / ${ tile.count_m }$u;
<%- endif %>
  const ${ index }$ m0 = (${ index }$)(block_m) * ${ tile.m }$, n0 = (${ index }$)(block_n) * ${ tile.n }$;
