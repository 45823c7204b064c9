<# What the generator of dropout is told, and the factor of what is kept. -#>
const unsigned long long drop_seed = (long long)(${ seed }$), drop_offset = (long long)(${ offset }$);
const unsigned drop_state[3] = {(unsigned)drop_seed, (unsigned)(drop_seed >> 32) ^ (unsigned)(drop_offset >> 32), (unsigned)drop_offset};
[[maybe_unused]] const float drop_scale = ${ scale }$;
