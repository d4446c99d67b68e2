/* A program whose GPU library asks for memory after PyTorch has used the card. It allocates like PyTorch, through the
 * fake libc10_cuda.so, and stands for the library itself.
 *
 * usage: handle_prog CUDA SCENARIO [repaired]
 *   CUDA      path of the fake libc10_cuda.so
 *   leak      each iteration keeps 15 MiB, until the card is full; repaired: it keeps nothing
 *   cache     large blocks are freed, and their segments stay cached; repaired: the cache is emptied
 *   pieces    as cache, but a small live block is in each segment; repaired: the small blocks share a segment, and the
 *             cache is emptied
 *   mixed     as cache, but a third of the card is left, which a leak then fills
 *   full      the blocks are kept before iterations that keep nothing; repaired: the library is used first
 *   small     as full, but the iterations keep 1 MiB each: enough for the library, but little of the memory
 *   other     another process holds most of the card; repaired: it holds nothing
 *   caught    PyTorch refuses a request of the first run, the program keeps the run's blocks, and a second run uses the
 *             library; repaired: the blocks are freed, and the cache is emptied
 *   own       PyTorch's own request is refused; the program frees memory and goes on
 *   both      two threads at once: PyTorch refuses 100 requests, and the library is refused 100 times
 *   probe     the library is refused 200 times, then content with less
 *   holder    the other process: allocates 6 GiB, then waits for the end of its standard input
 *
 * If the library gets no memory, the program prints the exception that PyTorch raises, and exits with 1. */
#include "prog.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

enum { SEGMENT_MIB = 16, SEGMENTS_MAX = 4096, HANDLE_MIB = 64, TEMPORARIES = 20 };

static int (*get_info)(size_t *ret_free, size_t *ret_total);
static void (*fake_event)(uint64_t address, int64_t bytes, uint64_t allocated_bytes, uint64_t reserved_bytes);
static void (*fake_refuse)(int64_t bytes, int device);
static int (*fake_segment)(uint64_t *ret_address, uint64_t bytes);
static int (*fake_segment_end)(uint64_t address);

static uint64_t segment[SEGMENTS_MAX];
static size_t segment_count;
static uint64_t next, left_bytes; /* unused end of the last segment */
static uint64_t allocated, reserved;

static void work(void)
{
    if (launch_graph(exec, NULL) != 0 || synchronize(NULL) != 0)
        fail("work");
}

static uint64_t free_bytes(void)
{
    size_t now = 0, total = 0;
    if (get_info(&now, &total) != 0)
        fail("cuMemGetInfo");
    return now;
}

/* ---- PyTorch's allocator, reduced to what the scenarios need ---- */

static void add_segment(void)
{
    if (segment_count == SEGMENTS_MAX || fake_segment(&next, SEGMENT_MIB * MIB) != 0)
        fail("a segment");
    segment[segment_count++] = next;
    left_bytes = SEGMENT_MIB * MIB;
    reserved += SEGMENT_MIB * MIB;
}

static uint64_t take(uint64_t bytes)
{
    if (left_bytes < bytes)
        add_segment();
    uint64_t address = next;
    next += bytes;
    left_bytes -= bytes;
    allocated += bytes;
    fake_event(address, (int64_t)bytes, allocated, reserved);
    return address;
}

static void release(uint64_t address, uint64_t bytes)
{
    allocated -= bytes;
    fake_event(address, -(int64_t)bytes, allocated, reserved);
}

/* Release the segments from number `first` on, as torch.cuda.empty_cache() does. */
static void empty_cache(size_t first)
{
    while (segment_count > first) {
        if (fake_segment_end(segment[--segment_count]) != 0)
            fail("free of a segment");
        reserved -= SEGMENT_MIB * MIB;
    }
    left_bytes = 0;
}

/* ---- the library ---- */

static void use_library(void)
{
    uint64_t workspace = 0;
    if (driver_allocate(&workspace, HANDLE_MIB * MIB) == 0)
        return;
    fprintf(stderr, "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n"
                    "    y = model(x)\nRuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
                    "`cublasCreate(handle)`\n");
    exit(1);
}

/* ---- scenarios ---- */

/* The temporary blocks of an iteration are in the first segment, which add_segment() made before all others. */
static void iterate(uint64_t scratch)
{
    uint64_t at = scratch;
    for (uint64_t i = 1; i <= TEMPORARIES; i++) {
        allocated += i * 32768;
        fake_event(at, (int64_t)(i * 32768), allocated, reserved);
        at += i * 32768;
    }
    work();
    for (uint64_t i = TEMPORARIES; i > 0; i--) {
        at -= i * 32768;
        release(at, i * 32768);
    }
}

static uint64_t begin_scratch(void)
{
    add_segment();
    left_bytes = 0;
    return next;
}

/* Keep blocks until less than the library needs is free, in addition to `spare_bytes`. */
static void keep_until_full(uint64_t spare_bytes)
{
    while (free_bytes() >= (HANDLE_MIB / 2 + SEGMENT_MIB) * MIB + spare_bytes)
        take(15 * MIB);
}

static void leak(bool repaired)
{
    uint64_t scratch = begin_scratch();
    for (int i = 0; i < 600 && free_bytes() >= (HANDLE_MIB / 2 + SEGMENT_MIB) * MIB; i++) {
        iterate(scratch);
        if (!repaired)
            take(15 * MIB);
    }
    use_library();
}

static void leak_beside_cache(void)
{
    enum { BLOCKS = 280 };
    uint64_t block[BLOCKS], scratch = begin_scratch();
    for (int i = 0; i < BLOCKS; i++)
        block[i] = take(15 * MIB);
    work();
    for (int i = BLOCKS; i-- > 0;)
        release(block[i], 15 * MIB);
    while (free_bytes() >= (HANDLE_MIB / 2 + SEGMENT_MIB) * MIB) {
        iterate(scratch);
        take(15 * MIB);
    }
    use_library();
}

static void full(bool repaired, bool keeps_little)
{
    uint64_t scratch = begin_scratch();
    if (repaired)
        use_library();
    keep_until_full(keeps_little ? 112 * MIB : 0);
    for (int i = 0; i < 112; i++) {
        iterate(scratch);
        if (keeps_little)
            take(MIB);
    }
    if (!repaired)
        use_library();
}

/* Take blocks of 15 MiB, each in a segment of its own, and free them. If `apart`, a live block is in each segment. */
static void cache(bool repaired, bool apart)
{
    static uint64_t block[SEGMENTS_MAX];
    size_t count = 0;
    uint64_t scratch = begin_scratch();
    for (int i = 0; i < 40; i++)
        take(15 * MIB);
    for (int i = 0; repaired && apart && i < 16; i++)
        take(MIB);
    size_t first = segment_count;
    while (free_bytes() >= (HANDLE_MIB / 2 + SEGMENT_MIB) * MIB) {
        block[count++] = take(15 * MIB);
        if (apart && !repaired)
            take(MIB);
    }
    work();
    for (size_t i = count; i-- > 0;)
        release(block[i], 15 * MIB);
    iterate(scratch);
    if (repaired)
        empty_cache(first);
    use_library();
}

/* The second run needs no more segments, so nothing but its own work shows that the program went on. */
static void caught(bool repaired)
{
    static uint64_t kept[SEGMENTS_MAX];
    uint64_t scratch = begin_scratch(), address = 0;
    size_t first = segment_count, count = 0;
    iterate(scratch);
    while (free_bytes() >= (HANDLE_MIB / 2 + SEGMENT_MIB) * MIB)
        kept[count++] = take(15 * MIB);
    if (fake_segment(&address, (uint64_t)4 << 30) == 0)
        fail("too much memory");
    fake_refuse((int64_t)4 << 30, 0);
    for (size_t i = 0; i < count && repaired; i++)
        release(kept[i], 15 * MIB);
    if (repaired)
        empty_cache(first);
    for (int i = 0; i < 8; i++)
        iterate(scratch);
    use_library();
}

/* ---- refusals that the program survives ---- */

static void survive(bool is_own)
{
    uint64_t scratch = begin_scratch(), address = 0;
    keep_until_full(0);
    for (int i = 0; i < (is_own ? 1 : 200); i++)
        if ((is_own ? fake_segment(&address, (uint64_t)1 << 30) : driver_allocate(&address, (size_t)1 << 30)) == 0)
            fail("too much memory");
    empty_cache(segment_count - 8);
    for (int i = 0; i < 100; i++)
        iterate(scratch);
    if (driver_allocate(&address, HANDLE_MIB * MIB) != 0)
        fail("too little memory");
    work();
}

static void *refuse_own(void *user)
{
    pthread_barrier_wait(user);
    for (int i = 0; i < 100; i++)
        fake_refuse((int64_t)1 << 30, 0);
    return NULL;
}

static void both(void)
{
    pthread_t thread;
    pthread_barrier_t begin;
    uint64_t address = 0;
    (void)begin_scratch();
    keep_until_full(0);
    if (pthread_barrier_init(&begin, NULL, 2) != 0 || pthread_create(&thread, NULL, refuse_own, &begin) != 0)
        fail("no thread");
    pthread_barrier_wait(&begin);
    for (int i = 0; i < 100; i++)
        if (driver_allocate(&address, (size_t)1 << 30) == 0)
            fail("too much memory");
    pthread_join(thread, NULL);
}

/* ---- another process ---- */

static void hold(void)
{
    uint64_t held = 0;
    begin_driver();
    if (driver_allocate(&held, (size_t)6 << 30) != 0)
        fail("no memory to hold");
    if (write(STDOUT_FILENO, "x", 1) != 1)
        fail("write");
    while (getchar() != EOF)
        continue;
}

/* Start this program as `holder`, and wait until it has its memory. It ends with this process. */
static void start_holder(const char *self, const char *cuda)
{
    int ready[2], end[2];
    char byte;
    if (pipe(ready) != 0 || pipe(end) != 0)
        fail("pipe");
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        dup2(end[0], STDIN_FILENO);
        dup2(ready[1], STDOUT_FILENO);
        close(ready[0]);
        close(end[1]);
        execl(self, self, cuda, "holder", (char *)NULL);
        _exit(127);
    }
    close(ready[1]);
    close(end[0]);
    if (read(ready[0], &byte, 1) != 1)
        fail("the holder ended");
}

/* Fill the part of the card that the other process leaves, but at most 1.25 GiB of it. */
static void other(void)
{
    uint64_t scratch = begin_scratch();
    while (free_bytes() >= (HANDLE_MIB / 2 + SEGMENT_MIB) * MIB && segment_count < 80)
        take(15 * MIB);
    for (int i = 0; i < 100; i++)
        iterate(scratch);
    use_library();
}

int main(int argc, char **argv)
{
    if (argc < 3)
        fail("usage: CUDA SCENARIO [repaired]");
    const char *scenario = argv[2];
    bool repaired = argc > 3 && strcmp(argv[3], "repaired") == 0;
    if (strcmp(scenario, "holder") == 0) {
        hold();
        return 0;
    }
    if (strcmp(scenario, "other") == 0 && !repaired)
        start_holder(argv[0], argv[1]);
    void *cuda = dlopen(argv[1], RTLD_NOW);
    fake_event = (void (*)(uint64_t, int64_t, uint64_t, uint64_t))name_in(cuda, "fake_event");
    fake_refuse = (void (*)(int64_t, int))name_in(cuda, "fake_refuse");
    fake_segment = (int (*)(uint64_t *, uint64_t))name_in(cuda, "fake_segment");
    fake_segment_end = (int (*)(uint64_t))name_in(cuda, "fake_segment_end");
    get_info = (int (*)(size_t *, size_t *))name_in(begin_driver(), "cuMemGetInfo_v2");
    if (strcmp(scenario, "leak") == 0)
        leak(repaired);
    else if (strcmp(scenario, "cache") == 0 || strcmp(scenario, "pieces") == 0)
        cache(repaired, scenario[0] == 'p');
    else if (strcmp(scenario, "full") == 0 || strcmp(scenario, "small") == 0)
        full(repaired, scenario[0] == 's');
    else if (strcmp(scenario, "other") == 0)
        other();
    else if (strcmp(scenario, "mixed") == 0)
        leak_beside_cache();
    else if (strcmp(scenario, "both") == 0)
        both();
    else if (strcmp(scenario, "caught") == 0)
        caught(repaired);
    else if (strcmp(scenario, "own") == 0 || strcmp(scenario, "probe") == 0)
        survive(scenario[0] == 'o');
    else
        fail("no such scenario");
    return 0;
}
