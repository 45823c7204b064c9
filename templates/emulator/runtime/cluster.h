// Blocks that run at once, on one OS thread: each goes as far as it can before the next does.
#pragma once

#include <memory>
#include <vector>

#include "scheduler.h"

namespace emulator {

class Cluster {
 public:
  Cluster(const Request& request, Invoke invoke);

  // Runs the blocks to their end; `first` is the index of the first, the others lie beside it along x. Throws Defect.
  void run(uint3 first);

  void arrive(Fiber& fiber, Site site);
  void wait(Fiber& fiber, Site site);

  // A thread is about to end.
  void leave(Fiber& fiber);

  unsigned char* place(Fiber& fiber, Site site, const void* own, unsigned bytes, unsigned rank);

  // The block of this rank, in whose memory the fiber is about to do something: it has begun and has not ended.
  Block& reached(Fiber& fiber, Site site, unsigned rank);

  // The block whose thread a fiber is.
  Block& block_of(const Fiber& fiber);

 private:
  bool run_round();
  [[noreturn]] void explain_stall();
  std::string describe(const Fiber& fiber);

  const bool descending_;
  const unsigned threads_;
  std::vector<std::unique_ptr<Block>> blocks_;
  unsigned phase_;
  unsigned arrived_;       // in this phase
  const Fiber* first_;     // the first of them
  const Fiber* exited_;    // the first thread that has exited, if one has
  unsigned exited_count_;
};

// As long as it lives, shared addresses and barriers are those of another block of the cluster; the thread that runs stays.
class Visit {
 public:
  explicit Visit(Block& visited) : own_(current_block) { current_block = &visited; }
  ~Visit() { current_block = own_; }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Block* const own_;
};

}  // namespace emulator
