<# The counter that blocks of the next launch draw tiles from. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
if (threadIdx.x == 0) *reinterpret_cast<unsigned*>(partial0) = 0;
}
