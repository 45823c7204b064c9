#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

namespace emulator {

namespace {

// Written right below each stack.
constexpr std::uint64_t MARK = 0x66757365'77726974;

}  // namespace

Stacks::Stacks(unsigned count) : count_(count) {
  void* memory =
      mmap(nullptr, count * PITCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<unsigned char*>(memory);
  for (unsigned i = 0; i < count; ++i) std::memcpy(stack(i) - sizeof MARK, &MARK, sizeof MARK);
}

Stacks::~Stacks() { munmap(memory_, count_ * PITCH); }

bool Stacks::has_overflowed(unsigned index) const {
  return std::memcmp(stack(index) - sizeof MARK, &MARK, sizeof MARK) != 0;
}

#if defined(FW_EMULATOR_UCONTEXT)

void switch_context(Context& from, Context& to) { swapcontext(&from, &to); }

void prepare_context(Context& context, unsigned char* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = bytes;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}

#else

// System V x86-64: rbx, rbp and r12 to r15 survive calls; floating-point control is the same in all fibers.
asm(R"(
.text
.globl fw_emulator_switch
.hidden fw_emulator_switch
.type fw_emulator_switch, @function
fw_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fw_emulator_switch, . - fw_emulator_switch
)");

extern "C" void fw_emulator_switch(void** from, void* to);

void switch_context(Context& from, Context& to) { fw_emulator_switch(&from, to); }

void prepare_context(Context& context, unsigned char* stack, std::size_t bytes, void (*entry)()) {
  constexpr unsigned SAVED_REGISTERS = 6;
  auto top = reinterpret_cast<std::uintptr_t>(stack + bytes) & ~std::uintptr_t{15};
  auto** frame = reinterpret_cast<void**>(top);
  *--frame = nullptr;  // entry's return address, never used; keeps the stack aligned as after a call
  *--frame = reinterpret_cast<void*>(entry);
  for (unsigned i = 0; i < SAVED_REGISTERS; ++i) *--frame = nullptr;
  context = frame;
}

#endif

}  // namespace emulator
