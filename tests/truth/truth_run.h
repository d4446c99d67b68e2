/* Code shared by the truth programs: bags of device memory and handles, and the calls that fill and empty them.
 *
 * truth_plan.c, which interprets plans, includes this file. So do the sources that truth.py writes. A TAKE_ macro
 * calls the driver on the line of its use, so each allocation has its own call site. Include the file only once per
 * program: it contains definitions. */
#ifndef TRUTH_RUN_H
#define TRUTH_RUN_H

#include "gw_cuda_calls.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAYBE_UNUSED __attribute__((unused))
#define NOINLINE     __attribute__((noinline, unused))

enum take_kind {
    TAKE_plain,
    TAKE_pitch,
    TAKE_async,  /* from the device's default pool */
    TAKE_pool,   /* from a pool that the program created */
    TAKE_vmm,    /* created and mapped; the handle is kept */
    TAKE_vmmh,   /* created, but never mapped */
    TAKE_vmmr,   /* created and mapped; its handle is released at once, so unmapping frees the memory */
    TAKE_cached, /* from the program's own list of free blocks, by size */
    TAKE_managed,
    TAKE_host, /* page-locked */
    TAKE_stream,
    TAKE_event,
    TAKE_context,
    TAKE_graph,    /* an executable graph that was captured with a block of its own */
    TAKE_keptpool, /* a pool of its own, whose only block is freed at once and stays in the pool */
    TAKE_KINDS
};

struct item {
    CUdeviceptr address;
    size_t bytes;
    void *handle;
    unsigned long long physical;
    enum take_kind kind;
};

struct bag {
    struct item *items;
    size_t first, end, room; /* items[first .. end) are used */
};

enum { BAGS_MAX = 64, STREAMS_MAX = 8, KERNELS = 8, CACHED_MAX = 4096 };

static struct bag bags[BAGS_MAX];
static CUdevice the_device;
static CUcontext the_context;
static CUstream streams[STREAMS_MAX]; /* [0] is the default stream */
static CUfunction kernels[KERNELS];
static CUevent the_event;
static CUdeviceptr scratch;
static unsigned char scratch_host[4096];
static CUmemoryPool own_pool;
static struct item cached[CACHED_MAX];
static size_t cached_count;
static const char *fail_style = "exit";
static const char *program_path;
static int neighbour_pid, neighbour_pipe[2] = {-1, -1};
static pthread_mutex_t last_words = PTHREAD_MUTEX_INITIALIZER;

#define KERNEL(name) ".visible .entry " name "(.param .u64 p)\n{\nret;\n}\n"
#define TRUTH_PTX                                                                                                      \
    ".version 7.0\n.target sm_70\n.address_size 64\n" KERNEL("convert") KERNEL("gemm") KERNEL("softmax")               \
        KERNEL("relu") KERNEL("norm") KERNEL("gradient") KERNEL("adam") KERNEL("loss")
static const char truth_ptx[] = TRUTH_PTX;
/* The same module, but kernel `norm` takes 20 us: see include/gpuwhy/kernel_model.h. */
static const char truth_slow_ptx[] =
    TRUTH_PTX ".visible .global .align 8 .u64 gpuwhy_model_norm[7] = {0x4D4B594857555047, 1, 0, 0, 0, 0, 20};\n";
static const char *const kernel_names[KERNELS] = {"convert", "gemm",     "softmax", "relu",
                                                  "norm",    "gradient", "adam",    "loss"};

#ifdef __cplusplus
struct truth_failure : std::exception { // not std::runtime_error: compiling <stdexcept> takes long
    const char *text;
    explicit truth_failure(const char *why) : text(why)
    {
    }
    const char *what() const noexcept override
    {
        return text;
    }
};
#endif

static MAYBE_UNUSED void give_all(struct bag *bag);

/* ---- ways to end ---- */

static MAYBE_UNUSED void close_all(void)
{
    for (int index = 0; index < BAGS_MAX; index++)
        give_all(&bags[index]);
    while (cached_count > 0)
        cuMemFree(cached[--cached_count].address);
}

static void stop(int status)
{
    if (neighbour_pid > 0) {
        kill(neighbour_pid, SIGTERM);
        waitpid(neighbour_pid, NULL, 0);
    }
    fflush(NULL);
    _exit(status); /* not exit(): other threads may be inside the driver */
}

static MAYBE_UNUSED void give_up(CUresult result, const char *call, size_t bytes)
{
    const char *name = NULL;
    pthread_mutex_lock(&last_words);
    if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
        name = "unknown error";
    if (strcmp(fail_style, "quiet") != 0)
        fprintf(stderr, "%s of %zu bytes: %s\n", call, bytes, name);
    if (strcmp(fail_style, "cleanup") == 0)
        close_all();
#ifdef __cplusplus
    if (strcmp(fail_style, "throw") == 0) {
        pthread_mutex_unlock(&last_words);
        throw truth_failure(name);
    }
#endif
    if (strcmp(fail_style, "abort") == 0)
        abort();
    stop(1);
}

#define CHECKED(call)                                                                                                  \
    do {                                                                                                               \
        CUresult checked_result = (call);                                                                              \
        if (checked_result != CUDA_SUCCESS)                                                                            \
            give_up(checked_result, #call, 0);                                                                         \
    } while (0)

/* ---- bags ---- */

static MAYBE_UNUSED void bag_put(struct bag *bag, struct item item)
{
    if (bag->end == bag->room) {
        size_t room = bag->room == 0 ? 16 : 2 * bag->room;
        struct item *items = (struct item *)realloc(bag->items, room * sizeof *items);
        if (items == NULL)
            abort();
        bag->items = items;
        bag->room = room;
    }
    bag->items[bag->end++] = item;
}

static MAYBE_UNUSED void give(struct item item)
{
    switch (item.kind) {
    case TAKE_plain:
    case TAKE_pitch:
    case TAKE_managed:
        CHECKED(cuMemFree(item.address));
        break;
    case TAKE_async:
    case TAKE_pool:
        CHECKED(cuMemFreeAsync(item.address, streams[1]));
        break;
    case TAKE_vmm:
        CHECKED(cuMemUnmap(item.address, item.bytes));
        CHECKED(cuMemRelease(item.physical));
        CHECKED(cuMemAddressFree(item.address, item.bytes));
        break;
    case TAKE_vmmh:
        CHECKED(cuMemRelease(item.physical));
        break;
    case TAKE_vmmr:
        CHECKED(cuMemUnmap(item.address, item.bytes));
        CHECKED(cuMemAddressFree(item.address, item.bytes));
        break;
    case TAKE_cached:
        if (cached_count < CACHED_MAX)
            cached[cached_count++] = item;
        else
            CHECKED(cuMemFree(item.address));
        break;
    case TAKE_host:
        CHECKED(cuMemFreeHost(item.handle));
        break;
    case TAKE_stream:
        CHECKED(cuStreamDestroy((CUstream)item.handle));
        break;
    case TAKE_event:
        CHECKED(cuEventDestroy((CUevent)item.handle));
        break;
    case TAKE_context:
        CHECKED(cuCtxDestroy((CUcontext)item.handle));
        CHECKED(cuCtxSetCurrent(the_context));
        break;
    case TAKE_graph:
        CHECKED(cuGraphExecDestroy((CUgraphExec)item.handle));
        break;
    case TAKE_keptpool:
        CHECKED(cuMemPoolDestroy((CUmemoryPool)item.handle));
        break;
    case TAKE_KINDS:
        break;
    }
}

static MAYBE_UNUSED void give_all(struct bag *bag)
{
    while (bag->end > bag->first)
        give(bag->items[--bag->end]);
    bag->first = bag->end = 0;
}

static MAYBE_UNUSED void give_last(struct bag *bag)
{
    if (bag->end > bag->first)
        give(bag->items[--bag->end]);
}

/* Free the oldest items until `count` are left, like a window or a bounded cache. */
static MAYBE_UNUSED void give_beyond(struct bag *bag, size_t count)
{
    while (bag->end - bag->first > count)
        give(bag->items[bag->first++]);
    if (bag->first > 64 && bag->first > (bag->end - bag->first)) {
        memmove(bag->items, bag->items + bag->first, (bag->end - bag->first) * sizeof *bag->items);
        bag->end -= bag->first;
        bag->first = 0;
    }
}

/* Free every other item, like a filter that discards half of its results. */
static MAYBE_UNUSED void give_half(struct bag *bag)
{
    size_t kept = bag->first;
    for (size_t index = bag->first; index < bag->end; index++) {
        if ((index - bag->first) % 2 == 0)
            give(bag->items[index]);
        else
            bag->items[kept++] = bag->items[index];
    }
    bag->end = kept;
}

/* ---- the program's own cache ---- */

static MAYBE_UNUSED CUdeviceptr cache_find(size_t bytes)
{
    for (size_t index = cached_count; index-- > 0;)
        if (cached[index].bytes == bytes) {
            CUdeviceptr address = cached[index].address;
            cached[index] = cached[--cached_count];
            return address;
        }
    return 0;
}

/* Free all cached blocks, as frameworks do before they report a failure. Returns 0 if no block was cached. */
static MAYBE_UNUSED int cache_flush(void)
{
    size_t count = cached_count;
    while (cached_count > 0)
        CHECKED(cuMemFree(cached[--cached_count].address));
    return count > 0;
}

/* ---- allocating: each macro calls the driver in the line where it is used ---- */

static MAYBE_UNUSED CUmemAllocationProp physical_of_device(void)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = the_device;
    return prop;
}

static MAYBE_UNUSED CUmemAccessDesc access_of_device(void)
{
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = the_device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return access;
}

static MAYBE_UNUSED void launch(int kernel, int stream, CUdeviceptr address);

static MAYBE_UNUSED CUmemoryPool pool_new(void)
{
    unsigned long long all = ~0ull;
    CUmemoryPool pool;
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = the_device;
    CHECKED(cuMemPoolCreate(&pool, &props));
    CHECKED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    return pool;
}

/* Each macro stores its CUresult in `result` and, on success, what it allocated in `item`. */
#define TAKE_CALL_plain(bytes)                                                                                         \
    result = cuMemAlloc(&item.address, (bytes));                                                                       \
    item.kind = TAKE_plain
#define TAKE_CALL_pitch(bytes)                                                                                         \
    result = cuMemAllocPitch(&item.address, &pitch, 4096, ((bytes) + 4095) / 4096, 4);                                 \
    item.kind = TAKE_pitch
#define TAKE_CALL_async(bytes)                                                                                         \
    result = cuMemAllocAsync(&item.address, (bytes), streams[1]);                                                      \
    item.kind = TAKE_async
#define TAKE_CALL_pool(bytes)                                                                                          \
    result = cuMemAllocFromPoolAsync(&item.address, (bytes), own_pool, streams[1]);                                    \
    item.kind = TAKE_pool
#define TAKE_CALL_vmm(bytes)                                                                                           \
    result = cuMemCreate(&item.physical, (bytes), &prop, 0);                                                           \
    item.kind = TAKE_vmm
#define TAKE_CALL_vmmh(bytes)                                                                                          \
    result = cuMemCreate(&item.physical, (bytes), &prop, 0);                                                           \
    item.kind = TAKE_vmmh
#define TAKE_CALL_vmmr(bytes)                                                                                          \
    result = cuMemCreate(&item.physical, (bytes), &prop, 0);                                                           \
    item.kind = TAKE_vmmr
#define TAKE_CALL_cached(bytes)                                                                                        \
    item.address = cache_find(bytes);                                                                                  \
    result = item.address != 0 ? CUDA_SUCCESS : cuMemAlloc(&item.address, (bytes));                                    \
    if (result == CUDA_ERROR_OUT_OF_MEMORY && cache_flush())                                                           \
        result = cuMemAlloc(&item.address, (bytes));                                                                   \
    item.kind = TAKE_cached
#define TAKE_CALL_managed(bytes)                                                                                       \
    result = cuMemAllocManaged(&item.address, (bytes), 1);                                                             \
    item.kind = TAKE_managed
#define TAKE_CALL_host(bytes)                                                                                          \
    result = cuMemHostAlloc(&item.handle, (bytes), 0);                                                                 \
    item.kind = TAKE_host
#define TAKE_CALL_stream(bytes)                                                                                        \
    result = cuStreamCreate((CUstream *)&item.handle, 1);                                                              \
    item.kind = TAKE_stream
#define TAKE_CALL_event(bytes)                                                                                         \
    result = cuEventCreate((CUevent *)&item.handle, 2);                                                                \
    item.kind = TAKE_event
#define TAKE_CALL_context(bytes)                                                                                       \
    result = cuCtxCreate((CUcontext *)&item.handle, 0, the_device);                                                    \
    if (result == CUDA_SUCCESS)                                                                                        \
        CHECKED(cuCtxSetCurrent(the_context));                                                                         \
    item.kind = TAKE_context
#define TAKE_CALL_graph(bytes)                                                                                         \
    CUgraph graph = NULL;                                                                                              \
    CUdeviceptr captured = 0;                                                                                          \
    CHECKED(cuStreamBeginCapture(streams[1], CU_STREAM_CAPTURE_MODE_RELAXED));                                         \
    result = cuMemAllocAsync(&captured, (bytes), streams[1]);                                                          \
    if (result == CUDA_SUCCESS)                                                                                        \
        launch(1, 1, captured);                                                                                        \
    CHECKED(cuStreamEndCapture(streams[1], &graph));                                                                   \
    if (result == CUDA_SUCCESS)                                                                                        \
        result = cuGraphInstantiateWithFlags((CUgraphExec *)&item.handle, graph, 0);                                   \
    if (result == CUDA_SUCCESS)                                                                                        \
        CHECKED(cuGraphLaunch((CUgraphExec)item.handle, streams[1]));                                                  \
    item.kind = TAKE_graph
#define TAKE_CALL_keptpool(bytes)                                                                                      \
    CUdeviceptr pooled = 0;                                                                                            \
    item.handle = pool_new();                                                                                          \
    result = cuMemAllocFromPoolAsync(&pooled, (bytes), (CUmemoryPool)item.handle, streams[1]);                         \
    if (result == CUDA_SUCCESS)                                                                                        \
        CHECKED(cuMemFreeAsync(pooled, streams[1]));                                                                   \
    item.kind = TAKE_keptpool

#define TAKE_TRY(how, bag, count)                                                                                      \
    do {                                                                                                               \
        struct item item;                                                                                              \
        size_t pitch = 0;                                                                                              \
        CUmemAllocationProp prop = physical_of_device();                                                               \
        memset(&item, 0, sizeof item);                                                                                 \
        item.bytes = (count);                                                                                          \
        TAKE_CALL_##how(item.bytes);                                                                                   \
        (void)pitch;                                                                                                   \
        (void)prop;                                                                                                    \
        if (result == CUDA_SUCCESS)                                                                                    \
            took((bag), item);                                                                                         \
    } while (0)

#define TAKE(how, bag, count)                                                                                          \
    do {                                                                                                               \
        CUresult result = CUDA_SUCCESS;                                                                                \
        TAKE_TRY(how, (bag), (count));                                                                                 \
        if (result != CUDA_SUCCESS)                                                                                    \
            give_up(result, "allocation (" #how ")", (count));                                                         \
    } while (0)

static MAYBE_UNUSED void took(struct bag *bag, struct item item)
{
    if (item.kind == TAKE_vmm || item.kind == TAKE_vmmr) {
        CUmemAccessDesc access = access_of_device();
        CHECKED(cuMemAddressReserve(&item.address, item.bytes, 0, 0, 0));
        CHECKED(cuMemMap(item.address, item.bytes, 0, item.physical, 0));
        CHECKED(cuMemSetAccess(item.address, item.bytes, &access, 1));
    }
    if (item.kind == TAKE_vmmr)
        CHECKED(cuMemRelease(item.physical));
    bag_put(bag, item);
}

/* ---- work and waits ---- */

static MAYBE_UNUSED CUdeviceptr newest(const struct bag *bag)
{
    for (size_t index = bag->end; index-- > bag->first;)
        if (bag->items[index].address != 0)
            return bag->items[index].address;
    return scratch;
}

static MAYBE_UNUSED void launch(int kernel, int stream, CUdeviceptr address)
{
    void *arguments[] = {&address};
    CHECKED(cuLaunchKernel(kernels[kernel], 64, 1, 1, 128, 1, 1, 0, streams[stream], arguments, NULL));
}

static MAYBE_UNUSED void wait_for(const char *how, int stream)
{
    if (strcmp(how, "ctx") == 0) {
        CHECKED(cuCtxSynchronize());
    } else if (strcmp(how, "stream") == 0) {
        CHECKED(cuStreamSynchronize(streams[stream]));
    } else if (strcmp(how, "event") == 0) {
        CHECKED(cuEventRecord(the_event, streams[stream]));
        CHECKED(cuEventSynchronize(the_event));
    } else if (strcmp(how, "dtoh") == 0) {
        CHECKED(cuMemcpyDtoH(scratch_host, scratch, 4));
    } else if (strcmp(how, "htod") == 0) {
        CHECKED(cuMemcpyHtoD(scratch, scratch_host, sizeof scratch_host));
    } else if (strcmp(how, "dtoha") == 0) {
        CHECKED(cuMemcpyDtoHAsync(scratch_host, scratch, 4, streams[stream]));
        CHECKED(cuStreamSynchronize(streams[stream]));
    } else if (strcmp(how, "poll") == 0) {
        CUresult result;
        while ((result = cuStreamQuery(streams[stream])) == CUDA_ERROR_NOT_READY)
            ;
        CHECKED(result);
    }
}

/* A question whose answer is an error, as libraries ask at their start. */
static MAYBE_UNUSED void probe(const char *what)
{
    CUfunction function;
    CUdeviceptr address;
    CUdevice device;
    CUmodule module;
    if (strcmp(what, "name") == 0) {
        CHECKED(cuModuleLoadData(&module, truth_ptx));
        (void)cuModuleGetFunction(&function, module, "gemm_of_a_newer_card");
        CHECKED(cuModuleUnload(module));
    } else if (strcmp(what, "device") == 0) {
        (void)cuDeviceGet(&device, 99);
    } else {
        (void)cuMemAlloc(&address, 0);
    }
}

static MAYBE_UNUSED void keep_pools(void)
{
    CUmemoryPool pool;
    unsigned long long all = ~0ull;
    CHECKED(cuDeviceGetDefaultMemPool(&pool, the_device));
    CHECKED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    CHECKED(cuMemPoolSetAttribute(own_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
}

static MAYBE_UNUSED void trim_pools(void)
{
    CUmemoryPool pool;
    CHECKED(cuDeviceGetDefaultMemPool(&pool, the_device));
    CHECKED(cuCtxSynchronize());
    CHECKED(cuMemPoolTrimTo(pool, 0));
    CHECKED(cuMemPoolTrimTo(own_pool, 0));
}

/* True for about one in `one_in` turns. The choice looks random, but programs in all languages choose the same
 * turns. */
static MAYBE_UNUSED int chosen(long long turn, long long one_in)
{
    return (long long)((unsigned)turn * 2654435761u >> 16) % one_in == 0;
}

/* ---- the other process ---- */

static MAYBE_UNUSED void neighbour_start(const char *plan)
{
    char byte;
    if (pipe(neighbour_pipe) != 0)
        abort();
    neighbour_pid = fork(); /* before cuInit, so that the child can use the driver */
    if (neighbour_pid == 0) {
        char fd_text[16];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        snprintf(fd_text, sizeof fd_text, "%d", neighbour_pipe[1]);
        execl(program_path, program_path, plan, fd_text, (char *)NULL);
        _exit(127);
    }
    close(neighbour_pipe[1]);
    if (read(neighbour_pipe[0], &byte, 1) != 1)
        abort();
}

/* ---- begin ---- */

static MAYBE_UNUSED void begin(int stream_count, int uses_scratch, int uses_pool, int slow)
{
    CUmodule module;
    CHECKED(cuInit(0));
    CHECKED(cuDeviceGet(&the_device, 0));
    CHECKED(cuDevicePrimaryCtxRetain(&the_context, the_device));
    CHECKED(cuCtxSetCurrent(the_context));
    CHECKED(cuModuleLoadData(&module, slow ? truth_slow_ptx : truth_ptx));
    for (int index = 0; index < KERNELS; index++)
        CHECKED(cuModuleGetFunction(&kernels[index], module, kernel_names[index]));
    for (int index = 1; index <= stream_count; index++)
        CHECKED(cuStreamCreate(&streams[index], 1));
    CHECKED(cuEventCreate(&the_event, 2));
    if (uses_scratch)
        CHECKED(cuMemAlloc(&scratch, 1 << 16));
    if (uses_pool) {
        CUmemPoolProps props;
        memset(&props, 0, sizeof props);
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        props.location.id = the_device;
        CHECKED(cuMemPoolCreate(&own_pool, &props));
    }
}

/* Free everything, like a program that cleans up at its end. */
static MAYBE_UNUSED void end_clean(void)
{
    close_all();
    if (own_pool != NULL)
        CHECKED(cuMemPoolDestroy(own_pool));
    if (scratch != 0)
        CHECKED(cuMemFree(scratch));
    CHECKED(cuEventDestroy(the_event));
    for (int index = 1; index < STREAMS_MAX; index++)
        if (streams[index] != NULL)
            CHECKED(cuStreamDestroy(streams[index]));
    CHECKED(cuCtxSetCurrent(NULL));
    CHECKED(cuDevicePrimaryCtxRelease(the_device));
}

#endif
