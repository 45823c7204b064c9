<# One thread a channel: what its GPU found is sent to every GPU of the node, and what the others sent is gathered in order of their ranks. A
   message has two words a value: the value, and a flag that tells that it has come. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
fw_wait_for_previous_launch();
const unsigned channel = blockIdx.x * ${ threads }$ + threadIdx.x;
if (channel < ${ channels }$) {
<%- for line in coordinates %>
${ line }$
<%- endfor %>
float own[${ count }$];
${ evaluate }$
float* const peers[] = {${ peers }$};
for (float* const peer : peers) {
<%- for value in values %>
fw_send(peer + (own_rank * ${ message }$ + ${ value.place }$ + channel) * 2, own[${ value.number }$]);
<%- endfor %>
}
const float* const mine = peers[own_rank];
const unsigned long long deadline = fw_deadline();
for (int rank = 0; rank < ${ ranks }$; ++rank) {
<%- for value in values %>
${ value.target }$[rank * ${ channels }$ + channel] = rank == own_rank ? own[${ value.number }$] : fw_receive(mine + (rank * ${ message }$ + ${ value.place }$ + channel) * 2, rank, deadline, absent_rank);
<%- endfor %>
}
}
}
