// A handle can be created, and in a child only the child's own can be used.
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"

int main(void) {
    void* handle = NULL;
    EXPECT(cudnnCreate(&handle), SUCCESS);
    Descriptor graph = relu_graph(1, handle), plan = plan_of(graph, NULL);
    const pid_t process = fork();
    if (process == 0) {
        void* stream = NULL;
        EXPECT(cudnnGetStream(handle, &stream), NOT_INITIALIZED);
        EXPECT(cudnnBackendFinalize(plan), NOT_INITIALIZED);
        EXPECT(cudnnDestroy(handle), SUCCESS);
        EXPECT(cudnnDestroy(handle), BAD_PARAM);
        destroy(plan);
        destroy(graph);
        destroy(relu_graph(1, NULL));
        exit(0);
    }
    int status = -1;
    EXPECT(waitpid(process, &status, 0), process);
    EXPECT(status, 0);
    void* stream = (void*)1;
    EXPECT(cudnnGetStream(handle, &stream), SUCCESS);
    destroy(plan);
    destroy(graph);
    EXPECT(cudnnDestroy(handle), SUCCESS);
    puts("passed");
    return 0;
}
