<# An operand whose boxes run along m or n while its tile runs along k: the threads of the first warpgroup turn it. -#>
// ${ title }$: ${ vector }$ elements of ${ lines }$ lines of k are turned at a time, after ${ batch }$ such have been read; neighbours write to one row
const auto fill_${ name }$ = [&](unsigned tile, ${ index }$) {
#pragma unroll 1
for (unsigned first = thread; first < ${ pieces }$; first += ${ 128 * batch }$) {
fw_vector<unsigned, 4> read[${ batch }$][${ lines }$];
#pragma unroll
for (unsigned b = 0; b < ${ batch }$; ++b) {
const unsigned i = first + b * 128;
const unsigned group = i % ${ groups }$, piece = i / ${ groups }$;
#pragma unroll
for (unsigned line = 0; line < ${ lines }$; ++line) {
const unsigned row = group * ${ lines }$ + line;
read[b][line] = *reinterpret_cast<const fw_vector<unsigned, 4>*>(shared_bytes + (tile - shared) + ${ raw }$);
}
}
#pragma unroll
for (unsigned b = 0; b < ${ batch }$; ++b) {
const unsigned i = first + b * 128;
const unsigned group = i % ${ groups }$, piece = i / ${ groups }$;
#pragma unroll
for (unsigned e = 0; e < ${ vector }$; ++e) {
const unsigned at = ${ tile }$ + fw_swizzled<128>(piece * ${ vector }$ + e, group * 4);
*reinterpret_cast<unsigned*>(shared_bytes + (at - shared)) = ${ word }$;
}
}
}
};
