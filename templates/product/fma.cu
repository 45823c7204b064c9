<# A matrix product by multiply-adds: each thread computes thread_m × thread_n elements of its block's tile. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
FW_SHARED(shared_bytes);
${ accumulator }$* const tile_a = reinterpret_cast<${ accumulator }$*>(shared_bytes);  // [k][m], rows padded
${ accumulator }$* const tile_b = tile_a + ${ tile_k * operands[0].pitch }$;  // [k][n], rows padded
${ place }$
<%- for operand in operands %>
${ operand.function }$
<%- endfor %>

const unsigned thread_row = threadIdx.x / ${ threads_n }$, thread_column = threadIdx.x % ${ threads_n }$;
${ accumulator }$ sums[${ thread_m }$][${ thread_n }$] = {};
const ${ index }$ first = ${ first }$, last = ${ last }$;
#pragma unroll 1
for (${ index }$ k0 = first; k0 < last; k0 += ${ tile_k }$) {
<%- for operand in operands %>
#pragma unroll 2
for (unsigned i = threadIdx.x; i < ${ operand.elements }$; i += ${ threads }$) {
const unsigned row = ${ operand.row }$, column = ${ operand.column }$;
tile_${ operand.name }$[column * ${ operand.pitch }$ + row] = operand_${ operand.name }$(${ operand.call }$);
}
<%- endfor %>
__syncthreads();
#pragma unroll 1
for (unsigned k = 0; k < ${ tile_k }$; ++k) {
${ accumulator }$ left[${ thread_m }$], right[${ thread_n }$];
#pragma unroll
for (int i = 0; i < ${ thread_m }$; ++i) left[i] = tile_a[k * ${ operands[0].pitch }$ + i * ${ threads_m }$ + thread_row];
#pragma unroll
for (int j = 0; j < ${ thread_n }$; ++j) right[j] = tile_b[k * ${ operands[1].pitch }$ + j * ${ threads_n }$ + thread_column];
#pragma unroll
for (int i = 0; i < ${ thread_m }$; ++i) {
#pragma unroll
for (int j = 0; j < ${ thread_n }$; ++j) sums[i][j] = ${ multiply_add }$(left[i], right[j], sums[i][j]);
}
}
__syncthreads();
}

// the accumulators go through shared memory, so that the epilogue is one rolled loop with coalesced accesses
${ accumulator }$* const tile_c = reinterpret_cast<${ accumulator }$*>(shared_bytes);  // ${ c_layout }$
<%- if inside %>
float told = 0.0f;
<%- endif %>
#pragma unroll
for (int i = 0; i < ${ thread_m }$; ++i) {
#pragma unroll
for (int j = 0; j < ${ thread_n }$; ++j) {
<%- if inside %>
told = fmaf(sums[i][j], 0.0f, told);
<%- endif %>
const unsigned row = i * ${ threads_m }$ + thread_row, column = j * ${ threads_n }$ + thread_column;
tile_c[${ at }$] = sums[i][j];
}
}
<%- if inside %>
if (!isfinite(told)) ${ inside }$
<%- endif %>
__syncthreads();
${ epilogue }$
}
