<# The place of tile `number` in C: matrix `b`, from row m0 and column n0 on. `matrices` is there if there are several, `raster` if tiles
   are walked in bands of rows, `block` if the tile's row and column are read by name. -#>
<%- if matrices %>
const ${ index }$ b = ${ matrices.b }$;
<%- if matrices.block %>
const unsigned block = ${ matrices.block }$;
<%- endif %>
<%- endif %>
<%- if raster %>
// neighbouring blocks share rows and columns of tiles, so that operands stay in L2
<%- if not matrices %>
const unsigned block = ${ number }$;
<%- endif %>
const unsigned band = ${ raster.band }$, inside_band = ${ raster.inside_band }$;
const unsigned band_rows = min(${ raster.rows }$u, ${ raster.count_m }$u - band * ${ raster.rows }$u);
const unsigned block_m = band * ${ raster.rows }$u + inside_band % band_rows, block_n = inside_band / band_rows;
<%- endif %>
<%- if block %>
const unsigned block_m = ${ block[0] }$, block_n = ${ block[1] }$;
<%- endif %>
const ${ index }$ m0 = ${ tile[0] }$, n0 = ${ tile[1] }$;
