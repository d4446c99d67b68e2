/* Allocations that fail. The verdict must draw the right conclusion from each:
 *
 * --kind pool      the device's default pool of stream-ordered memory keeps memory that was freed, and a plain
 *                  block does not fit. With --kind own-pool, the program creates the pool. Repaired: the program
 *                  trims the pool first.
 * --kind handled   the program handles a refused allocation, works on, and later launches a kernel that writes to an
 *                  invalid address. Repaired: it does not launch that kernel.
 * --kind crumbs    the GPU is full of the program's own blocks, some of them small, and 2 MiB do not fit. The
 *                  program tries again after --pause us. Repaired: fewer blocks.
 * --kind probe     100 times, the program requests more memory than the GPU has, and then does some work. It exits 0.
 * --kind status    the program handles a refused allocation, does 12 rounds of work, and exits with status 3. Repaired:
 *                  it exits with status 0.
 * --kind crash     the program handles a refused allocation, does 40 rounds of work, and then writes through a NULL
 *                  pointer. Repaired: it does not write there.
 * --kind null      the program does not check whether an allocation failed, and writes through the NULL pointer that it
 *                  got instead of an object. Repaired: a request that fits. */
#include "scenario.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, BLOCKS_MAX = 1 << 14 };
static const size_t gib = (size_t)1 << 30;
static long long pause_us;

static void keep_in_pool(struct gpu *gpu, int own, int repaired)
{
    CUmemoryPool pool;
    CUstream stream;
    CUdeviceptr kept[4], plain;
    cuuint64_t all = ~(cuuint64_t)0;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (own)
        CHECK(cuMemPoolCreate(&pool, &props));
    else
        CHECK(cuDeviceGetDefaultMemPool(&pool, gpu->device));
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 4; i++)
        CHECK(cuMemAllocFromPoolAsync(&kept[i], gib, pool, stream));
    for (int i = 0; i < 4; i++)
        CHECK(cuMemFreeAsync(kept[i], stream));
    CHECK(cuStreamSynchronize(stream));
    truth("pool", "%llu", (unsigned long long)(size_t)pool);
    truth("kept_bytes", "%zu", 4 * gib);
    if (repaired)
        CHECK(cuMemPoolTrimTo(pool, 0));
    CUresult result = cuMemAlloc(&plain, 3 * gib); /* mark: plain */
    if (result != CUDA_SUCCESS)
        scenario_fail("not enough memory for 3 GiB: %d", (int)result);
    CHECK(cuMemFree(plain));
    CHECK(cuStreamDestroy(stream));
    if (own)
        CHECK(cuMemPoolDestroy(pool));
}

/* Copy one value to the GPU and back. */
static void work_once(CUfunction store, CUdeviceptr block)
{
    char in[256], out[256];
    memset(in, 7, sizeof in);
    CHECK(cuMemcpyHtoD(block, in, sizeof in));
    CHECK(scenario_store(store, block, NULL));
    CHECK(cuMemcpyDtoH(out, block, sizeof out));
}

static void cope_and_fault(int repaired)
{
    CUdeviceptr block;
    CUfunction store = gpu_kernel(gpu_load(scenario_ptx), "store");
    if (cuMemAlloc(&block, 64 * gib) == CUDA_SUCCESS) /* mark: coped */
        scenario_fail("the card is larger than it should be");
    CHECK(cuMemAlloc(&block, 16 * MIB));
    work_once(store, block);
    if (!repaired) {
        CHECK(scenario_store(store, (CUdeviceptr)0x10, NULL));
        CUresult result = cuCtxSynchronize();
        if (result != CUDA_SUCCESS)
            scenario_fail("a kernel failed: %d", (int)result);
    }
    CHECK(cuMemFree(block));
}

static void fill_with_crumbs(int repaired)
{
    static CUdeviceptr blocks[BLOCKS_MAX];
    size_t count = 0;
    for (; count < 37; count++)
        CHECK(cuMemAlloc(&blocks[count], 700 << 10));
    CUresult result = CUDA_SUCCESS;
    for (; count < (repaired ? 100 : BLOCKS_MAX) && result == CUDA_SUCCESS; count++)
        result = cuMemAlloc(&blocks[count], 2 * MIB);
    if (result != CUDA_SUCCESS) {
        usleep((useconds_t)pause_us);
        result = cuMemAlloc(&blocks[count], 2 * MIB);
        scenario_fail("no room for 2 MiB: %d", (int)result);
    }
    for (size_t i = 0; i < count; i++)
        CHECK(cuMemFree(blocks[i]));
}

static void probe(void)
{
    CUdeviceptr block, none;
    CUfunction store = gpu_kernel(gpu_load(scenario_ptx), "store");
    CHECK(cuMemAlloc(&block, 16 * MIB));
    for (int i = 0; i < 100; i++) {
        if (cuMemAlloc(&none, 64 * gib) == CUDA_SUCCESS) /* mark: probe */
            scenario_fail("the card is larger than it should be");
        work_once(store, block);
    }
    CHECK(cuMemFree(block));
}

/* Let an allocation fail once, then run `rounds` rounds of allocations, work and copies of results. */
static void go_on(int rounds)
{
    CUdeviceptr block;
    CUfunction store = gpu_kernel(gpu_load(scenario_ptx), "store");
    if (cuMemAlloc(&block, 64 * gib) == CUDA_SUCCESS) /* mark: went on */
        scenario_fail("the card is larger than it should be");
    for (int i = 0; i < rounds; i++) {
        CHECK(cuMemAlloc(&block, MIB));
        work_once(store, block);
        CHECK(cuMemFree(block));
    }
}

struct layer {
    CUdeviceptr weights;
    float rate;
};

static struct layer *layer_new(size_t bytes)
{
    static struct layer layer;
    return cuMemAlloc(&layer.weights, bytes) == CUDA_SUCCESS ? &layer : NULL; /* mark: unchecked */
}

int main(int argc, char **argv)
{
    const char *kind = "pool";
    const struct option_row rows[] = {{"kind", OPTION_TEXT, &kind, "what is refused, and what comes of it"},
                                      {"pause", OPTION_NUMBER, &pause_us, "us before asking again (crumbs)"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Asks for memory that it cannot have.");
    struct gpu gpu;
    gpu_open(&gpu, 0);
    if (strcmp(kind, "handled") == 0)
        cope_and_fault(repaired);
    else if (strcmp(kind, "crumbs") == 0)
        fill_with_crumbs(repaired);
    else if (strcmp(kind, "probe") == 0)
        probe();
    else if (strcmp(kind, "status") == 0)
        go_on(12);
    else if (strcmp(kind, "crash") == 0)
        go_on(40);
    else if (strcmp(kind, "null") == 0)
        ((volatile struct layer *)layer_new(repaired ? MIB : 64 * gib))->rate = 0.1F;
    else
        keep_in_pool(&gpu, strcmp(kind, "own-pool") == 0, repaired);
    if (strcmp(kind, "crash") == 0 && !repaired)
        *(volatile int *)0 = 1;
    gpu_close(&gpu);
    bool fails = strcmp(kind, "status") == 0 && !repaired;
    printf("it ended %s\n", fails ? "with too low an accuracy" : "well");
    return fails ? 3 : 0;
}
