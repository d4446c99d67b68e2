/* Creates and destroys the handles of cuDNN, cuBLAS, cuBLASLt and NCCL, and sets their stream. The first handle of a
 * library loads it. The program makes all other calls. */
#include "gwi_libraries.h"

#include <string.h>

typedef int nccl_id_function(gs_nccl_id *ret);
typedef int nccl_create_function(void **ret, int ranks, gs_nccl_id id, int rank);

/* Load a library. On failure, store the failure in the scope. */
static gs_status load(gs_scope *scope, gs_source source, const char *call, const char *file, int line,
                      const gwi_library **ret_library)
{
    char why[256];
    gs_status status = gwi_library_load(source, ret_library, why, sizeof why);
    return status == GS_OK ? status : gwi_refuse(scope, status, call, file, line, "%s", why);
}

static gs_status make(gs_scope *scope, gs_source source, CUstream stream, void **ret, const char *call,
                      const char *file, int line)
{
    const gwi_library *lib;
    gwi_thing *thing;
    void *handle = NULL;
    gs_status status = gwi_usable(scope, call, file, line);
    if (status == GS_OK)
        status = load(scope, source, call, file, line, &lib);
    if (status == GS_OK)
        status = gwi_thing_new(scope, lib->kind, 0, call, file, line, &thing);
    if (status != GS_OK)
        return status;
    int code = lib->do_create(&handle);
    status = gwi_thing_made(thing, lib->source, code, lib->create, handle);
    if (status != GS_OK)
        return status;
    code = lib->do_set_stream == NULL ? 0 : lib->do_set_stream(handle, stream);
    if (code != 0) {
        status = gwi_failed(scope, source, code, lib->set_stream, NULL, file, line);
        gs_status closed = gs_handle_close_at(scope, lib->kind, handle, file, line);
        (void)closed; /* ignore the result: only the first failure is reported */
        return status;
    }
    *ret = handle;
    return GS_OK;
}

gs_status gs_cudnn_at(gs_scope *scope, CUstream stream, void **ret, const char *file, int line)
{
    return make(scope, GS_FROM_CUDNN, stream, ret, "gs_cudnn", file, line);
}

gs_status gs_cublas_at(gs_scope *scope, CUstream stream, void **ret, const char *file, int line)
{
    return make(scope, GS_FROM_CUBLAS, stream, ret, "gs_cublas", file, line);
}

gs_status gs_cublaslt_at(gs_scope *scope, void **ret, const char *file, int line)
{
    return make(scope, GS_FROM_CUBLASLT, NULL, ret, "gs_cublaslt", file, line);
}

gs_status gs_nccl_new_id_at(gs_scope *scope, gs_nccl_id *ret, const char *file, int line)
{
    const gwi_library *lib;
    nccl_id_function *get_id;
    gs_status status = gwi_usable(scope, "gs_nccl_new_id", file, line);
    if (status == GS_OK)
        status = load(scope, GS_FROM_NCCL, "gs_nccl_new_id", file, line, &lib);
    if (status != GS_OK)
        return status;
    if (!gwi_library_find(lib->handle, "ncclGetUniqueId", &get_id))
        return gwi_refuse(scope, GS_NO_LIBRARY, "gs_nccl_new_id", file, line, "the library has no ncclGetUniqueId");
    int code = get_id(ret);
    return code == 0 ? GS_OK : gwi_failed(scope, GS_FROM_NCCL, code, "ncclGetUniqueId", NULL, file, line);
}

gs_status gs_nccl_at(gs_scope *scope, int ranks, const gs_nccl_id *id, int rank, void **ret, const char *file, int line)
{
    const gwi_library *lib;
    gwi_thing *thing;
    nccl_create_function *create;
    void *handle = NULL;
    gs_status status = gwi_usable(scope, "gs_nccl", file, line);
    if (status == GS_OK)
        status = load(scope, GS_FROM_NCCL, "gs_nccl", file, line, &lib);
    if (status == GS_OK)
        status = gwi_thing_new(scope, GS_KIND_NCCL, 0, "gs_nccl", file, line, &thing);
    if (status != GS_OK)
        return status;
    /* ncclCommInitRank takes other parameters than the other libraries' functions */
    memcpy(&create, &lib->do_create, sizeof create);
    int code = create(&handle, ranks, *id, rank);
    status = gwi_thing_made(thing, lib->source, code, lib->create, handle);
    if (status == GS_OK)
        *ret = handle;
    return status;
}

gs_status gs_handle_close_at(gs_scope *scope, gs_kind kind, void *handle, const char *file, int line)
{
    if (gwi_library_for(kind) == NULL)
        return gwi_refuse(scope, GS_MISUSE, "gs_handle_close", file, line, "%s is not a library handle",
                          gs_kind_text(kind));
    return gwi_thing_close(scope, kind, (uint64_t)(uintptr_t)handle, false, "gs_handle_close", file, line);
}
