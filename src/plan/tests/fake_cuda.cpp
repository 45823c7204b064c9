// A CUDA driver without a GPU, for tests: device memory is host memory, work is done when it is submitted, and a module
// has the few functions below, whatever its image. It checks what a driver would check of its caller. VERSION, as
// cuDriverGetVersion gives it, says which of the newer functions it has; FAKE_CUDA_DEVICES how many devices there are.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using Result = int;
enum : Result { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, STUB_LIBRARY = 34, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700 };

// Primary contexts by device; one that nobody retains is gone.
struct Context { std::atomic<int> retained{0}; };
static Context contexts[8];
// When it was recorded, on a clock that only kernels with a stated time move, and by the host's.
struct Event { double milliseconds; std::chrono::steady_clock::time_point time; };
// Bytes of the parameters tell how much of the arguments a driver copies.
struct Function { const char* name; std::vector<int> parameters = {8, 4, 4, 8, 8}; int shared = 48 * 1024; double milliseconds = 0; bool is_any = false; };
static Function functions[] = {
    {"scale_add"}, {"scale_add_early"}, {"overrun"}, {"fault"}, {"hang"}, {"read_map", {8, 128, 8, 128}},
    {"stated_a", {8, 4, 4, 8, 8}, 48 * 1024, 1.125}, {"stated_b", {8, 4, 4, 8, 8}, 48 * 1024, 1.0},
    {"stated_c", {8, 4, 4, 8, 8}, 48 * 1024, 1.5},
};
// Where FAKE_CUDA_ANY is set, every name is that of this kernel as well, which does nothing; launches of it are counted.
static Function any = {"any", {}, 232448, 0, true};
static std::atomic<long> any_launches{0};
static thread_local Context* current[8];
static thread_local int depth = 0;
static Result pending = SUCCESS;
static double milliseconds = 0;  // of kernels with a stated time
static char timed[4096];         // last letter of each of their launches that differs from the one before

static int device_count() {
    const char* asked = std::getenv("FAKE_CUDA_DEVICES");
    return asked ? std::clamp(std::atoi(asked), 1, 8) : 1;
}
static bool has_context() { return current[depth] && current[depth]->retained > 0; }
#define NEEDS_CONTEXT if (!has_context()) return INVALID_CONTEXT
#define NEEDS_DEVICE(device) if ((device) < 0 || (device) >= device_count()) return INVALID_DEVICE
extern "C" {
long fake_any_launches() { return any_launches; }
// For tests: how often the primary context of a device is retained.
int fake_retained(int device) { return contexts[device].retained; }
// Where FAKE_CUDA_STUB is set, it is the toolkit's stub.
Result cuInit(unsigned) { return std::getenv("FAKE_CUDA_STUB") ? STUB_LIBRARY : SUCCESS; }
Result cuDriverGetVersion(int* version) { *version = VERSION; return SUCCESS; }
Result cuDeviceGetCount(int* count) { *count = device_count(); return SUCCESS; }
Result cuDeviceGet(int* device, int ordinal) { NEEDS_DEVICE(ordinal); *device = ordinal; return SUCCESS; }
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
Result cuDevicePrimaryCtxRetain(Context** out, int device) {
    NEEDS_DEVICE(device);
    contexts[device].retained++;
    *out = &contexts[device];
    return SUCCESS;
}
Result cuDevicePrimaryCtxRelease_v2(int device) {
    NEEDS_DEVICE(device);
    return contexts[device].retained-- > 0 ? SUCCESS : INVALID_CONTEXT;
}
Result cuCtxGetCurrent(Context** out) { *out = current[depth]; return SUCCESS; }
Result cuCtxGetDevice(int* out) { NEEDS_CONTEXT; *out = int(current[depth] - contexts); return SUCCESS; }
Result cuCtxSetCurrent(Context* wanted) { current[depth] = wanted; return SUCCESS; }
Result cuCtxPushCurrent_v2(Context* wanted) { current[++depth] = wanted; return SUCCESS; }
Result cuCtxPopCurrent_v2(Context** out) { *out = current[depth]; current[depth--] = nullptr; return SUCCESS; }
Result cuCtxSynchronize() { NEEDS_CONTEXT; if (pending == NOT_READY) std::abort(); return pending; }
Result cuGetErrorName(Result code, const char** name) {
    switch (code) {
        case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return SUCCESS;
        case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
        case STUB_LIBRARY: *name = "CUDA_ERROR_STUB_LIBRARY"; return SUCCESS;
        case INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; return SUCCESS;
        case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; return SUCCESS;
        case NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; return SUCCESS;
        case ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return SUCCESS;
        default: return INVALID_VALUE;
    }
}
Result cuGetErrorString(Result code, const char** text) { return cuGetErrorName(code, text); }
// NVRTC asks a libcuda.so.1 for this, and goes on without.
Result cuGetExportTable(const void** table, const void*) { *table = nullptr; return NOT_FOUND; }

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
Result cuEventRecord(Event* event, void*) { *event = {milliseconds, std::chrono::steady_clock::now()}; return SUCCESS; }
// For tests: the launches of kernels with a stated time, repetitions left out.
const char* fake_timed_launches() { return timed; }
Result cuEventSynchronize(Event*) { return SUCCESS; }
Result cuEventElapsedTime_v2(float* milliseconds, Event* start, Event* end) {
    const double stated = end->milliseconds - start->milliseconds;
    *milliseconds = stated > 0 ? float(stated) : std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return SUCCESS;
}

static std::atomic<long> modules{0};
// For tests: modules that are loaded.
long fake_modules() { return modules; }
// For tests: what loading a module, and launching a kernel that is not known, end with.
int fake_module_error = SUCCESS;
int fake_launch_error = SUCCESS;
// An image whose ninth byte is 'n' has no functions.
Result cuModuleLoadData(void** module, const void* image) {
    NEEDS_CONTEXT;
    if (fake_module_error) return fake_module_error;
    *module = new int(static_cast<const char*>(image)[8] == 'n');
    modules++;
    return SUCCESS;
}
Result cuModuleUnload(void* module) { NEEDS_CONTEXT; delete static_cast<int*>(module); modules--; return SUCCESS; }
Result cuModuleGetFunction(Function** function, void* module, const char* name) {
    if (*static_cast<int*>(module)) return NOT_FOUND;
    for (Function& candidate : functions)
        if (std::string(candidate.name) == name) { *function = &candidate; return SUCCESS; }
    static const bool takes_any = std::getenv("FAKE_CUDA_ANY");
    if (takes_any) { *function = &any; return SUCCESS; }
    return NOT_FOUND;
}
Result cuFuncSetAttribute(Function* function, int attribute, int value) {
    if (attribute != 8 || value > 232448) return INVALID_VALUE;
    if (!function->is_any) function->shared = value;
    return SUCCESS;
}

#if VERSION >= 12000
// What a tensor map says, in the form of this driver. Before version 13 only the driver knows how an address lies there.
constexpr uint64_t HIDDEN = VERSION < 13000 ? 0x0123456789abcdef : 0;
struct TensorMap {
    uint64_t hidden_address;
    uint64_t dims[5], strides[4];
    uint32_t box[5];
    uint8_t type, rank, swizzle, is_encoded;
};
static_assert(sizeof(TensorMap) <= 128);
Result cuTensorMapEncodeTiled(TensorMap* out, int type, uint32_t rank, void* address, const uint64_t* dims,
        const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle,
        int promotion, int fill) {
    const uint64_t place = reinterpret_cast<uint64_t>(address);
    // Promotion 3 is by 256 bytes, 2 by 128: where rows straddle lines of 128 bytes.
    const int expected = rank > 1 && strides[0] % 128 != 0 ? 2 : 3;
    if (reinterpret_cast<uint64_t>(out) % 64 || place == 0 || place % 16 || interleave != 0 || promotion != expected || fill != 0)
        return INVALID_VALUE;
    TensorMap map = {place ^ HIDDEN, {}, {}, {}, uint8_t(type), uint8_t(rank), uint8_t(swizzle), 1};
    for (uint32_t i = 0; i < rank; ++i) {
        if (dims[i] == 0 || box[i] == 0 || box[i] > 256 || element_strides[i] != 1) return INVALID_VALUE;
        map.dims[i] = dims[i];
        map.box[i] = box[i];
        if (i + 1 < rank && strides[i] % 16) return INVALID_VALUE;
        if (i + 1 < rank) map.strides[i] = strides[i];
    }
    std::memcpy(out, &map, sizeof map);
    return SUCCESS;
}
Result cuTensorMapReplaceAddress(TensorMap* map, void* address) {
    const uint64_t place = reinterpret_cast<uint64_t>(address);
    if (reinterpret_cast<uint64_t>(map) % 64 || !map->is_encoded || place == 0 || place % 16) return INVALID_VALUE;
    map->hidden_address = place ^ HIDDEN;
    return SUCCESS;
}

// (float* y, map of x, const float* x, map of y): x through its map, and what the maps say of their geometry.
static Result read_map(void** arguments) {
    float* y = *static_cast<float**>(arguments[0]);
    const TensorMap& x_map = *static_cast<TensorMap*>(arguments[1]);
    const TensorMap& y_map = *static_cast<TensorMap*>(arguments[3]);
    const float* x = *static_cast<float**>(arguments[2]);
    if ((x_map.hidden_address ^ HIDDEN) != reinterpret_cast<uint64_t>(x)) return ILLEGAL_ADDRESS;
    if ((y_map.hidden_address ^ HIDDEN) != reinterpret_cast<uint64_t>(y)) return ILLEGAL_ADDRESS;
    const uint64_t said[] = {
        x_map.type * 100u + x_map.rank * 10u + x_map.swizzle, x_map.dims[0] * 1000 + x_map.dims[1],
        x_map.strides[0], x_map.box[0] * 1000 + x_map.box[1], y_map.type * 100u + y_map.rank * 10u + y_map.swizzle,
    };
    for (int i = 0; i < 5; ++i) y[i] = float(said[i]);
    y[5] = x[5];
    return SUCCESS;
}
#endif

struct Attribute { int id; char pad[4]; union { char bytes[64]; int value; }; };
struct Config { unsigned grid[3], block[3], shared; void* stream; Attribute* attributes; unsigned attribute_count; };
static Result run(Function* function, void** arguments) {
    if (function->is_any) { any_launches++; return SUCCESS; }
    std::string name = function->name;
    if (function->milliseconds > 0) {
        milliseconds += function->milliseconds;
        const size_t length = std::strlen(timed);
        if (length + 1 < sizeof timed && (length == 0 || timed[length - 1] != name.back())) timed[length] = name.back();
    }
    if (name == "fault") { pending = ILLEGAL_ADDRESS; return SUCCESS; }
    if (name == "hang") { pending = NOT_READY; return SUCCESS; }
#if VERSION >= 12000
    if (name == "read_map") { pending = read_map(arguments); return SUCCESS; }
#endif
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
Result cuLaunchKernelEx(const Config* config, Function* function, void** arguments, void**) {
    NEEDS_CONTEXT;
    if (config->grid[0] == 0 || config->block[0] == 0 || config->shared > unsigned(function->shared)) return INVALID_VALUE;
    if (pending != SUCCESS) return pending;
    if (function->is_any) return fake_launch_error ? fake_launch_error : run(function, arguments);
    // 6 is programmatic stream serialization
    const bool early = config->attribute_count == 1 && config->attributes[0].id == 6 && config->attributes[0].value == 1;
    const bool waits = VERSION >= 12030 && std::string(function->name) == "scale_add_early";
    if (early != waits || config->attribute_count > 1) return INVALID_VALUE;
    return run(function, arguments);
}

#if VERSION >= 12000
struct Graph;
struct Node {
    Graph* graph;
    Function* function;
    std::vector<std::vector<char>> arguments;
    Node* after = nullptr;
    bool is_early = false;
};
struct Graph { std::vector<Node*> nodes; };
struct Executable { std::vector<Node*> originals; std::vector<Node> nodes; };
struct NodeParameters { Function* function; unsigned grid[3], block[3], shared; void** arguments; void** extra; void* kernel; void* context; };
struct EdgeData { unsigned char from_port, to_port, type, reserved[5]; };
static std::atomic<int> graphs{0}, patched_nodes{0};
// For tests: graphs and executable graphs that exist, and nodes set since the last call. The next `failures` sets fail,
// and of the nodes added from now on that of number `failing_node`, from 1.
int fake_graphs() { return graphs; }
int fake_patched_nodes() { return patched_nodes.exchange(0); }
int fake_failures = 0;
int fake_failing_node = 0;

static Result copy(Node& node, const NodeParameters* given) {
    if (given->grid[0] == 0 || given->block[0] == 0 || given->shared > unsigned(given->function->shared)) return INVALID_VALUE;
    if (given->extra || given->kernel || given->context) return INVALID_VALUE;
    node.function = given->function;
    node.arguments.clear();
    for (size_t i = 0; i < given->function->parameters.size(); ++i) {
        const char* bytes = static_cast<const char*>(given->arguments[i]);
        node.arguments.emplace_back(bytes, bytes + given->function->parameters[i]);
    }
    return SUCCESS;
}
Result cuGraphCreate(Graph** graph, unsigned flags) { NEEDS_CONTEXT; *graph = new Graph; graphs++; return flags ? INVALID_VALUE : SUCCESS; }
Result cuGraphDestroy(Graph* graph) {
    NEEDS_CONTEXT;
    for (Node* node : graph->nodes) delete node;
    delete graph;
    graphs--;
    return SUCCESS;
}
Result cuGraphAddKernelNode_v2(Node** out, Graph* graph, Node* const* dependencies, size_t count, const NodeParameters* given) {
    NEEDS_CONTEXT;
    if (count > 1) return INVALID_VALUE;
    if (fake_failing_node > 0 && --fake_failing_node == 0) return INVALID_VALUE;
    Node* node = new Node;
    node->graph = graph;
    graph->nodes.push_back(node);
    if (count) node->after = *dependencies;
    *out = node;
    return copy(*node, given);
}
Result cuGraphDestroyNode(Node* node) {
    NEEDS_CONTEXT;
    auto& nodes = node->graph->nodes;
    nodes.erase(std::find(nodes.begin(), nodes.end(), node));
    delete node;
    return SUCCESS;
}
Result cuGraphGetNodes(Graph* graph, Node** out, size_t* count) {
    NEEDS_CONTEXT;
    if (out) std::copy_n(graph->nodes.begin(), std::min(*count, graph->nodes.size()), out);
    *count = graph->nodes.size();
    return SUCCESS;
}
Result cuGraphNodeGetType(Node*, int* type) { NEEDS_CONTEXT; *type = 0; return SUCCESS; }
Result cuGraphKernelNodeGetParams_v2(Node* node, NodeParameters* out) { NEEDS_CONTEXT; out->function = node->function; return SUCCESS; }
Result cuGraphKernelNodeSetParams_v2(Node* node, const NodeParameters* given) { NEEDS_CONTEXT; return copy(*node, given); }
#if VERSION >= 12030
Result cuGraphAddDependencies_v2(Graph*, Node* const* from, Node* const* to, const EdgeData* edge, size_t count) {
    NEEDS_CONTEXT;
    if (count != 1 || (*to)->after || edge->from_port != 1 || edge->to_port != 0 || edge->type != 1) return INVALID_VALUE;
    (*to)->after = *from;
    (*to)->is_early = true;
    return SUCCESS;
}
#endif
Result cuGraphInstantiateWithFlags(Executable** out, Graph* graph, unsigned long long) {
    NEEDS_CONTEXT;
    Executable* made = new Executable{graph->nodes, {}};
    for (Node* node : graph->nodes) made->nodes.push_back(*node);
    *out = made;
    graphs++;
    return SUCCESS;
}
Result cuGraphExecDestroy(Executable* executable) { NEEDS_CONTEXT; delete executable; graphs--; return SUCCESS; }
Result cuGraphExecKernelNodeSetParams_v2(Executable* executable, Node* node, const NodeParameters* given) {
    NEEDS_CONTEXT;
    if (fake_failures > 0) { fake_failures--; return INVALID_VALUE; }
    auto& originals = executable->originals;
    size_t index = std::find(originals.begin(), originals.end(), node) - originals.begin();
    if (index == originals.size()) return INVALID_VALUE;
    patched_nodes++;
    return copy(executable->nodes[index], given);
}
Result cuGraphLaunch(Executable* executable, void*) {
    NEEDS_CONTEXT;
    if (pending != SUCCESS) return pending;
    // Each node must follow the one before it, by an early edge where its kernel waits by itself.
    for (size_t i = 0; i < executable->nodes.size(); ++i) {
        Node& node = executable->nodes[i];
        const bool early = i > 0 && VERSION >= 12030 && std::string(node.function->name) == "scale_add_early";
        if (node.after != (i ? executable->originals[i - 1] : nullptr) || node.is_early != early) return INVALID_VALUE;
        std::vector<void*> arguments;
        for (auto& bytes : node.arguments) arguments.push_back(bytes.data());
        if (Result code = run(node.function, arguments.data())) return code;
    }
    return SUCCESS;
}
#endif
}
