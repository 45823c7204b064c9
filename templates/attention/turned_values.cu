<# Values with keys side by side, through a tile in shared memory. Of each 16 keys a thread stores those of one element: in the order in which a
   lane holds the probabilities of a fragment, 0, 1, 8, 9, 2, 3, 10, 11, …. Keys beyond the sequence are zeros. #>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
FW_SHARED(tile);
fw_wait_for_previous_launch();
const unsigned head = blockIdx.x / ${ blocks_of_head }$u, b = head / ${ heads }$u, h = head % ${ heads }$u;
const int first = int(blockIdx.x % ${ blocks_of_head }$u) * ${ keys_of_block }$;
${ length }$
<%- for line in sequences %>
${ line }$
<%- endfor %>
<%- if cleared %>
if (blockIdx.x == 0 && threadIdx.x == 0) {
<%- for pointer in cleared %>
*${ pointer }$ = 0.0f;
<%- endfor %>
}
<%- endif %>
const auto row_at = [&](int key) {
<%- if page %>
const long long page = ${ page }$;
<%- endif %>
return ${ pointer }$ + ${ offset }$;
};
<%- if vectors %>
for (unsigned item = threadIdx.x; item < ${ keys_of_block * vectors }$; item += ${ threads }$) {
const unsigned row = item / ${ vectors }$, at = item % ${ vectors }$ * 16;
fw_vector<unsigned, 4> x = {};
if (first + int(row) < keys) x = *reinterpret_cast<const fw_vector<unsigned, 4>*>(row_at(first + int(row)) + at);
#pragma unroll
for (int i = 0; i < 4; ++i) *reinterpret_cast<unsigned*>(tile + row * ${ pitch }$ + at + 4 * i) = x.at[i];
}
<%- else %>
for (unsigned item = threadIdx.x; item < ${ keys_of_block * elements }$; item += ${ threads }$) {
<%- if along_keys %>
const unsigned row = item % ${ keys_of_block }$, at = item / ${ keys_of_block }$;
<%- else %>
const unsigned row = item / ${ elements }$, at = item % ${ elements }$;
<%- endif %>
tile[row * ${ pitch }$ + at] = first + int(row) < keys ? row_at(first + int(row))[at * ${ element_step }$ull].bits : 0;
}
<%- endif %>
__syncthreads();
unsigned char* const turned = reinterpret_cast<unsigned char*>(partial0) + head * ${ elements * row }$ull + first;
for (unsigned item = threadIdx.x; item < ${ groups * elements }$; item += ${ threads }$) {
const unsigned element = item % ${ elements }$, keys_at = item / ${ elements }$ * 16;
fw_vector<unsigned, 4> y;
#pragma unroll
for (int i = 0; i < 4; ++i) {
const unsigned char* const x = tile + (keys_at + 2 * i) * ${ pitch }$ + element;
y.at[i] = x[0] | x[${ pitch }$] << 8 | x[${ 8 * pitch }$] << 16 | unsigned(x[${ 9 * pitch }$]) << 24;
}
*reinterpret_cast<fw_vector<unsigned, 4>*>(turned + element * ${ row }$ull + keys_at) = y;
}
}
