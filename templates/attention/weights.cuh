<# Probabilities of a step in FP8, from scores above their references: their sums, and the words that are multiplied, which are made between
   exponentials, of which the chip computes one in the time of eight other instructions. -#>
{
float part[2][2] = {{sum[0], 0.0f}, {sum[1], 0.0f}};
#pragma unroll
for (int step = 0; step < ${ packed }$; step += 4) {
#pragma unroll
for (int i = 4 * step; i < 4 * step + 16; ++i) {
const int e = i >> 1 & 1;
x[i] = fw_fast_exp2(fmaf(x[i], c, -reference[e]));
part[e][i & 1] += x[i];
}
#pragma unroll
for (int i = step; i < step + 4; ++i) p[i] = ${ word }$;
}
sum[0] = part[0][0] + part[0][1], sum[1] = part[1][0] + part[1][1];
}
