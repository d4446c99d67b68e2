/* The guard's ledger: live device memory by address, handle or context. See gwi_guard_parts.h.
 *
 * The ledger exists only while the guard is on. It is an open hash table, mapped on first use. It grows with the number
 * of rows, because a table that fits into the processor's caches is several times faster. */
#include "gwi_guard_parts.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

struct gwi_guard gwi_guard;

/* ---- the lock ---- */

static _Atomic uint64_t lock; /* mark of the process << 32 | number of the thread; 0: free */

bool gwi_guard_lock(void)
{
    /* the address of thread-local data differs between the threads of a process */
    uint64_t mark = (uint64_t)atomic_load_explicit(&gwi_wipe.mark, memory_order_relaxed) << 32;
    uint64_t me = mark | (uint32_t)((uintptr_t)&gwi_slot >> 4) | 1u << 31;
    for (unsigned round = 0;; round++) {
        uint64_t holder = 0;
        if (gwi_likely(atomic_compare_exchange_strong_explicit(&lock, &holder, me, memory_order_acquire,
                                                               memory_order_relaxed)))
            return true;
        if (holder == me)
            return false;
        if (holder >> 32 != mark >> 32) /* of the parent */
            atomic_compare_exchange_strong(&lock, &holder, 0);
        else if (round > 1000) /* the holder may have lower priority and need our core */
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        else if (round > 50)
            sched_yield();
    }
}

void gwi_guard_unlock(void)
{
    atomic_store_explicit(&lock, 0, memory_order_release);
}

enum { ROW_COUNT_MIN = 1 << 12, ROW_COUNT_MAX = 1 << 18 };

/* Kinds of rows. GONE: deleted. BLOCK: memory with an address, or an array. SMALL: a block that shares a page. PAGE:
 * such a page, by address / 2 MiB. CONTEXT: a plain context. GREEN: a green context, which takes no memory of its own.
 */
typedef enum row_kind {
    ROW_EMPTY,
    ROW_GONE,
    ROW_BLOCK,
    ROW_SMALL,
    ROW_PAGE,
    ROW_HANDLE,
    ROW_MAPPING,
    ROW_CONTEXT,
    ROW_GREEN
} row_kind;

typedef struct row {
    uint64_t key; /* address, handle or context */
    uint64_t bytes;
    uint64_t context; /* the context that owns the memory; in a MAPPING: the handle of the mapped memory */
    uint8_t kind;
    uint8_t device;
    uint16_t holds; /* in a HANDLE: creations and retains without a release */
    uint32_t uses;  /* in a HANDLE: number of its mappings; in a PAGE: number of its blocks */
} row;
_Static_assert(sizeof(row) == 32, "two rows in a cache line");

static row *rows;          /* hashed by kind and key */
static uint32_t row_count; /* a power of two */
static uint32_t used_rows; /* rows that are not EMPTY */
static uint32_t live_rows; /* rows that are neither EMPTY nor GONE */

uint64_t gwi_guard_rounded(uint64_t bytes, bool has_own_pages)
{
    uint64_t step = bytes > GWI_SMALL_BYTES || has_own_pages ? GWI_PAGE : 512;
    return bytes > UINT64_MAX - step ? UINT64_MAX : (bytes + step - 1) / step * step;
}

/* ---- rows ---- */

static row *rows_new(uint32_t count)
{
    void *map =
        mmap(NULL, count * sizeof(row), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* Blocks of both kinds are found by address alone, so they share their hash chains. `count` is a power of two. */
static uint32_t place_of(uint32_t count, row_kind kind, uint64_t key)
{
    kind = kind == ROW_SMALL ? ROW_BLOCK : kind;
    return (uint32_t)((key ^ (uint64_t)kind << 56) * 0x9e3779b97f4a7c15u >> (64 - __builtin_ctz(count)));
}

/* Return the first unused row of a hash chain. */
static uint32_t place_free(const row *table, uint32_t count, row_kind kind, uint64_t key)
{
    uint32_t i = place_of(count, kind, key);
    while (table[i].kind > ROW_GONE)
        i = (i + 1) & (count - 1);
    return i;
}

/* Build a new table without the deleted rows. A deleted row stays in its hash chain, so in a program that uses many
 * addresses, deleted rows would fill the table. */
static void rebuild(uint32_t count)
{
    row *table = rows_new(count);
    if (table == NULL)
        return;
    for (uint32_t i = 0; i < row_count; i++)
        if (rows[i].kind > ROW_GONE)
            table[place_free(table, count, rows[i].kind, rows[i].key)] = rows[i];
    if (rows != NULL)
        munmap(rows, row_count * sizeof(row));
    rows = table;
    row_count = count;
    used_rows = live_rows;
}

static bool is_ready(void)
{
    if (rows == NULL)
        rebuild(ROW_COUNT_MIN);
    else if (used_rows >= row_count / 4 * 3 && live_rows < row_count / 2)
        rebuild(row_count);
    else if (used_rows >= row_count / 4 * 3 && row_count < ROW_COUNT_MAX)
        rebuild(row_count * 4);
    return rows != NULL && used_rows < row_count / 8 * 7;
}

static row *find_either(row_kind kind, row_kind other, uint64_t key)
{
    if (rows == NULL)
        return NULL;
    for (uint32_t i = place_of(row_count, kind, key), n = 0; n < row_count; i = (i + 1) & (row_count - 1), n++) {
        if (rows[i].kind == ROW_EMPTY)
            return NULL;
        if (rows[i].key == key && (rows[i].kind == kind || rows[i].kind == other))
            return &rows[i];
    }
    return NULL;
}

static row *find(row_kind kind, uint64_t key)
{
    return find_either(kind, kind, key);
}

/* Add a row. Returns NULL if there is no room: the memory is then not counted, so the guard may allow more than the
 * limit. */
static row *add(row_kind kind, uint64_t key, uint64_t bytes, uint64_t context, int device)
{
    if (!is_ready())
        return NULL;
    uint32_t i = place_free(rows, row_count, kind, key);
    live_rows++;
    used_rows += rows[i].kind == ROW_EMPTY;
    rows[i] = (row){.key = key, .bytes = bytes, .context = context, .kind = (uint8_t)kind, .device = (uint8_t)device};
    return &rows[i];
}

/* Remove a row. If the next row of the chain was never used, no chain leads through this one, so it need not be kept as
 * GONE. A program that frees what it allocated last then leaves no deleted rows. */
static void drop(row *r)
{
    uint32_t i = (uint32_t)(r - rows);
    bool ends_chain = rows[(i + 1) & (row_count - 1)].kind == ROW_EMPTY;
    r->kind = ends_chain ? ROW_EMPTY : ROW_GONE;
    used_rows -= ends_chain;
    live_rows--;
}

/* ---- blocks ---- */

static void page_used(uint64_t address, int device)
{
    row *page = find(ROW_PAGE, address / GWI_PAGE);
    if (page == NULL && (page = add(ROW_PAGE, address / GWI_PAGE, GWI_PAGE, 0, device)) != NULL) {
        gwi_guard.device[device].used_bytes += GWI_PAGE;
        gwi_guard.device[device].page_count++;
    }
    if (page != NULL)
        page->uses++;
}

static void page_left(uint64_t address)
{
    row *page = find(ROW_PAGE, address / GWI_PAGE);
    if (page == NULL || --page->uses > 0)
        return;
    gwi_guard.device[page->device].used_bytes -= GWI_PAGE;
    gwi_guard.device[page->device].page_count--;
    drop(page);
}

void gwi_ledger_block(uint64_t address, uint64_t bytes, bool has_own_pages, uint64_t context, int device)
{
    bytes = gwi_guard_rounded(bytes, has_own_pages);
    bool is_small = bytes <= GWI_SMALL_BYTES;
    if (add(is_small ? ROW_SMALL : ROW_BLOCK, address, bytes, context, device) == NULL)
        return;
    if (is_small) {
        gwi_guard.device[device].small_bytes += bytes;
        page_used(address, device);
    } else {
        gwi_guard.device[device].used_bytes += bytes;
    }
}

static void block_drop(row *r)
{
    gwi_guard_device *device = &gwi_guard.device[r->device];
    bool is_small = r->kind == ROW_SMALL;
    uint64_t address = r->key;
    *(is_small ? &device->small_bytes : &device->used_bytes) -= r->bytes;
    drop(r);
    if (is_small)
        page_left(address);
}

void gwi_ledger_block_gone(uint64_t address)
{
    row *r = find_either(ROW_BLOCK, ROW_SMALL, address);
    if (r != NULL)
        block_drop(r);
}

/* ---- virtual memory management ---- */

void gwi_ledger_handle(uint64_t handle, uint64_t bytes, int device)
{
    bytes = gwi_guard_rounded(bytes, true);
    row *r = add(ROW_HANDLE, handle, bytes, 0, device);
    if (r == NULL)
        return;
    r->holds = 1;
    gwi_guard.device[device].used_bytes += bytes;
}

static void handle_settle(row *handle)
{
    if (handle->holds > 0 || handle->uses > 0)
        return;
    gwi_guard.device[handle->device].used_bytes -= handle->bytes;
    drop(handle);
}

void gwi_ledger_handle_retained(uint64_t handle)
{
    row *r = find(ROW_HANDLE, handle);
    if (r != NULL && r->holds < UINT16_MAX)
        r->holds++;
}

void gwi_ledger_handle_released(uint64_t handle)
{
    row *r = find(ROW_HANDLE, handle);
    if (r == NULL || r->holds == 0)
        return;
    r->holds--;
    handle_settle(r);
}

void gwi_ledger_mapped(uint64_t address, uint64_t bytes, uint64_t handle)
{
    row *r = find(ROW_HANDLE, handle);
    if (r == NULL)
        return;
    r->uses++;
    add(ROW_MAPPING, address, bytes, handle, r->device);
}

static void mapping_drop(row *r)
{
    row *handle = find(ROW_HANDLE, r->context);
    drop(r);
    if (handle == NULL)
        return;
    handle->uses--;
    handle_settle(handle);
}

/* Usually each mapping begins where the previous one ends. If one of them is not in the ledger (imported memory, for
 * example), search the whole table for the others. */
void gwi_ledger_unmapped(uint64_t address, uint64_t bytes)
{
    uint64_t done = 0;
    for (row *r; done < bytes && (r = find(ROW_MAPPING, address + done)) != NULL;) {
        done += r->bytes;
        mapping_drop(r);
    }
    for (uint32_t i = 0; done < bytes && rows != NULL && i < row_count; i++) {
        row *r = &rows[i];
        if (r->kind == ROW_MAPPING && r->key >= address && r->key - address < bytes)
            mapping_drop(r);
    }
}

/* ---- contexts ---- */

void gwi_ledger_context(uint64_t context, uint64_t bytes, int device)
{
    if (add(ROW_CONTEXT, context, bytes, context, device) != NULL)
        gwi_guard.device[device].used_bytes += bytes;
}

void gwi_ledger_green(uint64_t context, int device)
{
    if (add(ROW_GREEN, context, 0, context, device) != NULL)
        gwi_guard.device[device].greens++;
}

int gwi_ledger_green_gone(uint64_t context)
{
    row *green = find(ROW_GREEN, context);
    if (green == NULL)
        return -1;
    int device = green->device;
    gwi_guard.device[device].greens--;
    drop(green);
    return device;
}

void gwi_ledger_context_gone(uint64_t context)
{
    for (uint32_t i = 0; rows != NULL && context != 0 && i < row_count; i++) {
        row *r = &rows[i];
        if ((r->kind == ROW_BLOCK || r->kind == ROW_SMALL) && r->context == context) {
            block_drop(r);
        } else if (r->kind == ROW_CONTEXT && r->key == context) {
            gwi_guard.device[r->device].used_bytes -= r->bytes;
            drop(r);
        }
    }
}
