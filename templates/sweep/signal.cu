<# One thread treats flags in order: a line each. -#>
extern "C" __global__ void __launch_bounds__(1)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
<%- for line in lines %>
${ line }$
<%- endfor %>
}
