#include "scheduler.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "poison.h"

namespace emulator {

__thread Thread* current;
__thread Block* current_block;

namespace {

Fiber& current_fiber() { return *static_cast<Fiber*>(current); }

bool is_same(const Site& a, const Site& b) {
  return a.operation == b.operation && a.place.line == b.place.line && std::strcmp(a.place.file, b.place.file) == 0;
}

std::string describe(const Site& site) {
  return std::string(site.operation) + " (" + site.place.file + ":" + std::to_string(site.place.line) + ")";
}

std::string describe(const uint3& at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

std::string describe(const Fiber& fiber) { return "thread " + std::to_string(fiber.linear); }

std::string describe_wait(const Fiber& fiber) {
  if (fiber.state == Fiber::State::exited) return describe(fiber) + " has exited";
  return describe(fiber) + " waits in " + describe(fiber.site);
}

uint3 unravel(unsigned linear, dim3 extent) {
  return {linear % extent.x, linear / extent.x % extent.y, linear / extent.x / extent.y};
}

// A position counted from the end if `descending`.
unsigned ordered(unsigned i, unsigned count, bool descending) { return descending ? count - 1 - i : i; }

}  // namespace

SharedMemory::SharedMemory(unsigned bytes)
    : bytes_(bytes), storage_(new unsigned char[bytes + 2 * GUARD + ALIGNMENT]), begin_(storage_.get() + GUARD) {
  begin_ += -reinterpret_cast<std::uintptr_t>(begin_) % ALIGNMENT;
}

void SharedMemory::reset() {
  fill_guard(begin_ - GUARD, GUARD);
  std::memset(begin_, POISON, bytes_);
  fill_guard(begin_ + bytes_, GUARD);
}

void SharedMemory::check() const {
  const std::size_t below = first_damage(begin_ - GUARD, GUARD), above = first_damage(begin_ + bytes_, GUARD);
  const std::string launched = " (the launch has " + std::to_string(bytes_) + " bytes)";
  if (below < GUARD)
    throw Defect("shared memory was written " + std::to_string(GUARD - below) + " bytes before its start" + launched);
  if (above < GUARD)
    throw Defect("shared memory was written " + std::to_string(above) + " bytes past its end" + launched);
}

Block::Block(const Request& request, Invoke invoke)
    : request_(request),
      invoke_(invoke),
      schedule_(static_cast<Schedule>(request.schedule)),
      fibers_(request.block[0] * request.block[1] * request.block[2]),
      warps_((fibers_.size() + WARP_SIZE - 1) / WARP_SIZE),
      stacks_(fibers_.size()),
      shared_(request.shared_bytes) {
  geometry_.block_extent = dim3(request.block[0], request.block[1], request.block[2]);
  geometry_.grid_extent = dim3(request.grid[0], request.grid[1], request.grid[2]);
}

void Block::run(uint3 index) {
  current_block = this;
  geometry_.block_index = index;
  arrived_ = exited_ = 0;
  for (Warp& warp : warps_) warp = {};
  for (unsigned thread = 0; thread < fibers_.size(); ++thread) start(thread);
  shared_.reset();
  try {
    while (exited_ < fibers_.size())
      if (!run_round()) throw Defect(explain_stall());
    shared_.check();
    for (const Fiber& fiber : fibers_)
      if (stacks_.has_overflowed(fiber.linear))
        throw Defect(describe(fiber) + ": its local variables overflow the stack");
  } catch (const Defect& defect) {
    throw Defect("block " + describe(index) + ": " + defect.what());
  }
}

void Block::start(unsigned thread) {
  Fiber& fiber = fibers_[thread];
  fiber.index = unravel(thread, geometry_.block_extent);
  fiber.linear = thread;
  fiber.geometry = &geometry_;
  fiber.state = Fiber::State::ready;
  fiber.started.clear();
  fiber.committed.clear();
  warps_[thread / WARP_SIZE].live |= 1u << fiber.lane();
  prepare_context(fiber.context, stacks_.stack(thread), Stacks::BYTES, fiber_main);
}

void Block::fiber_main() {
  Block& block = *current_block;
  Fiber& fiber = current_fiber();
  block.invoke_(block.request_.arguments);
  block.exit(fiber);
}

void Block::exit(Fiber& fiber) {
  fiber.state = Fiber::State::exited;
  ++exited_;
  if (arrived_ > 0) abandon(fiber, "exits, but " + describe_wait(*first_));
  const unsigned warp = fiber.linear / WARP_SIZE;
  warps_[warp].live &= ~(1u << fiber.lane());
  for (unsigned lanes = warps_[warp].waiting; lanes != 0; lanes &= lanes - 1)
    try_complete(warp, lane(warp, __builtin_ctz(lanes)));
  suspend(fiber);
}

void Block::suspend(Fiber& fiber) { switch_context(fiber.context, scheduler_); }

void Block::abandon(Fiber& fiber, const std::string& message) {
  defect_ = describe(fiber) + ": " + message;
  suspend(fiber);
  __builtin_unreachable();  // no fiber of a defective block is resumed
}

// Lets every warp go as far as it can; false if none could move.
bool Block::run_round() {
  bool moved = false;
  const unsigned count = warps_.size();
  for (unsigned i = 0; i < count; ++i) moved |= run_warp(ordered(i, count, schedule_ == Schedule::eager));
  return moved;
}

bool Block::run_warp(unsigned warp) {
  const unsigned first = warp * WARP_SIZE, rest = fibers_.size() - first, count = rest < WARP_SIZE ? rest : WARP_SIZE;
  bool moved = false;
  for (bool again = true; again;) {
    again = false;
    for (unsigned i = 0; i < count; ++i) {
      Fiber& fiber = fibers_[first + ordered(i, count, schedule_ == Schedule::eager)];
      if (fiber.state != Fiber::State::ready) continue;
      current = &fiber;
      switch_context(scheduler_, fiber.context);
      if (!defect_.empty()) throw Defect(defect_);
      moved = again = true;
    }
  }
  return moved;
}

void Block::warp_collective(Fiber& fiber, Site site, unsigned mask, void* argument, Complete complete) {
  if (!(mask >> fiber.lane() & 1)) {
    char text[80];
    std::snprintf(text, sizeof text, ": lane %u is not in its own mask 0x%08x", fiber.lane(), mask);
    abandon(fiber, describe(site) + text);
  }
  const unsigned warp = fiber.linear / WARP_SIZE;
  fiber.state = Fiber::State::at_warp_collective;
  fiber.site = site;
  fiber.mask = mask;
  fiber.argument = argument;
  fiber.complete = complete;
  warps_[warp].waiting |= 1u << fiber.lane();
  try_complete(warp, fiber);
  if (fiber.state != Fiber::State::ready) suspend(fiber);
}

// Ends the collective that `leader` waits in if all of its live lanes are there.
void Block::try_complete(unsigned warp, const Fiber& leader) {
  const unsigned participants = leader.mask & warps_[warp].live;
  if (participants == 0 || (warps_[warp].waiting & participants) != participants) return;
  void* arguments[WARP_SIZE] = {};
  for (unsigned lanes = participants; lanes != 0; lanes &= lanes - 1) {
    const unsigned i = __builtin_ctz(lanes);
    const Fiber& fiber = lane(warp, i);
    if (fiber.mask != leader.mask || fiber.complete != leader.complete || !is_same(fiber.site, leader.site)) return;
    arguments[i] = fiber.argument;
  }
  if (leader.complete) leader.complete(arguments);
  warps_[warp].waiting &= ~participants;
  for (unsigned lanes = participants; lanes != 0; lanes &= lanes - 1)
    lane(warp, __builtin_ctz(lanes)).state = Fiber::State::ready;
}

void Block::block_barrier(Fiber& fiber, Site site) {
  fiber.state = Fiber::State::at_block_barrier;
  fiber.site = site;
  if (exited_ > 0)
    for (const Fiber& other : fibers_)
      if (other.state == Fiber::State::exited)
        abandon(fiber, "waits in " + describe(site) + ", but " + describe_wait(other));
  if (arrived_ == 0) first_ = &fiber;
  if (!is_same(first_->site, site))
    abandon(fiber, "divergence: waits in " + describe(site) + ", but " + describe_wait(*first_));
  if (++arrived_ < fibers_.size()) return suspend(fiber);
  arrived_ = 0;
  for (Fiber& other : fibers_) other.state = Fiber::State::ready;
}

// A thread that `waiting` waits for and that is not at the same collective; null if there is none.
const Fiber* Block::blocker(const Fiber& waiting) const {
  if (waiting.state == Fiber::State::at_block_barrier) {
    for (const Fiber& other : fibers_)
      if (other.state != Fiber::State::at_block_barrier) return &other;
    return nullptr;
  }
  const unsigned warp = waiting.linear / WARP_SIZE;
  for (unsigned lanes = waiting.mask & warps_[warp].live; lanes != 0; lanes &= lanes - 1) {
    const Fiber& other = lane(warp, __builtin_ctz(lanes));
    if (other.state != waiting.state || other.mask != waiting.mask || !is_same(other.site, waiting.site)) return &other;
  }
  return nullptr;
}

// What holds the block: two threads that wait for each other at different operations if there are such, else the
// first thread that waits and one that it waits for.
std::string Block::explain_stall() const {
  std::string deadlock;
  for (const Fiber& fiber : fibers_) {
    if (fiber.state == Fiber::State::exited) continue;
    const Fiber* other = blocker(fiber);
    if (!other) continue;
    const std::string both = describe_wait(fiber) + ", " + describe_wait(*other);
    const bool same_warp = fiber.linear / WARP_SIZE == other->linear / WARP_SIZE;
    const bool mutual =
        other->state == Fiber::State::at_block_barrier || (same_warp && other->mask >> fiber.lane() & 1);
    if (mutual) return "divergence: " + both;
    if (deadlock.empty()) deadlock = "deadlock: " + both;
  }
  return deadlock.empty() ? "deadlock: no thread can go on" : deadlock;
}

void warp_collective(Site site, unsigned mask, void* argument, Complete complete) {
  current_block->warp_collective(current_fiber(), site, mask, argument, complete);
}

void block_barrier(Site site) { current_block->block_barrier(current_fiber(), site); }

void fail(const char* format, ...) {
  char message[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  current_block->abandon(current_fiber(), message);
}

// Shared addresses do not start at 0, so that a kernel that takes offsets for addresses is caught.
constexpr unsigned SHARED_WINDOW = 1024;

unsigned char* shared_memory() { return current_block->shared().begin(); }

unsigned shared_address(const void* pointer) {
  const SharedMemory& shared = current_block->shared();
  const std::ptrdiff_t offset = static_cast<const unsigned char*>(pointer) - shared.begin();
  if (offset < 0 || offset > std::ptrdiff_t{shared.bytes()})
    fail("fw_shared_address: the pointer is not to shared memory");
  return SHARED_WINDOW + static_cast<unsigned>(offset);
}

unsigned char* shared_access(const char* operation, unsigned address, unsigned bytes) {
  const SharedMemory& shared = current_block->shared();
  const unsigned offset = address - SHARED_WINDOW;
  if (address < SHARED_WINDOW || offset > shared.bytes() || shared.bytes() - offset < bytes)
    fail("%s: shared address %#x is outside the launch's %u bytes, which start at %#x", operation, address,
         shared.bytes(), SHARED_WINDOW);
  if (address % bytes != 0) fail("%s: shared address %#x is not a multiple of %u", operation, address, bytes);
  return shared.begin() + offset;
}

}  // namespace emulator
