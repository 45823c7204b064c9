// Cooperative contexts with stacks of their own.
#pragma once

#include <cstddef>

#if !(defined(__x86_64__) && defined(__ELF__)) && !defined(FW_EMULATOR_UCONTEXT)
#define FW_EMULATOR_UCONTEXT
#endif

#if defined(FW_EMULATOR_UCONTEXT)
#include <ucontext.h>
#endif

namespace emulator {

// A suspended point of execution.
#if defined(FW_EMULATOR_UCONTEXT)
using Context = ucontext_t;
#else
using Context = void*;  // the stack pointer; what must survive a call is on that stack
#endif

// Suspends the caller into `from` and resumes `to`.
void switch_context(Context& from, Context& to);

// Makes `context` run `entry`, which must not return, on the stack [stack, stack + bytes).
void prepare_context(Context& context, unsigned char* stack, std::size_t bytes, void (*entry)());

// Memory for many stacks, kept while a launch lasts.
class Stacks {
 public:
  // Throws std::bad_alloc.
  explicit Stacks(unsigned count);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  unsigned char* stack(unsigned index) const { return memory_ + index * PITCH + GAP; }
  static constexpr std::size_t BYTES = 128 * 1024;

  // Whether a stack has overflowed since it was made. An overflow by less than GAP harms no other stack.
  bool has_overflowed(unsigned index) const;

 private:
  static constexpr std::size_t GAP = 64 * 1024;
  // An odd number of cache lines, so that the tops of the stacks do not share one set of the cache.
  static constexpr std::size_t PITCH = GAP + BYTES + 9 * 64;

  unsigned count_;
  unsigned char* memory_;
};

}  // namespace emulator
