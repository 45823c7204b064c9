<# Mean and variance from partial moments: a column of threads for each kept element goes over the parts in order, in f64. Of a part the
   differences from its own shift are known, summed, and squared and summed; here all are seen from the first part's `shift`. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$)
${ function }$(${ parameters }$) {
FW_SHARED(shared_bytes);
double* const shared = reinterpret_cast<double*>(shared_bytes);
const unsigned lane = threadIdx.y * blockDim.x + threadIdx.x;
const ${ index }$ k = ${ k }$;
<%- for line in coordinates %>
${ line }$
<%- endfor %>
const auto points_of = [](${ index }$ part) {
<%- if rest %>
const long long left = ${ rest }$ - (long long)(part) * ${ each }$;
return double(${ whole }$ + (left < 0 ? 0 : left < ${ each }$ ? left : ${ each }$));
<%- else %>
return ${ whole }$.0;
<%- endif %>
};

fw_let_next_launch_start();
<%- if following %>
if (threadIdx.y == 0 && k < ${ kept }$) {  // what is read of other tensors
<%- for operand in following.operands %>
fw_prefetch(${ operand }$);
<%- endfor %>
}
<%- endif %>
fw_wait_for_previous_launch();
double total = 0.0, sum = 0.0, squares = 0.0, shift = 0.0;
if (k < ${ kept }$) {
shift = double(partial3[k]);
#pragma unroll 1
for (${ index }$ next = threadIdx.y; next < ${ parts }$; next += ${ group * rows }$) {
float read[${ group }$][4];
#pragma unroll
for (unsigned g = 0; g < ${ group }$; ++g) {
const ${ index }$ part = next + g * ${ rows }$;
if (part >= ${ parts }$) continue;
read[g][0] = partial0[${ partial }$];
read[g][1] = partial1[${ partial }$];
read[g][2] = partial2[${ partial }$];
read[g][3] = partial3[${ partial }$];
}
#pragma unroll
for (unsigned g = 0; g < ${ group }$; ++g) {
const ${ index }$ part = next + g * ${ rows }$;
if (part >= ${ parts }$) continue;
const double further = double(read[g][3]) - shift, points = points_of(part);
const double part_sum = double(read[g][0]);
total += double(read[g][2]);
sum += part_sum + points * further;
squares += double(read[g][1]) + further * (2.0 * part_sum + points * further);
}
}
}
const double sums[3] = {total, sum, squares};
fw_tree<3>(shared, sums, lane, threadIdx.y, ${ rows }$, ${ columns }$, ${ threads }$, [](double a, double b) { return a + b; });
if (threadIdx.y == 0 && k < ${ kept }$) {
const double apart = shared[${ threads }$ + lane] * ${ reciprocal }$;
const double spread = (shared[${ 2 * threads }$ + lane] - shared[${ threads }$ + lane] * apart) * ${ reciprocal }$;
const float mean = float(shared[lane] * ${ reciprocal }$), variance = float(spread < 0.0 ? 0.0 : spread);
<%- for line in writes %>
${ line }$
<%- endfor %>
<%- if following %>
{
<%- for total in following.totals %>
const float ${ total.variable }$[1] = {${ total.value }$};
<%- endfor %>
${ following.evaluate }$
}
<%- endif %>
}
}
