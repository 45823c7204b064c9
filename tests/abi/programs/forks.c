// Children of a threaded program use descriptors, and plans for device properties. The arguments: how many children, and
// whether they build a plan.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"

static atomic_bool is_over;
static atomic_long calls;

static void* work(void* argument) {
    const int64_t uid = (int64_t)(intptr_t)argument;
    while (!atomic_load(&is_over)) {
        // half of the threads do what takes locks, and nothing beside
        for (int i = 0; i < 100; ++i) destroy(make(TENSOR));
        if (uid % 2) destroy(relu_graph(uid, NULL));
        atomic_fetch_add(&calls, 1);
    }
    return NULL;
}

// A graph, what heuristics say of it, and a plan.
static void use(int builds) {
    for (int i = 0; i < 100; ++i) destroy(make(TENSOR));
    Descriptor graph = relu_graph(1, NULL), device = hopper();
    if (builds) {
        Descriptor plan = finalized(plan_of(graph, device));
        int64_t bytes = -1, count = 0;
        EXPECT(cudnnBackendGetAttribute(plan, PLAN_WORKSPACE, TYPE_INT64, 1, &count, &bytes), SUCCESS);
        EXPECT(bytes >= 0, 1);
        destroy(plan);
    } else {
        destroy(first_config(graph, device));
    }
    destroy(graph);
    destroy(device);
}

// What a child does; it may have one of its own.
static void child(int builds, int forks) {
    alarm(30);  // one that hangs is killed
    use(builds);
    if (forks) {
        const pid_t grandchild = fork();
        if (grandchild == 0) use(0), exit(0);
        int status = -1;
        EXPECT(waitpid(grandchild, &status, 0), grandchild);
        EXPECT(status, 0);
    }
    exit(0);
}

// A callback that waits until the fork is over, as one does that wants the lock of an interpreter.
static pthread_mutex_t interpreter = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static atomic_bool is_waiting;
static void log_record(int severity, void* data, const void* facts, const char* message) {
    (void)severity, (void)data, (void)facts, (void)message;
    atomic_store(&is_waiting, 1);
    pthread_mutex_lock(&interpreter);
    pthread_mutex_unlock(&interpreter);
}
static void* call(void* unused) {
    (void)unused;
    destroy(tensor(5));
    return NULL;
}

static int succeeded(pid_t process) {
    int status = -1;
    EXPECT(waitpid(process, &status, 0), process);
    return status == 0;
}

int main(int count, char** arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);  // what is not written yet would be written by every child
    const int children = atoi(arguments[1]), builds = count > 2 && atoi(arguments[2]);
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, work, (void*)(intptr_t)(10 * i + i % 2));
    while (atomic_load(&calls) < 100) usleep(100);
    int good = 0;
    for (int number = 0; number < children; ++number) {
        const pid_t process = fork();
        if (process == 0) child(builds && number % 10 == 0, number % 20 == 0);
        good += succeeded(process);
        if (number == children / 2) use(builds);  // later children find the kernel
    }
    const long before = atomic_load(&calls);
    while (atomic_load(&calls) < before + 100) usleep(100);  // the parent's threads go on
    atomic_store(&is_over, 1);
    for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
    printf("%d of %d\n", good, children);
    EXPECT(good, children);

    // a call that does not end before the fork
    pthread_t caller;
    pthread_mutex_lock(&interpreter);
    EXPECT(cudnnSetCallback(1 << 3, NULL, log_record), SUCCESS);
    atomic_store(&is_waiting, 0);
    pthread_create(&caller, NULL, call, NULL);
    while (!atomic_load(&is_waiting)) usleep(100);
    const pid_t process = fork();
    if (process == 0) {
        interpreter = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
        EXPECT(cudnnSetCallback(0, NULL, NULL), SUCCESS);
        child(builds, 1);
    }
    EXPECT(succeeded(process), 1);
    EXPECT(cudnnSetCallback(0, NULL, NULL), SUCCESS);
    pthread_mutex_unlock(&interpreter);
    pthread_join(caller, NULL);
    puts("passed");
    return 0;
}
