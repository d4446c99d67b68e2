/* Programs whose failure looks like another one. Each kind has one reason:
 *
 * --kind sentence   a beam search keeps a block a word until its sentence ends, and one sentence is too long
 * --kind buffer     a buffer grows to a planned size that does not fit
 * --kind phase      training keeps a block a step; then a validation does not fit that fitted before
 * --kind layers     after many requests, a further model is loaded layer by layer, and does not fit
 * --kind rebuilt    a model is built again while the old one is still held
 * --kind graphs     an executable graph with its own memory is kept for each shape
 * --kind pools      a memory pool is kept for each request
 * --kind neighbour  another process fills the GPU, and survives its own refusals
 * --kind freed      a copy goes to a block that was freed before
 * --kind past       a copy is longer than its block
 * --kind name       a module has no function of this name
 * --kind ordinal    the machine has no GPU of this number
 * --kind term       the program sends SIGTERM to itself
 *
 * Repaired: the sizes fit, the memory is freed, or the argument is right. */
#include "scenario.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
static CUfunction store;
static CUdeviceptr scratch;

static void work(int kernels)
{
    int host;
    for (int i = 0; i < kernels; i++)
        CHECK(scenario_store(store, scratch, NULL));
    CHECK(cuMemcpyDtoH(&host, scratch, sizeof host));
}

/* Take memory, work, and free it. */
static void work_in(size_t bytes, int kernels)
{
    CUdeviceptr block = scenario_take(bytes);
    work(kernels);
    CHECK(cuMemFree(block));
}

static void beam_search(bool repaired)
{
    static CUdeviceptr beam[512];
    for (int sentence = 0; sentence < 12; sentence++) {
        int words = sentence < 11 ? 30 + sentence : repaired ? 40 : 400;
        for (int word = 0; word < words; word++) {
            beam[word] = scenario_take(24 * MIB); /* mark: beam */
            work(3);
        }
        for (int word = 0; word < words; word++)
            CHECK(cuMemFree(beam[word]));
    }
}

static void fill_buffer(bool repaired)
{
    for (int step = 0; step < 300; step++) {
        CUdeviceptr batch = scenario_take(8 * MIB);
        work(2);
        if (step < (repaired ? 100 : 300))
            scenario_take(16 * MIB); /* mark: buffer */
        CHECK(cuMemFree(batch));
    }
}

static void validate(void)
{
    work_in(1900 * MIB, 4);
}

static void train_then_validate(bool repaired)
{
    scenario_take(500 * MIB);
    validate();
    for (int step = 0; step < 110; step++) {
        CUdeviceptr batch = scenario_take(60 * MIB), loss = scenario_take(12 * MIB); /* mark: loss */
        work(3);
        CHECK(cuMemFree(batch));
        if (repaired)
            CHECK(cuMemFree(loss));
    }
    validate();
}

static void load_layer(void)
{
    static char file[1 << 16];
    CUdeviceptr raw = scenario_take(40 * MIB); /* mark: raw */
    CHECK(cuMemcpyHtoD(raw, file, sizeof file));
    scenario_take(40 * MIB); /* mark: layer */
    CHECK(scenario_store(store, raw, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(raw));
}

static void load_further_model(bool repaired)
{
    scenario_take(150 * MIB);
    for (int request = 0; request < 40; request++)
        work_in(90 * MIB, 4);
    for (int layer = 0; layer < (repaired ? 30 : 100); layer++)
        load_layer();
    work(4);
}

static void build_again(bool repaired)
{
    CUdeviceptr old = 0;
    for (int epoch = 0; epoch < 3; epoch++) {
        if (repaired && old != 0)
            CHECK(cuMemFree(old));
        CUdeviceptr model = scenario_take(2200 * MIB); /* mark: model */
        if (!repaired && old != 0)
            CHECK(cuMemFree(old));
        work(5);
        old = model;
    }
}

static CUgraphExec graph_for(int shape)
{
    static CUstream stream;
    CUdeviceptr block;
    CUgraph graph;
    CUgraphExec exec;
    if (stream == NULL)
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemAllocAsync(&block, (20 + (size_t)shape) * MIB, stream));
    CHECK(scenario_store(store, block, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0)); /* mark: graph */
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    return exec;
}

static void keep_graphs(bool repaired)
{
    scenario_take(200 * MIB);
    for (int shape = 0; shape < (repaired ? 5 : 500); shape++)
        graph_for(shape);
}

static void keep_pools(bool repaired)
{
    for (int request = 0; request < 200; request++) {
        CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
        CUmemoryPool pool;
        CUdeviceptr block;
        cuuint64_t all = UINT64_MAX;
        CHECK(cuMemPoolCreate(&pool, &properties));
        CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
        CHECK(cuMemAllocFromPoolAsync(&block, 32 * MIB, pool, NULL)); /* mark: pool */
        CHECK(scenario_store(store, block, NULL));
        CHECK(cuMemFreeAsync(block, NULL));
        CHECK(cuCtxSynchronize());
        if (repaired)
            CHECK(cuMemPoolDestroy(pool));
    }
}

/* Wait for the other process, fill the GPU, report it, and wait to be killed. */
static void fill_and_wait(int begin, int ready, size_t most)
{
    struct gpu gpu;
    CUdeviceptr block;
    size_t taken = 0;
    char byte;
    if (read(begin, &byte, 1) != 1)
        _exit(9);
    gpu_open(&gpu, 0);
    for (size_t bytes = 256 * MIB; bytes >= 2 * MIB && taken < most;) {
        if (cuMemAlloc(&block, bytes) == CUDA_SUCCESS)
            taken += bytes;
        else
            bytes /= 2;
    }
    if (write(ready, "r", 1) != 1)
        _exit(9);
    pause();
}

static void live_beside(pid_t other, int begin, int ready, bool go_on)
{
    char byte;
    CUdeviceptr block;
    if (write(begin, "b", 1) != 1 || read(ready, &byte, 1) != 1)
        scenario_fail("the neighbour failed");
    CUresult result = go_on ? CUDA_SUCCESS : cuMemAlloc(&block, 4 * MIB); /* mark: beside */
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    CHECK(result);
}

static void copy_to_freed(bool repaired)
{
    static char host[4096];
    CUdeviceptr block = scenario_take(64 * MIB); /* mark: made */
    if (!repaired)
        CHECK(cuMemFree(block)); /* mark: freed */
    CHECK(cuMemcpyHtoD(block, host, sizeof host));
}

static void copy_past_end(bool repaired)
{
    static char host[2 << 20];
    CUdeviceptr block = scenario_take(MIB);
    CHECK(cuMemcpyHtoD(block, host, repaired ? MIB : sizeof host));
}

static void find_function(bool repaired)
{
    CUfunction function;
    CHECK(cuModuleGetFunction(&function, gpu_load(scenario_ptx), repaired ? "store" : "store_half"));
}

static void find_device(bool repaired)
{
    CUdevice device;
    CHECK(cuDeviceGet(&device, repaired ? 0 : 3));
}

static void end_itself(bool repaired)
{
    work(3);
    if (!repaired)
        kill(getpid(), SIGTERM);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(bool repaired);
    } kinds[] = {{"sentence", beam_search},
                 {"buffer", fill_buffer},
                 {"phase", train_then_validate},
                 {"layers", load_further_model},
                 {"rebuilt", build_again},
                 {"graphs", keep_graphs},
                 {"pools", keep_pools},
                 {"freed", copy_to_freed},
                 {"past", copy_past_end},
                 {"name", find_function},
                 {"ordinal", find_device},
                 {"term", end_itself},
                 {"neighbour", NULL}};
    const char *kind = "";
    const struct option_row rows[] = {{"kind", OPTION_TEXT, &kind, "the reason of the failure"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Fails for a reason that looks like another.");
    bool has_neighbour = strcmp(kind, "neighbour") == 0;
    int begin[2], ready[2];
    if (pipe(begin) != 0 || pipe(ready) != 0)
        scenario_fail("no pipe");
    pid_t other = has_neighbour ? fork() : -1;
    if (other == 0)
        fill_and_wait(begin[0], ready[1], repaired ? 512 * MIB : SIZE_MAX);
    struct gpu gpu;
    gpu_open(&gpu, 0);
    store = gpu_kernel(gpu_load(scenario_ptx), "store");
    scratch = scenario_take(4096);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, kind) == 0 && kinds[i].run != NULL)
            kinds[i].run(repaired);
    if (has_neighbour)
        live_beside(other, begin[1], ready[0], repaired);
    printf("it ended well\n");
    return 0;
}
