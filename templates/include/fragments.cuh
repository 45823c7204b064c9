// Device code of products by mma.sync whose operands are rows of heads in shared memory. No template syntax. Sections as in primitives.cuh.
//
// Rows of a tile lie PITCH bytes apart, an odd number of 16: eight rows of one column are in different banks. The last 16 bytes of a pitch hold
// nothing. An instruction takes 32 bytes of k. What is multiplied is a type with functions: `fw_of_f16`, `fw_of_bf16`, `fw_of_tf32`.

//@ fw_of_halves: FW_INLINE fw_ldmatrix_x4 fw_shared_address
struct fw_of_halves {
  static constexpr int BYTES = 2;
  template <int N>
  static FW_INLINE void round(unsigned (&)[N]) {}
  // Where a lane's part of 16 rows of a tile lies whose rows are k.
  template <int PITCH>
  static FW_INLINE unsigned columns_of_lane(unsigned lane) { return lane % 16 * PITCH + lane / 16 * 16; }
  // Two fragments from there, of 8 columns each.
  template <int PITCH, int COUNT>
  static FW_INLINE void load_columns(unsigned (&b)[2][2], const unsigned char* at) {
    fw_ldmatrix_x4_trans(b[0], b[1], fw_shared_address(at));
  }
};

//@ fw_of_f16: FW_INLINE fw_of_halves fw_mma_f16 fw_f16_bits
struct fw_of_f16 : fw_of_halves {
  template <int A>
  static FW_INLINE void multiply(const unsigned (&a)[4], const unsigned (&b)[2]) { fw_mma_f16<A>(a, b); }
  // Rows of accumulators as an operand.
  template <int N>
  static FW_INLINE void pack(const float (&x)[N], unsigned (&words)[N / 2]) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) words[i] = fw_pack_f16x2(x[2 * i], x[2 * i + 1]);
  }
};

//@ fw_of_bf16: FW_INLINE fw_of_halves fw_mma_bf16 fw_bf16_bits
struct fw_of_bf16 : fw_of_halves {
  template <int A>
  static FW_INLINE void multiply(const unsigned (&a)[4], const unsigned (&b)[2]) { fw_mma_bf16<A>(a, b); }
  template <int N>
  static FW_INLINE void pack(const float (&x)[N], unsigned (&words)[N / 2]) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) words[i] = fw_pack_bf16x2(x[2 * i], x[2 * i + 1]);
  }
};

//@ fw_of_tf32: FW_INLINE fw_mma_tf32 fw_round_tf32
// Accumulators' columns 2t and 2t + 1 of a lane are multiplied as t and t + 4 of k, and so are those rows of the other operand: sums over k have no
// order, and no lane needs what another one has.
struct fw_of_tf32 {
  static constexpr int BYTES = 4;
  template <int N>
  static FW_INLINE void round(unsigned (&x)[N]) { fw_round_tf32(x); }
  template <int PITCH>
  static FW_INLINE unsigned columns_of_lane(unsigned lane) { return lane % 4 * 2 * PITCH + lane / 4 * 4; }
  template <int PITCH, int COUNT>
  static FW_INLINE void load_columns(unsigned (&b)[2][2], const unsigned char* at) {
#pragma unroll
    for (int n = 0; n < COUNT; ++n) {
      b[n][0] = *reinterpret_cast<const unsigned*>(at + 32 * n), b[n][1] = *reinterpret_cast<const unsigned*>(at + PITCH + 32 * n);
      fw_round_tf32(b[n]);
    }
  }
  template <int A>
  static FW_INLINE void multiply(const unsigned (&a)[4], const unsigned (&b)[2]) { fw_mma_tf32<A>(a, b); }
  template <int N>
  static FW_INLINE void pack(const float (&x)[N], unsigned (&words)[N]) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      words[i] = __float_as_uint(x[i]), words[i + 1] = __float_as_uint(x[i + 2]);
      words[i + 2] = __float_as_uint(x[i + 1]), words[i + 3] = __float_as_uint(x[i + 3]);
    }
    fw_round_tf32(words);
  }
};

//@ fw_left_of_lane: FW_INLINE
// Where a lane's part of a warp's 16 rows lies, and of 16 rows that are columns of the other operand.
template <int PITCH>
FW_INLINE unsigned fw_left_of_lane(unsigned lane) { return lane % 16 * PITCH + lane / 16 * 16; }
template <int PITCH>
FW_INLINE unsigned fw_right_of_lane(unsigned lane) { return (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 16; }

//@ fw_multiply_rows: FW_INLINE fw_ldmatrix_x4 fw_shared_address
// Accumulators from number A on += rows of the warp times N / 4 fragments of eight rows of a tile, along STEPS times 32 bytes of both.
template <typename Of, int A, int N, int PITCH, int J = 0>
FW_INLINE void fw_multiply_row_pairs(const unsigned (&left)[4], unsigned right_at) {
  unsigned right[2][2];
  fw_ldmatrix_x4(right[0], right[1], right_at + J * 2 * PITCH);
  Of::round(right[0]), Of::round(right[1]);
  Of::template multiply<A + J>(left, right[0]);
  Of::template multiply<A + J + 4>(left, right[1]);
  if constexpr (J + 8 < N) fw_multiply_row_pairs<Of, A, N, PITCH, J + 8>(left, right_at);
}
template <typename Of, int A, int N, int STEPS, int PITCH>
FW_INLINE void fw_multiply_rows(const unsigned char* left_at, const unsigned char* right_at) {
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    unsigned left[4];
    fw_ldmatrix_x4(left, fw_shared_address(left_at) + 32 * step);
    Of::round(left);
    fw_multiply_row_pairs<Of, A, N, PITCH>(left, fw_shared_address(right_at) + 32 * step);
  }
}

//@ fw_multiply_columns: FW_INLINE
// Accumulators from number A on += rows of WORDS words of k times N / 4 fragments of eight columns of a tile.
template <typename Of, int A, int N, int PITCH, int J = 0>
FW_INLINE void fw_multiply_column_pairs(const unsigned (&left)[4], const unsigned char* right_at) {
  constexpr int COUNT = J + 4 < N ? 2 : 1;
  unsigned right[2][2];
  Of::template load_columns<PITCH, COUNT>(right, right_at + J * 2 * Of::BYTES);
  Of::template multiply<A + J>(left, right[0]);
  if constexpr (COUNT == 2) Of::template multiply<A + J + 4>(left, right[1]);
  if constexpr (J + 8 < N) fw_multiply_column_pairs<Of, A, N, PITCH, J + 8>(left, right_at);
}
template <typename Of, int A, int N, int PITCH, int WORDS>
FW_INLINE void fw_multiply_columns(const unsigned (&words)[WORDS], const unsigned char* right_at) {
#pragma unroll
  for (int step = 0; step < WORDS / 4; ++step) {
    const unsigned left[4] = {words[4 * step], words[4 * step + 1], words[4 * step + 2], words[4 * step + 3]};
    fw_multiply_column_pairs<Of, A, N, PITCH>(left, right_at + step * 32 / Of::BYTES * PITCH);
  }
}

//@ fw_copy_rows: FW_INLINE fw_cp_async fw_shared_address
// ROWS rows to a tile, PIECE bytes at a time: `from(row)` is where a row lies, of which those below `rows` exist, with WIDTH bytes each. Elsewhere
// are zeros.
template <int ROWS, int WIDTH, int PITCH, int PIECE, int THREADS, typename From>
FW_INLINE void fw_copy_rows(unsigned char* tile, int rows, From from) {
  constexpr int PIECES = (PITCH - 16) / PIECE;
  const auto copy = [&](int row, int byte) {
    const auto* const source = reinterpret_cast<const unsigned char*>(from(row)) + byte;
    fw_cp_async<PIECE>(fw_shared_address(tile) + row * PITCH + byte, source, row < rows && byte < WIDTH);
  };
  if constexpr (THREADS % PIECES == 0) {
    constexpr int STEP = THREADS / PIECES;
#pragma unroll
    for (int first = 0; first < ROWS; first += STEP) {
      const int row = first + int(threadIdx.x) / PIECES;
      if (ROWS % STEP == 0 || row < ROWS) copy(row, int(threadIdx.x) % PIECES * PIECE);
    }
  } else {
#pragma unroll 4
    for (int piece = threadIdx.x; piece < ROWS * PIECES; piece += THREADS) copy(piece / PIECES, piece % PIECES * PIECE);
  }
}

//@ fw_gather_rows: FW_INLINE
// The same an element at a time: `from(row, element)` is where it lies. Neighbouring threads have the elements of a row, or of a column where ALONG_ROWS
// is false.
template <typename T, int ROWS, int WIDTH, int PITCH, int THREADS, bool ALONG_ROWS, typename From>
FW_INLINE void fw_gather_rows(unsigned char* tile, int rows, From from) {
  constexpr int ELEMENTS = (PITCH - 16) / int(sizeof(T));
#pragma unroll 4
  for (int at = threadIdx.x; at < ROWS * ELEMENTS; at += THREADS) {
    const int row = ALONG_ROWS ? at / ELEMENTS : at % ROWS, element = ALONG_ROWS ? at % ELEMENTS : at / ROWS;
    T value = {};
    if (row < rows && element < WIDTH) value = *from(row, element);
    reinterpret_cast<T*>(tile + row * PITCH)[element] = value;
  }
}
