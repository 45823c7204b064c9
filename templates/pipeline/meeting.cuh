<# The parts of k of a cluster: sums of all blocks but the first go where the first had its stages, a thread's own side by side with those of others,
   and are added in the order of their blocks. -#>
meet();  // nobody reads the stages of the first block any more
float* const parts_of_thread = reinterpret_cast<float*>(shared_bytes) + (threadIdx.x - 128) * 4;
if (rank > 0) {
float* const sent = fw_of_block(parts_of_thread, 0, ${ reach }$) + (rank - 1) * ${ part }$;
FW_KEEP(sent, ${ sent }$);
}
meet();
if (rank > 0) break;
#pragma unroll 1
for (unsigned other = 0; other < ${ others }$; ++other) {
FW_KEEP(parts_of_thread + other * ${ part }$, ${ added }$);
}
