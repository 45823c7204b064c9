// Why no thread of a block can go on.
#include <algorithm>
#include <cstdio>

#include "mbarrier.h"
#include "scheduler.h"

namespace emulator {

// A thread that `waiting` waits for and that is not at the same collective; null if there is none.
const Fiber* Block::blocker(const Fiber& waiting) const {
  if (waiting.state == Fiber::State::at_block_barrier) {
    for (const Fiber& other : fibers_)
      if (other.state != Fiber::State::at_block_barrier) return &other;
    return nullptr;
  }
  if (waiting.state == Fiber::State::at_cluster_barrier) {
    for (const Fiber& other : fibers_)
      if (!other.has_arrived) return &other;
    return nullptr;
  }
  if (waiting.state != Fiber::State::at_warp_collective) return nullptr;
  const unsigned warp = waiting.linear / WARP_SIZE;
  for (unsigned lanes = waiting.mask & warps_[warp].live; lanes != 0; lanes &= lanes - 1) {
    const Fiber& other = lane(warp, __builtin_ctz(lanes));
    if (other.state != waiting.state || other.mask != waiting.mask || !is_same(other.site, waiting.site)) return &other;
  }
  return nullptr;
}

// Who waits at mbarriers and named barriers, and for what; empty if nobody does.
std::string Block::explain_barriers() const {
  const auto at_barrier = [](const Fiber& fiber) {
    return fiber.state == Fiber::State::at_mbarrier || fiber.state == Fiber::State::at_named_barrier;
  };
  const auto waits_alike = [](const Fiber& a, const Fiber& b) {
    return a.state == b.state && a.barrier == b.barrier && a.parity == b.parity && is_same(a.site, b.site);
  };
  std::string text;
  std::vector<const Fiber*> described;
  for (const Fiber& fiber : fibers_) {
    const auto is_described = [&](const Fiber* other) { return waits_alike(*other, fiber); };
    if (!at_barrier(fiber) || std::any_of(described.begin(), described.end(), is_described)) continue;
    described.push_back(&fiber);
    const auto count = std::count_if(fibers_.begin(), fibers_.end(),
                                     [&](const Fiber& other) { return waits_alike(other, fiber); });
    text += (text.empty() ? "" : "; ") + describe_wait(fiber);
    if (count > 1) text += " (as do " + std::to_string(count - 1) + " others)";
    if (fiber.state == Fiber::State::at_named_barrier) {
      const NamedBarrier& barrier = named_[fiber.barrier];
      text += " for barrier " + std::to_string(fiber.barrier) + ", to which " + std::to_string(barrier.arrived) + " of " +
              std::to_string(barrier.threads) + " threads have come";
    } else {
      char address[16];
      std::snprintf(address, sizeof address, "%#x", fiber.barrier);
      text += " for parity " + std::to_string(fiber.parity) + " of the mbarrier at " + address + ", " +
              describe_missing(fiber.barrier);
    }
  }
  return text;
}

// What holds the block: two threads that wait for each other at different operations if there are such, else the
// barriers that are waited at, else the first thread that waits and one that it waits for.
std::string Block::explain_stall() const {
  std::string deadlock;
  for (const Fiber& fiber : fibers_) {
    if (fiber.state == Fiber::State::exited) continue;
    const Fiber* other = blocker(fiber);
    if (!other) continue;
    const std::string both = describe_wait(fiber) + ", " + describe_wait(*other);
    const bool same_warp = fiber.linear / WARP_SIZE == other->linear / WARP_SIZE;
    const bool in_collective = other->state == Fiber::State::at_warp_collective;
    const bool mutual = other->state == Fiber::State::at_block_barrier ||
                        (same_warp && in_collective && other->mask >> fiber.lane() & 1);
    if (mutual) return "divergence: " + both;
    if (deadlock.empty()) deadlock = "deadlock: " + both;
  }
  const std::string barriers = explain_barriers();
  if (!barriers.empty()) return "deadlock: " + barriers;
  return deadlock.empty() ? "deadlock: no thread can go on" : deadlock;
}

}  // namespace emulator
