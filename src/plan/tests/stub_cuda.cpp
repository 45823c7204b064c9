// The CUDA toolkit's stub of the driver, which is there to link against: CUDA_ERROR_STUB_LIBRARY is all it says.
extern "C" int cuInit(unsigned) { return 34; }
