#include "../warpgroup.h"

#include "scheduler.h"

namespace emulator {

namespace {

// Any lane may be elected; the schedules take the two ends.
void complete_elect(void* const* lanes) {
  require_full_warp(ELECT, lanes);
  *static_cast<bool*>(lanes[current_block->schedule() == Schedule::eager ? WARP_SIZE - 1 : 0]) = true;
}

void complete_registers(void* const* lanes) {
  require_full_warp(current_fiber().site.operation, lanes);
  record(current_block->warp_of(current_fiber()), current_fiber().site, *static_cast<const unsigned*>(lanes[0]));
}

}  // namespace

bool elect(Site site) {
  bool is_elected = false;
  warp_collective(site, FULL_MASK, &is_elected, complete_elect);
  return is_elected;
}

void named_barrier(Site site, unsigned id, unsigned threads) {
  current_block->named_barrier(current_fiber(), site, id, threads);
}

void set_registers(Site site, unsigned count) { warp_collective(site, FULL_MASK, &count, complete_registers); }

}  // namespace emulator
