// The emulator's runtime in one translation unit; compiled once, linked with every kernel.
#include "fiber.cpp"
#include "poison.cpp"
#include "scheduler.cpp"
#include "stall.cpp"
#include "cluster.cpp"

#include "async_copy.cpp"
#include "mbarrier.cpp"
#include "tensor_core.cpp"
#include "tma.cpp"
#include "warpgroup.cpp"
#include "wgmma.cpp"

#include "launch.cpp"
#include "sanitizer.cpp"
