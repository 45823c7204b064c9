// Device primitives of sm_90a: tensor maps, mbarriers, the tensor memory accelerator, wgmma. No template syntax.
// Sections as in primitives.cuh; the emulator brings its own versions.

//@ fw_tensor_map
// A tensor map as the driver encodes it, by value in the parameters.
#ifndef FW_EMULATOR
struct alignas(64) fw_tensor_map {
  unsigned char bytes[128];
};
#endif
