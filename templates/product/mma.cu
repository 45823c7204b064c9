<# A matrix product by mma.sync: each warp computes warp_m × warp_n elements of its block's tile, whose operands lie in `stages` of shared
   memory. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, ${ blocks }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
FW_SHARED(shared_bytes);
FW_ACCUMULATORS_${ accumulator }$(${ accumulators }$);
const unsigned shared = fw_shared_address(shared_bytes);
const unsigned shared_a = shared, shared_b = shared + ${ tile_b }$;  // tiles of stage 0
const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
const unsigned warp_m = warp % ${ warps_m }$ * ${ warp_m }$, warp_n = warp / ${ warps_m }$ * ${ warp_n }$;
${ place }$
<%- for operand in operands %>
${ operand }$
<%- endfor %>

// where the lane's rows of fragments lie in a tile
<%- for fragment in fragments %>
const unsigned lane_${ fragment.name }$ = shared_${ fragment.name }$ + ${ fragment.lane }$, phase_${ fragment.name }$ = ${ fragment.phase }$;
<%- endfor %>

// ${ step_k }$ elements of k: ${ fragments_m }$ fragments of 16 rows, ${ fragments_n }$ of 8 columns
const auto load_fragments = [&](unsigned stage, unsigned part, unsigned (&left)[${ fragments_m }$][4], unsigned (&right)[${ fragments_n }$][2]) {
<%- for fragment in fragments %>
const unsigned at_${ fragment.name }$ = lane_${ fragment.name }$ + stage * ${ stage_bytes }$ + ${ fragment.part }$;
<%- for load in fragment.loads %>
${ load }$
<%- endfor %>
<%- endfor %>
<%- for fragment in rounded %>
fw_round_tf32(${ fragment }$);
<%- endfor %>
};
FW_CLEAR(${ zeros }$);
const auto multiply = [&](const unsigned (&left)[${ fragments_m }$][4], const unsigned (&right)[${ fragments_n }$][2]) {
${ products }$
};

${ mainloop }$
fw_cp_async_wait<0>();
__syncthreads();

// the accumulators go through shared memory, so that the epilogue is one rolled loop with coalesced accesses
${ accumulator }$* const tile_c = reinterpret_cast<${ accumulator }$*>(shared_bytes);  // ${ c_layout }$, rows padded
${ accumulator }$* const lane_c = tile_c + ${ lane_c }$;
${ puts }$
<%- if inside %>
float told = 0.0f;  // finite unless some sum is not
<%- for line in tell %>
${ line }$
<%- endfor %>
if (!isfinite(told)) ${ inside }$
<%- endif %>
__syncthreads();
${ epilogue }$
}
