/* Resources of the CUDA runtime: create them with its functions, and let scopes own them. */
#include "gwi_driver.h"
#include "gwi_libraries.h"

#include <gpuwhy/scope_cuda.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int malloc_function(void **, size_t);
typedef int malloc_async_function(void **, size_t, CUstream);
typedef int malloc_managed_function(void **, size_t, unsigned);
typedef int free_async_function(void *, CUstream);
typedef int stream_function(CUstream *, unsigned);
typedef int event_function(CUevent *, unsigned);
typedef int last_error_function(void);

enum { ATTACH_GLOBAL = 1 }; /* cudaMemAttachGlobal */

/* ---- finding the runtime ---- */

static pthread_mutex_t find_lock = PTHREAD_MUTEX_INITIALIZER;
static gs_cuda_runtime found; /* complete and constant once `bytes` is not 0 */

static bool find_in(void *handle)
{
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {
#define GS_X(name, parameters) {#name, offsetof(gs_cuda_runtime, name)},
        GS_CUDA_CALLS(GS_X)
#undef GS_X
    };
    if (dlsym(handle, "cudaMalloc") == NULL)
        return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *function = dlsym(handle, rows[i].name);
        memcpy((char *)&found + rows[i].offset, &function, sizeof function);
    }
    found.bytes = sizeof found;
    return true;
}

/* Load the library that GPUSCOPE_CUDART names. Returns false if there is none; `why` has the reason. */
static bool find_named(char *why, size_t why_bytes)
{
    const char *named = getenv("GPUSCOPE_CUDART");
    if (named == NULL || named[0] == '\0') {
        snprintf(why, why_bytes, "if it is linked statically, include <cuda_runtime.h> before <gpuwhy/scope_cuda.h>");
        return false;
    }
    void *handle = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    const char *reason = handle == NULL ? dlerror() : "it has no cudaMalloc";
    if (handle != NULL && find_in(handle))
        return true;
    snprintf(why, why_bytes, "GPUSCOPE_CUDART=%.80s: %s", named, reason == NULL ? "no reason given" : reason);
    return false;
}

/* The handles are never closed, because `found` points into the library. */
static bool find_locked(char *why, size_t why_bytes)
{
    static const char *const files[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
    void *handle = NULL;
    if (found.bytes != 0 || find_in(RTLD_DEFAULT) || find_named(why, why_bytes))
        return true;
    for (size_t i = 0; handle == NULL && i < sizeof files / sizeof *files; i++)
        handle = dlopen(files[i], RTLD_NOW | RTLD_NOLOAD);
    return handle != NULL && find_in(handle);
}

/* Use the program's addresses, or search for the runtime if it passes none. */
static gs_status find(gs_scope *scope, const gs_cuda_runtime **runtime, const char *call, const char *file, int line)
{
    char why[256] = "";
    if (*runtime != NULL)
        return GS_OK;
    pthread_mutex_lock(&find_lock);
    bool is_found = find_locked(why, sizeof why);
    pthread_mutex_unlock(&find_lock);
    *runtime = &found;
    if (is_found)
        return GS_OK;
    return gwi_refuse(scope, GS_NO_LIBRARY, call, file, line, "no CUDA runtime was found; %s", why);
}

/* Read a function's address from a table. A table of a program that was built with an older header is shorter. */
#define ADDRESS(runtime, name, ret_function)                                                                           \
    address((runtime), offsetof(gs_cuda_runtime, name), (ret_function), sizeof *(ret_function))

static bool address(const gs_cuda_runtime *runtime, size_t offset, void *ret_function, size_t bytes)
{
    void (*function)(void) = NULL;
    if (offset + sizeof function <= runtime->bytes)
        memcpy(&function, (const char *)runtime + offset, sizeof function);
    memcpy(ret_function, &function, bytes);
    return function != NULL;
}

/* ---- creating ---- */

/* What a call creates, and the runtime's functions for it. */
typedef struct creator {
    gs_kind kind;
    const char *call, *create, *release;
    size_t create_at, release_at;
} creator;
#define RECIPE(kind_, call_, create_, release_)                                                                        \
    {                                                                                                                  \
        .kind = (kind_), .call = (call_), .create = #create_, .release = #release_,                                    \
        .create_at = offsetof(gs_cuda_runtime, create_), .release_at = offsetof(gs_cuda_runtime, release_)             \
    }

/* cudaFree() also frees stream-ordered memory. The end of a scope has waited for all work before. */
static const creator device_memory = RECIPE(GS_KIND_DEVICE, "gs_cuda_malloc", cudaMalloc, cudaFree);
static const creator ordered_memory = RECIPE(GS_KIND_ORDERED, "gs_cuda_malloc_async", cudaMallocAsync, cudaFree);
static const creator pinned_memory = RECIPE(GS_KIND_PINNED, "gs_cuda_malloc_host", cudaMallocHost, cudaFreeHost);
static const creator managed_memory = RECIPE(GS_KIND_MANAGED, "gs_cuda_malloc_managed", cudaMallocManaged, cudaFree);
static const creator streams = RECIPE(GS_KIND_STREAM, "gs_cuda_stream", cudaStreamCreateWithFlags, cudaStreamDestroy);
static const creator events = RECIPE(GS_KIND_EVENT, "gs_cuda_event", cudaEventCreateWithFlags, cudaEventDestroy);

/* A creation in progress. */
typedef struct making {
    const creator *recipe;
    const gs_cuda_runtime *runtime;
    gwi_thing *thing;
} making;

/* Find the functions and reserve the memory in the scope's budget. *ret_create is the function that creates. */
static gs_status begin(making *make, gs_scope *scope, uint64_t bytes, void *ret_create, const char *file, int line)
{
    const creator *recipe = make->recipe;
    gs_release *release;
    gs_status status = gwi_usable(scope, recipe->call, file, line);
    if (status == GS_OK)
        status = find(scope, &make->runtime, recipe->call, file, line);
    if (status != GS_OK)
        return status;
    if (!address(make->runtime, recipe->create_at, ret_create, sizeof(void (*)(void))) ||
        !address(make->runtime, recipe->release_at, &release, sizeof release))
        return gwi_refuse(scope, GS_NO_LIBRARY, recipe->call, file, line, "the CUDA runtime has no %s", recipe->create);
    status = gwi_thing_new(scope, recipe->kind, bytes, recipe->call, file, line, &make->thing);
    if (status != GS_OK)
        return status;
    make->thing->release = release;
    make->thing->release_call = recipe->release;
    make->thing->release_source = GS_FROM_CUDART;
    return GS_OK;
}

/* For 0 bytes the runtime returns NULL, which is no resource. */
static gs_status finish(const making *make, int code, const void *handle)
{
    if (code == 0 && handle == NULL) {
        gwi_thing_drop(make->thing);
        return GS_OK;
    }
    return gwi_thing_made(make->thing, GS_FROM_CUDART, code, make->recipe->create, handle);
}

static gs_status make_memory(const creator *recipe, gs_scope *scope, const gs_cuda_runtime *runtime, size_t bytes,
                             void **ret, const char *file, int line)
{
    making make = {.recipe = recipe, .runtime = runtime};
    malloc_function *create;
    void *memory = NULL;
    gs_status status = begin(&make, scope, bytes, &create, file, line);
    if (status != GS_OK)
        return status;
    int code = create(&memory, bytes);
    status = finish(&make, code, memory);
    if (status == GS_OK)
        *ret = memory;
    return status;
}

gs_status gs_cuda_malloc_at(gs_scope *scope, const gs_cuda_runtime *runtime, size_t bytes, void **ret, const char *file,
                            int line)
{
    return make_memory(&device_memory, scope, runtime, bytes, ret, file, line);
}

gs_status gs_cuda_malloc_host_at(gs_scope *scope, const gs_cuda_runtime *runtime, size_t bytes, void **ret,
                                 const char *file, int line)
{
    return make_memory(&pinned_memory, scope, runtime, bytes, ret, file, line);
}

gs_status gs_cuda_malloc_async_at(gs_scope *scope, const gs_cuda_runtime *runtime, size_t bytes, CUstream stream,
                                  void **ret, const char *file, int line)
{
    making make = {.recipe = &ordered_memory, .runtime = runtime};
    malloc_async_function *create;
    void *memory = NULL;
    gs_status status = begin(&make, scope, bytes, &create, file, line);
    if (status != GS_OK)
        return status;
    int code = create(&memory, bytes, stream);
    status = finish(&make, code, memory);
    if (status == GS_OK)
        *ret = memory;
    return status;
}

gs_status gs_cuda_malloc_managed_at(gs_scope *scope, const gs_cuda_runtime *runtime, size_t bytes, void **ret,
                                    const char *file, int line)
{
    making make = {.recipe = &managed_memory, .runtime = runtime};
    malloc_managed_function *create;
    void *memory = NULL;
    gs_status status = begin(&make, scope, bytes, &create, file, line);
    if (status != GS_OK)
        return status;
    int code = create(&memory, bytes, ATTACH_GLOBAL);
    status = finish(&make, code, memory);
    if (status == GS_OK)
        *ret = memory;
    return status;
}

gs_status gs_cuda_stream_at(gs_scope *scope, const gs_cuda_runtime *runtime, unsigned flags, CUstream *ret,
                            const char *file, int line)
{
    making make = {.recipe = &streams, .runtime = runtime};
    stream_function *create;
    CUstream stream = NULL;
    gs_status status = begin(&make, scope, 0, &create, file, line);
    if (status != GS_OK)
        return status;
    int code = create(&stream, flags);
    status = finish(&make, code, stream);
    if (status == GS_OK)
        *ret = stream;
    return status;
}

gs_status gs_cuda_event_at(gs_scope *scope, const gs_cuda_runtime *runtime, unsigned flags, CUevent *ret,
                           const char *file, int line)
{
    making make = {.recipe = &events, .runtime = runtime};
    event_function *create;
    CUevent event = NULL;
    gs_status status = begin(&make, scope, 0, &create, file, line);
    if (status != GS_OK)
        return status;
    int code = create(&event, flags);
    status = finish(&make, code, event);
    if (status == GS_OK)
        *ret = event;
    return status;
}

/* ---- releasing and adopting ---- */

gs_status gs_cuda_free_at(gs_scope *scope, void *memory, const char *file, int line)
{
    uint64_t handle = GS_NUMBER(memory);
    gs_kind kind = GS_KIND_DEVICE;
    if (memory == NULL)
        return gwi_usable(scope, "gs_cuda_free", file, line);
    if (scope != NULL && gwi_thing_has(scope, GS_KIND_ORDERED, handle))
        kind = GS_KIND_ORDERED;
    else if (scope != NULL && gwi_thing_has(scope, GS_KIND_MANAGED, handle))
        kind = GS_KIND_MANAGED;
    return gwi_thing_close(scope, kind, handle, false, "gs_cuda_free", file, line);
}

gs_status gs_cuda_free_async_at(gs_scope *scope, const gs_cuda_runtime *runtime, void *memory, CUstream stream,
                                const char *file, int line)
{
    static const char call[] = "gs_cuda_free_async";
    free_async_function *release;
    gs_status status = gwi_usable(scope, call, file, line);
    if (status != GS_OK || memory == NULL)
        return status;
    status = find(scope, &runtime, call, file, line);
    if (status != GS_OK)
        return status;
    if (!ADDRESS(runtime, cudaFreeAsync, &release))
        return gwi_refuse(scope, GS_NO_LIBRARY, call, file, line, "the CUDA runtime has no cudaFreeAsync");
    gwi_thing *thing = gwi_thing_take(scope, GS_KIND_ORDERED, GS_NUMBER(memory), false);
    if (thing == NULL)
        return gwi_refuse(scope, GS_MISUSE, call, file, line, "the scope owns no such %s (%p)",
                          gs_kind_text(GS_KIND_ORDERED), memory);
    int code = release(memory, stream);
    if (code == 0 || gwi_is_unknown_to_driver(code))
        gwi_thing_drop(thing);
    else
        gwi_thing_put(thing, thing->scope);
    return code == 0 ? GS_OK : gwi_failed(scope, GS_FROM_CUDART, code, "cudaFreeAsync", NULL, file, line);
}

static const creator *creator_of(gs_kind kind)
{
    static const creator *const creators[] = {&device_memory,  &ordered_memory, &pinned_memory,
                                              &managed_memory, &streams,        &events};
    for (size_t i = 0; i < sizeof creators / sizeof *creators; i++) {
        if (creators[i]->kind == kind)
            return creators[i];
    }
    return NULL;
}

gs_status gs_cuda_adopt_at(gs_scope *scope, const gs_cuda_runtime *runtime, gs_kind kind, uint64_t handle, size_t bytes,
                           const char *file, int line)
{
    static const char call[] = "gs_cuda_adopt";
    const creator *recipe = creator_of(kind);
    gs_release *release;
    if (recipe == NULL)
        return gwi_refuse(scope, GS_MISUSE, call, file, line, "the CUDA runtime does not create a %s",
                          gs_kind_text(kind));
    gs_status status = find(scope, &runtime, call, file, line);
    if (status != GS_OK)
        return status;
    if (!address(runtime, recipe->release_at, &release, sizeof release))
        return gwi_refuse(scope, GS_NO_LIBRARY, call, file, line, "the CUDA runtime has no %s", recipe->release);
    return gwi_adopt(scope, kind, handle, bytes, GS_FROM_CUDART, release, recipe->release, call, file, line);
}

void gwi_runtime_discard(const gs_cuda_runtime *runtime, gs_kind kind, uint64_t handle)
{
    const creator *recipe = creator_of(kind);
    gs_release *release;
    if (runtime == NULL)
        runtime = &found;
    if (recipe != NULL && address(runtime, recipe->release_at, &release, sizeof release))
        release((void *)(uintptr_t)handle);
}

/* ---- launches ---- */

gs_status gs_cuda_launched_at(const gs_cuda_runtime *runtime, const char *call, const char *file, int line)
{
    gs_scope *scope = gwi_current();
    last_error_function *last_error;
    if (scope == NULL)
        return gwi_refuse(NULL, GS_MISUSE, "GS_CUDA_LAUNCHED", file, line,
                          "this thread has not entered a scope: call gs_enter()");
    if (gwi_is_dead(scope))
        return GS_DEAD;
    gs_status status = find(scope, &runtime, "GS_CUDA_LAUNCHED", file, line);
    if (status != GS_OK)
        return status;
    if (!ADDRESS(runtime, cudaGetLastError, &last_error))
        return gwi_refuse(scope, GS_NO_LIBRARY, "GS_CUDA_LAUNCHED", file, line,
                          "the CUDA runtime has no cudaGetLastError");
    gwi_launched = (gwi_last_launch){.call = call, .file = file, .line = line};
    int code = last_error();
    if (code != 0)
        return gwi_failed(scope, GS_FROM_CUDART, code, "cudaGetLastError", call, file, line);
    if ((scope->flags & GS_WAIT_FOR_LAUNCHES) == 0)
        return GS_OK;
    code = gwi_cuda.cuCtxSynchronize();
    return code == 0 ? GS_OK : gwi_failed(scope, GS_FROM_DRIVER, code, "cuCtxSynchronize", call, file, line);
}
