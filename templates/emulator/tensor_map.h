// Tensor maps as the emulator encodes them. src/emulator/tensor_map.rs holds the same structure; change both together.
#pragma once

// A tensor as an array of boxes; dims innermost first, what stands beyond the rank is not read.
struct alignas(64) fw_tensor_map {
  unsigned char* base;
  unsigned element_bytes;
  unsigned short rounds_to_tf32;  // 1: loads round FP32 to TF32, to nearest even
  unsigned short walks;           // 1: boxes walk pixels, and have channels, pixels and the three steps of the walk
  unsigned rank;
  unsigned swizzle;  // bytes of a swizzled row, 0 for none
  unsigned long long dims[5];     // elements
  unsigned long long strides[4];  // bytes from one index of dim i + 1 to the next
  unsigned box[5];                // elements
  short lower[3], upper[3];       // of a walk, innermost axis first: its first pixel, and its last, counted from the last of the image
};
static_assert(sizeof(fw_tensor_map) == 128, "the size of a tensor map of the driver");
static_assert(__builtin_offsetof(fw_tensor_map, swizzle) == 20 && __builtin_offsetof(fw_tensor_map, dims) == 24 &&
                  __builtin_offsetof(fw_tensor_map, strides) == 64 && __builtin_offsetof(fw_tensor_map, box) == 96 &&
                  __builtin_offsetof(fw_tensor_map, lower) == 116 && __builtin_offsetof(fw_tensor_map, upper) == 122,
              "the layout of src/emulator/tensor_map.rs");
