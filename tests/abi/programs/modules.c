// Plans that no descriptor has any more are kept up to a limit; those of one binary share its module. The argument: the most modules that may be
// loaded then.
#include "driver.h"

enum { PLANS = 24 };

static long modules(void) { return ((long (*)(void))driver_function("fake_modules"))(); }

int main(int count, char** arguments) {
    EXPECT(count, 2);
    const long most = atol(arguments[1]);
    void* handle = NULL;
    EXPECT(cudnnCreate(&handle), SUCCESS);
    for (int plan = 0; plan < PLANS; ++plan) {
        Descriptor graph = relu_graph_of(10 * plan, 8 + plan, handle);
        destroy(finalized(plan_of(graph, NULL)));
        destroy(graph);
    }
    const long loaded = modules();
    printf("%ld modules\n", loaded);
    EXPECT(loaded > 0 && loaded <= most, 1);
    EXPECT(most >= PLANS ? loaded : PLANS, PLANS);
    // what a descriptor has stays
    Descriptor graphs[PLANS], plans[PLANS];
    for (int plan = 0; plan < PLANS; ++plan) {
        graphs[plan] = relu_graph_of(10 * plan, 8 + plan, handle);
        plans[plan] = finalized(plan_of(graphs[plan], NULL));
    }
    EXPECT(modules() >= PLANS, 1);
    // of other uids and one text: no further module
    const long before = modules();
    Descriptor graph = relu_graph_of(10 * PLANS, 8, handle), other = finalized(plan_of(graph, NULL));
    EXPECT(modules(), before);
    destroy(other), destroy(graph);
    for (int plan = 0; plan < PLANS; ++plan) destroy(plans[plan]), destroy(graphs[plan]);
    EXPECT(cudnnDestroy(handle), SUCCESS);
    EXPECT(modules(), 0);
    puts("passed");
    return 0;
}
