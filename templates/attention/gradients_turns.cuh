<# Turns: a warp counts which blocks add to a step's queries before this one, waits for them and tells the consumers. A block's time is the steps that
   it has had, had all blocks begun at once and waited for nobody: in each block and for each of the queries times grow, so somebody's turn
   always is. -#>
} else if (warp == 2) {
${ barriers }$
const unsigned* const turns = reinterpret_cast<const unsigned*>(${ turns }$);
unsigned tile_count = 0;
#pragma unroll 1
for (unsigned unit = ${ first }$, turn = 0; unit < ${ units }$u; ++turn, unit = ${ next }$) {
${ unit }$
if (begin >= end) continue;
const auto steps_of = [&](int tile, int& from, int& to) {
const int first_row = tile * ${ keys }$, last_row = min(first_row + ${ keys }$, rows) - 1;
to = last_row < first_row ? 0 : (end_of(last_row) + ${ others - 1 }$) / ${ others }$;
from = min(first_of(first_row) / ${ others }$, to);
};
// when a tile of keys has its step with these queries; -1 for never
const auto time_of = [&](int tile, int block, int member) {
int from, to;
steps_of(tile, from, to);
if (block < from || block >= to) return -1ll;
<%- if paired %>
const bool is_second = tile > ${ tiles - 1 }$ - tile;
int time = (to - from) * member + (is_second ? to - 1 - block : block - from);
if (is_second) {
int first, last;
steps_of(${ tiles - 1 }$ - tile, first, last);
time += (last - first) * ${ members }$;
}
const unsigned number = first_number + (is_second ? ${ tiles - 1 }$ - tile : tile) * of_section;
<%- else %>
<%- if rotation %>
int ahead = block - from - tile * ${ rotation }$ % (to - from);
if (ahead < 0) ahead += to - from;
const int time = (to - from) * member + ahead;
<%- else %>
const int time = (to - from) * member + block - from;
<%- endif %>
const unsigned number = first_number + tile * of_section;
<%- endif %>
return number / gridDim.x * ${ turn_steps }$ll + time;
};
const int own = m0 / ${ keys }$;
#pragma unroll 1
for (int member = 0; member < ${ members }$; ++member) {
#pragma unroll 1
for (int at = 0; at < end - begin; ++at) {
${ walk }$
const long long time = time_of(own, block, member);
unsigned before = 0;
#pragma unroll 1
for (int tile = lane; tile < ${ tiles }$; tile += 32) {
const long long other = time_of(tile, block, member);
before += other >= 0 && (other < time || (other == time && tile < own));
}
before = __reduce_add_sync(0xffffffffu, before);
fw_mbarrier_wait(done + 8 * (tile_count & 1), ~tile_count >> 1 & 1);
if (lane == 0) {
fw_wait_turn(turns + ((b * ${ heads }$ + h * ${ members }$ + member) * ${ steps_of_head }$ + block), before * 8);
*reinterpret_cast<volatile unsigned*>(shared_bytes + ${ firsts_at }$ + 4 * (tile_count & 1)) = before == 0;
fw_mbarrier_arrive(turn_come + 8 * (tile_count & 1));
}
__syncwarp();
++tile_count;
}
}
}
