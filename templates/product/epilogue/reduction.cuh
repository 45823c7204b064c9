<# Reduces the values of a tile to a partial result for each kept element of it: `every` element is one; or a thread takes each `kept` row
   or column; or the block's threads give one together. -#>
<%- if kept %>
for (unsigned ${ kept.kept.index }$_in = threadIdx.x; ${ kept.kept.index }$_in < ${ kept.kept.block }$ && ${ kept.kept.index }$0 + ${ kept.kept.index }$_in < ${ kept.kept.extent }$; ${ kept.kept.index }$_in += ${ threads }$) {
const ${ index }$ ${ kept.kept.index }$ = ${ kept.kept.index }$0 + ${ kept.kept.index }$_in;
float total = ${ identity }$;
for (unsigned ${ kept.reduced.index }$_in = 0; ${ kept.reduced.index }$_in < ${ kept.reduced.block }$ && ${ kept.reduced.index }$0 + ${ kept.reduced.index }$_in < ${ kept.reduced.extent }$; ++${ kept.reduced.index }$_in) {
total = ${ combine }$(total, ${ value }$);
}
partial${ partial }$[${ at }$] = total;
}
<%- elif every %>
for (unsigned i = threadIdx.x; i < ${ block[0] * block[1] }$; i += ${ threads }$) {
const unsigned m_in = i / ${ block[1] }$, n_in = i % ${ block[1] }$;
const ${ index }$ m = m0 + m_in, n = n0 + n_in;
if (m < ${ extents[0] }$ && n < ${ extents[1] }$) partial${ partial }$[${ at }$] = ${ value }$;
}
<%- else %>
{
float total = ${ identity }$;
for (unsigned i = threadIdx.x; i < ${ block[0] * block[1] }$; i += ${ threads }$) {
const unsigned m_in = i / ${ block[1] }$, n_in = i % ${ block[1] }$;
if (m0 + m_in < ${ extents[0] }$ && n0 + n_in < ${ extents[1] }$) total = ${ combine }$(total, ${ value }$);
}
total = fw_block_total(total, totals, [](float a, float b) { return ${ combine }$(a, b); });
if (threadIdx.x == 0) partial${ partial }$[${ at }$] = total;
}
<%- endif %>
