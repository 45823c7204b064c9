// Plans that no descriptor has any more are kept up to a limit. The argument: the most modules that may be loaded then.
#include "driver.h"

enum { PLANS = 60 };

int main(int count, char** arguments) {
    EXPECT(count, 2);
    const long most = atol(arguments[1]);
    void* handle = NULL;
    EXPECT(cudnnCreate(&handle), SUCCESS);
    for (int plan = 0; plan < PLANS; ++plan) {
        Descriptor graph = relu_graph(10 * plan, handle);
        destroy(finalized(plan_of(graph, NULL)));
        destroy(graph);
    }
    const long loaded = ((long (*)(void))driver_function("fake_modules"))();
    printf("%ld modules\n", loaded);
    EXPECT(loaded > 0 && loaded <= most, 1);
    EXPECT(most >= PLANS ? loaded : PLANS, PLANS);
    // what a descriptor has stays
    Descriptor graphs[PLANS], plans[PLANS];
    for (int plan = 0; plan < PLANS; ++plan) {
        graphs[plan] = relu_graph(10 * plan, handle);
        plans[plan] = finalized(plan_of(graphs[plan], NULL));
    }
    EXPECT(((long (*)(void))driver_function("fake_modules"))() >= PLANS, 1);
    for (int plan = 0; plan < PLANS; ++plan) destroy(plans[plan]), destroy(graphs[plan]);
    EXPECT(cudnnDestroy(handle), SUCCESS);
    EXPECT(((long (*)(void))driver_function("fake_modules"))(), 0);
    puts("passed");
    return 0;
}
