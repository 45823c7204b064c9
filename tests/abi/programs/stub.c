// A driver as the toolkit has one to link with: every function is there and fails.
#define STUB(name) int name(void) { return 34; }
STUB(cuCtxGetCurrent) STUB(cuCtxGetDevice) STUB(cuCtxPopCurrent_v2) STUB(cuCtxPushCurrent_v2) STUB(cuCtxSetCurrent)
STUB(cuCtxSynchronize) STUB(cuDeviceGet) STUB(cuDeviceGetAttribute) STUB(cuDeviceGetCount) STUB(cuDeviceGetName)
STUB(cuDevicePrimaryCtxRelease_v2) STUB(cuDevicePrimaryCtxRetain) STUB(cuDriverGetVersion) STUB(cuEventCreate)
STUB(cuEventDestroy_v2) STUB(cuEventRecord) STUB(cuEventSynchronize) STUB(cuFuncSetAttribute) STUB(cuGetErrorName)
STUB(cuGetErrorString) STUB(cuInit) STUB(cuLaunchKernelEx) STUB(cuMemAlloc_v2) STUB(cuMemFree_v2) STUB(cuMemcpyDtoDAsync_v2)
STUB(cuMemcpyDtoHAsync_v2) STUB(cuMemcpyHtoDAsync_v2) STUB(cuMemsetD8Async) STUB(cuModuleGetFunction) STUB(cuModuleLoadData)
STUB(cuModuleUnload) STUB(cuStreamCreate) STUB(cuStreamDestroy_v2) STUB(cuStreamQuery) STUB(cuStreamSynchronize)
