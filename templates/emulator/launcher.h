// A C function for each kernel that unpacks the arguments by the kernel's own parameter types.
#pragma once

#include "request.h"
#include "tensor_map.h"

namespace emulator {

template <class T>
struct Kind;  // a parameter of any other type does not compile
template <class T>
struct Kind<T*> {
  static constexpr char letter = 'p';
};
template <>
struct Kind<float> {
  static constexpr char letter = 'f';
};
template <>
struct Kind<double> {
  static constexpr char letter = 'd';
};
template <>
struct Kind<int> {
  static constexpr char letter = 'i';
};
template <>
struct Kind<long long> {
  static constexpr char letter = 'l';
};
template <>
struct Kind<fw_tensor_map> {
  static constexpr char letter = 't';
};

template <unsigned... I>
struct Indices {};
template <unsigned N, unsigned... I>
struct IndicesBelow : IndicesBelow<N - 1, N - 1, I...> {};
template <unsigned... I>
struct IndicesBelow<0, I...> {
  using type = Indices<I...>;
};

template <class Function, Function* kernel>
struct Launcher;
template <class... Parameters, void (*kernel)(Parameters...)>
struct Launcher<void(Parameters...), kernel> {
  static constexpr char signature[] = {Kind<Parameters>::letter..., 0};

  template <unsigned... I>
  static void call(void* const* arguments, Indices<I...>) {
    kernel(*static_cast<Parameters*>(arguments[I])...);
  }

  static void invoke(void* const* arguments) {
    call(arguments, typename IndicesBelow<sizeof...(Parameters)>::type());
  }
};

}  // namespace emulator

#define FW_EMULATOR_LAUNCHER(kernel)                                                                         \
  extern "C" __attribute__((visibility("default"))) int fw_emulate_##kernel(const emulator::Request* request) { \
    using Launcher = emulator::Launcher<decltype(kernel), kernel>;                                           \
    return emulator::launch(*request, Launcher::signature, Launcher::invoke);                                \
  }
