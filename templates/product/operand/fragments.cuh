<# The fragments of A that a multiplying warp computes from boxes in shared memory: 16 rows by 32 bytes of k, part `part` of a step, of
   block `block` of 64 rows. -#>
const auto fill_a = [&](unsigned (&fragment)[4], const unsigned char* raw, ${ index }$ k0, unsigned block, unsigned part) {
#pragma unroll
for (unsigned i = 0; i < 4; ++i) {
// eight rows below lie eight lines further: the exchange of chunks repeats after as many
const unsigned row = <% if consumer_row %>${ consumer_row }$ + <% endif %>block * 64 + warp % 4 * 16 + lane / 4;
const unsigned column = part * 16 + lane % 4 * 2;
const unsigned below = i % 2 * 8, right = i / 2 * 8;
const unsigned at = ${ place }$ + below * ${ raw_row }$;
fragment[i] = fw_as_word(operand_a(m0 + row + below, ${ k }$, reinterpret_cast<const ${ raw_type }$*>(raw + at)));
}
};
