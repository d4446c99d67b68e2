/* A program that allocates like PyTorch, with the fake libraries, and writes what it did to a file.
 *
 * usage: course_prog TRUTH CUDA SCENARIO [NUMBER]
 *   TRUTH     file to write; CUDA: path of the fake libc10_cuda.so
 *   random    NUMBER events with blocks of all sizes, then a failed allocation
 *   global    like `random`, but the library is opened with RTLD_GLOBAL
 *   alone     like `random`, but without an earlier driver call, so nothing is recorded
 *   training  iterations of 54 requests with launches and waits, 3 of them kept, then a failed allocation
 *   threads   NUMBER events on each of four devices, one thread each, then a failed allocation on each
 *   shared    four threads on one device, each call under one lock, as in PyTorch
 *   unlocked  like `shared`, but without a lock
 *   fork      a child frees and allocates until an allocation fails; the parent continues
 *   many      NUMBER blocks alive at once
 *   leak      400 iterations that keep 15 MiB each, then the process dies of the failed allocation
 *   late      a calm phase of 2,000 iterations, then `leak`
 *   full      like `leak`, but all bytes are kept before the iterations, which keep nothing
 *   rests     NUMBER calm iterations of a small program, then some that keep 15 MiB each, then a failed allocation
 *   calm      NUMBER calm iterations, then a failed allocation
 *   bench     NUMBER events of a process that uses much of the GPU's memory; prints nanoseconds per event
 *   bench_small  like `bench`, but the process uses little memory
 *   cold      like `bench`, but with cold caches, as in a real training run: one core allocates, another one frees.
 *             Between two events it reads and writes COLD_KIB of other memory; this time is not included.
 *
 * Lines of the file TRUTH:
 *   request ORDER DEVICE ADDRESS BYTES FREED_ORDER LAUNCHES WAITS      one request (FREED_ORDER 0: alive)
 *   device N requests frees live_count live_bytes peak_bytes           one used device
 *   passed USAGES OOMS STRANGE      calls that reached the fake libc10.so (STRANGE: with wrong arguments)
 *   made USAGES OOMS                calls that the program made */
#include "prog.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES = 16, LIVE_MAX = 1 << 16 };

typedef struct request {
    uint64_t address, bytes, freed_order;
    uint32_t launches, waits;
} request;

typedef struct books {
    request *request; /* indexed by order, from 1; element 0 is unused */
    uint64_t count, room, frees, live_count, live_bytes, peak_bytes;
    uint64_t next_address;
    uint64_t *live; /* order of each live request */
    uint64_t random;
} books;

static books of[DEVICES];
static _Atomic uint64_t made_usages, made_ooms;
static uint32_t launches, waits;
static bool keeps_books = true;
static void (*fake_block)(uint64_t address, int64_t bytes, int device);
static void (*fake_host_block)(uint64_t address, int64_t bytes);
static void (*fake_refuse)(int64_t bytes, int device);
static void (*fake_event)(uint64_t address, int64_t bytes, uint64_t allocated_bytes, uint64_t reserved_bytes);

static uint64_t next_random(books *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return b->random;
}

static uint64_t allocate(int device, uint64_t bytes)
{
    books *b = &of[device];
    if (b->count + 1 >= b->room) {
        b->room = b->room == 0 ? 1 << 16 : b->room * 2;
        b->request = realloc(b->request, b->room * sizeof *b->request);
        b->live = realloc(b->live, b->room * sizeof *b->live);
        if (b->request == NULL || b->live == NULL)
            fail("no memory");
    }
    uint64_t order = ++b->count, address = 0;
    /* Half of the time, use an address that was used before, as caching allocators do. */
    if (order > 64 && next_random(b) % 2 == 0) {
        const request *old = &b->request[order - 1 - next_random(b) % 60];
        bool used = old->freed_order == 0;
        for (uint64_t k = order > 256 ? order - 256 : 1; k < order && !used; k++)
            used = b->request[k].freed_order == 0 && b->request[k].address == old->address;
        address = used ? 0 : old->address;
    }
    if (address == 0)
        address = b->next_address += (bytes + 511) / 512 * 512 + 512;
    b->request[order] = (request){address, bytes, 0, launches, waits};
    b->live[b->live_count++] = order;
    b->live_bytes += bytes;
    b->peak_bytes = b->live_bytes > b->peak_bytes ? b->live_bytes : b->peak_bytes;
    made_usages++;
    fake_block(address, (int64_t)bytes, device);
    return order;
}

static void release_at(int device, uint64_t at)
{
    books *b = &of[device];
    request *it = &b->request[b->live[at]];
    b->live[at] = b->live[--b->live_count];
    b->live_bytes -= it->bytes;
    b->frees++;
    it->freed_order = b->count;
    made_usages++;
    fake_block(it->address, -(int64_t)it->bytes, device);
}

static void release(int device, uint64_t order)
{
    uint64_t at = of[device].live_count;
    while (of[device].live[--at] != order)
        ;
    release_at(device, at);
}

static void refuse(int device)
{
    made_ooms++;
    fake_refuse(3 << 20, device);
}

static void one_event(int device)
{
    static const uint64_t odd[] = {1, 512, 513, 1 << 20, (uint64_t)5 << 30, 4096};
    books *b = &of[device];
    uint64_t dice = next_random(b) % 100;
    bool free_one = b->live_count > 0 && (dice < 48 || b->live_count > 3000);
    if (free_one) /* the newest block, in one of four cases a random one */
        release_at(device, dice % 4 == 0 ? next_random(b) % b->live_count : b->live_count - 1);
    else if (dice < 60)
        allocate(device, odd[next_random(b) % (sizeof odd / sizeof odd[0])]);
    else
        allocate(device, 512 * (1 + next_random(b) % 8192));
}

static void launch(void)
{
    if (launch_graph(exec, NULL) != 0)
        fail("launch");
    launches++;
}

static void wait_for_it(void)
{
    if (synchronize(NULL) != 0)
        fail("wait");
    waits++;
}

/* ---- scenarios ---- */

static void random_events(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        one_event(0);
        if (i % 1000 == 0) {
            made_usages++;
            fake_host_block(0x1000, 512);
        }
    }
    refuse(0);
}

static uint64_t take(uint64_t bytes)
{
    return allocate(0, bytes);
}

static void training(uint64_t iterations)
{
    for (uint64_t i = 0; i < iterations; i++) {
        uint64_t order[54];
        for (unsigned k = 0; k < 54; k++) {
            order[k] = take((k + 1) * 40960);
            launch();
        }
        for (unsigned k = 54; k-- > 0;)
            if (k % 18 != 0) /* three blocks of each iteration are never freed */
                release(0, order[k]);
        wait_for_it();
    }
    refuse(0);
}

typedef struct job {
    int device;
    uint64_t count;
    pthread_mutex_t *lock; /* held during each call; NULL: no lock */
} job;

static void *thread_of_device(void *user)
{
    const job *j = user;
    for (uint64_t i = 0; i < j->count; i++)
        one_event(j->device);
    return NULL;
}

/* Each thread uses its own addresses on device 0. So without a lock, only the order of the events is undefined. */
static void *thread_of_all(void *user)
{
    const job *j = user;
    uint64_t base = UINT64_C(0x700000000000) + ((uint64_t)j->device << 36);
    for (uint64_t i = 0; i < j->count; i++) {
        if (j->lock != NULL)
            pthread_mutex_lock(j->lock);
        made_usages++;
        fake_block(base + (i / 2 % 512) * 4096, i % 2 == 0 ? 4096 : -4096, 0);
        if (j->lock != NULL)
            pthread_mutex_unlock(j->lock);
    }
    return NULL;
}

static void threads(uint64_t count, void *(*run)(void *), pthread_mutex_t *lock)
{
    pthread_t id[4];
    job j[4];
    for (int i = 0; i < 4; i++) {
        j[i] = (job){i, count, lock};
        if (pthread_create(&id[i], NULL, run, &j[i]) != 0)
            fail("no thread");
    }
    for (int i = 0; i < 4; i++)
        pthread_join(id[i], NULL);
}

static void forks(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        one_event(0);
    pid_t child = fork();
    if (child == 0) { /* the hook records nothing in this child */
        books before = of[0];
        for (uint64_t i = 0; i < 1000; i++)
            one_event(0);
        fake_refuse(1 << 20, 0);
        _exit(before.count == of[0].count ? 1 : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail("the child failed");
    for (uint64_t i = 0; i < count; i++)
        one_event(0);
    refuse(0);
}

static void many(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        allocate(0, 512 + i % 7 * 512);
    for (uint64_t i = 0; i < count; i += 3)
        release_at(0, of[0].live_count - 1 - i % 5);
    refuse(0);
}

/* Allocate a block of 16 GiB and keep it, so that the hook does not treat the process as small, and records its
 * events. */
static void hold_much(void)
{
    made_usages++;
    fake_block(UINT64_C(0x600000000000), (int64_t)16 << 30, 0);
}

static void calm_iterations(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t order[54];
        for (unsigned k = 0; k < 54; k++)
            order[k] = take((k + 1) * 4096);
        launch();
        for (unsigned k = 54; k-- > 0;)
            release(0, order[k]);
        wait_for_it();
    }
}

static void rests(uint64_t count)
{
    enum { KEPT = 15 << 20, KEEPING = 200 };
    for (uint64_t k = 0; k < 30; k++)
        take(1 << 20);
    calm_iterations(count);
    for (int i = 0; i < KEEPING; i++) {
        calm_iterations(1);
        take(KEPT);
        if (i == KEEPING / 2)
            for (uint64_t k = 1; k <= 5; k++)
                release(0, k); /* the first blocks of the process, older than those that this loop keeps */
    }
    refuse(0);
}

/* As PyTorch does with its cache: free a large block, keep a smaller one of the same segment. Then do nothing until
 * standard input ends. */
static void idle(void)
{
    const uint64_t large = (uint64_t)4 << 30, small = (uint64_t)1 << 30;
    fake_event(large, (int64_t)large, large, large);
    fake_event(large, -(int64_t)large, 0, large);
    fake_event(large, (int64_t)small, small, large);
    while (getchar() != EOF)
        continue;
}

/* Run 400 iterations, then fail as PyTorch does when the driver refuses memory. The process holds 7 of 8 GiB and
 * requests 2 GiB. If `leaks`, each iteration keeps 15 MiB. Otherwise that amount is kept before the iterations. */
static void dies(bool leaks)
{
    enum { KEPT = 15 << 20, ITERATIONS = 400 };
    uint64_t segment = 0;
    if (driver_allocate(&segment, (uint64_t)7 << 30) != 0)
        fail("no segment");
    for (int i = 0; i < ITERATIONS && !leaks; i++)
        take(KEPT);
    for (int i = 0; i < ITERATIONS; i++) {
        uint64_t order[20];
        for (int k = 0; k < 20; k++)
            order[k] = take((uint64_t)(k + 1) * 32768);
        launch();
        wait_for_it();
        for (int k = 20; k-- > 0;)
            release(0, order[k]);
        if (leaks)
            take(KEPT);
    }
    if (driver_allocate(&segment, (uint64_t)2 << 30) == 0)
        fail("a second segment");
    refuse(0);
    fprintf(stderr, "terminate called after throwing an instance of 'c10::OutOfMemoryError'\n"
                    "  what():  CUDA out of memory. Tried to allocate 2.00 GiB.\n");
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Time iterations that only allocate and free 54 blocks: the cost of the calls and of their recording. */
static void bench(uint64_t count)
{
    double best = 1e18;
    for (int round = 0; round < 9; round++) {
        double begin = now_ns();
        for (uint64_t i = 0; i < count / 108; i++) {
            for (uint64_t k = 0; k < 54; k++)
                fake_block(UINT64_C(0x7f0000000000) + k * 0x400000, (int64_t)(k + 1) * 40960, 0);
            for (uint64_t k = 0; k < 54; k++)
                fake_block(UINT64_C(0x7f0000000000) + k * 0x400000, -(int64_t)(k + 1) * 40960, 0);
        }
        double took = (now_ns() - begin) / (double)(count / 108 * 108);
        best = took < best ? took : best;
    }
    printf("%.2f\n", best);
}

/* ---- the same with cold caches ---- */

enum { COLD_KIB = 64, COLD_WALK = 4 << 20, COLD_BLOCKS = 54, COLD_ROUNDS = 15, COLD_INTERRUPTED_NS = 20000 };

static _Atomic uint64_t cold_turn; /* even: the allocating thread's turn; odd: the freeing thread's turn */
static uint64_t cold_iterations;
static uint64_t cold_ticks_max; /* longer intervals are not counted, because the thread was interrupted */
static double cold_round_ns[2][COLD_ROUNDS];

/* Read a cheap clock. No instruction is moved from before the reading to after it, or back. */
static uint64_t cold_ticks(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
    uint64_t ticks = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return ticks;
#else
    return (uint64_t)now_ns();
#endif
}

/* Touch the 64 KiB at *at, and advance *at. Successive calls cover 4 MiB and then start again. This is more than the
 * core's own caches hold. */
static void touch_other_memory(volatile uint8_t *memory, size_t *at)
{
    for (size_t done = 0; done < (size_t)COLD_KIB << 10; done += 64)
        memory[(*at + done) % COLD_WALK]++;
    *at = (*at + ((size_t)COLD_KIB << 10)) % COLD_WALK;
}

static uint64_t cold_half(bool frees, volatile uint8_t *memory, size_t *at, uint64_t *ret_events)
{
    uint64_t took = 0;
    for (uint64_t k = 0; k < COLD_BLOCKS; k++) {
        int64_t bytes = (int64_t)(k + 1) * 40960;
        touch_other_memory(memory, at);
        uint64_t begin = cold_ticks(), nothing = cold_ticks() - begin;
        begin = cold_ticks();
        fake_block(UINT64_C(0x7f0000000000) + k * 0x400000, frees ? -bytes : bytes, 0);
        uint64_t one = cold_ticks() - begin;
        if (one < cold_ticks_max) {
            took += one - (one < nothing ? one : nothing);
            ++*ret_events;
        }
    }
    return took;
}

/* Measure each round separately, because other processes may disturb some of them. cold() uses the median and the
 * minimum. */
static void *cold_thread(void *user)
{
    const bool frees = user != NULL;
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) == 0)
        for (int cpu = 0, left = frees ? 2 : 1; cpu < CPU_SETSIZE && left > 0; cpu++)
            if (CPU_ISSET(cpu, &all) && --left == 0)
                CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) != 1 || pthread_setaffinity_np(pthread_self(), sizeof one, &one) != 0)
        fail("two processors are needed");
    uint8_t *memory = calloc(COLD_WALK, 1);
    size_t at = 0;
    if (memory == NULL)
        fail("no memory");
    if (set_current(context) != 0)
        fail("no context");
    wait_for_it(); /* make a driver call, because a thread without one has no slot in the hook's buffer */
    for (unsigned round = 0; round < COLD_ROUNDS; round++) {
        uint64_t took = 0, events = 0;
        double begin_ns = now_ns();
        uint64_t begin = cold_ticks();
        for (uint64_t i = 0; i < cold_iterations; i++) {
            while ((atomic_load(&cold_turn) & 1) != (frees ? 1u : 0u))
                ;
            took += cold_half(frees, memory, &at, &events);
            atomic_fetch_add(&cold_turn, 1);
        }
        double ns_a_tick = (now_ns() - begin_ns) / (double)(cold_ticks() - begin);
        cold_round_ns[frees][round] = (double)took * ns_a_tick / (double)(events | 1);
    }
    free(memory);
    return NULL;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void cold(uint64_t count)
{
    pthread_t id[2];
    uint64_t begin = cold_ticks();
    usleep(20000);
    cold_ticks_max = (cold_ticks() - begin) * COLD_INTERRUPTED_NS / 20000000;
    cold_iterations = count / COLD_ROUNDS / 2 / COLD_BLOCKS + 1;
    if (pthread_create(&id[0], NULL, cold_thread, NULL) != 0 || pthread_create(&id[1], NULL, cold_thread, &id) != 0)
        fail("no thread");
    for (int i = 0; i < 2; i++) {
        pthread_join(id[i], NULL);
        qsort(cold_round_ns[i], COLD_ROUNDS, sizeof(double), by_value);
    }
    printf("handed out %.1f taken back %.1f (least %.1f %.1f)\n", cold_round_ns[0][COLD_ROUNDS / 2],
           cold_round_ns[1][COLD_ROUNDS / 2], cold_round_ns[0][0], cold_round_ns[1][0]);
}

static void write_truth(FILE *out, void *fakes)
{
    const _Atomic uint64_t *seen = dlsym(fakes, "fake_c10_seen");
    for (int device = 0; device < DEVICES && keeps_books; device++) {
        const books *b = &of[device];
        if (b->count == 0)
            continue;
        fprintf(out, "device %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", device, b->count,
                b->frees, b->live_count, b->live_bytes, b->peak_bytes);
        for (uint64_t i = 1; i <= b->count; i++)
            fprintf(out, "request %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %u\n", i, device,
                    b->request[i].address, b->request[i].bytes, b->request[i].freed_order, b->request[i].launches,
                    b->request[i].waits);
    }
    fprintf(out, "passed %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", seen[0], seen[1], seen[2]);
    fprintf(out, "made %" PRIu64 " %" PRIu64 "\n", made_usages, made_ooms);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        fail("usage: TRUTH CUDA SCENARIO [NUMBER]");
    const char *scenario = argv[3];
    uint64_t number = argc > 4 ? strtoull(argv[4], NULL, 10) : 1000;
    bool global = strcmp(scenario, "global") == 0;
    FILE *out = fopen(argv[1], "w");
    void *fakes = dlopen(argv[2], RTLD_LAZY | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (out == NULL || fakes == NULL)
        fail(fakes == NULL ? dlerror() : "no file for the truth");
    fake_block = (void (*)(uint64_t, int64_t, int))name_in(fakes, "fake_block");
    fake_host_block = (void (*)(uint64_t, int64_t))name_in(fakes, "fake_host_block");
    fake_refuse = (void (*)(int64_t, int))name_in(fakes, "fake_refuse");
    fake_event = (void (*)(uint64_t, int64_t, uint64_t, uint64_t))name_in(fakes, "fake_event");
    for (int i = 0; i < DEVICES; i++) {
        of[i].random = UINT64_C(0x2545f4914f6cdd1d) + (uint64_t)i;
        of[i].next_address = UINT64_C(0x7f0000000000) + ((uint64_t)i << 40);
    }
    if (strcmp(scenario, "alone") != 0)
        begin_driver();
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (strcmp(scenario, "random") == 0 || global || strcmp(scenario, "alone") == 0) {
        random_events(number);
    } else if (strcmp(scenario, "training") == 0) {
        training(number);
    } else if (strcmp(scenario, "threads") == 0) {
        threads(number, thread_of_device, NULL);
        for (int i = 0; i < 4; i++)
            refuse(i);
    } else if (strcmp(scenario, "shared") == 0 || strcmp(scenario, "unlocked") == 0) {
        keeps_books = false;
        hold_much();
        threads(number, thread_of_all, scenario[0] == 's' ? &lock : NULL);
        refuse(0);
    } else if (strcmp(scenario, "fork") == 0) {
        forks(number);
    } else if (strcmp(scenario, "many") == 0) {
        many(number);
    } else if (strcmp(scenario, "leak") == 0 || strcmp(scenario, "full") == 0 || strcmp(scenario, "late") == 0) {
        if (strcmp(scenario, "late") == 0)
            calm_iterations(2000);
        dies(scenario[0] == 'l');
        abort();
    } else if (strcmp(scenario, "idle") == 0) {
        idle();
    } else if (strcmp(scenario, "rests") == 0) {
        rests(number);
    } else if (strcmp(scenario, "calm") == 0) {
        calm_iterations(number);
        refuse(0);
    } else if (strcmp(scenario, "bench") == 0 || strcmp(scenario, "bench_small") == 0) {
        if (scenario[5] == '\0')
            hold_much();
        bench(number);
    } else if (strcmp(scenario, "cold") == 0) {
        hold_much();
        cold(number);
    } else {
        fail("no such scenario");
    }
    write_truth(out, fakes);
    return fclose(out) == 0 ? 0 : 9;
}
