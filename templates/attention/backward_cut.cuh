<# What a mask leaves out of a step's elements. -#>
// what a mask leaves out is 0, whatever it was
const auto cut = [&](float (&x)[${ scores }$], int block) {
const int at = block * ${ others }$ + 2 * quad;
int kept[2], low[2];
#pragma unroll
for (int e = 0; e < 2; ++e) kept[e] = end_of(row + 8 * e) - at, low[e] = first_of(row + 8 * e) - at;
#pragma unroll
for (int i = 0; i < ${ scores }$; ++i) {
const int column = 8 * (i >> 2) + (i & 1), e = i >> 1 & 1;
if (column >= kept[e] || column < low[e]) x[i] = 0.0f;
}
};
