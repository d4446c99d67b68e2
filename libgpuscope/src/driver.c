/* Load libcuda.so.1 at run time, find its functions, and detect a fork. */
#include "gwi_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

gwi_driver gwi_cuda;

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static void *library;             /* never closed, because the driver's threads run until the process ends */
static atomic_int is_initialised; /* 1: cuInit() has succeeded; gwi_cuda is complete and no longer changes */
static atomic_int is_forked;

int gwi_driver_is_loaded(void)
{
    return atomic_load_explicit(&is_initialised, memory_order_acquire);
}

int gwi_driver_is_forked(void)
{
    return atomic_load_explicit(&is_forked, memory_order_relaxed);
}

void *gwi_driver_symbol(const char *name)
{
    return gwi_driver_is_loaded() ? dlsym(library, name) : NULL;
}

static void after_fork(void)
{
    atomic_store_explicit(&is_forked, 1, memory_order_relaxed);
}

__attribute__((format(printf, 4, 5))) static gs_status fail(gwi_driver_trouble *trouble, gs_status status,
                                                            const char *call, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(trouble->text, sizeof trouble->text, format, arguments);
    va_end(arguments);
    trouble->call = call;
    trouble->code = 0;
    return status;
}

static gs_status find_functions(gwi_driver_trouble *trouble)
{
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {
#define GWI_X(name) {#name, offsetof(gwi_driver, name)},
        GWI_DRIVER_CALLS(GWI_X)
#undef GWI_X
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *found = dlsym(library, rows[i].name);
        if (found == NULL)
            return fail(trouble, GS_NO_DRIVER, "dlsym(libcuda.so.1)",
                        "this driver has no %s; CUDA 11.4 is the oldest supported version", rows[i].name);
        memcpy((char *)&gwi_cuda + rows[i].offset, &found, sizeof found);
    }
    return GS_OK;
}

static gs_status load(gwi_driver_trouble *trouble)
{
    if (library == NULL)
        library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *reason = dlerror();
        return fail(trouble, GS_NO_DRIVER, "dlopen(libcuda.so.1)", "%s", reason == NULL ? "no reason given" : reason);
    }
    gs_status status = find_functions(trouble);
    if (status != GS_OK)
        return status;
    int code = gwi_cuda.cuInit(0);
    if (code == CUDA_SUCCESS)
        return GS_OK;
    *trouble = (gwi_driver_trouble){.code = code, .call = "cuInit"};
    if (code == CUDA_ERROR_NO_DEVICE)
        return GS_NO_DEVICE;
    return code == CUDA_ERROR_STUB_LIBRARY ? GS_NO_DRIVER : GS_FAILED;
}

gs_status gwi_driver_open(gwi_driver_trouble *ret_trouble)
{
    if (gwi_driver_is_forked())
        return fail(ret_trouble, GS_DEAD, "fork",
                    "this process was forked from one that uses the driver, so it cannot use the driver itself: "
                    "see gs_run_in_child()");
    if (gwi_driver_is_loaded())
        return GS_OK;
    pthread_mutex_lock(&load_lock);
    gs_status status = gwi_driver_is_loaded() ? GS_OK : load(ret_trouble);
    if (status == GS_OK && !gwi_driver_is_loaded()) {
        if (pthread_atfork(NULL, NULL, after_fork) != 0)
            status = fail(ret_trouble, GS_NO_HOST_MEMORY, "pthread_atfork", "no memory");
        else
            atomic_store_explicit(&is_initialised, 1, memory_order_release);
    }
    pthread_mutex_unlock(&load_lock);
    return status;
}
