#include "../warpgroup.h"

#include <algorithm>

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
  Warp& warp = current_block->warp_of(current_fiber());
  warp.registers = *static_cast<const unsigned*>(lanes[0]);
  record(warp, current_fiber().site, warp.registers);
}

}  // namespace

void check_registers(const std::vector<Warp>& warps) {
  constexpr unsigned MULTIPROCESSOR = 65536, MOST = 255, STEP = 8;
  const unsigned threads = warps.size() * WARP_SIZE;
  const unsigned at_launch = std::min(MULTIPROCESSOR / threads / STEP * STEP, MOST);
  unsigned wanted = 0;
  for (const Warp& warp : warps) wanted += (warp.registers ? warp.registers : at_launch) * WARP_SIZE;
  if (wanted > at_launch * threads)
    throw Defect("the warps want " + std::to_string(wanted) + " registers together, but the block is launched with " +
                 std::to_string(at_launch * threads) + ": the last fw_increase_registers would wait for ever");
}

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
