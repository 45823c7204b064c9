<# What brings the rows of a step of keys to their stage. Rows in pages come in boxes that have rows of one page each, and lanes of a warp ask
   for them. A page is looked up before there is room for its rows; beyond the sequence there is none, and box -1, outside of the container,
   is zeros. -#>
const auto load_${ name }$ = [&](int block) {
<%- if pages %>
int page[${ pages.turns }$];
#pragma unroll
for (int i = 0; i < ${ pages.turns }$; ++i) {
const int box = 32 * i + int(lane), key = block * ${ keys }$ + box * ${ pages.rows }$;
page[i] = box < ${ pages.boxes }$ && key < keys ? int(${ pages.table }$[${ pages.entry }$]) : -1;
}
<%- endif %>
fw_mbarrier_wait(${ name }$_empty + 8 * ${ name }$_stage, ${ name }$_parity);
<%- if by_warp %>
if (lane == 0) fw_mbarrier_expect(${ name }$_full + 8 * ${ name }$_stage, ${ bytes }$);
__syncwarp();
<%- else %>
fw_mbarrier_expect(${ name }$_full + 8 * ${ name }$_stage, ${ bytes }$);
<%- endif %>
const unsigned tile = shared + ${ tiles_at }$ + ${ name }$_stage * ${ bytes }$;
<%- if pages %>
#pragma unroll
for (int i = 0; i < ${ pages.turns }$; ++i) {
const int box = 32 * i + int(lane), key = block * ${ keys }$ + box * ${ pages.rows }$;
if (box < ${ pages.boxes }$) {
<%- for line in lines %>
fw_tma_load(tile + ${ line.at }$ + box * ${ pages.bytes }$, &map${ map }$, ${ name }$_full + 8 * ${ name }$_stage, ${ line.element }$, ${ pages.row }$, ${ head }$, page[i]);
<%- endfor %>
}
}
<%- else %>
<%- if by_warp %>
if (lane == 0) {
<%- endif %>
<%- for line in lines %>
fw_tma_load(tile + ${ line.at }$, &map${ map }$, ${ name }$_full + 8 * ${ name }$_stage, ${ line.element }$, ${ at }$);
<%- endfor %>
<%- if by_warp %>
}
<%- endif %>
<%- endif %>
if (++${ name }$_stage == ${ stages }$) ${ name }$_stage = 0, ${ name }$_parity ^= 1;
};
