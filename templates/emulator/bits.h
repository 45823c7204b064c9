// Reinterpretation of values.
#pragma once

namespace emulator {

// The value of type To with the bytes of `from`.
template <class To, class From>
inline To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace emulator
