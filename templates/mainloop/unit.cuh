<# A unit of work: a tile of C and a part of k. Reads units, tiles, splits, tile. -#>
  // a tile of C<% if splits > 1 %>, and a part of k<% endif %>
<%- if splits > 1 %>
  const unsigned split = unit / ${ tiles }$u, number = unit % ${ tiles }$u;
  const int first = split * ${ tile.steps_per_split }$, steps = min(${ tile.steps_per_split }$, ${ tile.steps }$ - first);
<%- else %>
  const unsigned number = unit;
  [[maybe_unused]] constexpr int first = 0, steps = ${ tile.steps }$;
<%- endif %>
