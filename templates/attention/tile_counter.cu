<# The counter that blocks of the next launches claim tiles from; each of these leaves it at 0. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
if (threadIdx.x == 0) *tile_counter = 0;
}
