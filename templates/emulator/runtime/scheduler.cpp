#include "scheduler.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "cluster.h"
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

void record(Warp& warp, const Site& site, std::uint64_t word) {
  constexpr std::uint64_t PRIME = 0x100000001b3;
  for (const std::uint64_t part : {std::uint64_t(site.place.line), word})
    warp.warpgroup_history = (warp.warpgroup_history ^ part) * PRIME + 1;
}

SharedMemory::SharedMemory(unsigned bytes)
    : bytes_(bytes), storage_(new unsigned char[bytes + 2 * GUARD + ALIGNMENT]), begin_(storage_.get() + GUARD) {
  begin_ += -reinterpret_cast<std::uintptr_t>(begin_) % ALIGNMENT;
}

void SharedMemory::reset(unsigned char poison) {
  fill_guard(begin_ - GUARD, GUARD);
  std::memset(begin_, poison, bytes_);
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

Block::Block(const Request& request, Invoke invoke, Cluster& cluster)
    : request_(request),
      invoke_(invoke),
      cluster_(cluster),
      schedule_(static_cast<Schedule>(request.schedule)),
      fibers_(request.block[0] * request.block[1] * request.block[2]),
      warps_((fibers_.size() + WARP_SIZE - 1) / WARP_SIZE),
      stacks_(fibers_.size()),
      shared_(request.shared_bytes) {
  geometry_.block_extent = dim3(request.block[0], request.block[1], request.block[2]);
  geometry_.grid_extent = dim3(request.grid[0], request.grid[1], request.grid[2]);
}

void Block::begin(uint3 index) {
  geometry_.block_index = index;
  arrived_ = exited_ = 0;
  for (NamedBarrier& barrier : named_) barrier = {};
  loads.clear();
  unfenced_barriers.clear();
  for (Warp& warp : warps_) warp = {};
  for (unsigned thread = 0; thread < fibers_.size(); ++thread) start(thread);
  shared_.reset(schedule_ == Schedule::eager ? FINITE_POISON : POISON);
}

bool Block::advance() {
  current_block = this;
  bool moved = false;
  try {
    while (!is_done() && (run_round() || land_load())) moved = true;
  } catch (const Defect& defect) {
    report(defect.what());
  }
  return moved;
}

void Block::end() {
  current_block = this;
  try {
    finish();
    check_registers(warps_);
    shared_.check();
    for (const Fiber& fiber : fibers_)
      if (stacks_.has_overflowed(fiber.linear))
        throw Defect(describe(fiber) + ": its local variables overflow the stack");
  } catch (const Defect& defect) {
    report(defect.what());
  }
}

void Block::report(const std::string& what) const { throw Defect("block " + describe(index()) + ": " + what); }

void Block::throw_stall() const { report(explain_stall()); }

void Block::start(unsigned thread) {
  Fiber& fiber = fibers_[thread];
  fiber.index = unravel(thread, geometry_.block_extent);
  fiber.linear = thread;
  fiber.geometry = &geometry_;
  fiber.state = Fiber::State::ready;
  fiber.has_arrived = false;
  fiber.started.clear();
  fiber.committed.clear();
  fiber.unfenced_rows.clear();
  fiber.started_stores = {};
  fiber.committed_stores.clear();
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
  require_waited(fiber);
  cluster_.leave(fiber);
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

// A thread that ends has waited for all it has started.
void Block::require_waited(Fiber& fiber) {
  const auto refuse = [&](const char* what, const Site& site) {
    abandon(fiber, std::string("exits, but ") + what + " (" + site.place.file + ":" + std::to_string(site.place.line) + ")");
  };
  for (const ProductGroup& group : warp_of(fiber).products) refuse("has not waited for its FW_PRODUCTS", group.site);
  for (const BoxStore& store : fiber.started_stores.stores) refuse("has not committed its TMA store", store.site);
  for (const StoreGroup& group : fiber.committed_stores)
    for (const BoxStore& store : group.stores)
      if (!group.waited_read) refuse("has not waited until its TMA store has read", store.site);
}

// Lets the oldest load in flight land; false if there is none.
bool Block::land_load() {
  if (loads.empty()) return false;
  current = nullptr;
  const BoxLoad load = loads.front();
  loads.erase(loads.begin());
  land(load);
  return true;
}

// After the last thread.
void Block::finish() {
  if (!loads.empty()) {
    const Place& place = loads.front().site.place;
    throw Defect(std::string("the block ends before its TMA load (") + place.file + ":" + std::to_string(place.line) +
                 ") has landed");
  }
  for (Fiber& fiber : fibers_)
    for (StoreGroup& group : fiber.committed_stores)
      if (!group.is_written) write_boxes(group);
  for (unsigned warp = 0; warp < warps_.size(); ++warp)
    if (warps_[warp].warpgroup_history != warps_[warp / 4 * 4].warpgroup_history)
      throw Defect("warps " + std::to_string(warp / 4 * 4) + " and " + std::to_string(warp) +
                   " of a warpgroup differ in their FW_PRODUCTS or register counts");
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

void Block::named_barrier(Fiber& fiber, Site site, unsigned id, unsigned threads) {
  NamedBarrier& barrier = named_[id];
  if (barrier.arrived == 0) barrier.threads = threads;
  if (barrier.threads != threads)
    abandon(fiber, describe(site) + ": barrier " + std::to_string(id) + " is of " + std::to_string(threads) +
                       " threads here, but of " + std::to_string(barrier.threads) + " where others wait");
  fiber.state = Fiber::State::at_named_barrier;
  fiber.site = site;
  fiber.barrier = id;
  fiber.parity = 0;
  if (++barrier.arrived < threads) return suspend(fiber);
  barrier.arrived = 0;
  for (Fiber& other : fibers_)
    if (other.state == Fiber::State::at_named_barrier && other.barrier == id) other.state = Fiber::State::ready;
}

void Block::wait_mbarrier(Fiber& fiber, Site site, unsigned address, unsigned parity) {
  fiber.state = Fiber::State::at_mbarrier;
  fiber.site = site;
  fiber.barrier = address;
  fiber.parity = parity;
  suspend(fiber);
}

void Block::wake(unsigned mbarrier) {
  for (Fiber& fiber : fibers_)
    if (fiber.state == Fiber::State::at_mbarrier && fiber.barrier == mbarrier) fiber.state = Fiber::State::ready;
}

void Block::wait_for_cluster(Fiber& fiber, Site site) {
  fiber.state = Fiber::State::at_cluster_barrier;
  fiber.site = site;
  suspend(fiber);
}

void Block::wake_from_cluster() {
  for (Fiber& fiber : fibers_)
    if (fiber.state == Fiber::State::at_cluster_barrier) fiber.state = Fiber::State::ready;
}

bool Block::waits_for_others() const {
  for (const Fiber& fiber : fibers_)
    if (fiber.state != Fiber::State::at_cluster_barrier && fiber.state != Fiber::State::exited) return false;
  return true;
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
  if (!current) throw Defect(message);  // outside all threads, as a load lands
  Fiber& fiber = current_fiber();
  current_block->cluster().block_of(fiber).abandon(fiber, message);  // which may be in another block's memory
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
  return shared_range(operation, address, bytes, bytes);
}

unsigned char* shared_range(const char* operation, unsigned address, unsigned bytes, unsigned alignment) {
  const SharedMemory& shared = current_block->shared();
  const unsigned offset = address - SHARED_WINDOW;
  if (address < SHARED_WINDOW || offset > shared.bytes() || shared.bytes() - offset < bytes)
    fail("%s: shared address %#x is outside the launch's %u bytes, which start at %#x", operation, address,
         shared.bytes(), SHARED_WINDOW);
  if (address % alignment != 0) fail("%s: shared address %#x is not a multiple of %u", operation, address, alignment);
  return shared.begin() + offset;
}

}  // namespace emulator
