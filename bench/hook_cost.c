/* Measure how much time gpuwhy adds to each driver call.
 *
 *   gpuwhy run --quiet [--gpu virtual:h200] -- hook_cost [blocks]
 *   hook_cost --layout
 *
 * A block is a burst of the same call. Blocks with and without gpuwhy alternate, so that drift of the machine affects
 * both. An "on" block calls libcuda.so.1, which is gpuwhy's facade. An "off" block calls the driver itself, whose path
 * is in the header of gpuwhy's buffer.
 *
 * Launches are measured a second time with accesses to other memory between them, as in a real program.
 *
 * Prints one JSON object; bench.py computes the statistics. --layout prints offsets in gpuwhy's buffer, for
 * training.py. */
#include "gw_buffer.h"
#include "gw_cuda_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    LAUNCHES = 200,
    LAUNCH_BLOCKS_TIMES = 5, /* launches are short, so a launch measurement has this many times `blocks` blocks */
    COLD_LAUNCHES = 50,
    COLD_BYTES = 256 << 10, /* bytes accessed between two launches */
    COLD_WALK = 8 << 20,    /* size of the accessed array in bytes; each group begins where the last one stopped */
    PAIRS = 100,
    TAIL_BLOCKS = 20, /* one 99.9th percentile is computed from the calls of this many "on" (or "off") blocks */
    BLOCKS = 400,
    BLOCKS_MAX = 4000,
    ALLOC_BYTES = 4096,
    DEPTH = 60, /* stack depth in frames for the measurements of call sites */
    /* New call sites per block. There are few, because each takes about 25 records in gpuwhy's buffer, which the
     * supervisor empties ten times per second. */
    NEW_IN_BLOCK = 8
};

#define DRIVER_FUNCTIONS(X)                                                                                            \
    X(cuInit)                                                                                                          \
    X(cuDeviceGet)                                                                                                     \
    X(cuDeviceGetName)                                                                                                 \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuCtxSetCurrent)                                                                                                 \
    X(cuCtxSynchronize)                                                                                                \
    X(cuModuleLoadData)                                                                                                \
    X(cuModuleGetFunction)                                                                                             \
    X(cuLaunchKernel)

static struct driver {
#define GW_X(name) __typeof__(name) *name;
    DRIVER_FUNCTIONS(GW_X)
#undef GW_X
    CUresult (*alloc)(CUdeviceptr *address, size_t bytes);
    CUresult (*give_back)(CUdeviceptr address);
    CUresult (*alloc_async)(CUdeviceptr *address, size_t bytes, CUstream stream);
    CUresult (*free_async)(CUdeviceptr address, CUstream stream);
} driver, bare;

static _Noreturn void give_up(const char *what, int result)
{
    fprintf(stderr, "hook_cost: %s: %d\n", what, result);
    exit(1);
}

static void need(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS)
        give_up(what, (int)result);
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        give_up(name, -1);
    return found;
}

static void open_driver(const char *path, struct driver *to)
{
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "hook_cost: %s\n", dlerror());
        exit(1);
    }
    void *found;
#define GW_X(name)                                                                                                     \
    found = symbol(library, #name);                                                                                    \
    memcpy(&to->name, &found, sizeof found);
    DRIVER_FUNCTIONS(GW_X)
#undef GW_X
    found = symbol(library, "cuMemAlloc_v2");
    memcpy(&to->alloc, &found, sizeof found);
    found = symbol(library, "cuMemFree_v2");
    memcpy(&to->give_back, &found, sizeof found);
    found = symbol(library, "cuMemAllocAsync");
    memcpy(&to->alloc_async, &found, sizeof found);
    found = symbol(library, "cuMemFreeAsync");
    memcpy(&to->free_async, &found, sizeof found);
}

/* Map the header of gpuwhy's buffer for this process. Returns NULL if the process is not recorded. */
static gw_buffer_head *map_buffer(void)
{
    const char *folder = getenv("GPUWHY_RUN_DIR");
    char prefix[32], path[1200];
    gw_buffer_head *head = NULL;
    DIR *dir = folder == NULL ? NULL : opendir(folder);
    if (dir == NULL)
        return NULL;
    snprintf(prefix, sizeof prefix, "%d-", (int)getpid());
    for (struct dirent *entry; head == NULL && (entry = readdir(dir)) != NULL;) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || strstr(entry->d_name, ".buf") == NULL)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        void *mapping = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *head, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0)
            close(fd);
        if (mapping != MAP_FAILED && memcmp(mapping, GW_BUFFER_MAGIC, 8) == 0)
            head = mapping;
    }
    closedir(dir);
    return head;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double block_ns[2][BLOCKS_MAX * LAUNCH_BLOCKS_TIMES];
static float call_ns[2][BLOCKS_MAX * PAIRS];

/* True if block number `block` is an "on" block. The order is: on off off on on off off on ... */
static bool is_on(int block)
{
    return (block & 3) == 0 || (block & 3) == 3;
}

static void print_blocks(const char *name, int blocks)
{
    for (int on = 0; on < 2; on++) {
        printf(",\n \"%s_%s_ns\": [", name, on ? "on" : "off");
        for (int i = 0; i < blocks / 2; i++)
            printf("%s%.2f", i ? "," : "", block_ns[on][i]);
        printf("]");
    }
}

static void measure_launches(CUfunction function, int blocks)
{
    int count[2] = {0, 0};
    for (int i = -8; i < blocks; i++) { /* blocks with a negative number only warm up and are not counted */
        bool on = is_on(i);
        const struct driver *by = on ? &driver : &bare;
        uint64_t begin = now_ns();
        for (int k = 0; k < LAUNCHES; k++)
            need(by->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "cuLaunchKernel");
        uint64_t end = now_ns();
        need(driver.cuCtxSynchronize(), "cuCtxSynchronize");
        if (i >= 0)
            block_ns[on][count[on]++] = (double)(end - begin) / LAUNCHES;
    }
    print_blocks("launch", blocks);
}

static void touch_other_memory(void)
{
    static volatile uint8_t memory[COLD_WALK];
    static size_t at;
    for (size_t done = 0; done < COLD_BYTES; done += 64)
        memory[(at + done) % COLD_WALK]++;
    at = (at + COLD_BYTES) % COLD_WALK;
}

/* Time each launch separately, after accesses to other memory. Reading the clock adds the same time to launches with
 * and without gpuwhy. */
static void measure_cold_launches(CUfunction function, int blocks)
{
    int count[2] = {0, 0};
    for (int i = -8; i < blocks; i++) {
        bool on = is_on(i);
        const struct driver *by = on ? &driver : &bare;
        uint64_t sum = 0;
        for (int k = 0; k < COLD_LAUNCHES; k++) {
            touch_other_memory();
            uint64_t begin = now_ns();
            CUresult result = by->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
            sum += now_ns() - begin;
            need(result, "cuLaunchKernel");
        }
        need(driver.cuCtxSynchronize(), "cuCtxSynchronize");
        if (i >= 0)
            block_ns[on][count[on]++] = (double)sum / COLD_LAUNCHES;
    }
    print_blocks("launch_cold", blocks);
}

static int by_value(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

/* Print one 99.9th percentile for each group of TAIL_BLOCKS blocks. Call this before print_calls(), which sorts all
 * samples together. */
static void print_tails(const char *name, int samples)
{
    enum { EACH = TAIL_BLOCKS * PAIRS };
    for (int on = 0; on < 2; on++) {
        printf(",\n \"%s_tail_%s_ns\": [", name, on ? "on" : "off");
        for (int first = 0; first + EACH <= samples; first += EACH) {
            qsort(call_ns[on] + first, EACH, sizeof(float), by_value);
            printf("%s%.0f", first ? "," : "", call_ns[on][first + (int)(EACH * 0.999)]);
        }
        printf("]");
    }
}

static void print_calls(const char *name, int samples)
{
    for (int on = 0; on < 2; on++) {
        qsort(call_ns[on], (size_t)samples, sizeof(float), by_value);
        printf(",\n \"%s_%s\": {\"calls\": %d, \"median_ns\": %.0f, \"p99_ns\": %.0f, \"p999_ns\": %.0f}", name,
               on ? "on" : "off", samples, call_ns[on][samples / 2], call_ns[on][(int)(samples * 0.99)],
               call_ns[on][(int)(samples * 0.999)]);
    }
}

static float timed_alloc(const struct driver *by, bool async)
{
    CUdeviceptr address = 0;
    uint64_t begin = now_ns();
    CUresult result = async ? by->alloc_async(&address, ALLOC_BYTES, NULL) : by->alloc(&address, ALLOC_BYTES);
    uint64_t end = now_ns();
    need(result, "allocate");
    need(async ? by->free_async(address, NULL) : by->give_back(address), "free");
    return (float)(end - begin);
}

/* The meaning of "on" and "off" in a measurement. */
typedef enum comparison {
    WITH_AND_WITHOUT_US, /* on: calls go through gpuwhy, off: directly to the driver; no call sites are recorded */
    SITE_KNOWN,          /* on: call sites are recorded, off: not; every call has the same stack of DEPTH frames */
    SITE_NEW             /* on: call sites are recorded, off: not; every call has a new stack of known functions */
} comparison;

static volatile unsigned kept;

/* Time an allocation `depth` frames down the stack. Bit n of `path` selects which of two lines in frame n calls the
 * next frame. */
static __attribute__((noinline)) float deep_alloc(unsigned depth, uint64_t path, bool async)
{
    float ns;
    if (depth == 0)
        return timed_alloc(&driver, async);
    if ((path & 1) != 0) {
        ns = deep_alloc(depth - 1, path >> 1, async);
        kept += 1;
    } else {
        ns = deep_alloc(depth - 1, path >> 1, async);
        kept += 2;
    }
    return ns;
}

static float compared_alloc(gw_buffer_head *head, comparison what, bool async, bool on)
{
    static uint64_t count;
    if (head != NULL)
        atomic_store(&head->sites_off, what == WITH_AND_WITHOUT_US || !on ? 1 : 0);
    if (what == WITH_AND_WITHOUT_US)
        return timed_alloc(on ? &driver : &bare, async);
    return deep_alloc(DEPTH, what == SITE_NEW ? ++count * 0x9e3779b97f4a7c15ull : 0, async);
}

/* Time each allocation separately to get the tail of the distribution. The pause after each block lets the supervisor
 * empty gpuwhy's buffer. */
static void measure_allocations(gw_buffer_head *head, const char *name, comparison what, bool async, int blocks)
{
    int count[2] = {0, 0}, used[2] = {0, 0}, each = what == SITE_NEW ? NEW_IN_BLOCK : PAIRS;
    for (int i = -8; i < blocks; i++) {
        bool on = is_on(i);
        double sum = 0;
        for (int k = 0; k < each; k++) {
            float ns = compared_alloc(head, what, async, on);
            sum += (double)ns;
            if (i >= 0)
                call_ns[on][used[on]++] = ns;
        }
        need(driver.cuCtxSynchronize(), "cuCtxSynchronize");
        if (i >= 0)
            block_ns[on][count[on]++] = sum / each;
        usleep(2000);
    }
    print_tails(name, used[0] < used[1] ? used[0] : used[1]);
    print_calls(name, used[0] < used[1] ? used[0] : used[1]);
    char blocks_name[40];
    snprintf(blocks_name, sizeof blocks_name, "%s_block", name);
    print_blocks(blocks_name, blocks);
}

static CUfunction load_nothing(void)
{
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n";
    CUmodule module;
    CUfunction function;
    need(driver.cuModuleLoadData(&module, ptx), "cuModuleLoadData");
    need(driver.cuModuleGetFunction(&function, module, "nothing"), "cuModuleGetFunction");
    return function;
}

static bool async_works(void)
{
    CUdeviceptr address = 0;
    if (driver.alloc_async(&address, ALLOC_BYTES, NULL) != CUDA_SUCCESS)
        return false;
    return driver.free_async(address, NULL) == CUDA_SUCCESS;
}

/* Print the layout of gpuwhy's buffer for training.py, which cannot read the C header: the switch for call sites and
 * the call counters. */
static void print_layout(void)
{
    printf("{\"sites_switch\": %zu, \"slots\": [%d, %zu, %d, %zu]}\n", offsetof(gw_buffer_head, sites_off),
           GW_SLOTS_OFFSET, sizeof(gw_slot), GW_SLOT_COUNT, offsetof(gw_slot, calls));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--layout") == 0) {
        print_layout();
        return 0;
    }
    int blocks = argc > 1 ? atoi(argv[1]) : BLOCKS;
    char name[128] = "";
    CUdevice device;
    CUcontext context;
    if (blocks < 4 || blocks > BLOCKS_MAX)
        give_up("blocks must be 4 to 4000, not", blocks);
    blocks -= blocks % 4;
    open_driver("libcuda.so.1", &driver);
    need(driver.cuInit(0), "cuInit");
    need(driver.cuDeviceGet(&device, 0), "cuDeviceGet");
    need(driver.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
    need(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    need(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    CUfunction function = load_nothing();
    gw_buffer_head *head = map_buffer();
    if (head == NULL && getenv("GPUWHY_RUN_DIR") != NULL)
        give_up("gpuwhy runs, but this process has no buffer", -1);
    open_driver(head != NULL ? head->driver_path : "libcuda.so.1", &bare);
    if (head != NULL && bare.cuLaunchKernel == driver.cuLaunchKernel)
        give_up("the driver's own functions cannot be told from ours", -1);
    printf("{\"card\": \"%s\", \"recorded\": %s, \"launches_a_block\": %d, \"allocations_a_block\": %d", name,
           head != NULL ? "true" : "false", LAUNCHES, PAIRS);
    measure_launches(function, blocks * LAUNCH_BLOCKS_TIMES);
    measure_cold_launches(function, blocks);
    bool async = async_works();
    measure_allocations(head, "alloc", WITH_AND_WITHOUT_US, false, blocks);
    if (async)
        measure_allocations(head, "alloc_async", WITH_AND_WITHOUT_US, true, blocks);
    if (head != NULL) {
        measure_allocations(head, "site_known", SITE_KNOWN, async, blocks);
        measure_allocations(head, "site_new", SITE_NEW, async, blocks);
    }
    printf(",\n \"lost\": %llu}\n", head == NULL ? 0ull : (unsigned long long)atomic_load(&head->lost_events));
    return 0;
}
