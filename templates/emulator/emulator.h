// CUDA for the host: the text that NVRTC compiles for a GPU is compiled by a C++17 compiler behind this header, and
// each CUDA thread becomes a fiber (see block.h).
//
// No standard header is included, and none may be: the text must see exactly the names that NVRTC would give it.
// Further primitives get a header each beside these, and their runtime a file in runtime/.
#pragma once

#include "language.h"

#include "arithmetic.h"
#include "atomic.h"
#include "warp.h"

#include "number.h"

#include "async_copy.h"
#include "cluster.h"
#include "flag.h"
#include "mbarrier.h"
#include "tensor_core.h"
#include "tma.h"
#include "warpgroup.h"
#include "wgmma.h"

#include "launcher.h"
