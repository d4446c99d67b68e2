/* Queries facts from the driver right after certain calls, and records them:
 * - the driver's version and the devices
 * - the memory at a failed allocation
 * - the driver's own log
 * The queries never wait for the device or touch a stream. Memory is not queried during a stream capture. */
#include "gw_cuda_results.h"
#include "gwi_hook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- devices ---- */

static const int attributes[] = {1,  2,  3,  4,  5,  6,  7,  8,  10, 12, 16, 17,  18,
                                 20, 33, 34, 39, 41, 50, 75, 76, 81, 83, 97, 102, 115};

/* Store the smallest device's memory size in gwi.card_bytes. The hook needs it to decide whether memory is short.
 * The program may run on any device. */
static void note_card(int device, size_t total)
{
    size_t any = 0;
    gwi_guard_show(device, &any, &total);
    uint64_t least = atomic_load_explicit(&gwi.card_bytes, memory_order_relaxed);
    while (total != 0 && (least == 0 || total < least) &&
           !atomic_compare_exchange_weak_explicit(&gwi.card_bytes, &least, total, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

static void write_device(int device, uint64_t context)
{
    gw_fn_t_cuDeviceTotalMem_v2 *get_total = GWI_REAL(cuDeviceTotalMem_v2);
    gw_fn_t_cuDeviceGetName *get_name = GWI_REAL(cuDeviceGetName);
    gw_fn_t_cuDeviceGetAttribute *get_attribute = GWI_REAL(cuDeviceGetAttribute);
    size_t total = 0, free_bytes = 0, info_total = 0;
    char name[256] = "";
    if (get_name == NULL || get_name(name, sizeof name - 1, device) != 0)
        name[0] = '\0';
    if (get_total == NULL || get_total(&total, device) != 0)
        total = 0;
    note_card(device, total);
    bool known = gwi_device_memory(device, context, &free_bytes, &info_total);
    if (known)
        gwi_guard_show(device, &free_bytes, &total);
    gwi_fact(GW_EV_DEVICE, (uint64_t)device, total, known ? free_bytes : UINT64_MAX, 0, name);
    for (size_t i = 0; get_attribute != NULL && i < sizeof attributes / sizeof attributes[0]; i++) {
        int value = 0;
        if (get_attribute(&value, (CUdevice_attribute)attributes[i], device) == 0)
            gwi_fact(GW_EV_DEVICE_ATTRIBUTE, (uint64_t)device, (uint64_t)attributes[i], (uint64_t)value, 0, NULL);
    }
}

/* Record the other devices that this process can use, because one of them may be idle while this one is full. */
static void write_others(int device)
{
    gw_fn_t_cuDeviceGetCount *get_count = GWI_REAL(cuDeviceGetCount);
    gw_fn_t_cuDeviceTotalMem_v2 *get_total = GWI_REAL(cuDeviceTotalMem_v2);
    gw_fn_t_cuDeviceGetName *get_name = GWI_REAL(cuDeviceGetName);
    int count = 0;
    if (get_count == NULL || get_name == NULL || get_total == NULL || get_count(&count) != 0)
        return;
    for (int other = 0; other < count && other < 64; other++) {
        char name[256] = "";
        size_t total = 0;
        if (other == device || get_name(name, sizeof name - 1, other) != 0 || get_total(&total, other) != 0)
            continue;
        note_card(other, total);
        gwi_fact(GW_EV_DEVICE, (uint64_t)other, total, UINT64_MAX, 0, name);
    }
}

static void device_seen(int device, uint64_t context)
{
    static _Atomic uint64_t seen;
    uint64_t bit = (uint64_t)1 << (device & 63);
    uint64_t before = device < 0 ? bit : atomic_fetch_or(&seen, bit);
    if (device >= 0 && before == 0)
        write_others(device);
    if ((before & bit) == 0)
        write_device(device, context);
}

/* ---- the driver ---- */

enum { LOG_BYTES = 25600, LOG_LINES_MAX = 12 };
static struct {
    _Atomic uint32_t busy;
    bool begun;
    CUlogIterator iterator;
    _Atomic uint64_t last_ns;
    char text[LOG_BYTES + 1];
} driver_log;

static void log_begin(void)
{
    gw_fn_t_cuLogsCurrent *current = GWI_REAL(cuLogsCurrent);
    if (current != NULL && !driver_log.begun && atomic_exchange(&driver_log.busy, 1) == 0) {
        driver_log.begun = current(&driver_log.iterator, 0) == 0;
        atomic_store(&driver_log.busy, 0);
    }
}

static void write_log_lines(char *text)
{
    char *line[LOG_LINES_MAX];
    unsigned count = 0;
    for (char *at = text; *at != '\0';) {
        char *end = at + strcspn(at, "\n");
        bool last = *end == '\0';
        *end = '\0';
        if (end != at)
            line[count++ % LOG_LINES_MAX] = at;
        if (last)
            break;
        at = end + 1;
    }
    for (unsigned i = count > LOG_LINES_MAX ? count - LOG_LINES_MAX : 0; i < count; i++)
        gwi_fact(GW_EV_DRIVER_LOG, 0, 0, 0, 0, line[i % LOG_LINES_MAX]);
}

/* Record the lines that the driver has logged since the last call of this function. */
static void log_pull(void)
{
    gw_fn_t_cuLogsDumpToMemory *dump = GWI_REAL(cuLogsDumpToMemory);
    if (dump == NULL || !driver_log.begun || !gwi_turn(&driver_log.last_ns) ||
        atomic_exchange(&driver_log.busy, 1) != 0)
        return;
    size_t bytes = LOG_BYTES;
    if (dump(&driver_log.iterator, driver_log.text, &bytes, 0) == 0) {
        driver_log.text[bytes < LOG_BYTES ? bytes : LOG_BYTES] = '\0';
        write_log_lines(driver_log.text);
    }
    atomic_store(&driver_log.busy, 0);
}

static void driver_ready(void)
{
    static _Atomic uint32_t
        written_by_pid; /* write the facts once per process, although a program may call cuInit many times */
    gw_fn_t_cuDriverGetVersion *get = GWI_REAL(cuDriverGetVersion);
    int version = 0;
    if (atomic_exchange(&written_by_pid, gwi.head->pid) == gwi.head->pid)
        return;
    if (get == NULL || get(&version) != 0)
        version = 0;
    gwi_fact(GW_EV_DRIVER, (uint64_t)version, gwi.name_count, 0, 0, NULL);
    log_begin();
}

/* ---- stream-ordered pools ---- */

/* Memory that a pool has reserved but does not use belongs to the process, but no event shows it. So we query the
 * pools of the device, and those that the calling thread has created. Pools of other threads are not queried,
 * because these threads may be destroying them. */
enum { POOLS_MAX = 1024, RESERVED_NOW = 5, USED_NOW = 7 }; /* attribute numbers of the driver */
static struct {
    _Atomic uint32_t used; /* 1: the program has allocated stream-ordered memory */
    _Atomic size_t end;    /* entries from here on were never used */
    struct {
        _Atomic uint64_t pool, thread; /* if pool is 0, the entry is free */
        _Atomic uint32_t device;
    } made[POOLS_MAX];
} pools;

static uint64_t this_thread(void)
{
    return (uint64_t)(uintptr_t)&gwi_slot;
}

static void pool_made(uint64_t pool, uint64_t device)
{
    for (size_t i = 0; pool != 0 && i < POOLS_MAX; i++) {
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong(&pools.made[i].pool, &none, pool))
            continue;
        atomic_store(&pools.made[i].device, (uint32_t)device);
        atomic_store(&pools.made[i].thread, this_thread());
        for (size_t end = atomic_load(&pools.end); end <= i && !atomic_compare_exchange_weak(&pools.end, &end, i + 1);)
            ;
        return;
    }
}

static void pool_gone(uint64_t pool)
{
    for (size_t i = 0; i < atomic_load(&pools.end); i++) {
        if (atomic_load(&pools.made[i].pool) != pool)
            continue;
        atomic_store(&pools.made[i].thread, 0);
        atomic_store(&pools.made[i].pool, 0);
    }
}

static void write_pool(CUmemoryPool pool, int device, bool is_default)
{
    gw_fn_t_cuMemPoolGetAttribute *get = GWI_REAL(cuMemPoolGetAttribute);
    uint64_t reserved = 0, used = 0;
    if (get == NULL || get(pool, (CUmemPool_attribute)RESERVED_NOW, &reserved) != 0 ||
        get(pool, (CUmemPool_attribute)USED_NOW, &used) != 0 || reserved == 0)
        return;
    gwi_fact(GW_EV_POOL_STATE, (uint64_t)(uintptr_t)pool, reserved, used, (uint64_t)device | (uint64_t)is_default << 32,
             NULL);
}

static void write_pools(int device)
{
    gw_fn_t_cuDeviceGetDefaultMemPool *get_default = GWI_REAL(cuDeviceGetDefaultMemPool);
    gw_fn_t_cuDeviceGetMemPool *get_current = GWI_REAL(cuDeviceGetMemPool);
    CUmemoryPool usual = NULL, current = NULL;
    if (atomic_load_explicit(&pools.used, memory_order_relaxed) == 0)
        return;
    if (get_default != NULL && get_default(&usual, device) == 0)
        write_pool(usual, device, true);
    if (get_current != NULL && get_current(&current, device) == 0 && current != usual)
        write_pool(current, device, false);
    for (size_t i = 0; i < atomic_load(&pools.end); i++) {
        CUmemoryPool pool = (CUmemoryPool)(uintptr_t)atomic_load(&pools.made[i].pool);
        if (pool != NULL && pool != current && atomic_load(&pools.made[i].thread) == this_thread() &&
            atomic_load(&pools.made[i].device) == (uint32_t)device)
            write_pool(pool, device, false);
    }
}

static void note_pools(unsigned kind, const uint64_t arg[4])
{
    if (kind == GW_EV_ALLOC_ASYNC && atomic_load_explicit(&pools.used, memory_order_relaxed) == 0)
        atomic_store_explicit(&pools.used, 1, memory_order_relaxed);
    else if (kind == GW_EV_POOL_CREATE)
        pool_made(arg[0], arg[2]);
    else if (kind == GW_EV_POOL_DESTROY)
        pool_gone(arg[0]);
}

/* ---- after an event ---- */

/* True if free memory may be queried after a failed allocation: at the first 64 failures, then at most ten times a
 * second. A limit from the start would make results of short programs depend on their speed. */
static bool may_ask_for_memory(void)
{
    enum { ALWAYS_MAX = 64 };
    static _Atomic uint64_t last_ns;
    static _Atomic uint32_t asked;
    bool is_early =
        atomic_load_explicit(&asked, memory_order_relaxed) < ALWAYS_MAX && atomic_fetch_add(&asked, 1) < ALWAYS_MAX;
    return gwi_turn(&last_ns) || is_early;
}

static void memory_after_failure(int result)
{
    size_t free_bytes = 0, total = 0;
    int device = 0;
    if (gwi_capture_is_open() || gw_cuda_is_sticky((unsigned)result) || !may_ask_for_memory() ||
        !gwi_memory_info(&free_bytes, &total))
        return;
    if (!gwi_current_device(&device))
        device = 0;
    gwi_guard_show(device, &free_bytes, &total);
    gwi_fact(GW_EV_MEMORY_INFO, free_bytes, total, (uint64_t)device, (uint64_t)result, NULL);
    write_pools(device);
}

static bool asks_for_memory(unsigned kind)
{
    return gw_is_request(kind) || kind == GW_EV_VMM_MAP;
}

/* Count the end of a stream capture. A capture ends if the call succeeds, or if the capture was already invalid
 * (901 to 907). A call on the wrong thread, or on a stream without a capture, ends none. */
static void capture_ended(int result)
{
    uint32_t open = atomic_load(&gwi.head->captures_open);
    if (result != 0 && (result < 901 || result > 907))
        return;
    while (open != 0 && !atomic_compare_exchange_weak(&gwi.head->captures_open, &open, open - 1))
        ;
}

/* Return the soft limit in the line `name` of /proc/self/limits, in bytes, or 0 if it is unlimited. */
static uint64_t limit_in(const char *limits, const char *name)
{
    const char *line = strstr(limits, name);
    return line == NULL ? 0 : strtoull(line + strlen(name), NULL, 10); /* strtoull() returns 0 for "unlimited" */
}

/* Write a note if the address space or the data size is limited. CUDA reserves far more address space than a card
 * has memory. With a limit, allocations fail as if the card were full. */
static void note_limits(void)
{
    static _Atomic uint64_t looked_at_ns;
    char limits[4096];
    if (!gwi_turn(&looked_at_ns) || !gwi_read_small_file("/proc/self/limits", limits, sizeof limits))
        return;
    uint64_t address = limit_in(limits, "Max address space"), data = limit_in(limits, "Max data size");
    if (address != 0 || data != 0)
        gwi_note(GW_NOTE_ADDRESS_LIMIT, address, data, 0, NULL);
}

void gwi_facts_after(unsigned kind, int result, const uint64_t arg[4])
{
    if (kind == GW_EV_CAPTURE_END)
        capture_ended(result);
    if (result == 0) {
        if (kind == GW_EV_INIT)
            driver_ready();
        else if (kind == GW_EV_CTX_CREATE &&
                 arg[3] != GW_CONTEXT_FROM_GREEN) /* made from a green context: no device argument */
            /* 0: a green context cannot be made current for the query */
            device_seen((int)arg[2], arg[3] == GW_CONTEXT_GREEN ? 0 : arg[0]);
        else if (kind == GW_EV_CAPTURE_BEGIN)
            atomic_fetch_add(&gwi.head->captures_open, 1);
        else
            note_pools(kind, arg);
        return;
    }
    if (result == 2)
        note_limits();
    /* A forked child inherits the state of its parent's driver, but must not use the driver. */
    if (result == 500 || !gwi_may_ask(result) || !atomic_load_explicit(&gwi.head->initialised, memory_order_relaxed))
        return;
    if (result == 2 || asks_for_memory(kind))
        memory_after_failure(result);
    log_pull();
}
