// Copies of boxes that a block has started (see ../tma.h).
#pragma once

#include <vector>

#include "../block.h"
#include "../tensor_map.h"

namespace emulator {

struct BoxLoad {
  Site site;
  fw_tensor_map map;
  int at[5];
  int taps[3];  // pixels by which a tap moves a walk
  unsigned shared, bytes, reach;  // bytes that are moved, and that lie between the first and the last of them
  unsigned barrier;
};

struct BoxStore {
  Site site;
  fw_tensor_map map;
  int at[5];
  unsigned shared, bytes, reach;  // bytes that are moved, and that lie between the first and the last of them
  std::vector<unsigned char> content;  // of the box, once read
};

struct StoreGroup {
  std::vector<BoxStore> stores;
  bool waited_read = false, is_read = false, is_written = false;
};

// Moves the box and counts its bytes.
void land(const BoxLoad& load);

// Fails if a thread has written to this range by stmatrix and not fenced since.
void require_fenced(Site site, unsigned address, unsigned bytes);

void read_boxes(StoreGroup& group);
void write_boxes(StoreGroup& group);

}  // namespace emulator
