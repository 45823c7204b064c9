<# Rows of heads from row `first` on to a tile in shared memory: by cp.async where they lie in pieces, else an element at a time. -#>
const auto ${ name }$ = [&](int first) {
<%- if piece %>
fw_copy_rows<${ rows }$, ${ width * element_bytes }$, ${ pitch }$, ${ piece }$, ${ threads }$>(${ at }$, ${ length }$ - first, [&](int row) {
return ${ pointer }$ + ${ offset }$;
});
<%- else %>
fw_gather_rows<${ storage }$, ${ rows }$, ${ width }$, ${ pitch }$, ${ threads }$, ${ along_rows }$>(${ at }$, ${ length }$ - first, [&](int row, int element) {
return ${ pointer }$ + ${ offset }$ + element * ${ step }$ull;
});
<%- endif %>
};
