<# What dropout keeps: 1 or 0 for each score. A thread has the eight columns of a counter. #>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
const unsigned long long at = (unsigned long long)blockIdx.x * ${ threads }$ + threadIdx.x;
if (at >= ${ items }$ull) return;
const unsigned group = at % ${ groups }$ull;
const unsigned query = at / ${ groups }$ull % ${ queries }$ull, head = at / ${ of_head }$ull;
${ dropout }$
unsigned w[4] = {group, query, head, drop_state[2]};
fw_philox(w, drop_state[0], drop_state[1]);
float* const to = ${ pointer }$ + ${ offset }$;
#pragma unroll
for (unsigned e = 0; e < 8; ++e) {
const unsigned column = 8 * group + e;
if (column < ${ keys }$u) to[column * ${ column_stride }$ull] = (e % 2 ? w[e / 2] >> 16 : w[e / 2] & 0xffffu) < ${ threshold }$u ? 1.0f : 0.0f;
}
}
