<# What scores became, multiplied by the rows of their step: sums of the gradients. -#>
<%- if has_values %>
FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before + ${ other_1_at }$, ${ 128 * others }$, 1024), adds,
<%- for product in value_products %>
${ product }$
<%- endfor %>, ${ p_words }$);
<%- endif %>
<%- if has_sums %>
FW_PRODUCTS_OF(fw_matrix_descriptor<128>(tile_before, ${ 128 * others }$, 1024), adds,
<%- for product in sum_products %>
${ product }$
<%- endfor %>, ${ s_words }$);
<%- endif %>
