/* The calls of <gpuwhy/scope_cuda_wrap.h>: note what a program creates and releases with the CUDA runtime's own calls.
 */
#include "gwi_scope.h"

#include "gwi_driver.h"

#include <gpuwhy/scope_cuda.h>

/* The kinds that one release function takes; the list ends with the kind itself. */
static const gs_kind free_kinds[] = {GS_KIND_ORDERED, GS_KIND_MANAGED, GS_KIND_DEVICE};
static const gs_kind host_kinds[] = {GS_KIND_MAPPED, GS_KIND_PINNED};

static gwi_thing *take(gs_kind kind, uint64_t handle)
{
    const gs_kind *kinds = kind == GS_KIND_DEVICE ? free_kinds : kind == GS_KIND_PINNED ? host_kinds : &kind;
    gwi_thing *thing = gwi_thing_take_any(*kinds, handle);
    while (thing == NULL && *kinds != kind)
        thing = gwi_thing_take_any(*++kinds, handle);
    return thing;
}

int gs_cuda_created_at(const gs_cuda_runtime *runtime, int code, gs_kind kind, uint64_t handle, size_t bytes,
                       const char *call, const char *file, int line)
{
    gs_scope *scope = gwi_current();
    if (scope == NULL || gwi_is_dead(scope))
        return code;
    if (code != 0) {
        gs_status status = gwi_failed(scope, GS_FROM_CUDART, code, call, NULL, file, line);
        (void)status; /* the caller receives the code */
        return code;
    }
    if (handle == 0) /* 0 bytes */
        return 0;
    /* A record with this handle is out of date: the resource was released by calls that are not wrapped. */
    bool may_be_another = kind == GS_KIND_ORDERED || kind == GS_KIND_MANAGED;
    gwi_thing_drop(take(may_be_another ? GS_KIND_DEVICE : kind, handle));
    gs_status status = gs_cuda_adopt_at(scope, runtime, kind, handle, bytes, file, line);
    if (status != GS_NO_MEMORY && status != GS_NO_HOST_MEMORY)
        return 0; /* also if the scope cannot own it: the failure is recorded, and the program has what it asked for */
    gwi_runtime_discard(runtime, kind, handle);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

gs_taken *gs_cuda_take(gs_kind kind, uint64_t handle)
{
    return (gs_taken *)(void *)take(kind, handle);
}

int gs_cuda_released_at(gs_taken *taken, int code, const char *call, const char *file, int line)
{
    gwi_thing *thing = (gwi_thing *)(void *)taken;
    gs_scope *scope = gwi_current();
    if (code != 0 && scope != NULL && !gwi_is_dead(scope)) {
        gs_status status = gwi_failed(scope, GS_FROM_CUDART, code, call, NULL, file, line);
        (void)status; /* the caller receives the code */
    }
    if (thing != NULL && code != 0 && !gwi_is_unknown_to_driver(code))
        gwi_thing_put(thing, thing->scope);
    else
        gwi_thing_drop(thing);
    return code;
}
