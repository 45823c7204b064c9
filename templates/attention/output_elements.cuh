<# Rows of heads to memory, an element at a time: of any type, at any stride. -#>
{
float y[${ values }$];
fw_take_all<${ first }$>(y);
#pragma unroll
for (int i = 0; i < ${ values }$; ++i) {
const int row_of = row + 8 * (i >> 1 & 1), column = 8 * (i >> 2) + 2 * quad + (i & 1);
if (row_of < ${ rows }$ && column < ${ columns }$) ${ pointer }$[${ offset }$] = ${ value }$;
}
}
