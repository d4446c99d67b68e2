/* A library between libgpuscope and the virtual GPU's driver. It counts the calls and the objects that were not
 * released, and makes one call fail. It has only the functions that libgpuscope uses.
 *
 * All functions have the same number of parameters, enough for every driver function. All arguments are integers or
 * pointers, so the driver ignores the additional ones. */
#include "shim.h"

#include "gwi_driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long word;
typedef int next_function(word, word, word, word, word, word, word, word, word, word, word);

enum { CONTEXT, STREAM, EVENT, DEVICE, ORDERED, HOST, POOL, MODULE, KIND_COUNT };
static const struct {
    const char *name;
    int kind, change;
} effects[] = {
    {"cuDevicePrimaryCtxRetain", CONTEXT, 1},
    {"cuDevicePrimaryCtxRelease_v2", CONTEXT, -1},
    {"cuStreamCreate", STREAM, 1},
    {"cuStreamDestroy_v2", STREAM, -1},
    {"cuEventCreate", EVENT, 1},
    {"cuEventDestroy_v2", EVENT, -1},
    {"cuMemAlloc_v2", DEVICE, 1},
    {"cuMemFree_v2", DEVICE, -1},
    {"cuMemAllocFromPoolAsync", ORDERED, 1},
    {"cuMemFreeAsync", ORDERED, -1},
    {"cuMemHostAlloc", HOST, 1},
    {"cuMemFreeHost", HOST, -1},
    {"cuMemPoolCreate", POOL, 1},
    {"cuMemPoolDestroy", POOL, -1},
    {"cuModuleLoadDataEx", MODULE, 1},
    {"cuModuleUnload", MODULE, -1},
};

/* All calls come from one thread, so no lock is needed. */
static long call_count, fault_at, alive[KIND_COUNT], left_to_context;
static int fault_code, fault_sticks;
static const char *faulted;

void shim_arm(long at, int code, int sticks)
{
    call_count = 0;
    fault_at = at;
    fault_code = code;
    fault_sticks = sticks;
    faulted = NULL;
    left_to_context = 0;
}

long shim_count(void)
{
    return call_count;
}

const char *shim_faulted(void)
{
    return faulted;
}

long shim_alive(void)
{
    long sum = 0;
    for (int i = 0; i < KIND_COUNT; i++)
        sum += alive[i];
    return sum;
}

long shim_left_to_context(void)
{
    return left_to_context;
}

static void *next(const char *name)
{
    static void *driver;
    if (driver == NULL)
        driver = dlopen(getenv("GPUWHY_SHIM_NEXT"), RTLD_NOW | RTLD_LOCAL);
    void *found = driver == NULL ? NULL : dlsym(driver, name);
    if (found == NULL)
        abort();
    return found;
}

static void note_effect(const char *name)
{
    for (size_t i = 0; i < sizeof effects / sizeof *effects; i++) {
        if (strcmp(effects[i].name, name) == 0)
            alive[effects[i].kind] += effects[i].change;
    }
    if (alive[CONTEXT] != 0)
        return;
    left_to_context += shim_alive(); /* the end of the context freed its remaining objects */
    memset(alive, 0, sizeof alive);
}

/* Return the code with which the call must fail, or 0. After a sticky failure, every call fails, except those for
 * error texts and cuDevicePrimaryCtxRelease(). */
static int refusal(const char *name)
{
    if (strncmp(name, "cuGetError", 10) == 0)
        return 0;
    if (faulted != NULL)
        return fault_sticks && strcmp(name, "cuDevicePrimaryCtxRelease_v2") != 0 ? fault_code : 0;
    if (++call_count != fault_at)
        return 0;
    faulted = name;
    return fault_code;
}

#define WORDS      word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k
#define PASS_WORDS a, b, c, d, e, f, g, h, i, j, k
#define GWI_X(name)                                                                                                    \
    __attribute__((visibility("default"))) int name(WORDS);                                                            \
    int name(WORDS)                                                                                                    \
    {                                                                                                                  \
        next_function *function;                                                                                       \
        int code = refusal(#name);                                                                                     \
        if (code != 0)                                                                                                 \
            return code;                                                                                               \
        void *found = next(#name);                                                                                     \
        memcpy(&function, &found, sizeof found);                                                                       \
        code = function(PASS_WORDS);                                                                                   \
        if (code == 0)                                                                                                 \
            note_effect(#name);                                                                                        \
        return code;                                                                                                   \
    }
GWI_DRIVER_CALLS(GWI_X)
