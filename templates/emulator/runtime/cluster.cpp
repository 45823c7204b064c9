#include "../cluster.h"

#include "cluster.h"

namespace emulator {

Cluster::Cluster(const Request& request, Invoke invoke)
    : descending_(static_cast<Schedule>(request.schedule) == Schedule::eager),
      threads_(request.cluster * request.block[0] * request.block[1] * request.block[2]) {
  while (blocks_.size() < request.cluster) blocks_.push_back(std::make_unique<Block>(request, invoke, *this));
}

void Cluster::run(uint3 first) {
  phase_ = arrived_ = exited_count_ = 0;
  exited_ = nullptr;
  for (unsigned rank = 0; rank < blocks_.size(); ++rank) blocks_[rank]->begin({first.x + rank, first.y, first.z});
  while (exited_count_ < threads_)
    if (!run_round()) explain_stall();
  for (const std::unique_ptr<Block>& block : blocks_) block->end();
}

// Lets every block go as far as it can; false if none could move.
bool Cluster::run_round() {
  bool moved = false;
  const unsigned count = blocks_.size();
  for (unsigned i = 0; i < count; ++i) moved |= blocks_[ordered(i, count, descending_)]->advance();
  return moved;
}

// A block whose threads have all arrived is held by the others.
void Cluster::explain_stall() {
  for (const std::unique_ptr<Block>& block : blocks_)
    if (!block->waits_for_others()) block->throw_stall();
  throw Defect("deadlock: no thread of the cluster can go on");
}

Block& Cluster::block_of(const Fiber& fiber) {
  for (const std::unique_ptr<Block>& block : blocks_)
    if (block->has(fiber)) return *block;
  __builtin_unreachable();
}

std::string Cluster::describe(const Fiber& fiber) {
  return emulator::describe(fiber) + " of block " + emulator::describe(block_of(fiber).index());
}

void Cluster::arrive(Fiber& fiber, Site site) {
  const auto refuse = [&](const std::string& what) {
    current_block->abandon(fiber, "comes to " + emulator::describe(site) + ", but " + what);
  };
  if (fiber.has_arrived) refuse("has not waited since " + emulator::describe(fiber.arrival));
  if (exited_) refuse(describe(*exited_) + " has exited");
  if (arrived_ > 0 && !is_same(first_->arrival, site))
    refuse(describe(*first_) + " to " + emulator::describe(first_->arrival) + ": divergence");
  if (arrived_ == 0) first_ = &fiber;
  fiber.has_arrived = true;
  fiber.arrival = site;
  fiber.arrival_phase = phase_;
  if (++arrived_ < threads_) return;
  arrived_ = 0;
  ++phase_;
  for (const std::unique_ptr<Block>& block : blocks_) block->wake_from_cluster();
}

void Cluster::wait(Fiber& fiber, Site site) {
  if (!fiber.has_arrived)
    current_block->abandon(fiber, "waits in " + emulator::describe(site) + ", but has not come to " + CLUSTER_ARRIVE);
  if (fiber.arrival_phase == phase_) current_block->wait_for_cluster(fiber, site);
  fiber.has_arrived = false;
}

void Cluster::leave(Fiber& fiber) {
  if (fiber.has_arrived)
    current_block->abandon(fiber, "exits, but has not waited since " + emulator::describe(fiber.arrival));
  if (arrived_ > 0)
    current_block->abandon(fiber, "exits, but " + describe(*first_) + " has come to " + emulator::describe(first_->arrival));
  if (!exited_) exited_ = &fiber;
  ++exited_count_;
}

Block& Cluster::reached(Fiber& fiber, Site site, unsigned rank) {
  const auto refuse = [&](const std::string& what) { block_of(fiber).abandon(fiber, emulator::describe(site) + ": " + what); };
  if (rank >= blocks_.size())
    refuse("there is no block " + std::to_string(rank) + " in a cluster of " + std::to_string(blocks_.size()));
  if (phase_ == 0) refuse("block " + std::to_string(rank) + " may not have begun: no barrier of the cluster before");
  if (fiber.has_arrived) refuse("no order between " + emulator::describe(fiber.arrival) + " and its " + CLUSTER_WAIT);
  if (blocks_[rank]->is_done()) refuse("block " + std::to_string(rank) + " has ended");
  return *blocks_[rank];
}

unsigned char* Cluster::place(Fiber& fiber, Site site, const void* own, unsigned bytes, unsigned rank) {
  Block& block = reached(fiber, site, rank);
  const SharedMemory& shared = current_block->shared();
  const std::ptrdiff_t offset = static_cast<const unsigned char*>(own) - shared.begin();
  if (offset < 0 || offset + std::ptrdiff_t{bytes} > std::ptrdiff_t{shared.bytes()})
    current_block->abandon(fiber, emulator::describe(site) + ": the pointer is not to shared memory");
  return block.shared().begin() + offset;
}

void cluster_arrive(Site site) { current_block->cluster().arrive(current_fiber(), site); }

void cluster_wait(Site site) { current_block->cluster().wait(current_fiber(), site); }

unsigned char* place_in_block(Site site, const void* own, unsigned bytes, unsigned rank) {
  return current_block->cluster().place(current_fiber(), site, own, bytes, rank);
}

}  // namespace emulator
