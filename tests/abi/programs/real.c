// A stand-in for the real cuDNN: it keeps descriptors and handles of its own, refuses those of others, and says what it was asked.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, GRAPH_PATTERN = 3001 };
enum { ENGINE = 2, CONFIG = 3, HEURISTICS = 4, PLAN = 5, GRAPH = 15, PACK = 16, KINDS = 46 };
enum { HANDLE = 0, INT64 = 3, DESCRIPTOR = 15 };
enum { HEUR_RESULTS = 202, CONFIG_ENGINE = 300, PLAN_CONFIG = 401, PLAN_WORKSPACE = 402, GRAPH_COUNT = 802, PACK_UIDS = 1000,
       PACK_POINTERS = 1001, ENGINE_INDEX = 1301 };
enum { CONFIGS = 3, FIRST_ENGINE = 7, ENGINES = 10 };

typedef struct { uint32_t magic; void* stream; } Handle;
typedef struct { int name, type; int64_t count; char* elements; } Attribute;
typedef struct { uint32_t magic; int kind, is_finalized, count; int64_t engine; Attribute attributes[32]; } Descriptor;
enum { OF_HANDLE = 0x68616e64, OF_DESCRIPTOR = 0x64657363 };

static long live, executions;
static int refuses_graphs, microseconds;
static int64_t last_pointer;
static void* last_stream;
static char last_error[256];

// For tests.
long fake_live(void) { return live; }
long fake_executions(void) { return executions; }
void fake_refuse_graphs(int refuses) { refuses_graphs = refuses; }
void fake_take(int time) { microseconds = time; }
int64_t fake_last_pointer(void) { return last_pointer; }
void* fake_last_stream(void) { return last_stream; }
int fake_is_handle(Handle* handle) { return handle->magic == OF_HANDLE; }

static int refuse(int status, const char* text) {
    snprintf(last_error, sizeof last_error, "the stand-in: %s", text);
    return status;
}
// A pointer that is not its own would be followed by a real library, and end the program.
static Handle* handle_of(void* pointer) {
    Handle* handle = pointer;
    if (!handle || (uintptr_t)handle >> 47 || handle->magic != OF_HANDLE) fprintf(stderr, "%p is no handle of the stand-in\n", pointer), abort();
    return handle;
}
static Descriptor* descriptor_of(void* pointer) {
    Descriptor* one = pointer;
    if (!one || (uintptr_t)one >> 47 || one->magic != OF_DESCRIPTOR) fprintf(stderr, "%p is no descriptor of the stand-in\n", pointer), abort();
    return one;
}
static Attribute* attribute(Descriptor* of, int name) {
    for (int at = 0; at < of->count; ++at)
        if (of->attributes[at].name == name) return &of->attributes[at];
    return NULL;
}

size_t cudnnGetVersion(void) { return 91900; }
size_t cudnnGetCudartVersion(void) { return 13000; }
size_t cudnnGetMaxDeviceVersion(void) { return 1300; }
int cudnnGetProperty(int which, int* value) { *value = (int[]){9, 19, 0}[which]; return SUCCESS; }
const char* cudnnGetErrorString(int status) { return status ? "a status of the stand-in" : "success of the stand-in"; }
void cudnnGetLastErrorString(char* message, size_t room) { snprintf(message, room, "%s", last_error); last_error[0] = 0; }

int cudnnCreate(void** made) {
    Handle* handle = calloc(1, sizeof *handle);
    handle->magic = OF_HANDLE;
    *made = handle;
    return SUCCESS;
}
int cudnnDestroy(void* handle) { handle_of(handle)->magic = 0; free(handle); return SUCCESS; }
int cudnnSetStream(void* handle, void* stream) { handle_of(handle)->stream = stream; return SUCCESS; }
int cudnnGetStream(void* handle, void** stream) { *stream = handle_of(handle)->stream; return SUCCESS; }

// Of the older API: whether every argument came as it was sent.
int cudnnScaleTensor(void* handle, void* y_desc, void* y, const void* alpha) {
    return handle_of(handle) && y_desc == (void*)1 && y == (void*)2 && *(const float*)alpha == 0.5f ? SUCCESS : BAD_PARAM;
}
int cudnnSetDropoutDescriptor(void* of, void* handle, float dropout, void* states, size_t bytes, unsigned long long seed) {
    return of == (void*)3 && handle_of(handle) && dropout == 0.25f && states == (void*)4 && bytes == (size_t)5 << 40 && seed == ~0ull ? SUCCESS : BAD_PARAM;
}
int cudnnBatchNormalizationForwardTraining(void* handle, int mode, const void* alpha, const void* beta, void* x_desc, const void* x, void* y_desc,
                                           void* y, void* bn_desc, const void* scale, const void* bias, double factor, void* mean, void* variance,
                                           double epsilon, void* saved_mean, void* saved_variance) {
    const void* const found[] = {alpha, beta, x_desc, x, y_desc, y, bn_desc, scale, bias, mean, variance, saved_mean, saved_variance};
    for (int at = 0; at < 13; ++at)
        if (found[at] != (const void*)(uintptr_t)(100 + at)) return BAD_PARAM;
    return handle_of(handle) && mode == 2 && factor == 0.125 && epsilon == 1e-5 ? SUCCESS : BAD_PARAM;
}
int cudnnSetTensorNdDescriptor(void* of, int type, int rank, const int* dim, const int* stride) {
    (void)of, (void)type, (void)rank, (void)dim, (void)stride;
    return refuse(BAD_PARAM, "a tensor of the older API");
}

int cudnnBackendCreateDescriptor(int kind, void** made) {
    if (kind < 0 || kind >= KINDS) return refuse(NOT_SUPPORTED, "there is no such kind");
    Descriptor* one = calloc(1, sizeof *one);
    one->magic = OF_DESCRIPTOR, one->kind = kind, *made = one, ++live;
    return SUCCESS;
}
static void clear(Descriptor* one) {
    for (int at = 0; at < one->count; ++at) free(one->attributes[at].elements);
    one->count = one->is_finalized = 0;
}
int cudnnBackendDestroyDescriptor(void* descriptor) {
    Descriptor* one = descriptor_of(descriptor);
    clear(one);
    one->magic = 0;
    free(one);
    --live;
    return SUCCESS;
}
int cudnnBackendInitialize(void* descriptor) { clear(descriptor_of(descriptor)); return SUCCESS; }
int cudnnBackendSetAttribute(void* descriptor, int name, int type, int64_t count, const void* elements) {
    Descriptor* one = descriptor_of(descriptor);
    if (one->is_finalized) return refuse(BAD_PARAM, "it is finalized");
    for (int64_t at = 0; at < count && type == DESCRIPTOR; ++at) descriptor_of(((void* const*)elements)[at]);
    if (type == HANDLE) handle_of(*(void* const*)elements);
    const size_t bytes = (size_t)count * (type == 1 || type == 2 || type == 8 || type == 14 || type == 24 ? type == 2 || type == 24 ? 1 : 4 : 8);
    if (one->count == 32) abort();
    Attribute* attribute = &one->attributes[one->count++];
    *attribute = (Attribute){name, type, count, malloc(bytes + 1)};
    memcpy(attribute->elements, elements, bytes);
    if (name == ENGINE_INDEX) one->engine = *(const int64_t*)elements;
    return SUCCESS;
}
int cudnnBackendFinalize(void* descriptor) {
    Descriptor* one = descriptor_of(descriptor);
    if (one->kind == GRAPH && refuses_graphs) return refuse(GRAPH_PATTERN, "it takes no graphs");
    if (one->kind == ENGINE && (one->engine < 0 || one->engine >= ENGINES)) return refuse(NOT_SUPPORTED, "there is no such engine");
    if (one->kind == PLAN) one->engine = descriptor_of(*(void**)attribute(one, PLAN_CONFIG)->elements)->engine;
    one->is_finalized = 1;
    return SUCCESS;
}
static int give(int64_t value, int64_t room, int64_t* count, void* elements) {
    if (count) *count = 1;
    if (elements && room > 0) *(int64_t*)elements = value;
    return SUCCESS;
}
int cudnnBackendGetAttribute(void* descriptor, int name, int type, int64_t room, int64_t* count, void* elements) {
    Descriptor* one = descriptor_of(descriptor);
    if (!one->is_finalized) return refuse(BAD_PARAM, "it is not finalized");
    if (name == GRAPH_COUNT) return give(ENGINES, room, count, elements);
    if (name == ENGINE_INDEX) return give(one->engine, room, count, elements);
    if (name == PLAN_WORKSPACE) return give(4096, room, count, elements);
    if (name == HEUR_RESULTS) {
        const int64_t found = elements && room < CONFIGS ? room : CONFIGS;
        if (count) *count = found;
        for (int64_t at = 0; elements && at < found; ++at) {
            Descriptor* config = descriptor_of(((void**)elements)[at]);
            if (config->kind != CONFIG) abort();
            config->engine = FIRST_ENGINE + at, config->is_finalized = 1;
        }
        return SUCCESS;
    }
    if (name == CONFIG_ENGINE || name == PLAN_CONFIG) {
        Descriptor* engine = descriptor_of(*(void**)elements);
        engine->engine = one->engine, engine->is_finalized = 1;
        if (count) *count = 1;
        return SUCCESS;
    }
    Attribute* found = attribute(one, name);
    if (!found || found->type != type || type != INT64) return refuse(BAD_PARAM, "it has no such attribute");
    const int64_t given = room < found->count ? room : found->count;
    if (count) *count = elements ? given : found->count;
    if (elements) memcpy(elements, found->elements, 8 * given);
    return SUCCESS;
}
int cudnnBackendExecute(void* handle, void* plan, void* pack) {
    Descriptor* of = descriptor_of(pack);
    if (descriptor_of(plan)->kind != PLAN || of->kind != PACK || !of->is_finalized) return refuse(BAD_PARAM, "it is no plan and its pack");
    last_stream = handle_of(handle)->stream;
    last_pointer = *(int64_t*)attribute(of, PACK_POINTERS)->elements;
    if (microseconds) usleep(microseconds);
    ++executions;
    return SUCCESS;
}
