/* Allocates and frees device memory of every kind at random, and compares the free memory that the program sees with
 * the memory that a virtual card itself counts. For tests/e2e/memory.py.
 *
 * Under `gpuwhy run --memory SIZE`, cuMemGetInfo() answers from the guard's count. The file of the virtual cards' state
 * has the card's own. Both must be equal, apart from the kinds of memory that the virtual card does not have. */
#include "gpu.h"
#include "gw_virt_state.h"
#include "options.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long long calls = 100000, seed = 1, limit_bytes, hold_bytes;
static const char *kinds = "plain,small,pitch,managed,array,async,pool,vmm,graph,fail";
enum { LIVE_MAX = 400, MIB = 1 << 20, CHUNK = 32 << 20 };

typedef enum kind { PLAIN, SMALL, PITCH, MANAGED, ARRAY, ASYNC, POOL, VMM, GRAPH, FAIL, KIND_COUNT } kind;
static const char *const kind_names[KIND_COUNT] = {"plain", "small", "pitch", "managed", "array",
                                                   "async", "pool",  "vmm",   "graph",   "fail"};

typedef struct block {
    kind kind;
    CUdeviceptr address;
    CUarray array;
    CUmemGenericAllocationHandle handle;
    uint64_t bytes;
    bool is_mapped, is_released;
} block;

static block live[LIVE_MAX];
static int live_count;
static CUmemoryPool own_pool;
static uint64_t managed_bytes, state, refused;
static struct gpu gpu;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* ---- the two counts ---- */

static uint64_t card_used(void)
{
    gw_virt_state now;
    gw_error err;
    if (gw_virt_state_read(getenv("GPUWHY_VIRTUAL_DIR"), &now, &err) != GW_OK) {
        fprintf(stderr, "random_memory: %s\n", err.text);
        exit(3);
    }
    for (unsigned i = 0; i < now.process_count; i++)
        if (now.processes[i].pid == (int)getpid())
            return now.processes[i].used_bytes[0];
    return 0;
}

static uint64_t guard_used(void)
{
    size_t free_bytes = 0, total = 0;
    CHECK(cuMemGetInfo(&free_bytes, &total));
    if (total != (size_t)limit_bytes) {
        fprintf(stderr, "random_memory: total %zu\n", total);
        exit(3);
    }
    return total - free_bytes;
}

static void compare(long long call)
{
    uint64_t guard = guard_used(), card = card_used() + managed_bytes;
    /* a pool whose free memory is in pieces may have grown past the limit; then no memory is shown as free */
    bool is_beyond = guard == (uint64_t)limit_bytes && card > guard && card <= guard + 4 * (uint64_t)CHUNK;
    if (guard == card || is_beyond)
        return;
    fprintf(stderr, "random_memory: call %lld: the guard counts %" PRIu64 ", the card %" PRIu64 " + %" PRIu64 "\n",
            call, guard, card, managed_bytes);
    exit(1);
}

/* ---- random calls ---- */

static bool is_granted(CUresult result)
{
    refused += result == CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) {
        fprintf(stderr, "random_memory: result %d\n", (int)result);
        exit(3);
    }
    return result == CUDA_SUCCESS;
}

static CUresult make_array(block *it)
{
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 64 + (size_t)(draw() % 2000),
                                   .Height = 1 + (size_t)(draw() % 900),
                                   .Format = CU_AD_FORMAT_FLOAT,
                                   .NumChannels = 1};
    return cuArrayCreate(&it->array, &shape);
}

static CUresult make_vmm(block *it)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    it->bytes = (1 + draw() % 20) * 2 * MIB;
    CUresult result = cuMemCreate(&it->handle, it->bytes, &prop, 0);
    if (result != CUDA_SUCCESS)
        return result;
    CHECK(cuMemAddressReserve(&it->address, it->bytes, 0, 0, 0));
    CHECK(cuMemMap(it->address, it->bytes, 0, it->handle, 0));
    it->is_mapped = true;
    return CUDA_SUCCESS;
}

/* A graph's memory stays reserved until the process ends. */
static CUresult make_graph(void)
{
    static int made;
    CUgraph graph;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = 3 * MIB};
    if (made++ > 20)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CHECK(cuGraphCreate(&graph, 0));
    CUresult result = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params);
    CHECK(cuGraphDestroy(graph));
    return result;
}

/* Calls that must fail: nothing may stay counted. */
static void fail(void)
{
    CUdeviceptr address = 0;
    size_t pitch;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1 << 20, .Height = 0, .Format = (CUarray_format)99, .NumChannels = 1};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    CUresult results[] = {cuMemAlloc(&address, 0),
                          cuMemAlloc(NULL, 5 * MIB),
                          cuMemAlloc(&address, (size_t)1 << 60),
                          cuMemAllocPitch(&address, &pitch, 4 * MIB, 2, 3),
                          cuMemAllocManaged(&address, 3 * MIB, 77),
                          cuArrayCreate(&array, &shape),
                          cuMemCreate(&handle, 12345, &prop, 0),
                          cuMemFree((CUdeviceptr)0x1234567),
                          cuMemAllocAsync(NULL, 3 * MIB, NULL)};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (results[i] == CUDA_SUCCESS) {
            fprintf(stderr, "random_memory: wrong call %zu succeeded\n", i);
            exit(3);
        }
}

static CUresult make(block *it)
{
    size_t pitch = 0;
    switch (it->kind) {
    case PLAIN:
        return cuMemAlloc(&it->address, 1 + draw() % (40 * MIB));
    case SMALL:
        return cuMemAlloc(&it->address, 1 + draw() % MIB);
    case PITCH:
        return cuMemAllocPitch(&it->address, &pitch, 1 + draw() % 5000, 1 + draw() % 2000, 4);
    case MANAGED:
        it->bytes = 1 + draw() % (8 * MIB);
        return cuMemAllocManaged(&it->address, it->bytes, CU_MEM_ATTACH_GLOBAL);
    case ARRAY:
        return make_array(it);
    case ASYNC:
        return cuMemAllocAsync(&it->address, 1 + draw() % (24 * MIB), NULL);
    case POOL:
        return cuMemAllocFromPoolAsync(&it->address, 1 + draw() % (24 * MIB), own_pool, NULL);
    case VMM:
        return make_vmm(it);
    case GRAPH:
    case FAIL:
    case KIND_COUNT:
        break;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static uint64_t managed_counted(uint64_t bytes)
{
    return (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

static void end(block *it)
{
    if (it->kind == ARRAY) {
        CHECK(cuArrayDestroy(it->array));
    } else if (it->kind == VMM) {
        if (draw() % 2 == 0) { /* in both orders */
            CHECK(cuMemRelease(it->handle));
            CHECK(cuMemUnmap(it->address, it->bytes));
        } else {
            CHECK(cuMemUnmap(it->address, it->bytes));
            CHECK(cuMemRelease(it->handle));
        }
        CHECK(cuMemAddressFree(it->address, it->bytes));
    } else if ((it->kind == ASYNC || it->kind == POOL) && draw() % 4 != 0) {
        CHECK(cuMemFreeAsync(it->address, NULL));
    } else {
        CHECK(cuMemFree(it->address));
    }
    managed_bytes -= it->kind == MANAGED ? managed_counted(it->bytes) : 0;
}

static void step(const kind *chosen, int chosen_count)
{
    if (live_count > 0 && (live_count == LIVE_MAX || draw() % 100 < 47)) {
        int index = (int)(draw() % (uint64_t)live_count);
        end(&live[index]);
        live[index] = live[--live_count];
        return;
    }
    block it = {.kind = chosen[draw() % (uint64_t)chosen_count]};
    if (it.kind == FAIL) {
        fail();
    } else if (it.kind == GRAPH) {
        (void)is_granted(make_graph());
    } else if (is_granted(make(&it))) {
        managed_bytes += it.kind == MANAGED ? managed_counted(it.bytes) : 0;
        live[live_count++] = it;
    }
    if (draw() % 50 == 0)
        CHECK(cuStreamSynchronize(NULL));
}

int main(int argc, char **argv)
{
    enum { EVERY = 97 };
    kind chosen[KIND_COUNT];
    int count = 0;
    const struct option_row rows[] = {{"calls", OPTION_NUMBER, &calls, "number of random calls (100000)"},
                                      {"seed", OPTION_NUMBER, &seed, "start of the random numbers (1)"},
                                      {"limit", OPTION_NUMBER, &limit_bytes, "the value of --memory"},
                                      {"hold", OPTION_NUMBER, &hold_bytes, "allocate this much, print `held` and wait"},
                                      {"kinds", OPTION_TEXT, &kinds, "kinds of memory, separated by commas"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "random_memory: compares the guard's count with a virtual card's own");
    state = (uint64_t)seed * 0x9e3779b97f4a7c15u | 1;
    for (int i = 0; i < KIND_COUNT; i++)
        if (strstr(kinds, kind_names[i]) != NULL)
            chosen[count++] = (kind)i;
    gpu_open(&gpu, 0);
    if (hold_bytes != 0) {
        CUdeviceptr held = 0;
        int result = (int)cuMemAlloc(&held, (size_t)hold_bytes);
        printf("held %d\n", result);
        fflush(stdout);
        if (result == 0)
            pause();
        return 0;
    }
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CHECK(cuMemPoolCreate(&own_pool, &props));
    compare(0);
    for (long long i = 1; i <= calls; i++) {
        step(chosen, count);
        if (i % EVERY == 0)
            compare(i);
    }
    compare(calls);
    printf("%lld calls, %" PRIu64 " refused, %d live\n", calls, refused, live_count);
    gpu_close(&gpu);
    return 0;
}
