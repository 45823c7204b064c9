#include "../async_copy.h"

#include <cstring>

#include "scheduler.h"

namespace emulator {

namespace {

constexpr char CP_ASYNC[] = "cp.async";

void land(const Copy& copy) {
  if (copy.source)
    std::memcpy(copy.destination, copy.source, copy.bytes);
  else
    std::memset(copy.destination, 0, copy.bytes);
}

}  // namespace

void start_copy(unsigned destination, const void* source, unsigned bytes) {
  const Copy copy{shared_access(CP_ASYNC, destination, bytes), source, bytes};
  if (reinterpret_cast<std::uintptr_t>(source) % bytes != 0)
    fail("%s: the global address is not a multiple of %u", CP_ASYNC, bytes);
  if (current_block->schedule() == Schedule::eager)
    land(copy);
  else
    current_fiber().started.push_back(copy);
}

void commit_copies() {
  Fiber& fiber = current_fiber();
  fiber.committed.push_back(std::move(fiber.started));
  fiber.started.clear();
}

void wait_copies(unsigned pending) {
  std::vector<CopyGroup>& groups = current_fiber().committed;
  const std::size_t landing = groups.size() > pending ? groups.size() - pending : 0;
  for (std::size_t i = 0; i < landing; ++i)
    for (const Copy& copy : groups[i]) land(copy);
  groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(landing));
}

}  // namespace emulator
