#include "../tma.h"

#include <algorithm>
#include <cstring>

#include "boxes.h"
#include "cluster.h"
#include "mbarrier.h"
#include "scheduler.h"
#include "swizzle.h"

namespace emulator {

namespace {

constexpr unsigned CHUNK = 16;
constexpr unsigned MAX_ROW_BYTES = 256 * 4;

unsigned row_bytes(const fw_tensor_map& map) { return map.box[0] * map.element_bytes; }

// From one row of a box to the next in shared memory: rows shorter than the swizzle's leave the last chunks as they were.
unsigned pitch(const fw_tensor_map& map) { return map.swizzle ? map.swizzle : row_bytes(map); }

unsigned rows(const fw_tensor_map& map) {
  if (map.walks) return map.box[1];
  unsigned count = 1;
  for (unsigned i = 1; i < map.rank; ++i) count *= map.box[i];
  return count;
}

// Part of a box's row that lies in the tensor: bytes [begin, end) of the row, the first of them at `global`.
struct RowPart {
  unsigned char* global;
  unsigned begin, end;
};

RowPart part_of_row(const fw_tensor_map& map, const int* at, unsigned row) {
  unsigned char* global = map.base;
  for (unsigned i = 1; i < map.rank; row /= map.box[i], ++i) {
    const long long index = at[i] + (long long)(row % map.box[i]);
    if (index < 0 || index >= (long long)map.dims[i]) return {nullptr, 0, 0};
    global += index * (long long)map.strides[i - 1];
  }
  const long long first = std::max(at[0], 0), end = std::min<long long>(at[0] + (long long)map.box[0], map.dims[0]);
  if (first >= end) return {nullptr, 0, 0};
  const long long bytes = map.element_bytes;
  return {global + first * bytes, unsigned((first - at[0]) * bytes), unsigned((end - at[0]) * bytes)};
}

unsigned walk_step(const fw_tensor_map& map, unsigned axis) { return map.box[2 + axis]; }

// The last pixel at which a walk is, along an axis.
long long last_pixel(const fw_tensor_map& map, unsigned axis) {
  return (long long)map.dims[1 + axis] - 1 + map.upper[axis];
}

// As part_of_row, of the pixel that a walk has reached after `row` others.
RowPart part_of_walk(const BoxLoad& load, unsigned row) {
  const fw_tensor_map& map = load.map;
  unsigned char* global = map.base;
  unsigned long long ahead = row;
  bool is_inside = true;
  for (unsigned axis = 0; axis + 2 < map.rank; ++axis) {
    const long long step = walk_step(map, axis), lower = map.lower[axis];
    const unsigned long long pixels = (last_pixel(map, axis) - lower) / step + 1;
    ahead += (load.at[1 + axis] - lower) / step;
    const long long pixel = lower + (long long)(ahead % pixels) * step + load.taps[axis];
    ahead /= pixels;
    is_inside = is_inside && pixel >= 0 && pixel < (long long)map.dims[1 + axis];
    global += pixel * (long long)map.strides[axis];
  }
  const unsigned long long image = load.at[map.rank - 1] + ahead;
  const int first = load.at[0];
  const long long end = std::min<long long>(first + (long long)map.box[0], map.dims[0]);
  if (!is_inside || image >= map.dims[map.rank - 1] || first >= end) return {nullptr, 0, 0};
  global += image * map.strides[map.rank - 2];
  return {global + first * (long long)map.element_bytes, 0, unsigned((end - first) * map.element_bytes)};
}

// An H200 takes a walk from outside as an illegal instruction; a walk between its pixels is none of ours.
void check_walk(const BoxLoad& load) {
  const fw_tensor_map& map = load.map;
  const char* const operation = load.site.operation;
  if (load.at[0] < 0) fail("%s: the first channel is %d", operation, load.at[0]);
  for (unsigned axis = 0; axis + 2 < map.rank; ++axis) {
    const int at = load.at[1 + axis], lower = map.lower[axis];
    if (at < lower || at > last_pixel(map, axis))
      fail("%s: coordinate %u is %d, outside of %d to %lld", operation, 1 + axis, at, lower, last_pixel(map, axis));
    if ((at - lower) % (int)walk_step(map, axis) != 0)
      fail("%s: coordinate %u is %d, between pixels %u apart from %d on", operation, 1 + axis, at, walk_step(map, axis), lower);
    const int most = map.rank == 3 ? 65535 : map.rank == 4 ? 255 : 31;
    if (load.taps[axis] < 0 || load.taps[axis] > most)
      fail("%s: a tap moves by %d; 0 to %d can be said", operation, load.taps[axis], most);
  }
  const int image = load.at[map.rank - 1];
  if (image < 0 || image >= (long long)map.dims[map.rank - 1]) fail("%s: there is no image %d", operation, image);
}

void round_to_tf32(unsigned char* row, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i += 4) {
    unsigned bits;
    std::memcpy(&bits, row + i, 4);
    if ((bits & INFINITY_BITS) != INFINITY_BITS) bits = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
    std::memcpy(row + i, &bits, 4);
  }
}

// Calls move(chunk in shared memory, byte of the row) for each 16-byte chunk of a row of a box at `shared`.
template <class Move>
void for_each_chunk(const char* operation, const fw_tensor_map& map, unsigned shared, unsigned row, Move&& move) {
  const unsigned bytes = row_bytes(map);
  for (unsigned byte = 0; byte < bytes; byte += CHUNK)
    move(shared_access(operation, swizzled(shared + row * pitch(map) + byte, map.swizzle), CHUNK), byte);
}

// What a destination is a multiple of. A swizzle is a function of the address: boxes of a part of its pattern may lie anywhere in it.
unsigned alignment(const fw_tensor_map& map, unsigned reach) {
  const unsigned pattern = std::max(128u, 8 * map.swizzle);
  return reach % pattern == 0 ? pattern : 128;
}

template <class Box>
void check_box(Site site, const Box& box, unsigned rank) {
  const fw_tensor_map& map = box.map;
  if (map.rank != rank)
    fail("%s: %u coordinates for a tensor map of rank %u", site.operation, rank, map.rank);
  if (box.at[0] * (long long)map.element_bytes % CHUNK != 0)
    fail("%s: the innermost coordinate %d is not a multiple of 16 bytes", site.operation, box.at[0]);
  shared_range(site.operation, box.shared, box.reach, alignment(map, box.reach));
}

template <class Box>
Box box_of(Site site, const fw_tensor_map* map, unsigned shared, const int* coordinates, unsigned rank) {
  check_map(site.operation, map);
  Box box{};
  box.site = site, box.map = *map, box.shared = shared;
  box.bytes = row_bytes(*map) * rows(*map), box.reach = pitch(*map) * rows(*map);
  std::copy_n(coordinates, rank, box.at);
  check_box(site, box, rank);
  return box;
}

template <class Box>
bool overlap(const Box& box, const BoxLoad& load) {
  return box.shared < load.shared + load.reach && load.shared < box.shared + box.reach;
}

// Fails if the destination of a load is still written or read by what was started before.
void require_free(const BoxLoad& load) {
  Block& block = *current_block;
  const auto refuse = [&](const char* what, const Site& site) {
    fail("%s: the destination at %#x is still %s (%s:%d), which nobody has waited for", load.site.operation,
         load.shared, what, site.place.file, site.place.line);
  };
  for (const BoxLoad& other : block.loads)
    if (overlap(load, other)) refuse("written by a TMA load", other.site);
  for (unsigned warp = 0; warp < block.warps().size(); ++warp)
    if (const ProductGroup* group = reader(block.warps()[warp], warp, load.shared, load.reach))
      refuse("read by FW_PRODUCTS", group->site);
  for (const Fiber& fiber : block.fibers())
    for (const StoreGroup& group : fiber.committed_stores)
      for (const BoxStore& store : group.stores)
        if (!group.waited_read && overlap(store, load)) refuse("read by a TMA store", store.site);
}

}  // namespace

void check_map(const char* operation, const fw_tensor_map* map) {
  if (reinterpret_cast<std::uintptr_t>(map) % alignof(fw_tensor_map) != 0)
    fail("%s: the tensor map is not a multiple of 64 bytes", operation);
  if (map->rank < 1 || map->rank > 5) fail("%s: this is no tensor map", operation);
}

void refuse_coordinate(unsigned long long index) {
  fail("the coordinate %llu of a box is more than 32 bits hold; the device would take %d", index, int(index));
}

namespace {

void start(BoxLoad load, unsigned barrier) {
  const Site site = load.site;
  load.barrier = barrier;
  mbarrier_at(site.operation, barrier);
  const std::vector<unsigned>& unfenced = current_block->unfenced_barriers;
  if (std::find(unfenced.begin(), unfenced.end(), barrier) != unfenced.end())
    fail("%s: no fw_mbarrier_init_fence since the mbarrier at %#x was initialised", site.operation, barrier);
  require_free(load);
  if (current_block->schedule() == Schedule::eager)
    land(load);
  else
    current_block->loads.push_back(load);
}

}  // namespace

void start_load(Site site, unsigned destination, const fw_tensor_map* map, unsigned barrier, const int* coordinates,
                unsigned rank) {
  const BoxLoad load = box_of<BoxLoad>(site, map, destination, coordinates, rank);
  if (map->walks) fail("%s: the boxes of this tensor map walk pixels", site.operation);
  start(load, barrier);
}

void start_multicast(Site site, unsigned destination, const fw_tensor_map* map, unsigned barrier, unsigned mask,
                     const int* coordinates, unsigned rank) {
  if (mask == 0 || mask > 0xffff) fail("%s: %#x is no set of blocks", site.operation, mask);
  Cluster& cluster = current_block->cluster();
  for (unsigned left = mask; left != 0; left &= left - 1) {
    const Visit visit(cluster.reached(current_fiber(), site, __builtin_ctz(left)));
    start_load(site, destination, map, barrier, coordinates, rank);
  }
}

void start_walk(Site site, unsigned destination, const fw_tensor_map* map, unsigned barrier, const int* coordinates,
                unsigned rank, const int* taps) {
  BoxLoad load = box_of<BoxLoad>(site, map, destination, coordinates, rank);
  if (!map->walks) fail("%s: the boxes of this tensor map walk no pixels", site.operation);
  std::copy_n(taps, rank - 2, load.taps);
  check_walk(load);
  start(load, barrier);
}

void land(const BoxLoad& load) {
  alignas(CHUNK) unsigned char content[MAX_ROW_BYTES];
  const unsigned bytes = row_bytes(load.map), count = rows(load.map);
  for (unsigned row = 0; row < count; ++row) {
    const RowPart part = load.map.walks ? part_of_walk(load, row) : part_of_row(load.map, load.at, row);
    std::memset(content, 0, bytes);
    if (part.global) std::memcpy(content + part.begin, part.global, part.end - part.begin);
    if (load.map.rounds_to_tf32) round_to_tf32(content, bytes);
    for_each_chunk(load.site.operation, load.map, load.shared, row,
                   [&](unsigned char* chunk, unsigned byte) { std::memcpy(chunk, content + byte, CHUNK); });
  }
  complete_bytes(load.site.operation, load.barrier, load.bytes);
}

void read_boxes(StoreGroup& group) {
  for (BoxStore& store : group.stores) {
    store.content.resize(store.bytes);
    const unsigned bytes = row_bytes(store.map), count = rows(store.map);
    for (unsigned row = 0; row < count; ++row)
      for_each_chunk(store.site.operation, store.map, store.shared, row, [&](unsigned char* chunk, unsigned byte) {
        std::memcpy(&store.content[row * bytes + byte], chunk, CHUNK);
      });
  }
  group.is_read = true;
}

// Rows end at a multiple of 16 bytes, not at the tensor's last element: so an H200 stores them.
void write_boxes(StoreGroup& group) {
  for (const BoxStore& store : group.stores) {
    const unsigned bytes = row_bytes(store.map), count = rows(store.map);
    for (unsigned row = 0; row < count; ++row) {
      const RowPart part = part_of_row(store.map, store.at, row);
      const unsigned end = std::min((part.end + CHUNK - 1) / CHUNK * CHUNK, bytes);
      if (part.global) std::memcpy(part.global, &store.content[row * bytes + part.begin], end - part.begin);
    }
  }
  group.is_written = true;
}

void start_store(Site site, const fw_tensor_map* map, unsigned source, const int* coordinates, unsigned rank) {
  BoxStore store = box_of<BoxStore>(site, map, source, coordinates, rank);
  if (map->walks) fail("%s: the boxes of this tensor map walk pixels", site.operation);
  for (unsigned axis = 0; axis < rank; ++axis)  // an illegal instruction on an H200
    if (coordinates[axis] < 0) fail("%s: coordinate %u is %d: a store starts at 0 or beyond", site.operation, axis, coordinates[axis]);
  for (const BoxLoad& load : current_block->loads)
    if (overlap(store, load)) fail("%s: a TMA load still writes to the source at %#x", site.operation, source);
  require_fenced(site, source, store.bytes);
  current_fiber().started_stores.stores.push_back(std::move(store));
}

void fence_stores() { current_fiber().unfenced_rows.clear(); }

void require_fenced(Site site, unsigned address, unsigned bytes) {
  for (const Fiber& fiber : current_block->fibers())
    for (const unsigned row : fiber.unfenced_rows)
      if (row < address + bytes && address < row + CHUNK)
        fail("%s: no fw_fence_async by thread %u since it wrote to %#x", site.operation, fiber.linear, row);
}

void commit_stores() {
  Fiber& fiber = current_fiber();
  if (current_block->schedule() == Schedule::eager) {
    read_boxes(fiber.started_stores);
    write_boxes(fiber.started_stores);
  }
  fiber.committed_stores.push_back(std::move(fiber.started_stores));
  fiber.started_stores = {};
}

void wait_stores(unsigned pending, bool written) {
  std::vector<StoreGroup>& groups = current_fiber().committed_stores;
  const std::size_t done = groups.size() > pending ? groups.size() - pending : 0;
  for (std::size_t i = 0; i < done; ++i) {
    groups[i].waited_read = true;
    if (!groups[i].is_read) read_boxes(groups[i]);
    if (written && !groups[i].is_written) write_boxes(groups[i]);
  }
  if (written) groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace emulator
