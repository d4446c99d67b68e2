/* Each round of work keeps a block, until five eighths of the card are held. The program then waits until somebody
 * creates the file --until, and fails if nobody does. Repaired: each round frees its block. --plateau: all blocks are
 * allocated in the first rounds, before the actual work. --cached LIBRARY: the blocks belong to a fake of PyTorch's
 * allocator, which keeps them in its cache and uses none of them. */
#include "scenario.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum {
    ROUNDS = 320,
    BLOCKS_MAX = 4 * ROUNDS,
    PARTS = 512,
    PAGE_BYTES = 2 << 20,
    WARM_UP_ROUNDS = 20,
    ROUND_US = 5000,
    WAIT_S = 200
};

struct state {
    CUfunction store;
    size_t bytes;
    CUdeviceptr block[BLOCKS_MAX];
    int count;
    /* reports an event of PyTorch's allocator; NULL: there is none */
    void (*event)(uint64_t address, int64_t bytes, uint64_t allocated_bytes, uint64_t reserved_bytes);
};

static void keep_block(struct state *s)
{
    CHECK(cuMemAlloc(&s->block[s->count], s->bytes));
    s->count++;
    if (s->event == NULL)
        return;
    uint64_t reserved = s->bytes * (uint64_t)s->count;
    s->event(s->block[s->count - 1], (int64_t)s->bytes, s->bytes, reserved);
    s->event(s->block[s->count - 1], -(int64_t)s->bytes, 0, reserved);
}

static void open_allocator(struct state *s, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *address = library == NULL ? NULL : dlsym(library, "fake_event");
    if (address == NULL)
        scenario_fail("%s: %s", path, dlerror());
    *(void **)&s->event = address;
}

static void work_on(const struct state *s, CUdeviceptr block)
{
    CHECK(scenario_store(s->store, block, NULL));
    CHECK(cuStreamSynchronize(NULL));
    usleep(ROUND_US);
}

static void work(struct state *s, int round, int repaired, int plateau)
{
    if (plateau) {
        for (int i = 0; round < WARM_UP_ROUNDS && i < ROUNDS / WARM_UP_ROUNDS; i++)
            keep_block(s);
        work_on(s, s->block[0]);
        return;
    }
    keep_block(s);
    work_on(s, s->block[s->count - 1]);
    if (repaired)
        CHECK(cuMemFree(s->block[--s->count]));
}

static int wait_for_file(const char *path)
{
    for (int i = 0; i < WAIT_S * 100; i++) {
        if (access(path, F_OK) == 0)
            return 0;
        usleep(10000);
    }
    return 1;
}

int main(int argc, char **argv)
{
    const char *until = NULL, *cached = NULL;
    int plateau = 0;
    const struct option_row rows[] = {{"plateau", OPTION_FLAG, &plateau, "allocate everything at first"},
                                      {"cached", OPTION_TEXT, &cached, "path of the fake libc10_cuda.so"},
                                      {"until", OPTION_TEXT, &until, "wait at the end until this file exists"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired =
        scenario_begin(argc, argv, rows, "Memory grows with each round of work; repaired, a round frees its block.");
    static struct state s;
    struct gpu gpu;
    CUmodule module;
    size_t bytes_free, bytes_total;
    gpu_open(&gpu, 0);
    CHECK(cuModuleLoadData(&module, scenario_ptx));
    CHECK(cuModuleGetFunction(&s.store, module, "store"));
    scenario_memory(&bytes_free, &bytes_total);
    if (cached != NULL)
        open_allocator(&s, cached);
    s.bytes = bytes_total / PARTS / PAGE_BYTES * PAGE_BYTES; /* whole pages, so that nothing is lost to rounding */
    for (int round = 0; round < ROUNDS; round++)
        work(&s, round, repaired, plateau);
    truth("held_bytes", "%zu", s.bytes * (size_t)s.count);
    if (until != NULL && wait_for_file(until) != 0)
        scenario_fail("nobody created %s", until);
    printf("%d rounds\n", ROUNDS);
    return 0;
}
