// Matrix instructions of a warpgroup (`wgmma`).
#pragma once

#include "block.h"

namespace emulator {

inline constexpr char PRODUCTS[] = "FW_PRODUCTS";
inline constexpr char WGMMA_WAIT[] = "fw_wgmma_wait";

enum class OperandType : unsigned char { f16, bf16, tf32, e4m3, e5m2, s8, u8 };

// One product of 64 rows, n columns and 32 bytes of k, as an FW_PRODUCT states it.
struct Product {
  unsigned n;
  OperandType a, b;
  bool a_in_registers, a_is_mn_major, b_is_mn_major;
  bool adds_always;  // else only where the statement accumulates
  bool sums_in_f16;  // two columns in a register
  unsigned first;    // accumulator
  unsigned fragment_at;  // of A, in the statement's words
  int plus_a, plus_b;

  // Of a thread, for its accumulators.
  constexpr unsigned registers() const { return sums_in_f16 ? n / 4 : n / 2; }
};

// A statement: its products, and what it is called with.
struct Products {
  const Product* products;
  unsigned count;
  unsigned long long a, b;   // descriptors
  const unsigned* fragment;  // of A, or null
  bool accumulate;
};

// Starts the products of a statement and closes their group; all threads of a warpgroup call it alike.
void start_products(Site site, const Products& products);

// Lets all of the warp's groups of products end but the `pending` most recent ones.
void wait_products(Site site, unsigned pending);

// Not constexpr: a call of it in a constant expression refuses the text.
Product malformed(const char* what);

// Reads the texts of an FW_PRODUCT from left to right.
struct ProductText {
  const char* at;

  constexpr bool take(const char* text) {
    const char* p = at;
    for (; *text; ++text, ++p)
      if (*p != *text) return false;
    at = p;
    return true;
  }

  constexpr unsigned number() {
    unsigned value = 0;
    for (; *at >= '0' && *at <= '9'; ++at) value = 10 * value + unsigned(*at - '0');
    return value;
  }

  constexpr bool operand(OperandType& type) {
    constexpr const char* NAMES[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8"};
    for (unsigned i = 0; i < 7; ++i)
      if (take(NAMES[i])) {
        type = OperandType(i);
        return true;
      }
    return false;
  }

  // ", 0" or ", 1"
  constexpr bool flag(bool& value) {
    value = take(", 1");
    return value || take(", 0");
  }
};

constexpr unsigned bytes_of(OperandType type) {
  return type == OperandType::tf32 ? 4 : type == OperandType::f16 || type == OperandType::bf16 ? 2 : 1;
}
constexpr bool is_integer(OperandType type) { return type == OperandType::s8 || type == OperandType::u8; }
constexpr bool is_fp8(OperandType type) { return type == OperandType::e4m3 || type == OperandType::e5m2; }

// A product from the texts of its FW_PRODUCT, which must be what the assembler takes.
constexpr Product product(const char* shape, const char* registers, bool a_in_registers, int plus_a, int plus_b,
                          const char* scale, const char* tail) {
  Product made{};
  made.a_in_registers = a_in_registers, made.plus_a = plus_a, made.plus_b = plus_b;
  ProductText text{shape};
  if (!text.take("m64n")) return malformed("the shape starts with m64n");
  made.n = text.number();
  if (!text.take("k")) return malformed("the shape has no k");
  const unsigned k = text.number();
  const bool sums_integers = text.take(".s32.");
  made.sums_in_f16 = !sums_integers && text.take(".f16.");
  if (!sums_integers && !made.sums_in_f16 && !text.take(".f32.")) return malformed("accumulators are f32, f16 or s32");
  if (!text.operand(made.a) || !text.take(".") || !text.operand(made.b) || *text.at)
    return malformed("the types of A and B");
  const bool mixes = (is_fp8(made.a) && is_fp8(made.b)) || (is_integer(made.a) && is_integer(made.b));
  if (made.a != made.b && !mixes) return malformed("A and B are of one kind");
  if (sums_integers != is_integer(made.a)) return malformed("integers are summed in s32, all others are not");
  if (made.sums_in_f16 && made.a != OperandType::f16) return malformed("here sums in f16 are those of f16");
  if (k * bytes_of(made.a) != 32) return malformed("k has 32 bytes");
  const bool fits = made.n % 8 == 0 && made.n >= 8 && made.n <= 256;
  if (!fits || (sums_integers && made.n > 32 && made.n % 16 != 0) || (sums_integers && made.n == 40))
    return malformed("no such n");

  text = {registers};
  for (unsigned i = 0; i < made.registers(); ++i) {
    if ((i > 0 && !text.take(", ")) || !text.take("acc")) return malformed("n / 2 accumulators, n / 4 registers of f16");
    const unsigned number = text.number();
    if (i == 0) made.first = number;
    if (number != made.first + i) return malformed("consecutive accumulators");
  }
  if (*text.at) return malformed("n / 2 accumulators, n / 4 registers of f16");

  text = {scale};
  made.adds_always = text.take("1");
  if ((!made.adds_always && !text.take("p")) || *text.at) return malformed("scale is p or 1");
  text = {tail};
  if (!sums_integers && !text.take(", 1, 1")) return malformed("the tail of floating types");
  if (bytes_of(made.a) == 2 && ((!a_in_registers && !text.flag(made.a_is_mn_major)) || !text.flag(made.b_is_mn_major)))
    return malformed("the majors of 16-bit operands");
  if (*text.at) return malformed("the tail is too long");
  return made;
}

// The same of a fragment among the words of a statement, which are its operands from number 2 on.
constexpr Product product_of(const char* shape, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                             const char* registers, int plus_b, const char* scale, const char* tail) {
  if (a0 < 2 || a1 != a0 + 1 || a2 != a0 + 2 || a3 != a0 + 3) return malformed("a fragment is four words");
  Product made = product(shape, registers, true, 0, plus_b, scale, tail);
  made.fragment_at = a0 - 2;
  return made;
}

}  // namespace emulator

#define FW_PRODUCTS(descriptor_a, descriptor_b, accumulate, products) \
  FW_EMULATOR_PRODUCTS(descriptor_a, descriptor_b, nullptr, accumulate, products)
#define FW_PRODUCTS_A(fragment, descriptor_b, accumulate, products) \
  FW_EMULATOR_PRODUCTS(0, descriptor_b, fragment, accumulate, products)
#define FW_EMULATOR_PRODUCTS(descriptor_a, descriptor_b, fragment, accumulate, ...)                              \
  do {                                                                                                           \
    static constexpr emulator::Product fw_products[] = {__VA_ARGS__};                                            \
    emulator::start_products({emulator::PRODUCTS, emulator::Place::here()},                                      \
                             {fw_products, sizeof fw_products / sizeof *fw_products, descriptor_a, descriptor_b, \
                              fragment, bool(accumulate)});                                                      \
  } while (0)
#define FW_PRODUCTS_OF(descriptor_b, accumulate, products, ...)             \
  do {                                                                      \
    const unsigned fw_words[] = {__VA_ARGS__};                              \
    FW_EMULATOR_PRODUCTS(0, descriptor_b, fw_words, accumulate, products);  \
  } while (0)
#define FW_WORD(word) word
#define FW_PRODUCT_OF(shape, a0, a1, a2, a3, registers, plus_b, scale, tail) \
  emulator::product_of(shape, a0, a1, a2, a3, registers, plus_b, scale, tail),
#define FW_PRODUCT(shape, registers, plus_a, plus_b, scale, tail) \
  emulator::product(shape, registers, false, plus_a, plus_b, scale, tail),
#define FW_PRODUCT_A(shape, registers, plus_b, scale, tail) \
  emulator::product(shape, registers, true, 0, plus_b, scale, tail),

template <int PENDING>
inline void fw_wgmma_wait(emulator::Place place = emulator::Place::here()) {
  emulator::wait_products({emulator::WGMMA_WAIT, place}, PENDING);
}
