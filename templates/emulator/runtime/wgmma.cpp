#include "../wgmma.h"

#include <algorithm>
#include <cstring>

#include "products.h"
#include "scheduler.h"
#include "swizzle.h"

namespace emulator {

namespace {

constexpr unsigned ROWS = 16;       // of A and of the accumulators that one warp computes
constexpr unsigned MAX_K = 32;      // elements in 32 bytes
constexpr unsigned MAX_N = 256;
constexpr unsigned WARPS = 4;       // of a warpgroup
constexpr unsigned REGISTERS = 256;

// An operand in shared memory as its descriptor says: chunks of 16 bytes, along k or along m or n.
class Operand {
 public:
  Operand(unsigned long long descriptor, bool is_mn_major)
      : address_(unsigned(descriptor & 0x3fff) << 4),
        leading_(unsigned(descriptor >> 16 & 0x3fff) << 4),
        stride_(unsigned(descriptor >> 32 & 0x3fff) << 4),
        is_mn_major_(is_mn_major) {
    constexpr unsigned SPANS[] = {0, 128, 64, 32};
    span_ = SPANS[descriptor >> 62];
    if (descriptor >> 49 & 7) fail("%s: a matrix descriptor with a base offset is not emulated", PRODUCTS);
  }

  // K-major: chunk of k of this row.
  unsigned row_chunk(unsigned row, unsigned chunk) const {
    const unsigned group = row / 8 * stride_;
    const unsigned at = span_ ? group + row % 8 * span_ + chunk * 16 : group + chunk * leading_ + row % 8 * 16;
    return swizzled(address_ + at, span_);
  }

  // MN-major: eight elements of m or n at this k.
  unsigned column_chunk(unsigned k, unsigned chunk) const {
    if (span_ == 0) return address_ + chunk * stride_ + k / 8 * leading_ + k % 8 * 16;
    const unsigned chunks = span_ / 16;
    const unsigned at = chunk / chunks * leading_ + k / 8 * stride_ + k % 8 * span_ + chunk % chunks * 16;
    return swizzled(address_ + at, span_);
  }

  // Calls visit(address, first row, first k) for each chunk of these rows of m or n.
  template <class Visit>
  void for_each_chunk(OperandType type, unsigned first_row, unsigned rows, Visit&& visit) const {
    const unsigned per_chunk = 16 / bytes_of(type);
    if (!is_mn_major_) {
      for (unsigned row = 0; row < rows; ++row)
        for (unsigned chunk = 0; chunk < 2; ++chunk) visit(row_chunk(first_row + row, chunk), row, chunk * per_chunk);
    } else {
      for (unsigned k = 0; k < 2 * per_chunk; ++k)
        for (unsigned row = 0; row < rows; row += per_chunk) visit(column_chunk(k, (first_row + row) / per_chunk), row, k);
    }
  }

  bool is_mn_major() const { return is_mn_major_; }

 private:
  unsigned address_, leading_, stride_, span_;
  bool is_mn_major_;
};

Operand operand_a(const StartedProduct& started) { return {started.a, started.product.a_is_mn_major}; }
Operand operand_b(const StartedProduct& started) { return {started.b, started.product.b_is_mn_major}; }

struct U8 {
  static constexpr unsigned BITS = 8;
  using Sum = int;
  static Sum widen(unsigned bits) { return int(bits); }
};

// Widens the elements of `bytes` bytes, which are `pitch` apart in the result.
template <class Element>
void widen(const unsigned char* from, unsigned bytes, typename Element::Sum* to, unsigned pitch) {
  constexpr unsigned SIZE = Element::BITS / 8;
  for (unsigned i = 0; i < bytes / SIZE; ++i) {
    unsigned bits = 0;
    std::memcpy(&bits, from + i * SIZE, SIZE);
    to[i * pitch] = Element::widen(bits);
  }
}

void widen(OperandType type, const unsigned char* from, unsigned bytes, float* to, unsigned pitch) {
  switch (type) {
    case OperandType::f16: return widen<F16>(from, bytes, to, pitch);
    case OperandType::bf16: return widen<Bf16>(from, bytes, to, pitch);
    case OperandType::tf32: return widen<Tf32>(from, bytes, to, pitch);
    case OperandType::e4m3: return widen<E4m3>(from, bytes, to, pitch);
    default: return widen<E5m2>(from, bytes, to, pitch);
  }
}

void widen(OperandType type, const unsigned char* from, unsigned bytes, int* to, unsigned pitch) {
  return type == OperandType::s8 ? widen<S8>(from, bytes, to, pitch) : widen<U8>(from, bytes, to, pitch);
}

// What a warp multiplies.
template <class Sum>
struct alignas(32) Matrices {
  Sum a[ROWS][MAX_K], b[MAX_K][MAX_N], d[ROWS][MAX_N];
};

// Lane l holds in register 4 j + i of its accumulators element (l / 4 + i / 2 * 8, 8 j + l % 4 * 2 + i % 2). Two of FP16 in a
// register, the same in halves of registers.
template <class Sum, class Move>
void for_each_accumulator(Block& block, const Warp& warp, const Product& product, Matrices<Sum>& matrices, Move&& move) {
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    unsigned* registers = block.lane(warp, l).accumulators + product.first;
    for (unsigned r = 0; r < product.n / 2; ++r)
      move(registers, r, matrices.d[l / 4 + r % 4 / 2 * 8][r / 4 * 8 + l % 4 * 2 + r % 2]);
  }
}

// Accumulator r of a lane, and back; sums in FP16 are rounded once a product.
void load(const Product& product, const unsigned* registers, unsigned r, float& sum) {
  if (product.sums_in_f16)
    sum = fw_f16_bits_to_f32((unsigned short)(registers[r / 2] >> 16 * (r % 2)));
  else
    std::memcpy(&sum, &registers[r], sizeof sum);
}
void load(const Product&, const unsigned* registers, unsigned r, int& sum) { sum = int(registers[r]); }

void store(const Product& product, unsigned* registers, unsigned r, float sum) {
  const unsigned shift = 16 * (r % 2);
  if (product.sums_in_f16)
    registers[r / 2] = (registers[r / 2] & 0xffff0000u >> shift) | unsigned(fw_f32_to_f16_bits(sum)) << shift;
  else
    std::memcpy(&registers[r], &sum, sizeof sum);
}
void store(const Product&, unsigned* registers, unsigned r, int sum) { registers[r] = unsigned(sum); }

template <class Sum>
void read_operand(const Operand& operand, OperandType type, unsigned first, unsigned rows, Sum* matrix, unsigned row_pitch,
                  unsigned k_pitch) {
  operand.for_each_chunk(type, first, rows, [&](unsigned address, unsigned row, unsigned k) {
    widen(type, shared_access(PRODUCTS, address, 16), 16, matrix + row * row_pitch + k * k_pitch,
          operand.is_mn_major() ? row_pitch : k_pitch);
  });
}

// Lane l holds in register i of its fragment of A 4 bytes of row l / 4 + i % 2 * 8.
template <class Sum>
void read_fragments(const StartedProduct& started, Matrices<Sum>& matrices) {
  const unsigned per_register = 4 / bytes_of(started.product.a);
  for (unsigned l = 0; l < WARP_SIZE; ++l)
    for (unsigned i = 0; i < 4; ++i)
      widen(started.product.a, reinterpret_cast<const unsigned char*>(&started.fragment[l * 4 + i]), 4,
            &matrices.a[l / 4 + i % 2 * 8][(l % 4 + i / 2 * 4) * per_register], 1);
}

template <class Sum>
void multiply(Matrices<Sum>& matrices, unsigned n, unsigned k) {
  typedef Sum Vector __attribute__((vector_size(32), may_alias));
  for (unsigned row = 0; row < ROWS; ++row)
    for (unsigned i = 0; i < k; ++i) {
      const Sum x = matrices.a[row][i];
      for (unsigned column = 0; column < n; column += 8)
        reinterpret_cast<Vector&>(matrices.d[row][column]) += x * reinterpret_cast<const Vector&>(matrices.b[i][column]);
    }
}

template <class Sum>
void execute(Block& block, const Warp& warp, unsigned number, const StartedProduct& started) {
  static thread_local Matrices<Sum> matrices;
  const Product& product = started.product;
  if (product.a_in_registers)
    read_fragments(started, matrices);
  else
    read_operand(operand_a(started), product.a, number % WARPS * ROWS, ROWS, &matrices.a[0][0], MAX_K, 1);
  read_operand(operand_b(started), product.b, 0, product.n, &matrices.b[0][0], 1, MAX_N);
  for_each_accumulator(block, warp, product, matrices, [&](const unsigned* registers, unsigned r, Sum& d) {
    if (started.adds)
      load(product, registers, r, d);
    else
      d = 0;
  });
  multiply(matrices, product.n, 32 / bytes_of(product.a));
  for_each_accumulator(block, warp, product, matrices,
                       [&](unsigned* registers, unsigned r, Sum d) { store(product, registers, r, d); });
}

void execute(Block& block, const Warp& warp, unsigned number, ProductGroup& group) {
  for (const StartedProduct& started : group.products)
    if (is_integer(started.product.a))
      execute<int>(block, warp, number, started);
    else
      execute<float>(block, warp, number, started);
  group.is_done = true;
}

// Whether warp number `number` reads a byte of a range as it executes a product.
bool reads(const StartedProduct& started, unsigned number, unsigned address, unsigned bytes) {
  bool found = false;
  const auto visit = [&](unsigned chunk, unsigned, unsigned) { found |= chunk < address + bytes && address < chunk + 16; };
  const Product& product = started.product;
  if (!product.a_in_registers) operand_a(started).for_each_chunk(product.a, number % WARPS * ROWS, ROWS, visit);
  operand_b(started).for_each_chunk(product.b, 0, product.n, visit);
  return found;
}

StartedProduct started(const Products& statement, const Product& product) {
  const bool adds = product.adds_always || statement.accumulate;
  return {product, statement.a + (long long)product.plus_a, statement.b + (long long)product.plus_b, adds, {}};
}

void require_landed(unsigned number, const StartedProduct& product) {
  for (const BoxLoad& load : current_block->loads)
    if (reads(product, number, load.shared, load.bytes))
      fail("%s: a TMA load (%s:%d) still writes an operand at %#x", PRODUCTS, load.site.place.file, load.site.place.line,
           load.shared);
}

void complete_products(void* const* lanes) {
  require_full_warp(PRODUCTS, lanes);
  const auto statement = [&](unsigned lane) -> const Products& { return *static_cast<const Products*>(lanes[lane]); };
  const Products& first = statement(0);
  for (unsigned lane = 1; lane < WARP_SIZE; ++lane)
    if (statement(lane).a != first.a || statement(lane).b != first.b || statement(lane).accumulate != first.accumulate)
      fail("%s: lanes 0 and %u have different descriptors", PRODUCTS, lane);
  Block& block = *current_block;
  const unsigned number = current_fiber().linear / WARP_SIZE;
  if (number / WARPS * WARPS + WARPS > block.warps().size()) fail("%s needs the four warps of a warpgroup", PRODUCTS);
  Warp& warp = block.warp_of(current_fiber());
  ProductGroup group{current_fiber().site, {}, false};
  for (unsigned i = 0; i < first.count; ++i) {
    StartedProduct product = started(first, first.products[i]);
    if (product.product.first + product.product.registers() > REGISTERS) fail("%s: a thread has at most 255 registers", PRODUCTS);
    for (unsigned l = 0; first.fragment && l < WARP_SIZE; ++l)
      {
      const unsigned* const fragment = statement(l).fragment + product.product.fragment_at;
      product.fragment.insert(product.fragment.end(), fragment, fragment + 4);
    }
    require_landed(number, product);
    group.products.push_back(std::move(product));
  }
  if (block.schedule() == Schedule::eager) execute(block, warp, number, group);
  warp.products.push_back(std::move(group));
  for (const unsigned long long word : {first.a, first.b, (unsigned long long)first.accumulate})
    record(warp, current_fiber().site, word);
}

void complete_wait(void* const* lanes) {
  require_full_warp(WGMMA_WAIT, lanes);
  const unsigned pending = *static_cast<const unsigned*>(lanes[0]), number = current_fiber().linear / WARP_SIZE;
  Warp& warp = current_block->warp_of(current_fiber());
  const std::size_t done = warp.products.size() > pending ? warp.products.size() - pending : 0;
  for (std::size_t i = 0; i < done; ++i)
    if (!warp.products[i].is_done) execute(*current_block, warp, number, warp.products[i]);
  warp.products.erase(warp.products.begin(), warp.products.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace

Product malformed(const char*) { return {}; }

void require_no_product(const Warp& warp, unsigned first, unsigned count) {
  for (const ProductGroup& group : warp.products)
    for (const StartedProduct& started : group.products) {
      const Product& product = started.product;
      if (first < product.first + product.registers() && product.first < first + count)
        fail("accumulators %u to %u are used before the FW_PRODUCTS that writes them (%s:%d) is waited for", first,
             first + count - 1, group.site.place.file, group.site.place.line);
    }
}

const ProductGroup* reader(const Warp& warp, unsigned number, unsigned address, unsigned bytes) {
  for (const ProductGroup& group : warp.products)
    for (const StartedProduct& started : group.products)
      if (reads(started, number, address, bytes)) return &group;
  return nullptr;
}

void start_products(Site site, const Products& products) {
  Products argument = products;
  warp_collective(site, FULL_MASK, &argument, complete_products);
}

void wait_products(Site site, unsigned pending) { warp_collective(site, FULL_MASK, &pending, complete_wait); }

}  // namespace emulator
