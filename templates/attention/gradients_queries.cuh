<# A consumer's part of dQ: gradients of scores of all keys of the block, as they lie in a slot, with rows along k. -#>
FW_PRODUCTS(scores_of_all + slot * ${ slot_units }$, columns_of_keys, false,
<%- for product in products %>
${ product }$
<%- endfor %>);
