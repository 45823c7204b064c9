// A program of cuDNN on the library with a stand-in behind it. Arguments: the stand-in, whose configs come first, and whether plans are built.
#include "driver.h"

int cudnnSetStream(void* handle, void* stream);
int cudnnGetProperty(int which, int* value);
size_t cudnnGetVersion(void);
size_t cudnnGetMaxDeviceVersion(void);
const char* cudnnGetErrorString(int status);
int cudnnBackendExecute(void* handle, Descriptor plan, Descriptor pack);
int cudnnScaleTensor(void* handle, void* y_desc, void* y, const void* alpha);
int cudnnSetDropoutDescriptor(void* of, void* handle, float dropout, void* states, size_t bytes, unsigned long long seed);
int cudnnBatchNormalizationForwardTraining(void* handle, int mode, const void* alpha, const void* beta, void* x_desc, const void* x, void* y_desc,
                                           void* y, void* bn_desc, const void* scale, const void* bias, double factor, void* mean, void* variance,
                                           double epsilon, void* saved_mean, void* saved_variance);
int cudnnSetTensorNdDescriptor(void* of, int type, int rank, const int* dim, const int* stride);
int cudnnCausalConv1dForward(void);

enum { NOT_SUPPORTED = 3000, NOT_SUPPORTED_DATA_TYPE = 3003, ENGINE = 2, CONFIG_ENGINE = 300, ENGINE_GRAPH = 1300, ENGINE_INDEX = 1301, GRAPH_COUNT = 802, PACK_WORKSPACE = 1003 };
enum { OURS = 1000, THEIRS = 7, THEIR_CONFIGS = 3, DOUBLE = 1 };

static void* stand_in;
static long asked(const char* name) {
    long (*function)(void) = (long (*)(void))dlsym(stand_in, name);
    if (!function) fprintf(stderr, "the stand-in has no %s\n", name), exit(1);
    return function();
}
static void told(const char* name, int value) { ((void (*)(int))dlsym(stand_in, name))(value); }

static void older_functions(void* handle) {
    const float alpha = 0.5f;
    EXPECT(cudnnScaleTensor(handle, (void*)1, (void*)2, &alpha), SUCCESS);
    EXPECT(cudnnSetDropoutDescriptor((void*)3, handle, 0.25f, (void*)4, (size_t)5 << 40, ~0ull), SUCCESS);
#define P(n) ((void*)(uintptr_t)(100 + n))
    EXPECT(cudnnBatchNormalizationForwardTraining(handle, 2, P(0), P(1), P(2), P(3), P(4), P(5), P(6), P(7), P(8), 0.125, P(9), P(10), 1e-5, P(11), P(12)), SUCCESS);
    EXPECT(cudnnGetVersion(), 91900);
    EXPECT(cudnnGetMaxDeviceVersion(), 1300);
    int minor = 0;
    EXPECT(cudnnGetProperty(1, &minor), SUCCESS);
    EXPECT(minor, 19);
    EXPECT(strcmp(cudnnGetErrorString(0), "success of the stand-in"), 0);
    // what the stand-in lacks
    EXPECT(cudnnCausalConv1dForward(), NOT_SUPPORTED);
    // its text, and no other before it
    EXPECT(cudnnSetTensorNdDescriptor(NULL, 0, 0, NULL, NULL), BAD_PARAM);
    char text[256] = "";
    cudnnGetLastErrorString(text, sizeof text);
    EXPECT(strcmp(text, "the stand-in: a tensor of the older API"), 0);
}

static int64_t number(Descriptor of, int name) {
    int64_t found = -1, count = 0;
    EXPECT(cudnnBackendGetAttribute(of, name, TYPE_INT64, 1, &count, &found), SUCCESS);
    EXPECT(count, 1);
    return found;
}
static int64_t engine_of(Descriptor config) {
    Descriptor engine = make(ENGINE);
    int64_t count = 0;
    EXPECT(cudnnBackendGetAttribute(config, CONFIG_ENGINE, TYPE_DESCRIPTOR, 1, &count, &engine), SUCCESS);
    EXPECT(count, 1);
    const int64_t found = number(engine, ENGINE_INDEX);
    destroy(engine);
    return found;
}
static Descriptor heuristics_of(Descriptor graph) {
    Descriptor made = make(HEURISTICS);
    refer(made, HEUR_GRAPH, graph);
    set_enum(made, HEUR_MODE, TYPE_HEUR_MODE, 0);
    return made;
}
// The engines of all configs; the configs stay.
static int list(Descriptor graph, Descriptor* configs, int64_t* engines) {
    Descriptor heuristics = finalized(heuristics_of(graph));
    int64_t count = 0, given = 0;
    EXPECT(cudnnBackendGetAttribute(heuristics, HEUR_RESULTS, TYPE_DESCRIPTOR, 0, &count, NULL), SUCCESS);
    EXPECT(count <= 16, 1);
    for (int at = 0; at < count; ++at) configs[at] = make(CONFIG);
    EXPECT(cudnnBackendGetAttribute(heuristics, HEUR_RESULTS, TYPE_DESCRIPTOR, count, &given, configs), SUCCESS);
    EXPECT(given, count);
    for (int at = 0; at < count; ++at) engines[at] = engine_of(configs[at]);
    destroy(heuristics);
    return (int)count;
}
static int of_ours(const int64_t* engines, int count) {
    int found = 0;
    for (int at = 0; at < count; ++at) found += engines[at] >= OURS;
    return found;
}
static void destroy_all(Descriptor* configs, int count) { for (int at = 0; at < count; ++at) destroy(configs[at]); }

static Descriptor pack_of(int64_t uid, void** pointers) {
    const int64_t uids[] = {uid, uid + 1};
    Descriptor made = make(PACK);
    set(made, PACK_UIDS, TYPE_INT64, 2, uids);
    set(made, PACK_POINTERS, TYPE_POINTER, 2, pointers);
    set(made, PACK_WORKSPACE, TYPE_POINTER, 1, &pointers[2]);
    EXPECT(cudnnBackendFinalize(made), SUCCESS);
    EXPECT(cudnnBackendSetAttribute(made, PACK_UIDS, TYPE_INT64, 2, uids), NOT_INITIALIZED);
    return made;
}
static Descriptor plan_with(Descriptor config, void* handle) {
    Descriptor made = make(PLAN);
    set(made, PLAN_HANDLE, TYPE_HANDLE, 1, &handle);
    refer(made, PLAN_CONFIG, config);
    return finalized(made);
}

// A graph that both take: in the order of the policy, and each config's plan runs on its side, with one pack for all.
static void both(void* handle, const char* first, int builds) {
    Descriptor graph = relu_graph(1, handle), configs[16];
    int64_t engines[16];
    const int count = list(graph, configs, engines), ours = of_ours(engines, count);
    EXPECT(count - ours, THEIR_CONFIGS);
    EXPECT(ours > 0 && ours <= 5, 1);
    const int is_ours_first = !strcmp(first, "ours");
    for (int at = 0; at < count; ++at) EXPECT(engines[at] >= OURS, is_ours_first ? at < ours : at >= THEIR_CONFIGS);
    EXPECT(engines[is_ours_first ? ours : 0], THEIRS);
    EXPECT(engines[is_ours_first ? ours + 1 : 1], THEIRS + 1);
    // of all engines that were listed the numbers are below
    for (int at = 0; at < count; ++at) EXPECT(engines[at] < number(graph, GRAPH_COUNT), 1);

    uint64_t memory[3] = {0};
    for (int at = 0; at < 3; ++at) EXPECT(CU(cuMemAlloc_v2, &memory[at], (size_t)4096), SUCCESS);
    void* stream = NULL;
    EXPECT(CU(cuStreamCreate, &stream, 1), SUCCESS);
    EXPECT(cudnnSetStream(handle, stream), SUCCESS);
    void* found = NULL;
    EXPECT(cudnnGetStream(handle, &found), SUCCESS);
    EXPECT(found == stream, 1);
    Descriptor pack = pack_of(1, (void**)memory);
    for (int at = 0; at < count; ++at) {
        if (engines[at] >= OURS && !builds) continue;
        Descriptor plan = plan_with(configs[at], handle);
        EXPECT(number(plan, PLAN_WORKSPACE), engines[at] >= OURS ? 0 : 4096);
        const long before = asked("fake_executions");
        EXPECT(cudnnBackendExecute(handle, plan, pack), SUCCESS);
        EXPECT(asked("fake_executions") - before, engines[at] < OURS);
        destroy(plan);
    }
    EXPECT(asked("fake_last_pointer"), (long)memory[0]);
    EXPECT(asked("fake_last_stream"), (long)(uintptr_t)stream);
    destroy_all(configs, count);
    destroy(pack);
    destroy(graph);
    for (int at = 0; at < 3; ++at) EXPECT(CU(cuMemFree_v2, memory[at]), SUCCESS);
}

// Engines by number are of the side that has them.
static int engine_status(Descriptor graph, int64_t index) {
    Descriptor engine = make(ENGINE);
    refer(engine, ENGINE_GRAPH, graph);
    int status = cudnnBackendSetAttribute(engine, ENGINE_INDEX, TYPE_INT64, 1, &index);
    if (status == SUCCESS) status = cudnnBackendFinalize(engine);
    if (status == SUCCESS) EXPECT(number(engine, ENGINE_INDEX), index);
    destroy(engine);
    return status;
}
static void engines_by_number(void* handle) {
    Descriptor graph = relu_graph(1, handle);
    EXPECT(engine_status(graph, OURS + 2), SUCCESS);
    EXPECT(engine_status(graph, THEIRS), SUCCESS);
    EXPECT(engine_status(graph, OURS + 500), NOT_SUPPORTED);
    EXPECT(engine_status(graph, 500), NOT_SUPPORTED);
    destroy(graph);
}

// A ReLU of DOUBLE, which no engine of ours takes.
static Descriptor double_graph(void* handle) {
    Descriptor tensors[2], mode = relu_mode();
    for (int at = 0; at < 2; ++at) {
        const int64_t dim[] = {1, 8, 16}, stride[] = {128, 16, 1};
        tensors[at] = make(TENSOR);
        set_int(tensors[at], TENSOR_UID, 1 + at);
        set_enum(tensors[at], TENSOR_TYPE, TYPE_DATA_TYPE, DOUBLE);
        set_int(tensors[at], TENSOR_ALIGNMENT, 16);
        set(tensors[at], TENSOR_DIM, TYPE_INT64, 3, dim);
        set(tensors[at], TENSOR_STRIDE, TYPE_INT64, 3, stride);
        finalized(tensors[at]);
    }
    Descriptor operation = finalized(relu(mode, tensors[0], tensors[1])), graph = make(GRAPH);
    refer(graph, GRAPH_OPS, operation);
    set(graph, GRAPH_HANDLE, TYPE_HANDLE, 1, &handle);
    destroy(mode); destroy(operation); destroy(tensors[0]); destroy(tensors[1]);
    return finalized(graph);
}
static void theirs_alone(void* handle) {
    Descriptor graph = double_graph(handle), configs[16];
    int64_t engines[16];
    EXPECT(list(graph, configs, engines), THEIR_CONFIGS);
    EXPECT(of_ours(engines, THEIR_CONFIGS), 0);
    EXPECT(engine_status(graph, OURS + 2), NOT_SUPPORTED_DATA_TYPE);
    destroy_all(configs, THEIR_CONFIGS);
    destroy(graph);
}
static void ours_alone(void* handle) {
    told("fake_refuse_graphs", 1);
    Descriptor graph = relu_graph(1, handle), configs[16];
    int64_t engines[16];
    const int count = list(graph, configs, engines);
    EXPECT(count > 0, 1);
    EXPECT(of_ours(engines, count), count);
    EXPECT(number(graph, GRAPH_COUNT) > OURS, 1);
    EXPECT(engine_status(graph, THEIRS), 3001);
    destroy_all(configs, count);
    destroy(graph);
    // and none: both say why
    graph = double_graph(handle);
    Descriptor heuristics = heuristics_of(graph);
    const int status = cudnnBackendFinalize(heuristics);
    EXPECT(status >= NOT_SUPPORTED && status < 4000, 1);
    char text[4096] = "";
    cudnnGetLastErrorString(text, sizeof text);
    if (!strstr(text, "cudnnBackendFinalize: ") || !strstr(text, "fusewright: ")) fprintf(stderr, "%s\n", text), exit(1);
    cudnnGetLastErrorString(text, sizeof text);
    EXPECT(text[0], 0);
    destroy(heuristics);
    destroy(graph);
    told("fake_refuse_graphs", 0);
}

static void wrong_pointers(void) {
    Descriptor gone = make(TENSOR);
    destroy(gone);
    EXPECT(cudnnBackendDestroyDescriptor(gone), BAD_PARAM);
    EXPECT(cudnnBackendFinalize(gone), BAD_PARAM);
    EXPECT(cudnnBackendFinalize(NULL), 2002);
    EXPECT(cudnnBackendExecute(NULL, gone, gone), BAD_PARAM);
    Descriptor none = NULL;
    EXPECT(cudnnBackendCreateDescriptor(9999, &none), NOT_SUPPORTED);
    // as it was made
    Descriptor tensor = make(TENSOR);
    EXPECT(cudnnBackendInitialize(tensor), SUCCESS);
    destroy(tensor);
}

// One graph for the trace, whose time is measured.
static void measured(void* handle, int time, int is_ours) {
    told("fake_take", time);
    Descriptor graph = relu_graph_of(1, is_ours ? 24 : 40, handle), configs[16];
    int64_t engines[16];
    const int count = list(graph, configs, engines), ours = of_ours(engines, count);
    EXPECT(engines[0] >= OURS, is_ours);
    EXPECT(engines[is_ours], THEIRS);
    EXPECT(of_ours(engines + THEIR_CONFIGS + is_ours, count - THEIR_CONFIGS - is_ours), ours - is_ours);
    destroy_all(configs, count);
    destroy(graph);
    told("fake_take", 0);
}

int main(int count, char** arguments) {
    EXPECT(count, 4);
    stand_in = dlopen(arguments[1], RTLD_NOW);
    if (!stand_in) fprintf(stderr, "%s\n", dlerror()), exit(1);
    const char* policy = arguments[2];
    const int builds = atoi(arguments[3]);
    void* context = NULL;
    EXPECT(CU(cuInit, 0), SUCCESS);
    EXPECT(CU(cuDevicePrimaryCtxRetain, &context, 0), SUCCESS);
    EXPECT(CU(cuCtxSetCurrent, context), SUCCESS);
    void* handle = NULL;
    EXPECT(cudnnCreate(&handle), SUCCESS);
    EXPECT(((int (*)(void*))dlsym(stand_in, "fake_is_handle"))(handle), 1);
    if (!strcmp(policy, "tuned")) {
        measured(handle, 3000, 1);
        measured(handle, 0, 0);
    } else {
        older_functions(handle);
        both(handle, policy, builds);
        engines_by_number(handle);
        theirs_alone(handle);
        ours_alone(handle);
    }
    EXPECT(cudnnDestroy(handle), SUCCESS);
    EXPECT(asked("fake_live"), 0);
    wrong_pointers();
    puts("passed");
    return 0;
}
