/* What the programs that stand for PyTorch need of the driver: a context, and a graph to launch. */
#ifndef C10_PROG_H
#define C10_PROG_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int (*launch_graph)(void *exec, void *stream);
static int (*synchronize)(void *stream);
static int (*driver_allocate)(uint64_t *ret_address, size_t bytes);
static int (*set_current)(void *context);
static void *exec, *context;

static void fail(const char *what)
{
    fprintf(stderr, "failed: %s\n", what);
    exit(9);
}

static void *name_in(void *library, const char *name)
{
    void *found = library == NULL ? NULL : dlsym(library, name);
    if (found == NULL)
        fail(name);
    return found;
}

/* Returns the driver. */
static void *begin_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *graph = NULL;
    int (*init)(unsigned) = (int (*)(unsigned))name_in(driver, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))name_in(driver, "cuDevicePrimaryCtxRetain");
    int (*create)(void **, unsigned) = (int (*)(void **, unsigned))name_in(driver, "cuGraphCreate");
    int (*instantiate)(void **, void *, unsigned long long) =
        (int (*)(void **, void *, unsigned long long))name_in(driver, "cuGraphInstantiateWithFlags");
    set_current = (int (*)(void *))name_in(driver, "cuCtxSetCurrent");
    launch_graph = (int (*)(void *, void *))name_in(driver, "cuGraphLaunch");
    synchronize = (int (*)(void *))name_in(driver, "cuStreamSynchronize");
    driver_allocate = (int (*)(uint64_t *, size_t))name_in(driver, "cuMemAlloc_v2");
    if (init(0) != 0 || retain(&context, 0) != 0 || set_current(context) != 0)
        fail("no context");
    if (create(&graph, 0) != 0 || instantiate(&exec, graph, 0) != 0)
        fail("no graph");
    return driver;
}

#endif
