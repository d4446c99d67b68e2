/* Programs that keep memory on purpose, but forget to free some of it.
 *
 *   window    keeps the last frames in a replay buffer, and runs to its end; does not free the oldest frame
 *   search    trains models of several widths, one after the other; does not free the previous model
 *   server    keeps a cache for each request, which grows with each token; does not free an aborted request's cache
 *
 * --repaired: everything is freed in time. --wide (search): repaired, but a later model is too wide for the GPU. */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
enum { WINDOW = 12, LAYERS = 6, TOKENS = 24 };

struct program {
    struct gpu gpu;
    CUfunction store;
    CUdeviceptr scratch;
    int repaired, wide;
    long long steps, kept;
};

static void work(const struct program *p, int kernels)
{
    for (int i = 0; i < kernels; i++)
        CHECK(scenario_store(p->store, p->scratch, NULL));
}

static void forget_or_free(struct program *p, CUdeviceptr block)
{
    if (p->repaired || p->wide)
        CHECK(cuMemFree(block));
    else
        p->kept++;
}

/* ---- window ---- */

static CUdeviceptr frame_new(void)
{
    return scenario_take(24 * MIB);
}

static void replay(struct program *p)
{
    CUdeviceptr frame[WINDOW] = {0};
    for (long long i = 0; i < p->steps; i++) {
        CUdeviceptr output = scenario_take(8 * MIB);
        if (frame[i % WINDOW] != 0)
            forget_or_free(p, frame[i % WINDOW]);
        frame[i % WINDOW] = frame_new();
        work(p, 3);
        CHECK(cuCtxSynchronize());
        CHECK(cuMemFree(output));
    }
    for (int i = 0; i < WINDOW; i++)
        p->kept += frame[i] != 0;
}

/* ---- search ---- */

static CUdeviceptr layer_new(size_t bytes)
{
    return scenario_take(bytes);
}

static void train(const struct program *p, size_t batch_bytes)
{
    for (int step = 0; step < 15; step++) {
        CUdeviceptr batch = scenario_take(batch_bytes), output = scenario_take(batch_bytes / 2);
        work(p, LAYERS);
        CHECK(cuMemFree(output));
        CHECK(cuMemFree(batch));
    }
    CHECK(cuCtxSynchronize());
}

static void search(struct program *p)
{
    static const size_t widths[] = {40, 52, 61, 74, 83, 97, 104, 118, 131, 140};
    for (size_t trial = 0; trial < sizeof widths / sizeof widths[0]; trial++) {
        CUdeviceptr layer[LAYERS];
        size_t width = p->wide && trial == 6 ? 900 : widths[trial];
        for (size_t i = 0; i < LAYERS; i++)
            layer[i] = layer_new((width + 2 * i) * MIB);
        train(p, (30 + 3 * trial) * MIB);
        for (int i = 0; i < LAYERS; i++)
            forget_or_free(p, layer[i]);
    }
}

/* ---- server ---- */

static CUdeviceptr cache_block(void)
{
    return scenario_take(4 * MIB);
}

static void answer(struct program *p, long long request)
{
    CUdeviceptr block[TOKENS];
    int aborted = request % 5 == 3;
    int tokens = aborted ? TOKENS / 2 : 6 + (int)(request * 7 % (TOKENS - 6)), host = 0;
    for (int i = 0; i < tokens; i++) {
        block[i] = cache_block();
        work(p, 2);
        CHECK(cuMemcpyDtoH(&host, p->scratch, sizeof host));
    }
    for (int i = 0; i < tokens; i++)
        if (aborted)
            forget_or_free(p, block[i]);
        else
            CHECK(cuMemFree(block[i]));
}

static void serve(struct program *p)
{
    CUdeviceptr weights = scenario_take(600 * MIB);
    for (long long request = 0; request < p->steps; request++)
        answer(p, request);
    CHECK(cuMemFree(weights));
}

int main(int argc, char **argv)
{
    const char *what = "window";
    struct program p = {.steps = 0};
    const struct option_row rows[] = {{"wide", OPTION_FLAG, &p.wide, "repaired, but one model is too wide"},
                                      {"what", OPTION_TEXT, &what, "window, search or server"},
                                      {"steps", OPTION_NUMBER, &p.steps, "how many (20; 400 but for a window)"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    p.repaired = scenario_begin(argc, argv, rows, "Keeps memory on purpose, and some that it forgets.");
    gpu_open(&p.gpu, 0);
    p.store = gpu_kernel(gpu_load(scenario_ptx), "store");
    CHECK(cuMemAlloc(&p.scratch, 4096));
    if (p.steps == 0)
        p.steps = strcmp(what, "window") == 0 ? 20 : 400;
    if (strcmp(what, "window") == 0)
        replay(&p);
    else if (strcmp(what, "search") == 0)
        search(&p);
    else
        serve(&p);
    truth("kept", "%lld", p.kept);
    printf("%s: done\n", what);
    return 0;
}
