/* S11: a loop creates and frees one object of every kind that has a driver handle or address. --keep KIND frees that
 * kind only in every tenth round. Repaired: all are freed. */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 << 10, VMM_BYTES = 2 << 20 };

struct things {
    struct gpu gpu;
    CUdeviceptr plain, pitched, managed, ordered, reservation;
    CUmemGenericAllocationHandle vmm;
    CUarray array;
    void *host, *registered;
    CUstream stream;
    CUevent event;
    CUcontext context;
    CUmodule module;
    CUlibrary library;
    CUgraph graph;
    CUgraphExec exec;
    CUmemoryPool pool;
};

/* Defines make_NAME() and end_NAME(). A verdict names the function and the line, so each kind has a line of its own. */
#define KIND(name, make, end)                                                                                          \
    static void make_##name(struct things *t)                                                                          \
    {                                                                                                                  \
        make;                                                                                                          \
    }                                                                                                                  \
    static void end_##name(struct things *t)                                                                           \
    {                                                                                                                  \
        end;                                                                                                           \
    }

KIND(plain, CHECK(cuMemAlloc(&t->plain, BLOCK_BYTES)), CHECK(cuMemFree(t->plain)))
KIND(pitched, CHECK(cuMemAllocPitch(&t->pitched, &(size_t){0}, 500, 100, 4)), CHECK(cuMemFree(t->pitched)))
KIND(managed, CHECK(cuMemAllocManaged(&t->managed, BLOCK_BYTES, CU_MEM_ATTACH_GLOBAL)), CHECK(cuMemFree(t->managed)))
KIND(ordered, CHECK(cuMemAllocAsync(&t->ordered, BLOCK_BYTES, NULL)), CHECK(cuMemFreeAsync(t->ordered, NULL));
     CHECK(cuStreamSynchronize(NULL)))
KIND(reservation, CHECK(cuMemAddressReserve(&t->reservation, VMM_BYTES, 0, 0, 0)),
     CHECK(cuMemAddressFree(t->reservation, VMM_BYTES)))
KIND(host, CHECK(cuMemHostAlloc(&t->host, BLOCK_BYTES, 0)), CHECK(cuMemFreeHost(t->host)))
KIND(stream, CHECK(cuStreamCreate(&t->stream, CU_STREAM_NON_BLOCKING)), CHECK(cuStreamDestroy(t->stream)))
KIND(event, CHECK(cuEventCreate(&t->event, CU_EVENT_DISABLE_TIMING)), CHECK(cuEventDestroy(t->event)))
KIND(module, CHECK(cuModuleLoadData(&t->module, scenario_ptx)), CHECK(cuModuleUnload(t->module)))
KIND(library, CHECK(cuLibraryLoadData(&t->library, scenario_ptx, NULL, NULL, 0, NULL, NULL, 0)),
     CHECK(cuLibraryUnload(t->library)))
KIND(graph, CHECK(cuGraphCreate(&t->graph, 0)), CHECK(cuGraphDestroy(t->graph)))
KIND(exec, CHECK(cuGraphInstantiate(&t->exec, t->graph, 0)), CHECK(cuGraphExecDestroy(t->exec)))

static void make_array(struct things *t)
{
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 128, .Height = 128, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CHECK(cuArrayCreate(&t->array, &shape));
}

static void end_array(struct things *t)
{
    CHECK(cuArrayDestroy(t->array));
}

/* The memory is mapped in the reservation of the same round and unmapped at once, so only its handle can leak. */
static void make_vmm(struct things *t)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = t->gpu.device;
    CHECK(cuMemCreate(&t->vmm, VMM_BYTES, &prop, 0));
    CHECK(cuMemMap(t->reservation, VMM_BYTES, 0, t->vmm, 0));
    CHECK(cuMemUnmap(t->reservation, VMM_BYTES));
}

static void end_vmm(struct things *t)
{
    CHECK(cuMemRelease(t->vmm));
}

static void make_registered(struct things *t)
{
    t->registered = aligned_alloc(4096, BLOCK_BYTES);
    if (t->registered == NULL)
        scenario_fail("no host memory");
    CHECK(cuMemHostRegister(t->registered, BLOCK_BYTES, 0));
}

static void end_registered(struct things *t)
{
    CHECK(cuMemHostUnregister(t->registered));
    free(t->registered);
}

static void make_context(struct things *t)
{
    CHECK(cuCtxCreate(&t->context, 0, t->gpu.device));
    CHECK(cuCtxSetCurrent(t->gpu.context));
}

static void end_context(struct things *t)
{
    CHECK(cuCtxDestroy(t->context));
    CHECK(cuCtxSetCurrent(t->gpu.context));
}

static void make_pool(struct things *t)
{
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = t->gpu.device;
    CHECK(cuMemPoolCreate(&t->pool, &props));
}

static void end_pool(struct things *t)
{
    CHECK(cuMemPoolDestroy(t->pool));
}

/* Each round creates one object of each kind in this order, and frees them in the opposite order. `each`: only in every
 * `each`-th round, because it needs hundreds of MiB or much address space. */
static const struct kind {
    const char *name;
    void (*make)(struct things *t), (*end)(struct things *t);
    int each;
} kinds[] = {
    {"plain", make_plain, end_plain, 1},
    {"pitched", make_pitched, end_pitched, 1},
    {"managed", make_managed, end_managed, 1},
    {"ordered", make_ordered, end_ordered, 1},
    {"array", make_array, end_array, 1},
    {"reservation", make_reservation, end_reservation, 1},
    {"vmm", make_vmm, end_vmm, 1},
    {"host", make_host, end_host, 1},
    {"registered", make_registered, end_registered, 1},
    {"stream", make_stream, end_stream, 1},
    {"event", make_event, end_event, 1},
    {"context", make_context, end_context, 30},
    {"module", make_module, end_module, 1},
    {"library", make_library, end_library, 1},
    {"graph", make_graph, end_graph, 1},
    {"exec", make_exec, end_exec, 1},
    {"pool", make_pool, end_pool, 10},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static int is_kept(const struct kind *kind, const char *keep, int round)
{
    return strcmp(kind->name, keep) == 0 && round / kind->each % 10 != 9;
}

int main(int argc, char **argv)
{
    const char *keep = "stream";
    long long rounds = 300, left = 0;
    const struct option_row rows[] = {{"keep", OPTION_TEXT, &keep, "the kind that is kept"},
                                      {"rounds", OPTION_NUMBER, &rounds, "how many"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Gives everything back but things of one kind.");
    if (repaired)
        keep = "";
    struct things t;
    gpu_open(&t.gpu, 0);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < KIND_COUNT; i++) {
            if (round % kinds[i].each == 0)
                kinds[i].make(&t);
        }
        for (int i = KIND_COUNT; i-- > 0;) {
            if (round % kinds[i].each != 0)
                continue;
            if (is_kept(&kinds[i], keep, round))
                left++;
            else
                kinds[i].end(&t);
        }
    }
    truth("left", "%lld", left);
    gpu_close(&t.gpu);
    printf("%lld rounds are done\n", rounds);
    return 0;
}
