<# Stores pixels from a box whose rows are positions of lines of pixels: those behind a line's pixels are left out. -#>
#pragma unroll
for (unsigned pass = 0; pass < ${ passes }$; ++pass) {
const unsigned line = pass * ${ rows }$ + lane / ${ lanes }$, byte = lane % ${ lanes }$ * 16;
const ${ index }$ row = warp_m0 + line, pixel_line = row / ${ positions }$, position = row % ${ positions }$;
if (${ exists }$) {
fw_store_vector(reinterpret_cast<unsigned*>(${ to }$), *reinterpret_cast<const fw_vector<unsigned, 4>*>(${ from }$));
}
}
