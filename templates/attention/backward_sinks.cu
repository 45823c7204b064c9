<# The gradient of a head's sink: its share of each row within its sequence, times Δ, added up by a block in a fixed order. #>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
fw_wait_for_previous_launch();
const unsigned h = blockIdx.x;
const float sink = ${ sink }$[h * ${ sink_step }$ull] * ${ log2e }$;
float total = 0.0f;
#pragma unroll 1
for (unsigned b = 0; b < ${ batches }$u; ++b) {
${ lengths }$
const unsigned long long first = (b * ${ heads }$ull + h) * ${ padded }$ull;
#pragma unroll 4
for (int query = threadIdx.x; query < queries; query += ${ threads }$) {
total = fmaf(fw_fast_exp2(sink - partial0[first + query]), partial1[first + query], total);
}
}
total = fw_block_total(total, reinterpret_cast<float*>(shared_bytes), [](float a, float b) { return a + b; });
if (threadIdx.x == 0) ${ result }$[h * ${ result_step }$ull] = -total;
}
