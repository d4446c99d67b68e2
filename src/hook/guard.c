/* The memory guard: every device looks like a card with GPUWHY_MEMORY bytes to this process. Total memory, free memory
 * and refusals are consistent.
 *
 * The used memory of the process is the sum of its contexts and its live allocations. A ledger lists the allocations,
 * rounded as the driver rounds them. Memory of other processes is not part of the sum. But the reported free memory is
 * never more than there is.
 *
 * The size of a context cannot be queried. It is estimated as the memory in use on the device right after the first
 * context was created. If that is more than a context takes on any card, other programs use the device. Then 528 MiB is
 * used, as on an H200; contexts on smaller cards take less. Each further plain context adds the same amount. Measured
 * on an H100 with driver 580.159.04: 526.8 MiB for the first context, 523.6 MiB for each further one, plain or primary.
 *
 * The first retain or the first green context creates the primary context. It is destroyed:
 * - by a reset, which does not change the number of retains; or
 * - once it was released as often as retained and all green contexts are destroyed.
 *
 * The ledger exists only while the guard is on. It is changed only with the hook's lock held, which is never held
 * during a real call. */
#include "gw_hook_special.h"
#include "gwi_hook.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { DEVICE_MAX = 64, ROW_COUNT = 1 << 18 };
static const uint64_t context_usual_bytes = 528u << 20, context_most_bytes = 768u << 20;

/* Kinds of rows. GONE: deleted. CONTEXT: a plain context. GREEN: a green context, which takes no memory of its own. */
typedef enum row_kind { ROW_EMPTY, ROW_GONE, ROW_BLOCK, ROW_HANDLE, ROW_MAPPING, ROW_CONTEXT, ROW_GREEN } row_kind;

typedef struct row {
    uint64_t key; /* address, handle or context */
    uint64_t bytes;
    uint64_t context; /* the context that owns the memory; in a MAPPING: the handle of the mapped memory */
    uint8_t kind;
    uint8_t device;
    uint8_t released; /* in a HANDLE: it was released, but may still be mapped */
    uint32_t maps;    /* in a HANDLE: number of its mappings */
} row;

static struct {
    uint64_t limit_bytes;
    row *rows;          /* ROW_COUNT rows, hashed by kind and key; mapped on first use */
    uint32_t used_rows; /* rows that are not EMPTY */
    uint32_t live_rows; /* rows that are neither EMPTY nor GONE */
    struct {
        uint64_t used_bytes;    /* sum of blocks, handles, plain contexts, and allocations in progress */
        uint64_t context_bytes; /* size of a context; 0: no context was created yet */
        uint64_t primary;       /* handle of the primary context; 0: unknown */
        bool has_primary;       /* the primary context exists */
        uint32_t retained, greens;
    } device[DEVICE_MAX];
} guard;

/* ---- the environment ---- */

void gwi_guard_begin(void)
{
    const char *text = getenv("GPUWHY_MEMORY");
    uint64_t bytes = 0;
    if (text == NULL || text[0] == '\0')
        return;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (bytes > (UINT64_MAX - 9) / 10)
            return;
        bytes = bytes * 10 + (uint64_t)(*text - '0');
    }
    if (*text != '\0' || bytes == 0)
        return; /* invalid: no limit; the supervisor has already checked a value that the user gave */
    guard.limit_bytes = bytes;
    gwi_guard_on = true;
}

/* ---- the ledger ---- */

/* Round a size as the driver does. Up to 1 MiB, blocks share pages of 2 MiB and have a multiple of 512 bytes. Larger
 * blocks have whole pages. */
static uint64_t rounded(uint64_t bytes)
{
    uint64_t step = bytes > 1u << 20 ? 2u << 20 : 512;
    return bytes > UINT64_MAX - step ? UINT64_MAX : (bytes + step - 1) / step * step;
}

static row *rows_new(void)
{
    void *map =
        mmap(NULL, ROW_COUNT * sizeof(row), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

static uint32_t place_of(row_kind kind, uint64_t key)
{
    return (uint32_t)((key ^ (uint64_t)kind << 56) * 0x9e3779b97f4a7c15u >> 46) % ROW_COUNT;
}

/* Return the first unused row of a hash chain. */
static uint32_t place_free(const row *rows, row_kind kind, uint64_t key)
{
    uint32_t i = place_of(kind, key);
    while (rows[i].kind > ROW_GONE)
        i = (i + 1) % ROW_COUNT;
    return i;
}

/* Build a new table without the deleted rows. They stay in their hash chains and would fill the table of a program with
 * many addresses. */
static void ledger_tidy(void)
{
    row *rows = rows_new();
    if (rows == NULL)
        return;
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (guard.rows[i].kind > ROW_GONE)
            rows[place_free(rows, guard.rows[i].kind, guard.rows[i].key)] = guard.rows[i];
    munmap(guard.rows, ROW_COUNT * sizeof(row));
    guard.rows = rows;
    guard.used_rows = guard.live_rows;
}

static bool ledger_ready(void)
{
    if (guard.rows == NULL)
        guard.rows = rows_new();
    if (guard.rows != NULL && guard.used_rows >= ROW_COUNT / 4 * 3 && guard.live_rows < ROW_COUNT / 2)
        ledger_tidy();
    return guard.rows != NULL && guard.used_rows < ROW_COUNT / 8 * 7;
}

static row *ledger_find(row_kind kind, uint64_t key)
{
    if (guard.rows == NULL)
        return NULL;
    for (uint32_t i = place_of(kind, key), n = 0; n < ROW_COUNT; i = (i + 1) % ROW_COUNT, n++) {
        if (guard.rows[i].kind == ROW_EMPTY)
            return NULL;
        if (guard.rows[i].kind == kind && guard.rows[i].key == key)
            return &guard.rows[i];
    }
    return NULL;
}

static void ledger_add(row_kind kind, uint64_t key, uint64_t bytes, uint64_t context, int device)
{
    if (!ledger_ready())
        return; /* no room for a row: the memory is not counted, so the guard may allow more than the limit */
    uint32_t i = place_free(guard.rows, kind, key);
    guard.live_rows++;
    guard.used_rows += guard.rows[i].kind == ROW_EMPTY;
    guard.rows[i] =
        (row){.key = key, .bytes = bytes, .context = context, .kind = (uint8_t)kind, .device = (uint8_t)device};
    if (kind != ROW_MAPPING)
        guard.device[device].used_bytes += bytes;
    guard.device[device].greens += kind == ROW_GREEN;
}

static void ledger_drop(row *r)
{
    if (r->kind != ROW_MAPPING)
        guard.device[r->device].used_bytes -= r->bytes;
    guard.device[r->device].greens -= r->kind == ROW_GREEN;
    r->kind = ROW_GONE;
    guard.live_rows--;
}

static void block_freed(row_kind kind, uint64_t key)
{
    row *r = ledger_find(kind, key);
    if (r != NULL)
        ledger_drop(r);
}

/* VMM memory stays allocated until its handle is released and its last mapping is removed. */
static void handle_settle(row *handle)
{
    if (handle != NULL && handle->released && handle->maps == 0)
        ledger_drop(handle);
}

static void handle_released(uint64_t key)
{
    row *handle = ledger_find(ROW_HANDLE, key);
    if (handle != NULL) {
        handle->released = 1;
        handle_settle(handle);
    }
}

static void mapped(uint64_t address, uint64_t bytes, uint64_t key)
{
    row *handle = ledger_find(ROW_HANDLE, key);
    if (handle != NULL) {
        handle->maps++;
        ledger_add(ROW_MAPPING, address, bytes, key, handle->device);
    }
}

static void mapping_drop(row *r)
{
    row *handle = ledger_find(ROW_HANDLE, r->context);
    ledger_drop(r);
    if (handle != NULL) {
        handle->maps--;
        handle_settle(handle);
    }
}

/* Remove the mappings in an address range. Usually each mapping begins where the previous one ends. If one is not in
 * the ledger (imported memory, for example), search the whole table for the others. */
static void unmapped(uint64_t address, uint64_t bytes)
{
    uint64_t done = 0;
    for (row *r; done < bytes && (r = ledger_find(ROW_MAPPING, address + done)) != NULL;) {
        done += r->bytes;
        mapping_drop(r);
    }
    for (uint32_t i = 0; done < bytes && guard.rows != NULL && i < ROW_COUNT; i++) {
        row *r = &guard.rows[i];
        if (r->kind == ROW_MAPPING && r->key >= address && r->key - address < bytes)
            mapping_drop(r);
    }
}

/* A destroyed context frees everything that it owned. VMM handles do not belong to a context. */
static void context_gone(uint64_t context)
{
    for (uint32_t i = 0; guard.rows != NULL && context != 0 && i < ROW_COUNT; i++) {
        row *r = &guard.rows[i];
        if ((r->kind == ROW_BLOCK && r->context == context) || (r->kind == ROW_CONTEXT && r->key == context))
            ledger_drop(r);
    }
}

/* ---- sizes that the program sees ---- */

static int current_device(void)
{
    gw_fn_t_cuCtxGetDevice *get = GWI_REAL(cuCtxGetDevice);
    CUdevice device = -1;
    if (gwi_current_context() == 0) /* without a context the driver would log an error */
        return -1;
    if (get == NULL || get(&device) != 0 || device < 0 || device >= DEVICE_MAX)
        return -1;
    return (int)device;
}

static uint64_t used_on(int device)
{
    return guard.device[device].used_bytes +
           (guard.device[device].has_primary ? guard.device[device].context_bytes : 0);
}

void gwi_guard_show(int device, size_t *free_bytes, size_t *total_bytes)
{
    if (!gwi_guard_on || device < 0 || device >= DEVICE_MAX)
        return;
    uint64_t used = used_on(device);
    uint64_t left = used < guard.limit_bytes ? guard.limit_bytes - used : 0;
    if (*free_bytes > left)
        *free_bytes = left;
    if (*total_bytes > guard.limit_bytes)
        *total_bytes = guard.limit_bytes;
}

static void measure_context(int device, uint64_t context)
{
    size_t free_bytes = 0, total = 0;
    uint64_t bytes = context_usual_bytes;
    if (gwi_device_memory(device, context, &free_bytes, &total) && total > free_bytes &&
        total - free_bytes <= context_most_bytes)
        bytes = total - free_bytes;
    guard.device[device].context_bytes = bytes;
}

/* ---- calls from the wrappers ---- */

/* Return the bytes of device memory that a call needs, with the lock held. The first context needs 0, because its size
 * is not known yet. */
static uint64_t needed_by(unsigned fn, int device, uint64_t bytes)
{
    if (gw_api_fns[fn].kind != GW_EV_CTX_CREATE)
        return rounded(bytes);
    bool exists = fn == GW_FN_cuDevicePrimaryCtxRetain && guard.device[device].has_primary;
    return exists ? 0 : guard.device[device].context_bytes;
}

bool gwi_refuse(gwi_slot_ref *th, unsigned fn, int device, uint64_t bytes)
{
    int saved_errno = errno;
    bool refused = false;
    uint64_t used = 0, wanted;
    if (device == -1)
        device = current_device();
    if (device < 0 || device >= DEVICE_MAX)
        goto out; /* the driver will return the error */
    if (!gwi_lock())
        goto out;
    wanted = needed_by(fn, device, bytes);
    used = used_on(device);
    /* A request of 0 bytes (host memory, an existing context) is never refused, even if the card is full. */
    refused = wanted > 0 && (wanted > guard.limit_bytes || used > guard.limit_bytes - wanted);
    if (!refused && gw_api_fns[fn].kind != GW_EV_CTX_CREATE) {
        /* Count these bytes already, so that other threads cannot use them while the driver works. */
        gwi_slot_note_pending(th->slot, device, wanted);
        guard.device[device].used_bytes += wanted;
    }
    gwi_unlock();
    if (refused) {
        gwi_slot_note_refused(th->slot);
        gwi_fact(GW_EV_GUARD_REFUSED, bytes, guard.limit_bytes, used, (uint64_t)device, NULL);
    }
out:
    errno = saved_errno;
    return refused;
}

static void context_made(uint64_t context, int device, uint64_t kind)
{
    switch (kind) {
    case GW_CONTEXT_PRIMARY:
        guard.device[device].primary = context;
        guard.device[device].retained++;
        guard.device[device].has_primary = true;
        break;
    case GW_CONTEXT_GREEN:
        ledger_add(ROW_GREEN, context, 0, context, device);
        guard.device[device].has_primary = true;
        break;
    case GW_CONTEXT_PLAIN:
        ledger_add(ROW_CONTEXT, context, guard.device[device].context_bytes, context, device);
        break;
    default:
        break;
    }
}

static void primary_gone(int device)
{
    guard.device[device].has_primary = false;
    context_gone(guard.device[device].primary);
}

static void primary_settle(int device)
{
    if (guard.device[device].retained == 0 && guard.device[device].greens == 0)
        primary_gone(device);
}

static void primary_released(int device)
{
    if (guard.device[device].retained > 0)
        guard.device[device].retained--;
    primary_settle(device);
}

static void green_gone(uint64_t context)
{
    row *green = ledger_find(ROW_GREEN, context);
    if (green == NULL)
        return;
    ledger_drop(green);
    primary_settle(green->device);
}

static void settle(unsigned kind, const uint64_t arg[4], uint64_t context, int device)
{
    int named = arg[2] < DEVICE_MAX ? (int)arg[2] : -1;
    switch (kind) {
    case GW_EV_ALLOC:
    case GW_EV_ALLOC_ASYNC:
        if (device >= 0 && arg[0] != 0)
            ledger_add(ROW_BLOCK, arg[0], rounded(arg[1]), context, device);
        break;
    case GW_EV_FREE:
    case GW_EV_FREE_ASYNC:
        block_freed(ROW_BLOCK, arg[0]);
        break;
    case GW_EV_VMM_CREATE:
        if (named >= 0 && arg[3] == 1) /* the memory is on a device, not on the host */
            ledger_add(ROW_HANDLE, arg[0], rounded(arg[1]), 0, named);
        break;
    case GW_EV_VMM_RELEASE:
        handle_released(arg[0]);
        break;
    case GW_EV_VMM_MAP:
        mapped(arg[0], arg[1], arg[3]);
        break;
    case GW_EV_VMM_UNMAP:
        unmapped(arg[0], arg[1]);
        break;
    case GW_EV_CTX_CREATE:
        if (named >= 0 &&
            arg[3] != GW_CONTEXT_FROM_GREEN) /* this is a second handle of an existing context; no device argument */
            context_made(arg[0], named, arg[3]);
        break;
    case GW_EV_CTX_DESTROY:
        context_gone(arg[0]);
        green_gone(arg[0]);
        break;
    case GW_EV_CTX_RELEASE:
        if (named >= 0)
            primary_released(named);
        break;
    case GW_EV_CTX_RESET:
        if (named >= 0)
            primary_gone(named);
        break;
    default:
        break;
    }
}

void gwi_guard_after(gw_slot *slot, unsigned kind, int result, const uint64_t arg[4], uint64_t context)
{
    int device = result == 0 ? current_device() : -1, pending_device;
    uint64_t pending = gwi_slot_take_pending(slot, &pending_device);
    bool first = kind == GW_EV_CTX_CREATE && result == 0 && arg[3] != GW_CONTEXT_FROM_GREEN && arg[2] < DEVICE_MAX &&
                 guard.device[arg[2]].context_bytes == 0;
    if (first)
        measure_context((int)arg[2], arg[3] == GW_CONTEXT_GREEN ? 0 : arg[0]);
    if (!gwi_lock())
        return;
    guard.device[pending_device].used_bytes -= pending;
    if (result == 0)
        settle(kind, arg, context, device);
    gwi_unlock();
}

static unsigned narrow(size_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
}

void gwi_after_total_memory(gwi_slot_ref *th, unsigned fn, size_t *bytes, CUdevice dev)
{
    size_t any = SIZE_MAX;
    (void)th;
    (void)fn;
    if (gwi_guard_on && bytes != NULL)
        gwi_guard_show(dev, &any, bytes);
}

void gwi_after_total_memory_v1(gwi_slot_ref *th, unsigned fn, unsigned int *bytes, CUdevice dev)
{
    if (!gwi_guard_on || bytes == NULL)
        return;
    size_t wide = *bytes;
    gwi_after_total_memory(th, fn, &wide, dev);
    *bytes = narrow(wide);
}

void gwi_after_memory_info(gwi_slot_ref *th, unsigned fn, size_t *free, size_t *total)
{
    size_t none_free = 0, none_total = 0;
    int device = -1;
    (void)th;
    (void)fn;
    if (gwi_guard_on)
        GWI_KEEP_ERRNO(device = current_device());
    if (gwi_guard_on)
        gwi_guard_show(device, free != NULL ? free : &none_free, total != NULL ? total : &none_total);
}

void gwi_after_memory_info_v1(gwi_slot_ref *th, unsigned fn, unsigned int *free, unsigned int *total)
{
    if (!gwi_guard_on || free == NULL || total == NULL)
        return;
    size_t wide_free = *free, wide_total = *total;
    gwi_after_memory_info(th, fn, &wide_free, &wide_total);
    *free = narrow(wide_free);
    *total = narrow(wide_total);
}
