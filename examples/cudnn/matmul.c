/* D = relu(A·B + bias) by the backend descriptors of cuDNN 9: HALF tensors, computed in FLOAT.
 *
 *   gcc -std=c11 -O2 examples/cudnn/matmul.c -o matmul -I"$CUDNN/include" -I"$CUDA/include" \
 *       -L"$FOLDER" -lcudnn -L"$CUDA/lib64" -lcudart -lm
 *   LD_LIBRARY_PATH="$FOLDER:$CUDA/lib64" ./matmul
 *
 * FOLDER has the library (libcudnn.so, libcudnn.so.9), CUDNN its headers. _Float16 needs GCC 12 or Clang 15.
 */
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 256, K = 128, N = 512 };          // D[M,N] = A[M,K] · B[K,N] + bias[1,N]
enum { UID_A = 1, UID_B, UID_BIAS, UID_D };  // tensors with memory of the caller's
enum { UID_PRODUCT = 100, UID_SUM };         // virtual: they exist inside the kernel alone

typedef cudnnBackendDescriptor_t Descriptor;

// ---- Statuses ----

// Descriptors made for one purpose, and what failed first: later calls do nothing then, so that only ends are checked.
typedef struct {
    cudnnStatus_t status;
    char reason[4096];  // as cudnnGetLastErrorString gives it: only once, and for the latest failure
    int count;
    Descriptor made[32];
} Session;

static void note(Session *session, cudnnStatus_t status) {
    if (session->status != CUDNN_STATUS_SUCCESS || status == CUDNN_STATUS_SUCCESS) return;
    session->status = status;
    cudnnGetLastErrorString(session->reason, sizeof session->reason);
}

// Ends the program where something failed that should not.
static void expect(const Session *session, const char *what) {
    if (session->status == CUDNN_STATUS_SUCCESS) return;
    fprintf(stderr, "%s: %s\n%s\n", what, cudnnGetErrorString(session->status), session->reason);
    exit(EXIT_FAILURE);
}

static void expect_cuda(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    exit(EXIT_FAILURE);
}

// ---- Descriptors ----

static Descriptor create(Session *session, cudnnBackendDescriptorType_t type) {
    Descriptor made = NULL;
    if (session->status == CUDNN_STATUS_SUCCESS) note(session, cudnnBackendCreateDescriptor(type, &made));
    if (made) session->made[session->count++] = made;
    return made;
}

static void set(Session *session, Descriptor descriptor, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *elements) {
    if (session->status != CUDNN_STATUS_SUCCESS) return;
    note(session, cudnnBackendSetAttribute(descriptor, name, type, count, elements));
}

static void refer(Session *session, Descriptor descriptor, cudnnBackendAttributeName_t name, Descriptor other) {
    set(session, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
}

static Descriptor finalize(Session *session, Descriptor descriptor) {
    if (session->status == CUDNN_STATUS_SUCCESS) note(session, cudnnBackendFinalize(descriptor));
    return descriptor;
}

// How many elements an attribute has; at most `room` of them are written.
static int64_t get(Session *session, Descriptor descriptor, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t room, void *elements) {
    int64_t count = 0;
    if (session->status != CUDNN_STATUS_SUCCESS) return 0;
    note(session, cudnnBackendGetAttribute(descriptor, name, type, room, &count, elements));
    return count;
}

static void destroy_all(Session *session) {
    while (session->count > 0) note(session, cudnnBackendDestroyDescriptor(session->made[--session->count]));
}

// ---- The graph ----

// A row-major matrix, as a batch of one.
static Descriptor matrix(Session *session, int64_t uid, cudnnDataType_t type, int64_t rows, int64_t columns) {
    const Descriptor tensor = create(session, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t dimensions[] = {1, rows, columns}, strides[] = {rows * columns, columns, 1}, alignment = 16;
    const bool is_virtual = uid >= UID_PRODUCT;
    set(session, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(session, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(session, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 3, dimensions);
    set(session, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 3, strides);
    set(session, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(session, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    return finalize(session, tensor);
}

static Descriptor matmul(Session *session, cudnnDataType_t compute, Descriptor a, Descriptor b, Descriptor c) {
    const Descriptor attributes = create(session, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(session, attributes, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finalize(session, attributes);
    const Descriptor operation = create(session, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    refer(session, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, attributes);
    refer(session, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    refer(session, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    refer(session, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    return finalize(session, operation);
}

// y = mode(x, b); b is NULL where the mode has one operand.
static Descriptor pointwise(Session *session, cudnnPointwiseMode_t mode, Descriptor x, Descriptor b, Descriptor y) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const Descriptor attributes = create(session, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(session, attributes, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(session, attributes, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finalize(session, attributes);
    const Descriptor operation = create(session, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    refer(session, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, attributes);
    refer(session, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) refer(session, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    refer(session, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    return finalize(session, operation);
}

static Descriptor graph_of(Session *session, cudnnHandle_t handle, int64_t count, const Descriptor *operations) {
    const Descriptor graph = create(session, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(session, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(session, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, operations);
    return finalize(session, graph);
}

static Descriptor matmul_bias_relu(Session *session, cudnnHandle_t handle) {
    const Descriptor a = matrix(session, UID_A, CUDNN_DATA_HALF, M, K);
    const Descriptor b = matrix(session, UID_B, CUDNN_DATA_HALF, K, N);
    const Descriptor bias = matrix(session, UID_BIAS, CUDNN_DATA_HALF, 1, N);
    const Descriptor product = matrix(session, UID_PRODUCT, CUDNN_DATA_FLOAT, M, N);
    const Descriptor sum = matrix(session, UID_SUM, CUDNN_DATA_FLOAT, M, N);
    const Descriptor d = matrix(session, UID_D, CUDNN_DATA_HALF, M, N);
    const Descriptor operations[] = {
        matmul(session, CUDNN_DATA_FLOAT, a, b, product),
        pointwise(session, CUDNN_POINTWISE_ADD, product, bias, sum),
        pointwise(session, CUDNN_POINTWISE_RELU_FWD, sum, NULL, d),
    };
    return graph_of(session, handle, 3, operations);
}

// ---- Plans ----

static Descriptor ranking(Session *session, Descriptor graph) {
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    const Descriptor heuristics = create(session, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    refer(session, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(session, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    return finalize(session, heuristics);
}

// A plan of the first config that makes one, of those that the heuristics rank highest.
static Descriptor best_plan(Session *session, cudnnHandle_t handle, Descriptor graph) {
    enum { TRIED = 4 };
    const Descriptor heuristics = ranking(session, graph);
    const cudnnBackendAttributeName_t results = CUDNN_ATTR_ENGINEHEUR_RESULTS;
    const int64_t count = get(session, heuristics, results, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL);
    expect(session, "asking the heuristics");
    printf("%lld engine configs\n", (long long)count);

    Descriptor configs[TRIED];
    for (int i = 0; i < TRIED; ++i) configs[i] = create(session, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    get(session, heuristics, results, CUDNN_TYPE_BACKEND_DESCRIPTOR, TRIED, configs);
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < TRIED && i < count; ++i) {
        const Descriptor plan = create(session, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set(session, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
        refer(session, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i]);
        expect(session, "describing the plan");
        status = cudnnBackendFinalize(plan);
        if (status == CUDNN_STATUS_SUCCESS) return plan;
    }
    note(session, status);
    return NULL;
}

static void execute(Session *session, cudnnHandle_t handle, Descriptor plan, void *const pointers[4], void *workspace) {
    const int64_t uids[] = {UID_A, UID_B, UID_BIAS, UID_D};
    const Descriptor pack = create(session, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(session, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 4, uids);
    set(session, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 4, pointers);
    set(session, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finalize(session, pack);
    if (session->status == CUDNN_STATUS_SUCCESS) note(session, cudnnBackendExecute(handle, plan, pack));
}

// ---- The numbers ----

static _Float16 a[M * K], b[K * N], bias[N], d[M * N];

static void fill(_Float16 *values, int count) {
    for (int i = 0; i < count; ++i) values[i] = (_Float16)(2.0 * rand() / RAND_MAX - 1.0);
}

// Whether D is right; prints its largest error. Each of K + 1 additions in FLOAT is wrong by at most 2⁻²³ of the sum of
// all magnitudes (twice what rounding costs: tensor cores may cut bits off). Rounding the result to HALF, of 11
// significant bits, adds at most 2⁻¹¹ of it; or 2⁻²⁵, where it is too small to have all of them.
static bool is_right(void) {
    double largest = 0;
    int wrong = 0;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            double sum = bias[j], magnitude = fabs((double)bias[j]);
            for (int k = 0; k < K; ++k) {
                const double product = (double)a[i * K + k] * (double)b[k * N + j];
                sum += product;
                magnitude += fabs(product);
            }
            const double expected = fmax(sum, 0), found = d[i * N + j];
            const double error = isnan(found) ? INFINITY : fabs(found - expected);
            const double tolerance = (K + 1) * 0x1p-23 * magnitude + 0x1p-11 * expected + 0x1p-25;
            largest = fmax(largest, error);
            wrong += error > tolerance;
        }
    printf("largest error %.3g; %d of %d values beyond the tolerance\n", largest, wrong, M * N);
    return wrong == 0;
}

static void *on_device(const void *host, size_t bytes) {
    void *device = NULL;
    expect_cuda(cudaMalloc(&device, bytes), "cudaMalloc");
    expect_cuda(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
    return device;
}

// ---- The program ----

static bool run(cudnnHandle_t handle) {
    Session session = {0};
    const Descriptor plan = best_plan(&session, handle, matmul_bias_relu(&session, handle));
    int64_t bytes = 0;
    get(&session, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
    expect(&session, "building the plan");
    printf("%lld bytes of workspace\n", (long long)bytes);

    fill(a, M * K), fill(b, K * N), fill(bias, N);
    for (int i = 0; i < M * N; ++i) d[i] = (_Float16)NAN;  // what is not written is found out
    void *const pointers[] = {on_device(a, sizeof a), on_device(b, sizeof b), on_device(bias, sizeof bias),
                              on_device(d, sizeof d)};
    void *workspace = NULL;
    if (bytes > 0) expect_cuda(cudaMalloc(&workspace, (size_t)bytes), "cudaMalloc of the workspace");
    execute(&session, handle, plan, pointers, workspace);
    expect(&session, "executing the plan");
    expect_cuda(cudaMemcpy(d, pointers[3], sizeof d, cudaMemcpyDeviceToHost), "cudaMemcpy of the result");

    for (int i = 0; i < 4; ++i) expect_cuda(cudaFree(pointers[i]), "cudaFree");
    expect_cuda(cudaFree(workspace), "cudaFree of the workspace");
    destroy_all(&session);
    expect(&session, "destroying the descriptors");
    return is_right();
}

// A matmul of DOUBLE has no engine: whoever finds that out first says why.
static void show_refusal(cudnnHandle_t handle) {
    Session session = {0};
    const cudnnDataType_t type = CUDNN_DATA_DOUBLE;
    const Descriptor operation = matmul(&session, type, matrix(&session, UID_A, type, M, K),
                                        matrix(&session, UID_B, type, K, N), matrix(&session, UID_D, type, M, N));
    ranking(&session, graph_of(&session, handle, 1, &operation));
    printf("in DOUBLE: %s\n%s\n", cudnnGetErrorString(session.status), session.reason);
    destroy_all(&session);
}

int main(void) {
    Session session = {0};
    cudnnHandle_t handle = NULL;
    note(&session, cudnnCreate(&handle));
    expect(&session, "cudnnCreate");
    const bool right = run(handle);
    show_refusal(handle);
    note(&session, cudnnDestroy(handle));
    expect(&session, "cudnnDestroy");
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
