<# A tensor in another layout, contiguous along another axis: a block brings its tile to shared memory in vectors along the source's axis, and stores vectors
   along the copy's; what lies beyond the source is zero. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
fw_wait_for_previous_launch();
const ${ index }$ block = ${ block }$;
<%- for line in coordinates %>
${ line }$
<%- endfor %>
${ unit }$* const tile = reinterpret_cast<${ unit }$*>(shared_bytes);
fw_raw<${ unit }$, ${ read }$> brought[${ reads.each }$] = {};
#pragma unroll
for (unsigned step = 0; step < ${ reads.each }$; ++step) {
<%- for line in reads.within %>
${ line }$
<%- endfor %>
<%- for line in reads.coordinates %>
${ line }$
<%- endfor %>
brought[step] = *reinterpret_cast<const fw_raw<${ unit }$, ${ read }$>*>(reinterpret_cast<const ${ unit }$*>(${ source }$) + (${ from }$));
}
#pragma unroll
for (unsigned step = 0; step < ${ reads.each }$; ++step) {
<%- for line in reads.within %>
${ line }$
<%- endfor %>
fw_store_words(tile + along * ${ pitch }$ + across, brought[step]);
}
__syncthreads();
#pragma unroll
for (unsigned step = 0; step < ${ stores.each }$; ++step) {
<%- for line in stores.within %>
${ line }$
<%- endfor %>
<%- for line in stores.coordinates %>
${ line }$
<%- endfor %>
fw_vector<${ unit }$, ${ stored }$> gathered;
#pragma unroll
for (unsigned e = 0; e < ${ stored }$; ++e) gathered.at[e] = tile[(along + e) * ${ pitch }$ + across];
fw_store_vector(reinterpret_cast<${ unit }$*>(${ copy }$) + (${ to }$), gathered);
}
}
