// Handlers of the checks that the compiler plants in kernels (`-fsanitize=`): they end the launch instead of printing.
// Names and first members are those of the compilers' undefined-behaviour sanitizer interface.
#include "../block.h"

namespace {

struct Location {
  const char* file;
  unsigned line;
  unsigned column;
};

struct Check {
  Location location;
};

}  // namespace

#define FW_EMULATOR_HANDLER extern "C" __attribute__((visibility("hidden"))) void

FW_EMULATOR_HANDLER __ubsan_handle_type_mismatch_v1(const Check* check, void* pointer) {
  emulator::fail("%s:%u: access to the misaligned address %p", check->location.file, check->location.line, pointer);
}

FW_EMULATOR_HANDLER __ubsan_handle_out_of_bounds(const Check* check, long index) {
  emulator::fail("%s:%u: index %ld is outside its array", check->location.file, check->location.line, index);
}

FW_EMULATOR_HANDLER __ubsan_handle_shift_out_of_bounds(const Check* check, unsigned long, unsigned long) {
  emulator::fail("%s:%u: shift by more than the width", check->location.file, check->location.line);
}

FW_EMULATOR_HANDLER __ubsan_handle_divrem_overflow(const Check* check, unsigned long, unsigned long) {
  emulator::fail("%s:%u: integer division by zero", check->location.file, check->location.line);
}
