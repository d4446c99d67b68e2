/* Create and destroy the handles of cuDNN, cuBLAS, cuBLASLt and NCCL. The first handle loads its library. The program
 * itself uses the handles. */
#include "gwi_scope.h"

#include "gwi_driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef int create_function(void **ret);
typedef int destroy_function(void *handle);
typedef int set_stream_function(void *handle, CUstream stream);
typedef const char *error_function(int code);
typedef int nccl_id_function(gs_nccl_id *ret);
typedef int nccl_create_function(void **ret, int ranks, gs_nccl_id id, int rank);

typedef struct library {
    gs_source source;
    gs_kind kind;
    const char *variable; /* environment variable with the name of another file */
    const char *files[4]; /* file names for the dynamic loader, newest version first */
    const char *create, *destroy, *set_stream, *error;
    void *handle; /* from dlopen(), never closed; load_lock protects this field and the fields below */
    create_function *do_create;
    destroy_function *do_destroy;
    set_stream_function *do_set_stream;
    error_function *do_error;
} library;

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static library libraries[] = {
    {.source = GS_FROM_CUDNN,
     .kind = GS_KIND_CUDNN,
     .variable = "GPUSCOPE_CUDNN",
     .files = {"libcudnn.so.9", "libcudnn.so.8"},
     .create = "cudnnCreate",
     .destroy = "cudnnDestroy",
     .set_stream = "cudnnSetStream",
     .error = "cudnnGetErrorString"},
    {.source = GS_FROM_CUBLAS,
     .kind = GS_KIND_CUBLAS,
     .variable = "GPUSCOPE_CUBLAS",
     .files = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
     .create = "cublasCreate_v2",
     .destroy = "cublasDestroy_v2",
     .set_stream = "cublasSetStream_v2",
     .error = "cublasGetStatusString"},
    {.source = GS_FROM_CUBLASLT,
     .kind = GS_KIND_CUBLASLT,
     .variable = "GPUSCOPE_CUBLASLT",
     .files = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
     .create = "cublasLtCreate",
     .destroy = "cublasLtDestroy",
     .error = "cublasLtGetStatusString"},
    {.source = GS_FROM_NCCL,
     .kind = GS_KIND_NCCL,
     .variable = "GPUSCOPE_NCCL",
     .files = {"libnccl.so.2"},
     .create = "ncclCommInitRank",
     .destroy = "ncclCommDestroy",
     .error = "ncclGetErrorString"},
};
enum { LIBRARY_COUNT = sizeof libraries / sizeof *libraries };

static library *library_from(gs_source source)
{
    for (size_t i = 0; i < LIBRARY_COUNT; i++) {
        if (libraries[i].source == source)
            return &libraries[i];
    }
    return NULL;
}

static library *library_for(gs_kind kind)
{
    for (size_t i = 0; i < LIBRARY_COUNT; i++) {
        if (libraries[i].kind == kind)
            return &libraries[i];
    }
    return NULL;
}

/* ---- loading ---- */

/* Store the function `name` in a function pointer, or NULL if `name` is NULL. Returns false if there is no such
 * function. */
static bool find(void *handle, const char *name, void *ret_function)
{
    void *found = name == NULL ? NULL : dlsym(handle, name);
    memcpy(ret_function, &found, sizeof found);
    return found != NULL || name == NULL;
}

static void *open_file(const library *lib, char *why, size_t why_bytes)
{
    const char *named = getenv(lib->variable);
    void *handle = NULL;
    if (named != NULL && named[0] != '\0')
        handle = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    else
        for (size_t i = 0; handle == NULL && i < sizeof lib->files / sizeof *lib->files && lib->files[i] != NULL; i++)
            handle = dlopen(lib->files[i], RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *reason = dlerror();
        snprintf(why, why_bytes, "%s", reason == NULL ? "no reason given" : reason);
    }
    return handle;
}

static gs_status load_locked(library *lib, char *why, size_t why_bytes)
{
    if (lib->handle != NULL)
        return GS_OK;
    void *handle = open_file(lib, why, why_bytes);
    if (handle == NULL)
        return GS_NO_LIBRARY;
    const char *missing = NULL;
    if (!find(handle, lib->set_stream, &lib->do_set_stream))
        missing = lib->set_stream;
    if (!find(handle, lib->destroy, &lib->do_destroy))
        missing = lib->destroy;
    if (!find(handle, lib->create, &lib->do_create))
        missing = lib->create;
    find(handle, lib->error, &lib->do_error); /* cuBLAS before 11.4 lacks this: print only the error number */
    if (missing != NULL) {
        snprintf(why, why_bytes, "the library has no %s", missing);
        dlclose(handle);
        return GS_NO_LIBRARY;
    }
    lib->handle = handle;
    return GS_OK;
}

/* Load a library. Its functions do not change afterwards. */
static gs_status load(gs_scope *scope, gs_source source, const char *call, const char *file, int line,
                      library **ret_library)
{
    char why[256];
    library *lib = library_from(source);
    pthread_mutex_lock(&load_lock);
    gs_status status = load_locked(lib, why, sizeof why);
    pthread_mutex_unlock(&load_lock);
    *ret_library = lib;
    return status == GS_OK ? status : gwi_refuse(scope, status, call, file, line, "%s", why);
}

void *gwi_library_symbol(gs_source source, const char *name)
{
    library *lib = library_from(source);
    if (lib == NULL)
        return NULL;
    pthread_mutex_lock(&load_lock);
    void *handle = lib->handle;
    pthread_mutex_unlock(&load_lock);
    return handle == NULL ? NULL : dlsym(handle, name);
}

const char *gwi_library_error(gs_source source, int code)
{
    library *lib = library_from(source);
    if (lib == NULL)
        return NULL;
    pthread_mutex_lock(&load_lock);
    error_function *error = lib->handle == NULL ? NULL : lib->do_error;
    pthread_mutex_unlock(&load_lock);
    return error == NULL ? NULL : error(code);
}

/* ---- handles ---- */

int gwi_library_destroy(gs_kind kind, void *handle, gs_source *ret_source, const char **ret_call)
{
    const library *lib = library_for(kind);
    *ret_source = lib->source;
    *ret_call = lib->destroy;
    return lib->do_destroy(handle);
}

/* Add a new handle to the scope, or store the failure. */
static gs_status own(gwi_thing *thing, const library *lib, int code, void *handle)
{
    gs_scope *scope = thing->scope;
    const char *file = thing->file;
    int line = thing->line;
    if (code == 0) {
        gwi_thing_own(thing, (uint64_t)(uintptr_t)handle);
        return GS_OK;
    }
    gwi_thing_drop(thing);
    return gwi_failed(scope, lib->source, code, lib->create, NULL, file, line);
}

static gs_status make(gs_scope *scope, gs_source source, CUstream stream, void **ret, const char *call,
                      const char *file, int line)
{
    library *lib;
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
    status = own(thing, lib, code, handle);
    if (status != GS_OK)
        return status;
    code = lib->do_set_stream == NULL ? 0 : lib->do_set_stream(handle, stream);
    if (code != 0) {
        status = gwi_failed(scope, source, code, lib->set_stream, NULL, file, line);
        gs_status closed = gs_handle_close_at(scope, lib->kind, handle, file, line);
        (void)closed; /* ignore the result: the first failure is reported */
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
    library *lib;
    nccl_id_function *get_id;
    gs_status status = gwi_usable(scope, "gs_nccl_new_id", file, line);
    if (status == GS_OK)
        status = load(scope, GS_FROM_NCCL, "gs_nccl_new_id", file, line, &lib);
    if (status != GS_OK)
        return status;
    if (!find(lib->handle, "ncclGetUniqueId", &get_id))
        return gwi_refuse(scope, GS_NO_LIBRARY, "gs_nccl_new_id", file, line, "the library has no ncclGetUniqueId");
    int code = get_id(ret);
    return code == 0 ? GS_OK : gwi_failed(scope, GS_FROM_NCCL, code, "ncclGetUniqueId", NULL, file, line);
}

gs_status gs_nccl_at(gs_scope *scope, int ranks, const gs_nccl_id *id, int rank, void **ret, const char *file, int line)
{
    library *lib;
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
    memcpy(&create, &lib->do_create, sizeof create); /* NCCL's function takes different parameters */
    int code = create(&handle, ranks, *id, rank);
    status = own(thing, lib, code, handle);
    if (status == GS_OK)
        *ret = handle;
    return status;
}

gs_status gs_handle_close_at(gs_scope *scope, gs_kind kind, void *handle, const char *file, int line)
{
    if (library_for(kind) == NULL)
        return gwi_refuse(scope, GS_MISUSE, "gs_handle_close", file, line, "%s is not a library handle",
                          gs_kind_text(kind));
    return gwi_thing_close(scope, kind, (uint64_t)(uintptr_t)handle, false, "gs_handle_close", file, line);
}
