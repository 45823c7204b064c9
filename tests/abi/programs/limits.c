// What a program cannot make of descriptors: chains, rings, lists that take too long, lists that end it.
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"

static long resident_pages(void) {
    long size = 0, resident = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    EXPECT(file && fscanf(file, "%ld %ld", &size, &resident) == 2, 1);
    fclose(file);
    return resident;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

// Destroying a chain of 50,000 overflowed the stack.
static void chain(Descriptor mode, Descriptor x, Descriptor y) {
    Descriptor last = finalized(relu(mode, x, y));
    for (int link = 0; link < 50000; ++link) {
        Descriptor next = relu(mode, x, y);
        refer(next, PW_DX, last);
        // the second for its kind, all others because the one before them is not finalized
        EXPECT(cudnnBackendFinalize(next) != SUCCESS, 1);
        destroy(last);
        last = next;
    }
    destroy(last);
}

// Each ring left 2.3 kB.
static void ring(Descriptor mode, Descriptor x, Descriptor y) {
    Descriptor first = finalized(relu(mode, x, y)), second = relu(mode, x, y);
    refer(second, PW_DX, first);
    EXPECT(cudnnBackendFinalize(second), DESCRIPTOR_TYPE);
    EXPECT(cudnnBackendInitialize(first), SUCCESS);
    refer(first, PW_DESC, mode);
    refer(first, PW_X, x);
    refer(first, PW_Y, y);
    refer(first, PW_DX, second);
    EXPECT(cudnnBackendFinalize(first) != SUCCESS, 1);
    destroy(first);
    destroy(second);
}

// Uids in descending order, the last two equal or not.
static Descriptor pack(int64_t count, int has_duplicate) {
    int64_t* uids = malloc(count * sizeof *uids);
    void** pointers = malloc(count * sizeof *pointers);
    for (int64_t i = 0; i < count; ++i) uids[i] = count - i, pointers[i] = (void*)(16 * (i + 1));
    if (has_duplicate) uids[count - 1] = 2;
    Descriptor made = make(PACK);
    set(made, PACK_UIDS, TYPE_INT64, count, uids);
    set(made, PACK_POINTERS, TYPE_POINTER, count, pointers);
    free(uids);
    free(pointers);
    return made;
}

int main(void) {
    Descriptor mode = relu_mode(), x = tensor(1), y = tensor(2);
    chain(mode, x, y);

    for (int pair = 0; pair < 200; ++pair) ring(mode, x, y);
    const long before = resident_pages();
    for (int pair = 0; pair < 2000; ++pair) ring(mode, x, y);
    const long more = resident_pages() - before;
    EXPECT(more * 4096 < 1000000, 1);

    Descriptor large = pack(200000, 0), twice = pack(200000, 1);
    const double start = seconds();
    EXPECT(cudnnBackendFinalize(large), SUCCESS);
    EXPECT(seconds() - start < 0.5, 1);  // entry by entry 4.9 s
    EXPECT(cudnnBackendFinalize(twice), DUPLICATED_ENTRIES);
    destroy(large);
    destroy(twice);

    // 400 MB where there are 300
    const int64_t bytes = 400 << 20;
    char* text = calloc(bytes, 1);
    long size = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    EXPECT(fscanf(file, "%ld", &size), 1);
    fclose(file);
    struct rlimit limit = {(rlim_t)size * sysconf(_SC_PAGESIZE) + (300 << 20), RLIM_INFINITY};
    EXPECT(setrlimit(RLIMIT_AS, &limit), 0);
    Descriptor plan = make(PLAN);
    EXPECT(cudnnBackendSetAttribute(plan, 405, TYPE_CHAR, bytes, text), HOST_ALLOCATION_FAILED);
    Descriptor device = make(DEVICE);
    set(device, DEVICE_TEXT, TYPE_CHAR, bytes / 4, text);
    EXPECT(cudnnBackendFinalize(device), HOST_ALLOCATION_FAILED);
    puts("passed");
    return 0;
}
