// Products of matrices that a warp has started (see ../wgmma.h).
#pragma once

#include <vector>

#include "../block.h"
#include "../wgmma.h"

namespace emulator {

struct Warp;

struct StartedProduct {
  Product product;
  unsigned long long a, b;  // descriptors
  bool adds;
  std::vector<unsigned> fragment;  // of A, four registers a lane; empty where A is in shared memory
};

// What one statement has started.
struct ProductGroup {
  Site site;
  std::vector<StartedProduct> products;
  bool is_done;
};

// Fails if one of `count` accumulators from `first` on belongs to a product that the warp has not waited for.
void require_no_product(const Warp& warp, unsigned first, unsigned count);

// The group, started by warp number `warp` and not waited for, that reads a byte of this range; null if none does.
const ProductGroup* reader(const Warp& warp, unsigned number, unsigned address, unsigned bytes);

}  // namespace emulator
