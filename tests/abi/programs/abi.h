// The part of the backend API that the programs use, by its numbers; and descriptors in a line each.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void* Descriptor;
int cudnnCreate(void** handle);
int cudnnDestroy(void* handle);
int cudnnGetStream(void* handle, void** stream);
int cudnnBackendCreateDescriptor(int kind, Descriptor* made);
int cudnnBackendDestroyDescriptor(Descriptor descriptor);
int cudnnBackendInitialize(Descriptor descriptor);
int cudnnBackendSetAttribute(Descriptor descriptor, int name, int type, int64_t count, const void* elements);
int cudnnBackendGetAttribute(Descriptor descriptor, int name, int type, int64_t room, int64_t* count, void* elements);
int cudnnBackendFinalize(Descriptor descriptor);
int cudnnSetCallback(unsigned mask, void* data, void (*function)(int, void*, const void*, const char*));
void cudnnGetLastErrorString(char* message, size_t room);

enum { SUCCESS = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, DUPLICATED_ENTRIES = 2009, DESCRIPTOR_TYPE = 2012, HOST_ALLOCATION_FAILED = 4003 };
enum { POINTWISE = 0, CONFIG = 3, HEURISTICS = 4, PLAN = 5, OPERATION_POINTWISE = 13, GRAPH = 15, PACK = 16, TENSOR = 17, DEVICE = 38 };
enum { TYPE_HANDLE = 0, TYPE_DATA_TYPE = 1, TYPE_INT64 = 3, TYPE_POINTER = 6, TYPE_HEUR_MODE = 8, TYPE_POINTWISE_MODE = 14,
       TYPE_DESCRIPTOR = 15, TYPE_CHAR = 24 };
enum { POINTWISE_MODE = 0, POINTWISE_MATH_PREC = 1, HEUR_MODE = 200, HEUR_GRAPH = 201, HEUR_RESULTS = 202, HEUR_DEVICE = 204,
       PLAN_HANDLE = 400, PLAN_CONFIG = 401, PLAN_WORKSPACE = 402, PW_DESC = 750, PW_X = 751, PW_Y = 753, PW_DX = 756,
       GRAPH_HANDLE = 800, GRAPH_OPS = 801, TENSOR_ALIGNMENT = 900, TENSOR_TYPE = 901, TENSOR_DIM = 902, TENSOR_STRIDE = 903,
       TENSOR_UID = 906, PACK_UIDS = 1000, PACK_POINTERS = 1001, DEVICE_TEXT = 2702 };

static inline void expect_at(int line, const char* what, long found, long wanted) {
    if (found == wanted) return;
    char error[2048] = "";
    cudnnGetLastErrorString(error, sizeof error);
    fprintf(stderr, "line %d: %s is %ld; wanted: %ld; last error: %s\n", line, what, found, wanted, error);
    _Exit(1);
}
#define EXPECT(what, wanted) expect_at(__LINE__, #what, (long)(what), (long)(wanted))

static inline Descriptor make(int kind) {
    Descriptor made = NULL;
    EXPECT(cudnnBackendCreateDescriptor(kind, &made), SUCCESS);
    return made;
}
static inline void set(Descriptor to, int name, int type, int64_t count, const void* elements) {
    EXPECT(cudnnBackendSetAttribute(to, name, type, count, elements), SUCCESS);
}
static inline void set_int(Descriptor to, int name, int64_t value) { set(to, name, TYPE_INT64, 1, &value); }
static inline void set_enum(Descriptor to, int name, int type, int value) { set(to, name, type, 1, &value); }
static inline void refer(Descriptor to, int name, Descriptor other) { set(to, name, TYPE_DESCRIPTOR, 1, &other); }
static inline Descriptor finalized(Descriptor one) { EXPECT(cudnnBackendFinalize(one), SUCCESS); return one; }
static inline void destroy(Descriptor one) { EXPECT(cudnnBackendDestroyDescriptor(one), SUCCESS); }

// FLOAT [1, 8, 16]
// of so many rows
static inline Descriptor tensor_of(int64_t uid, int64_t rows) {
    const int64_t dim[] = {1, rows, 16}, stride[] = {16 * rows, 16, 1};
    Descriptor made = make(TENSOR);
    set_int(made, TENSOR_UID, uid);
    set_enum(made, TENSOR_TYPE, TYPE_DATA_TYPE, 0);
    set_int(made, TENSOR_ALIGNMENT, 16);
    set(made, TENSOR_DIM, TYPE_INT64, 3, dim);
    set(made, TENSOR_STRIDE, TYPE_INT64, 3, stride);
    return finalized(made);
}
static inline Descriptor tensor(int64_t uid) { return tensor_of(uid, 8); }
static inline Descriptor relu_mode(void) {
    Descriptor made = make(POINTWISE);
    set_enum(made, POINTWISE_MODE, TYPE_POINTWISE_MODE, 100);
    set_enum(made, POINTWISE_MATH_PREC, TYPE_DATA_TYPE, 0);
    return finalized(made);
}
// y = relu(x), not finalized
static inline Descriptor relu(Descriptor mode, Descriptor x, Descriptor y) {
    Descriptor made = make(OPERATION_POINTWISE);
    refer(made, PW_DESC, mode);
    refer(made, PW_X, x);
    refer(made, PW_Y, y);
    return made;
}
// The graph of a ReLU of so many rows from one uid to the next; with a handle, or none.
static inline Descriptor relu_graph_of(int64_t uid, int64_t rows, void* handle) {
    Descriptor mode = relu_mode(), x = tensor_of(uid, rows), y = tensor_of(uid + 1, rows), operation = finalized(relu(mode, x, y)), made = make(GRAPH);
    refer(made, GRAPH_OPS, operation);
    if (handle) set(made, GRAPH_HANDLE, TYPE_HANDLE, 1, &handle);
    destroy(mode); destroy(x); destroy(y); destroy(operation);
    return finalized(made);
}
static inline Descriptor relu_graph(int64_t uid, void* handle) { return relu_graph_of(uid, 8, handle); }
static inline Descriptor hopper(void) {
    const char* text = "{\"name\": \"H200\", \"capability\": \"sm_90\", \"sm_count\": 132, \"shared_bytes_per_block\": 232448, "
                       "\"l2_bytes\": 62914560, \"bytes_per_second\": 4.25e12}";
    Descriptor made = make(DEVICE);
    set(made, DEVICE_TEXT, TYPE_CHAR, (int64_t)strlen(text), text);
    return finalized(made);
}
// The first config that heuristics give, for a device or else the graph's handle.
static inline Descriptor first_config(Descriptor graph, Descriptor device) {
    Descriptor made = make(HEURISTICS), config = make(CONFIG);
    refer(made, HEUR_GRAPH, graph);
    if (device) refer(made, HEUR_DEVICE, device);
    set_enum(made, HEUR_MODE, TYPE_HEUR_MODE, 0);
    finalized(made);
    int64_t count = 0;
    EXPECT(cudnnBackendGetAttribute(made, HEUR_RESULTS, TYPE_DESCRIPTOR, 1, &count, &config), SUCCESS);
    EXPECT(count, 1);
    destroy(made);
    return config;
}
// A plan of that config, not finalized.
static inline Descriptor plan_of(Descriptor graph, Descriptor device) {
    Descriptor config = first_config(graph, device), made = make(PLAN);
    refer(made, PLAN_CONFIG, config);
    destroy(config);
    return made;
}
