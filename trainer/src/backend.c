/* List the back ends of this build. The build defines a macro for each back end that it includes. */
#include "backend.h"

#include <string.h>

const struct backend *backend_find(const char *name)
{
    static const struct backend *const all[] = {
#ifdef TRAINER_CPU
        &backend_cpu,
#endif
#ifdef TRAINER_CUDA
        &backend_cuda,
#endif
        &backend_dry,
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
