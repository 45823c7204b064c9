<# `place`: where the row of outputs lies in registers to which tap `r` of the pixels at `point` belongs, -1 where there is none. Rows of
   outputs are in flight from their first tap to their last. -#>
const auto place = [](int point, int r) {
const int over = point - r * ${ dilation }$;
if (over % ${ stride }$ != 0<% if is_straight %> || over < 0 || over / ${ stride }$ >= ${ rows }$<% endif %>) return -1;
return (over / ${ stride }$ % ${ rows_in_flight }$ + ${ rows_in_flight }$) % ${ rows_in_flight }$;
};
