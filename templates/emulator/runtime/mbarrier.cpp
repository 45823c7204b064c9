#include "../mbarrier.h"

#include <algorithm>

#include "cluster.h"
#include "mbarrier.h"
#include "scheduler.h"

namespace emulator {

namespace {

Mbarrier& memory_of(const char* operation, unsigned address) {
  return *reinterpret_cast<Mbarrier*>(shared_access(operation, address, sizeof(Mbarrier)));
}

// Starts the next phase if the current one lacks nothing.
void end_phase(unsigned address, Mbarrier& barrier) {
  if (barrier.missing > 0 || barrier.bytes != 0) return;
  barrier.phase ^= 1;
  barrier.missing = barrier.count;
  current_block->wake(address);
}

}  // namespace

Mbarrier& mbarrier_at(const char* operation, unsigned address) {
  Mbarrier& barrier = memory_of(operation, address);
  if (barrier.tag != Mbarrier::TAG || barrier.count == 0)
    fail("%s: there is no mbarrier at %#x: never initialised, or overwritten", operation, address);
  return barrier;
}

void complete_bytes(const char* operation, unsigned address, unsigned bytes) {
  Mbarrier& barrier = mbarrier_at(operation, address);
  if (barrier.bytes < std::int64_t{bytes} - std::int64_t{Mbarrier::MAX_BYTES})
    fail("%s: the mbarrier at %#x counts 2^20 bytes that nobody expects", operation, address);
  barrier.bytes -= bytes;
  end_phase(address, barrier);
}

std::string describe_missing(unsigned address) {
  const Mbarrier& barrier = memory_of(MBARRIER_WAIT, address);
  return "which lacks " + std::to_string(barrier.missing) + " of " + std::to_string(barrier.count) + " arrivals and " +
         std::to_string(barrier.bytes) + " bytes";
}

void mbarrier_init(unsigned address, unsigned count) {
  Mbarrier& barrier = memory_of(MBARRIER_INIT, address);
  if (count == 0 || count > Mbarrier::MAX_COUNT)
    fail("%s: a count of %u; it is 1 to %u", MBARRIER_INIT, count, Mbarrier::MAX_COUNT);
  if (barrier.tag == Mbarrier::TAG && barrier.count != 0)
    fail("%s: there is an mbarrier at %#x already", MBARRIER_INIT, address);
  barrier = {Mbarrier::TAG, 0, count, count, 0};
  current_block->unfenced_barriers.push_back(address);
}

void mbarrier_fence() { current_block->unfenced_barriers.clear(); }

void mbarrier_arrive(const char* operation, unsigned address, unsigned bytes) {
  Mbarrier& barrier = mbarrier_at(operation, address);
  if (barrier.missing == 0)
    fail("%s: one arrival more than the %u of a phase of the mbarrier at %#x", operation, unsigned(barrier.count),
         address);
  if (bytes > Mbarrier::MAX_BYTES || barrier.bytes > std::int64_t{Mbarrier::MAX_BYTES} - std::int64_t{bytes})
    fail("%s: the mbarrier at %#x cannot expect 2^20 bytes", operation, address);
  barrier.bytes += bytes;
  --barrier.missing;
  end_phase(address, barrier);
}

void mbarrier_arrive_at(Site site, unsigned address, unsigned rank) {
  const Visit visit(current_block->cluster().reached(current_fiber(), site, rank));
  mbarrier_arrive(site.operation, address, 0);
}

void mbarrier_wait(Site site, unsigned address, unsigned parity) {
  if (parity > 1) fail("%s: %u is no parity", site.operation, parity);
  while (mbarrier_at(site.operation, address).phase == parity)
    current_block->wait_mbarrier(current_fiber(), site, address, parity);
}

}  // namespace emulator
