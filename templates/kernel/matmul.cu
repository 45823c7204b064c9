<# Reads function, parameters, threads, index, accumulator, extents.*, tile.*, a.*, b.*, epilogue.*, reduction. -#>
extern "C" __global__ void __launch_bounds__(${ threads }$, 2)
${ function }$(${ parameters }$) {
  FW_SHARED(shared_bytes);
  ${ accumulator }$* const tile_a = reinterpret_cast<${ accumulator }$*>(shared_bytes);  // [k][m], rows padded
  ${ accumulator }$* const tile_b = tile_a + ${ tile.k }$ * ${ tile.row_a }$;  // [k][n], rows padded

  const ${ index }$ b = blockIdx.x / ${ tile.per_batch }$;
  const ${ index }$ m0 = blockIdx.x % ${ tile.per_batch }$ % ${ tile.count_m }$ * ${ tile.m }$;
  const ${ index }$ n0 = blockIdx.x % ${ tile.per_batch }$ / ${ tile.count_m }$ * ${ tile.n }$;

  // mainloop fusion: one element of each operand, zero outside the matrix
  const auto operand_a = [&](${ index }$ m, ${ index }$ k) -> ${ accumulator }$ {
    if (m >= ${ extents.m }$ || k >= ${ extents.k }$) return 0;
<%- for line in a.lines %>
    ${ line }$
<%- endfor %>
    return ${ a.value }$;
  };
  const auto operand_b = [&](${ index }$ k, ${ index }$ n) -> ${ accumulator }$ {
    if (n >= ${ extents.n }$ || k >= ${ extents.k }$) return 0;
<%- for line in b.lines %>
    ${ line }$
<%- endfor %>
    return ${ b.value }$;
  };

  const unsigned row = threadIdx.x / ${ tile.threads_n }$;
  const unsigned column = threadIdx.x % ${ tile.threads_n }$;
  ${ accumulator }$ sums[${ tile.thread_m }$][${ tile.thread_n }$] = {};
#pragma unroll 1
  for (${ index }$ k0 = 0; k0 < ${ extents.k }$; k0 += ${ tile.k }$) {
#pragma unroll 2
    for (unsigned i = threadIdx.x; i < ${ tile.m }$ * ${ tile.k }$; i += ${ threads }$) {
      const unsigned m = ${ a.outer }$, k = ${ a.inner }$;
      tile_a[k * ${ tile.row_a }$ + m] = operand_a(m0 + m, k0 + k);
    }
#pragma unroll 2
    for (unsigned i = threadIdx.x; i < ${ tile.n }$ * ${ tile.k }$; i += ${ threads }$) {
      const unsigned n = ${ b.outer }$, k = ${ b.inner }$;
      tile_b[k * ${ tile.row_b }$ + n] = operand_b(k0 + k, n0 + n);
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned k = 0; k < ${ tile.k }$; ++k) {
      ${ accumulator }$ left[${ tile.thread_m }$], right[${ tile.thread_n }$];
#pragma unroll
      for (int i = 0; i < ${ tile.thread_m }$; ++i) left[i] = tile_a[k * ${ tile.row_a }$ + i * ${ tile.threads_m }$ + row];
#pragma unroll
      for (int j = 0; j < ${ tile.thread_n }$; ++j) right[j] = tile_b[k * ${ tile.row_b }$ + j * ${ tile.threads_n }$ + column];
#pragma unroll
      for (int i = 0; i < ${ tile.thread_m }$; ++i) {
#pragma unroll
        for (int j = 0; j < ${ tile.thread_n }$; ++j) sums[i][j] = ${ multiply_add }$(left[i], right[j], sums[i][j]);
      }
    }
    __syncthreads();
  }

  // the accumulators go through shared memory, so that the epilogue is one rolled loop with coalesced accesses
  ${ accumulator }$* const tile_c = reinterpret_cast<${ accumulator }$*>(shared_bytes);  // [m][n]
#pragma unroll
  for (int i = 0; i < ${ tile.thread_m }$; ++i) {
#pragma unroll
    for (int j = 0; j < ${ tile.thread_n }$; ++j) {
      tile_c[(i * ${ tile.threads_m }$ + row) * ${ tile.n }$ + j * ${ tile.threads_n }$ + column] = sums[i][j];
    }
  }
  __syncthreads();

  // epilogue fusion
<%- if reduction %>
  float* const tile_x = reinterpret_cast<float*>(shared_bytes);  // what is reduced replaces what it came from
<%- endif %>
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < ${ tile.m }$ * ${ tile.n }$; i += ${ threads }$) {
    const unsigned m_in = ${ epilogue.m_in }$, n_in = ${ epilogue.n_in }$;
    const ${ index }$ m = m0 + m_in, n = n0 + n_in;
<%- for line in epilogue.before %>
    ${ line }$
<%- endfor %>
    if (m < ${ extents.m }$ && n < ${ extents.n }$) {
      const ${ accumulator }$ accumulator = tile_c[m_in * ${ tile.n }$ + n_in];
<%- for line in epilogue.lines %>
      ${ line }$
<%- endfor %>
    }
<%- for line in epilogue.after %>
    ${ line }$
<%- endfor %>
  }
<%- if reduction %>
  __syncthreads();

  // one partial result a block for every kept element, in a fixed order
<%- for line in reduction.lines %>
  ${ line }$
<%- endfor %>
<%- endif %>
}
