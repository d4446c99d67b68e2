/* The fake driver: see fake_driver.h. */
#include "fake_driver.h"

#include "gw_api.h"
#include "gw_cuda_abi.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEN __attribute__((visibility("default")))

enum { FAKE_TOTAL = 1 << 30, BLOCKS_MAX = 4096 };

static const char *last_called = "";
static _Atomic long call_count;
static struct {
    const char *name;
    int result;
} scripted;
static _Atomic uint64_t used_bytes;
static _Atomic uint64_t next_address = 0x7f0000000000;
static _Atomic int capturing;
static uint64_t block_bytes[BLOCKS_MAX];
static __thread CUcontext current;
static char primary_context[8], log_marker[8];
static int initialised;
static char log_text[4096];

SEEN const char *fake_last_called(void);
SEEN long fake_call_count(void);
SEEN void fake_set_result(const char *name, int result);
SEEN void fake_set_visitor(void (*visitor)(const char *name));
SEEN int fake_object[4] = {1, 2, 3, 4};

const char *fake_last_called(void)
{
    return last_called;
}

long fake_call_count(void)
{
    return call_count;
}

void fake_set_result(const char *name, int result)
{
    scripted.name = name;
    scripted.result = result;
}

static void (*visit)(const char *name);

/* Set a function that every exported function calls first; NULL: none. */
void fake_set_visitor(void (*visitor)(const char *name))
{
    visit = visitor;
}

int fake_called(const char *name)
{
    if (visit != NULL)
        visit(name);
    last_called = name;
    atomic_fetch_add(&call_count, 1);
    errno = 77; /* a driver may change errno, and the program must see the driver's value */
    return scripted.name != NULL && strcmp(scripted.name, name) == 0 ? scripted.result : 0;
}

/* The functions below replace the weak ones that fake_gen generates. The linker map hides those that this build
 * does not export. */
#define CALLED()                                                                                                       \
    int scripted_result = fake_called(__func__);                                                                       \
    if (scripted_result != 0)                                                                                          \
    return scripted_result
/* As CALLED(), and a missing `output` is an invalid value. */
#define CALLED_FOR(output)                                                                                             \
    CALLED();                                                                                                          \
    if ((output) == NULL)                                                                                              \
    return 1

/* A function that always succeeds, and has this effect. */
#define SUCCEEDS(name, parameters, effect)                                                                             \
    int name parameters                                                                                                \
    {                                                                                                                  \
        CALLED();                                                                                                      \
        effect;                                                                                                        \
        return 0;                                                                                                      \
    }

SUCCEEDS(cuInit, (unsigned flags), initialised = 1)
SUCCEEDS(cuCtxSetCurrent, (CUcontext context), current = context)
SUCCEEDS(cuCtxPushCurrent_v2, (CUcontext context), current = context)
SUCCEEDS(cuMemRelease, (uint64_t handle), (void)0)
SUCCEEDS(cuStreamBeginCapture_v2, (void *stream, int mode), capturing++)

int cuDriverGetVersion(int *version)
{
    CALLED_FOR(version);
    *version = fake_version;
    return 0;
}

int cuDeviceGetName(char *name, int len, int dev)
{
    CALLED_FOR(name);
    snprintf(name, (size_t)len, "Fake card");
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int dev)
{
    CALLED_FOR(bytes);
    *bytes = FAKE_TOTAL;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int dev)
{
    CALLED_FOR(value);
    *value = attribute * 10;
    return 0;
}

int cuDevicePrimaryCtxRetain(CUcontext *context, int dev)
{
    CALLED();
    if (!initialised)
        return 3;
    if (context == NULL)
        return 1;
    *context = (CUcontext)primary_context;
    return 0;
}

int cuCtxCreate_v2(CUcontext *context, unsigned flags, int dev)
{
    static char contexts[8];
    static int count;
    CALLED();
    if (context == NULL || count == 8)
        return 1;
    *context = (CUcontext)&contexts[count++];
    return 0;
}

int cuCtxPopCurrent_v2(CUcontext *context)
{
    CALLED();
    if (context != NULL)
        *context = current;
    current = NULL;
    return 0;
}

int cuCtxGetCurrent(CUcontext *context)
{
    CALLED_FOR(context);
    *context = current;
    return 0;
}

int cuCtxGetDevice(int *dev)
{
    CALLED();
    if (current == NULL)
        return 201;
    if (dev == NULL)
        return 1;
    *dev = 0;
    return 0;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CALLED();
    if (current == NULL)
        return 201;
    if (free_bytes == NULL || total == NULL)
        return 1;
    *free_bytes = FAKE_TOTAL - used_bytes - (64u << 20);
    *total = FAKE_TOTAL;
    return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    CALLED();
    if (address == NULL || bytes == 0)
        return 1;
    if (bytes > FAKE_TOTAL - used_bytes - (64u << 20))
        return 2;
    for (int i = 0; i < BLOCKS_MAX; i++) {
        if (block_bytes[i] == 0) {
            block_bytes[i] = bytes;
            used_bytes += bytes;
            *address = next_address + ((uint64_t)i << 31);
            return 0;
        }
    }
    return 2;
}

int cuMemFree_v2(uint64_t address)
{
    uint64_t i = (address - next_address) >> 31;
    CALLED();
    if (address == 0)
        return 0;
    if (i >= BLOCKS_MAX || block_bytes[i] == 0)
        return 1;
    used_bytes -= block_bytes[i];
    block_bytes[i] = 0;
    return 0;
}

int cuMemAllocManaged(uint64_t *address, size_t bytes, unsigned flags)
{
    CALLED();
    return cuMemAlloc_v2(address, bytes);
}

int cuMemCreate(uint64_t *handle, size_t bytes, const void *prop, unsigned long long flags)
{
    CALLED();
    return cuMemAlloc_v2(handle, bytes);
}

int cuStreamEndCapture(void *stream, void **graph)
{
    CALLED();
    if (capturing == 0)
        return 401;
    capturing--;
    if (graph != NULL)
        *graph = primary_context;
    return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    CALLED();
    if (name == NULL || strcmp(name, "missing") == 0)
        return 500;
    if (function != NULL)
        *function = primary_context;
    return 0;
}

int cuStreamQuery(void *stream)
{
    CALLED();
    return 600;
}

int cuLogsCurrent(void **iterator, unsigned flags)
{
    CALLED_FOR(iterator);
    *(void **)iterator = log_marker;
    snprintf(log_text, sizeof log_text, "Returning 2 (CUDA_ERROR_OUT_OF_MEMORY) from cuMemAlloc_v2\nsecond line\n");
    return 0;
}

int cuLogsDumpToMemory(void *iterator, char *buffer, size_t *bytes, unsigned flags)
{
    CALLED();
    if (buffer == NULL || bytes == NULL)
        return 1;
    size_t have = strlen(log_text);
    if (have + 1 > *bytes)
        return 1;
    memcpy(buffer, log_text, have + 1);
    *bytes = have;
    log_text[0] = '\0';
    return 0;
}

/* Return the function for a name, as this version of the driver resolves it; NULL: it has no such symbol. Some
 * names simulate functions of the future. */
static void *resolve(const char *name, int version, uint64_t flags)
{
    int fn = gw_api_resolve(name, version < fake_version ? version : fake_version, (flags & 2) != 0);
    const char *symbol = fn >= 0 ? gw_api_fns[fn].symbol : NULL;
    if (strcmp(name, "cuMemAlloc") == 0 && version >= 13020)
        symbol = "cuMemAlloc_v9";
    if (strcmp(name, "cuFutureThing") == 0)
        symbol = "cuFutureThing";
    if (strcmp(name, "cuTwoInOne") == 0)
        symbol = "cuMemFreeHost";
    for (int i = 0; symbol != NULL && i < fake_export_count; i++)
        if (strcmp(fake_exports[i].name, symbol) == 0)
            return fake_exports[i].address;
    return NULL;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    CALLED();
    if (name == NULL || function == NULL)
        return 1;
    *function = resolve(name, version, flags);
    if (status != NULL)
        *status = *function != NULL ? 0 : 1;
    return *function != NULL ? 0 : 500;
}

int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    CALLED();
    if (name == NULL || function == NULL)
        return 1;
    *function = resolve(name, version, flags);
    return *function != NULL ? 0 : 500;
}
