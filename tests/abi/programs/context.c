// The caller's current device and context are after every call what they were before. The argument: whether plans are built.
#include "driver.h"

static void* contexts[2];

static void require_current(void* wanted, int device) {
    void* current = (void*)1;
    EXPECT(CU(cuCtxGetCurrent, &current), SUCCESS);
    EXPECT(current == wanted, 1);
    if (!wanted) return;
    int found = -1;
    EXPECT(CU(cuCtxGetDevice, &found), SUCCESS);
    EXPECT(found, device);
}

// A handle of one device, and perhaps a plan, come and go; `keeper` is current when they go.
static void come_and_go(int device, void* keeper, int keeper_device, int builds) {
    void* handle = NULL;
    EXPECT(CU(cuCtxSetCurrent, contexts[device]), SUCCESS);
    EXPECT(cudnnCreate(&handle), SUCCESS);
    require_current(contexts[device], device);
    Descriptor graph = relu_graph(1, handle), plan = plan_of(graph, NULL);
    EXPECT(CU(cuCtxSetCurrent, keeper), SUCCESS);
    if (builds) EXPECT(cudnnBackendFinalize(plan), SUCCESS);
    require_current(keeper, keeper_device);
    EXPECT(cudnnDestroy(handle), SUCCESS);
    require_current(keeper, keeper_device);
    destroy(graph);
    require_current(keeper, keeper_device);
    destroy(plan);  // the last that holds the device
    require_current(keeper, keeper_device);
}

int main(int count, char** arguments) {
    const int builds = count > 1 && atoi(arguments[1]);
    int devices = 0;
    EXPECT(CU(cuInit, 0), SUCCESS);
    EXPECT(CU(cuDeviceGetCount, &devices), SUCCESS);
    EXPECT(devices, 2);
    for (int device = 0; device < 2; ++device) EXPECT(CU(cuDevicePrimaryCtxRetain, &contexts[device], device), SUCCESS);
    for (int device = 0; device < 2; ++device) {
        come_and_go(device, contexts[0], 0, builds);
        come_and_go(device, contexts[1], 1, builds);
        come_and_go(device, NULL, -1, builds);
    }
    // with none current the first device is meant, and none is current afterwards
    void* handle = NULL;
    EXPECT(CU(cuCtxSetCurrent, NULL), SUCCESS);
    EXPECT(cudnnCreate(&handle), SUCCESS);
    require_current(NULL, -1);
    EXPECT(cudnnDestroy(handle), SUCCESS);
    require_current(NULL, -1);
    // where the library is the last that holds the context of a device
    EXPECT(CU(cuCtxSetCurrent, contexts[0]), SUCCESS);
    EXPECT(cudnnCreate(&handle), SUCCESS);
    EXPECT(CU(cuCtxSetCurrent, contexts[1]), SUCCESS);
    EXPECT(CU(cuDevicePrimaryCtxRelease_v2, 0), SUCCESS);
    EXPECT(cudnnDestroy(handle), SUCCESS);
    require_current(contexts[1], 1);
    uint64_t memory = 0;
    EXPECT(CU(cuMemAlloc_v2, &memory, (size_t)256), SUCCESS);
    EXPECT(CU(cuMemFree_v2, memory), SUCCESS);
    puts("passed");
    return 0;
}
