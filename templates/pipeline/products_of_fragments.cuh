<# The products of a stage whose A is computed to fragments in registers. Each group of products reads its fragment until it is done, so
   a fragment is computed again when all groups but `pending` are; with `at_once` all fragments of a step are computed side by side. -#>
${ origin }$
const unsigned char* const raw_a = shared_bytes + (tile - shared);
const unsigned long long b = ${ b }$;
<%- if at_once %>
fw_wgmma_wait<0>();
if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
<%- for fragment in fragments %>
fill_a(${ fragment.name }$, raw_a, k0, ${ fragment.block }$, ${ fragment.part }$);
<%- endfor %>
<%- for fragment in fragments %>
FW_PRODUCTS_A(${ fragment.name }$, b, ${ fragment.accumulate }$, ${ fragment.product }$);
<%- endfor %>
<%- else %>
<%- for fragment in fragments %>
fw_wgmma_wait<${ pending }$>();  // all but the products that are under way: nothing reads ${ fragment.name }$
<%- if fragment.is_last %>
if (step > 0 && lane == 0) fw_mbarrier_arrive(empty + 8 * multiplied);
<%- endif %>
fill_a(${ fragment.name }$, raw_a, k0, ${ fragment.block }$, ${ fragment.part }$);
FW_PRODUCTS_A(${ fragment.name }$, b, ${ fragment.accumulate }$, ${ fragment.product }$);
<%- endfor %>
<%- endif %>
