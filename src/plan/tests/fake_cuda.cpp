// A CUDA driver without a GPU, for tests: device memory is host memory, work is done when it is submitted, and a module
// has the few functions below, whatever its image. It checks what a driver would check of its caller.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

using Result = int;
enum : Result { SUCCESS = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700 };

struct Context { int retained = 0; } context;
struct Event { std::chrono::steady_clock::time_point time; };
struct Function { const char* name; int shared = 48 * 1024; };
static Function functions[] = {{"scale_add"}, {"scale_add_early"}, {"overrun"}, {"fault"}, {"hang"}};
static thread_local Context* current[8];
static thread_local int depth = 0;
static Result pending = SUCCESS;

#define NEEDS_CONTEXT if (current[depth] != &context) return INVALID_CONTEXT
extern "C" {
Result cuInit(unsigned) { return SUCCESS; }
Result cuDriverGetVersion(int* version) { *version = 13000; return SUCCESS; }
Result cuDeviceGetCount(int* count) { *count = 1; return SUCCESS; }
Result cuDeviceGet(int* device, int ordinal) { *device = ordinal; return ordinal == 0 ? SUCCESS : INVALID_VALUE; }
Result cuDeviceGetName(char* name, int size, int) { std::snprintf(name, size, "Fake H200"); return SUCCESS; }
Result cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case 75: *value = 9; break;            // compute capability, major
        case 76: *value = 0; break;            // minor
        case 16: *value = 132; break;          // multiprocessors
        case 97: *value = 232448; break;       // shared memory per block, opt-in
        case 38: *value = 60 << 20; break;     // L2
        default: *value = 1;
    }
    return SUCCESS;
}
Result cuDevicePrimaryCtxRetain(Context** out, int) { context.retained++; *out = &context; return SUCCESS; }
Result cuDevicePrimaryCtxRelease_v2(int) { context.retained--; return SUCCESS; }
Result cuCtxGetCurrent(Context** out) { *out = current[depth]; return SUCCESS; }
Result cuCtxSetCurrent(Context* wanted) { current[depth] = wanted; return SUCCESS; }
Result cuCtxPushCurrent_v2(Context* wanted) { current[++depth] = wanted; return SUCCESS; }
Result cuCtxPopCurrent_v2(Context** out) { *out = current[depth]; current[depth--] = nullptr; return SUCCESS; }
Result cuCtxSynchronize() { NEEDS_CONTEXT; if (pending == NOT_READY) std::abort(); return pending; }
Result cuGetErrorName(Result code, const char** name) {
    switch (code) {
        case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return SUCCESS;
        case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; return SUCCESS;
        case NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; return SUCCESS;
        case ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return SUCCESS;
        default: return INVALID_VALUE;
    }
}
Result cuGetErrorString(Result code, const char** text) { return cuGetErrorName(code, text); }

Result cuMemAlloc_v2(uint64_t* pointer, size_t bytes) {
    NEEDS_CONTEXT;
    *pointer = reinterpret_cast<uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    return SUCCESS;
}
Result cuMemFree_v2(uint64_t pointer) {
    NEEDS_CONTEXT;
    if (pending == NOT_READY) std::abort();  // a real one would wait for ever
    std::free(reinterpret_cast<void*>(pointer));
    return SUCCESS;
}
Result cuMemsetD8Async(uint64_t pointer, unsigned char value, size_t bytes, void*) {
    NEEDS_CONTEXT;
    // Flushing a cache that is not there would only cost time.
    if (bytes < (64 << 20)) std::memset(reinterpret_cast<void*>(pointer), value, bytes);
    return SUCCESS;
}
Result cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void*) {
    NEEDS_CONTEXT;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return SUCCESS;
}
Result cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void*) {
    NEEDS_CONTEXT;
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return SUCCESS;
}
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void*) {
    NEEDS_CONTEXT;
    if (bytes < (64 << 20)) std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return SUCCESS;
}

Result cuStreamCreate(void** stream, unsigned flags) {
    NEEDS_CONTEXT;
    *stream = new int;
    return flags == 1 ? SUCCESS : INVALID_VALUE;  // only non-blocking ones are wanted
}
Result cuStreamDestroy_v2(void* stream) { delete static_cast<int*>(stream); return SUCCESS; }
Result cuStreamQuery(void*) { NEEDS_CONTEXT; return pending; }
Result cuStreamSynchronize(void*) { NEEDS_CONTEXT; return pending; }
Result cuEventCreate(Event** event, unsigned) { NEEDS_CONTEXT; *event = new Event; return SUCCESS; }
Result cuEventDestroy_v2(Event* event) { delete event; return SUCCESS; }
Result cuEventRecord(Event* event, void*) { event->time = std::chrono::steady_clock::now(); return SUCCESS; }
Result cuEventSynchronize(Event*) { return SUCCESS; }
Result cuEventElapsedTime_v2(float* milliseconds, Event* start, Event* end) {
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return SUCCESS;
}

Result cuModuleLoadData(void** module, const void*) { NEEDS_CONTEXT; *module = new int; return SUCCESS; }
Result cuModuleUnload(void* module) { NEEDS_CONTEXT; delete static_cast<int*>(module); return SUCCESS; }
Result cuModuleGetFunction(Function** function, void*, const char* name) {
    for (Function& candidate : functions)
        if (std::string(candidate.name) == name) { *function = &candidate; return SUCCESS; }
    return NOT_FOUND;
}
Result cuFuncSetAttribute(Function* function, int attribute, int value) {
    if (attribute != 8 || value > 232448) return INVALID_VALUE;
    function->shared = value;
    return SUCCESS;
}
struct Attribute { int id; char pad[4]; union { char bytes[64]; int value; }; };
struct Config { unsigned grid[3], block[3], shared; void* stream; Attribute* attributes; unsigned attribute_count; };
Result cuLaunchKernelEx(const Config* config, Function* function, void** arguments, void**) {
    NEEDS_CONTEXT;
    if (config->grid[0] == 0 || config->block[0] == 0 || config->shared > unsigned(function->shared)) return INVALID_VALUE;
    if (pending != SUCCESS) return pending;
    std::string name = function->name;
    // 6 is programmatic stream serialization
    const bool early = config->attribute_count == 1 && config->attributes[0].id == 6 && config->attributes[0].value == 1;
    if (early != (name == "scale_add_early") || config->attribute_count > 1) return INVALID_VALUE;
    if (name == "fault") { pending = ILLEGAL_ADDRESS; return SUCCESS; }
    if (name == "hang") { pending = NOT_READY; return SUCCESS; }
    // (const float* x, float a, float b, float* y, unsigned char* scratch), six elements
    const float* x = *static_cast<const float**>(arguments[0]);
    float a = *static_cast<float*>(arguments[1]), b = *static_cast<float*>(arguments[2]);
    float* y = *static_cast<float**>(arguments[3]);
    unsigned char* scratch = *static_cast<unsigned char**>(arguments[4]);
    int n = name == "overrun" ? 7 : 6;
    scratch[255] = 1;
    for (int i = 0; i < n; ++i) y[i] = a * x[i] + b;
    return SUCCESS;
}
}
