<# The gradient of a head's sink: what it has of each row within its sequence, times Δ, added up by a block in a fixed order. #>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
fw_wait_for_previous_launch();
const unsigned h = blockIdx.x;
float total = 0.0f;
#pragma unroll 1
for (unsigned b = 0; b < ${ batches }$u; ++b) {
${ lengths }$
const unsigned long long first = (b * ${ heads }$ull + h) * ${ padded }$ull;
#pragma unroll 4
for (int query = threadIdx.x; query < queries; query += ${ threads }$) {
total += partial0[first + query];
}
}
total = fw_block_total(total, reinterpret_cast<float*>(shared_bytes), [](float a, float b) { return a + b; });
if (threadIdx.x == 0) ${ result }$[h * ${ result_step }$ull] = -total;
}
