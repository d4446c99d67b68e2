/* Load cuDNN, cuBLAS, cuBLASLt and NCCL, and find their functions. */
#include "gwi_libraries.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static gwi_library libraries[] = {
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

static gwi_library *library_from(gs_source source)
{
    for (size_t i = 0; i < LIBRARY_COUNT; i++) {
        if (libraries[i].source == source)
            return &libraries[i];
    }
    return NULL;
}

const gwi_library *gwi_library_for(gs_kind kind)
{
    for (size_t i = 0; i < LIBRARY_COUNT; i++) {
        if (libraries[i].kind == kind)
            return &libraries[i];
    }
    return NULL;
}

/* ---- loading ---- */

bool gwi_library_find(void *handle, const char *name, void *ret_function)
{
    void *found = name == NULL ? NULL : dlsym(handle, name);
    memcpy(ret_function, &found, sizeof found);
    return found != NULL || name == NULL;
}

static void *open_file(const gwi_library *lib, char *why, size_t why_bytes)
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

static gs_status load_locked(gwi_library *lib, char *why, size_t why_bytes)
{
    if (lib->handle != NULL)
        return GS_OK;
    void *handle = open_file(lib, why, why_bytes);
    if (handle == NULL)
        return GS_NO_LIBRARY;
    const char *missing = NULL;
    if (!gwi_library_find(handle, lib->set_stream, &lib->do_set_stream))
        missing = lib->set_stream;
    if (!gwi_library_find(handle, lib->destroy, &lib->do_destroy))
        missing = lib->destroy;
    if (!gwi_library_find(handle, lib->create, &lib->do_create))
        missing = lib->create;
    gwi_library_find(handle, lib->error,
                     &lib->do_error); /* cuBLAS before 11.4 has no such function: print only error numbers */
    if (missing != NULL) {
        snprintf(why, why_bytes, "the library has no %s", missing);
        dlclose(handle);
        return GS_NO_LIBRARY;
    }
    lib->handle = handle;
    return GS_OK;
}

gs_status gwi_library_load(gs_source source, const gwi_library **ret_library, char *why, size_t why_bytes)
{
    gwi_library *lib = library_from(source);
    pthread_mutex_lock(&load_lock);
    gs_status status = load_locked(lib, why, why_bytes);
    pthread_mutex_unlock(&load_lock);
    *ret_library = lib;
    return status;
}

void *gwi_library_symbol(gs_source source, const char *name)
{
    gwi_library *lib = library_from(source);
    if (lib == NULL)
        return NULL;
    pthread_mutex_lock(&load_lock);
    void *handle = lib->handle;
    pthread_mutex_unlock(&load_lock);
    return handle == NULL ? NULL : dlsym(handle, name);
}

const char *gwi_library_error(gs_source source, int code)
{
    gwi_library *lib = library_from(source);
    if (lib == NULL)
        return NULL;
    pthread_mutex_lock(&load_lock);
    gwi_error_function *error = lib->handle == NULL ? NULL : lib->do_error;
    pthread_mutex_unlock(&load_lock);
    return error == NULL ? NULL : error(code);
}

/* ---- handles ---- */

gs_status gwi_library_release(gs_kind kind, gs_release **ret_release, const char **ret_call, char *why,
                              size_t why_bytes)
{
    const gwi_library *lib = gwi_library_for(kind);
    *ret_call = lib->destroy;
    if (gwi_library_find(RTLD_DEFAULT, lib->destroy, ret_release))
        return GS_OK;
    gs_status status = gwi_library_load(lib->source, &lib, why, why_bytes);
    if (status == GS_OK)
        *ret_release = lib->do_destroy;
    return status;
}

int gwi_library_destroy(gs_kind kind, void *handle, gs_source *ret_source, const char **ret_call)
{
    const gwi_library *lib = gwi_library_for(kind);
    *ret_source = lib->source;
    *ret_call = lib->destroy;
    return lib->do_destroy(handle);
}
