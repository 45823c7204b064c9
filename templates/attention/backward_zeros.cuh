<# Rows of a step beyond the sequence: they may be NaN, which no factor of 0 makes 0. -#>
if ((block + 1) * ${ others }$ > others) {  // what lies beyond the sequence may be NaN, which no factor of 0 makes 0
const unsigned thread = threadIdx.x % 128;
#pragma unroll 1
for (unsigned chunk = max(others - block * ${ others }$, 0) * 8 + thread; chunk < ${ 8 * others }$; chunk += 128) {
#pragma unroll
for (unsigned line = 0; line < ${ other_line_count }$; ++line) {
fw_store_vector(reinterpret_cast<unsigned*>(shared_bytes + (tile - shared) + line * ${ 128 * others }$ + chunk * 16), fw_vector<unsigned, 4>{});
}
}
fw_fence_async();
<%- for barrier in barrier_ids %>
<% if not loop.first %>else <% endif %><% if not loop.last %>if (consumer == ${ loop.index0 }$) <% endif %>fw_named_barrier<${ barrier }$, 128>();
<%- endfor %>
}
