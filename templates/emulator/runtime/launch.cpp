// Spreads the blocks of a launch over OS threads, cluster by cluster.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "cluster.h"
#include "scheduler.h"

namespace emulator {

namespace {

class Grid {
 public:
  Grid(const Request& request, Invoke invoke)
      : request_(request),
        invoke_(invoke),
        clusters_(std::uint64_t{request.grid[0]} * request.grid[1] * request.grid[2] / request.cluster) {}

  // Throws Defect with that of the first defective cluster, whatever the number of OS threads.
  void run() {
    std::vector<std::thread> helpers;
    const std::uint64_t wanted = std::min<std::uint64_t>(request_.os_threads, clusters_);
    try {
      while (helpers.size() + 1 < wanted) helpers.emplace_back([this] { run_blocks(); });
    } catch (const std::system_error&) {
      // Fewer threads do the same work.
    }
    run_blocks();
    for (std::thread& helper : helpers) helper.join();
    if (!message_.empty()) throw Defect(message_);
  }

 private:
  // Takes clusters until none is left or one has failed. They are taken in order and a taken one is run to its end,
  // so the first defective one is always among those that ran.
  void run_blocks() {
    std::uint64_t rank = 0;
    try {
      Cluster cluster(request_, invoke_);
      while (!failed_ && (rank = next_++) < clusters_) cluster.run(first_of(rank));
    } catch (const std::exception& error) {
      record(rank, error.what());
    }
  }

  uint3 first_of(std::uint64_t rank) const {
    const bool descending = static_cast<Schedule>(request_.schedule) == Schedule::eager;
    const std::uint64_t linear = (descending ? clusters_ - 1 - rank : rank) * request_.cluster;
    const std::uint64_t x = request_.grid[0], y = request_.grid[1];
    return {unsigned(linear % x), unsigned(linear / x % y), unsigned(linear / x / y)};
  }

  void record(std::uint64_t rank, const char* message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    if (message_.empty() || rank < failed_rank_) {
      failed_rank_ = rank;
      message_ = message;
    }
  }

  const Request& request_;
  const Invoke invoke_;
  const std::uint64_t clusters_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::uint64_t failed_rank_ = 0;
  std::string message_;
};

}  // namespace

int launch(const Request& request, const char* kernel_signature, Invoke invoke) {
  try {
    if (std::strcmp(request.signature, kernel_signature) != 0)
      throw Defect(std::string("the launch passes arguments '") + request.signature + "', the kernel takes '" +
                   kernel_signature + "'");
    Grid(request, invoke).run();
    return 0;
  } catch (const std::exception& error) {
    std::snprintf(request.error, request.error_bytes, "%s", error.what());
    return 1;
  }
}

}  // namespace emulator
