// Runs the threads of one block as fibers on one OS thread.
//
// A fiber runs until it waits in a collective or ends. The scheduler lets one warp go as far as it can before it turns
// to the next: warps drift apart as much as barriers permit, so that a missing barrier shows. A block in which no
// fiber can run is a divergence or a deadlock, and is reported with the threads concerned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../block.h"
#include "../request.h"
#include "boxes.h"
#include "fiber.h"
#include "products.h"

namespace emulator {

// Two extremes between which all legal orders lie; a correct kernel gives the same result under both.
enum class Schedule : unsigned {
  lazy = 0,   // blocks, warps and lanes ascend; asynchronous work ends as late as it may
  eager = 1,  // blocks, warps and lanes descend; asynchronous work ends at once
};

// A defect of the kernel, as a message for its author.
struct Defect : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Copy {
  unsigned char* destination;
  const void* source;  // null: zeros
  unsigned bytes;
};

using CopyGroup = std::vector<Copy>;

struct Fiber : Thread {
  enum class State : unsigned char {
    ready,
    at_warp_collective,
    at_block_barrier,
    at_named_barrier,
    at_mbarrier,
    at_cluster_barrier,
    at_turn,
    exited,
  };

  Context context;
  State state;

  // Valid while the fiber waits.
  Site site;
  unsigned mask;
  void* argument;
  Complete complete;
  unsigned barrier;  // id of a named barrier, address of an mbarrier
  unsigned parity;
  const unsigned* passed;  // turns, and the one that is waited for
  unsigned turn;

  // At the barrier of the cluster, from its arrival until it has waited.
  bool has_arrived;
  Site arrival;
  unsigned arrival_phase;

  unsigned accumulators[256];  // of matrix instructions

  CopyGroup started;
  std::vector<CopyGroup> committed;

  std::vector<unsigned> unfenced_rows;  // addresses of 16 bytes, written by stmatrix since the last fence

  StoreGroup started_stores;
  std::vector<StoreGroup> committed_stores;
};

struct Warp {
  unsigned live;     // lanes that exist and have not exited
  unsigned waiting;  // lanes in a warp collective

  std::vector<ProductGroup> products;  // not waited for
  std::uint64_t warpgroup_history;     // what all warps of a warpgroup have to do alike
  unsigned registers;                  // of a thread, once it has set them; 0 before
};

// Adds to a warp's history.
void record(Warp& warp, const Site& site, std::uint64_t word);

// Throws Defect where the warps have set more registers than the block has from its launch: as many as `__launch_bounds__`
// with one block a multiprocessor leaves each thread.
void check_registers(const std::vector<Warp>& warps);

// A barrier of some threads of a block, between their first arrival and the last.
struct NamedBarrier {
  unsigned arrived, threads;
};

// Dynamic shared memory of one block between two guards.
class SharedMemory {
 public:
  explicit SharedMemory(unsigned bytes);

  // Every byte is `poison`, between fresh guards.
  void reset(unsigned char poison);

  // Throws Defect if a guard was written to.
  void check() const;

  unsigned char* begin() const { return begin_; }
  unsigned bytes() const { return bytes_; }

 private:
  static constexpr unsigned ALIGNMENT = 1024;
  static constexpr unsigned GUARD = 4096;

  unsigned bytes_;
  std::unique_ptr<unsigned char[]> storage_;
  unsigned char* begin_;
};

class Cluster;

class Block {
 public:
  Block(const Request& request, Invoke invoke, Cluster& cluster);

  // From `begin` to `end` the block is run by `advance`, again and again until it is done. Throws Defect, as `end` does.
  void begin(uint3 index);

  // Lets the block go as far as it can; false if it could not move.
  bool advance();
  void end();

  bool is_done() const { return exited_ == fibers_.size(); }

  // Whether what holds the block is another one: a turn that nobody has passed, or all threads that have not exited are at the cluster's barrier.
  bool waits_for_others() const;
  [[noreturn]] void throw_stall() const;

  void warp_collective(Fiber& fiber, Site site, unsigned mask, void* argument, Complete complete);
  void block_barrier(Fiber& fiber, Site site);
  void named_barrier(Fiber& fiber, Site site, unsigned id, unsigned threads);

  // Suspends until `wake` is called for the mbarrier.
  void wait_mbarrier(Fiber& fiber, Site site, unsigned address, unsigned parity);
  void wake(unsigned mbarrier);

  // Suspends until `wake_from_cluster` is called.
  void wait_for_cluster(Fiber& fiber, Site site);
  void wake_from_cluster();

  // Suspends until another block or warp has passed the turn.
  void wait_turn(Fiber& fiber, Site site, const unsigned* passed, unsigned turn);

  [[noreturn]] void abandon(Fiber& fiber, const std::string& message);

  Cluster& cluster() const { return cluster_; }
  uint3 index() const { return geometry_.block_index; }
  bool has(const Fiber& fiber) const { return fiber.geometry == &geometry_; }

  const SharedMemory& shared() const { return shared_; }
  Schedule schedule() const { return schedule_; }
  const std::vector<Fiber>& fibers() const { return fibers_; }
  const std::vector<Warp>& warps() const { return warps_; }
  Warp& warp_of(const Fiber& fiber) { return warps_[fiber.linear / WARP_SIZE]; }
  Fiber& lane(const Warp& warp, unsigned lane) { return fibers_[unsigned(&warp - warps_.data()) * WARP_SIZE + lane]; }

  std::vector<BoxLoad> loads;               // in flight, oldest first
  std::vector<unsigned> unfenced_barriers;  // initialised, not yet fenced

 private:
  static void fiber_main();

  void start(unsigned thread);
  void suspend(Fiber& fiber);
  void exit(Fiber& fiber);
  bool run_round();
  bool run_warp(unsigned warp);
  void try_complete(unsigned warp, const Fiber& leader);
  void require_waited(Fiber& fiber);
  bool land_load();
  void finish();
  [[noreturn]] void report(const std::string& what) const;
  std::string explain_stall() const;
  std::string explain_barriers() const;
  const Fiber* blocker(const Fiber& waiting) const;
  Fiber& lane(unsigned warp, unsigned lane) { return fibers_[warp * WARP_SIZE + lane]; }
  const Fiber& lane(unsigned warp, unsigned lane) const { return fibers_[warp * WARP_SIZE + lane]; }

  const Request& request_;
  const Invoke invoke_;
  Cluster& cluster_;
  const Schedule schedule_;
  Geometry geometry_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  Stacks stacks_;
  SharedMemory shared_;
  Context scheduler_;
  unsigned arrived_;    // threads at the block barrier
  const Fiber* first_;  // the first of them
  NamedBarrier named_[16];
  unsigned exited_;
  std::string defect_;
};

// The block that runs on this OS thread.
extern __thread Block* current_block;

}  // namespace emulator
