/* Memory that stream-ordered pools and graphs have reserved: see gwi_guard_parts.h.
 *
 * A pool takes memory from the card in chunks of 32 MiB and gives a chunk back at a synchronisation, so its blocks say
 * little about what it holds (H100, driver 580: docs/virtual-gpu.md). The driver knows: the reserved and the used bytes
 * are attributes of the pool. Reading them after every allocation would cost more than the allocation, so a pool is
 * read when it may have grown: after requests of more bytes than were idle in it at the last reading, but not more
 * often than every 16 requests or 32 MiB, unless little of the limit is left. In between the guard may count up to two
 * chunks too little.
 *
 * Only default pools, and pools that the reading thread created or uses, are read: another thread may be destroying any
 * other pool. The numbers of graphs come from the device's attribute. */
#include "gw_hook_special.h"
#include "gwi_guard_parts.h"

enum { POOLS_MAX = 64, REQUESTS_MIN = 16, RESERVED_NOW = 5, USED_NOW = 7, GRAPH_RESERVED_NOW = 2 };
static const uint64_t chunk_bytes = 32u << 20;

typedef struct pool {
    uint64_t handle; /* 0: unused */
    uint64_t thread; /* that created or last used the pool */
    int device;
    bool is_default;
    uint64_t reserved_bytes, idle_bytes; /* at the last reading */
    uint64_t since_bytes;                /* requested since */
    uint32_t since_count;
} pool;

static pool pools[POOLS_MAX];
static pool *usual[GWI_GUARD_DEVICES];      /* the device's default pool; NULL: not known yet */
static uint64_t current[GWI_GUARD_DEVICES]; /* pool that the program made the device's current one; 0: the default */
static bool has_graphs[GWI_GUARD_DEVICES];

static uint64_t this_thread(void)
{
    return (uint64_t)(uintptr_t)&gwi_slot;
}

static pool *find(uint64_t handle)
{
    for (int i = 0; handle != 0 && i < POOLS_MAX; i++)
        if (pools[i].handle == handle)
            return &pools[i];
    return NULL;
}

static pool *add(uint64_t handle, int device, bool is_default)
{
    pool *found = find(handle);
    for (int i = 0; found == NULL && handle != 0 && i < POOLS_MAX; i++)
        if (pools[i].handle == 0) {
            found = &pools[i];
            *found = (pool){.handle = handle, .device = device, .is_default = is_default, .thread = this_thread()};
        }
    return found;
}

/* Return the pool of a request, which the thread uses now. NULL: it is not known yet, or there are too many. */
static pool *pool_of(uint64_t handle, int device)
{
    if (handle == 0)
        handle = current[device];
    if (handle == 0)
        return usual[device];
    pool *found = add(handle, device, false);
    if (found != NULL)
        found->thread = this_thread();
    return found;
}

uint64_t gwi_pools_need(uint64_t handle, int device, uint64_t bytes)
{
    const pool *p = pool_of(handle, device);
    uint64_t idle = p == NULL ? 0 : p->idle_bytes, since = p == NULL ? 0 : p->since_bytes;
    if (bytes > UINT64_MAX - chunk_bytes)
        return UINT64_MAX;
    uint64_t left = idle > since ? idle - since : 0;
    return bytes <= left ? 0 : (bytes - left + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
}

bool gwi_pools_granted(uint64_t handle, int device, uint64_t bytes)
{
    pool *p = pool_of(handle, device);
    if (p == NULL)
        return true; /* the device's default pool is found by the first reading */
    p->since_bytes += bytes;
    p->since_count++;
    bool may_have_grown = p->since_bytes > p->idle_bytes;
    return may_have_grown &&
           (p->reserved_bytes == 0 || p->since_count >= REQUESTS_MIN || p->since_bytes >= chunk_bytes);
}

void gwi_pools_made(uint64_t handle, int device)
{
    add(handle, device, false);
}

void gwi_pools_gone(uint64_t handle)
{
    pool *p = find(handle);
    if (p == NULL)
        return;
    gwi_guard.device[p->device].pool_bytes -= p->reserved_bytes;
    p->handle = 0;
    for (int i = 0; i < GWI_GUARD_DEVICES; i++)
        current[i] = current[i] == handle ? 0 : current[i];
}

void gwi_pools_graph_node(int device)
{
    has_graphs[device] = true;
}

void gwi_after_device_pool(gwi_slot_ref *th, unsigned fn, CUdevice dev, CUmemoryPool given)
{
    (void)th;
    (void)fn;
    if (!gwi_guard_on || dev < 0 || dev >= GWI_GUARD_DEVICES || !gwi_guard_lock())
        return;
    current[dev] = (uint64_t)(uintptr_t)given;
    gwi_guard_unlock();
}

/* ---- reading ---- */

typedef struct reading {
    uint64_t handle, reserved_bytes, used_bytes;
} reading;

static bool read_pool(reading *it)
{
    gw_fn_t_cuMemPoolGetAttribute *get = GWI_REAL(cuMemPoolGetAttribute);
    CUmemoryPool handle = (CUmemoryPool)(uintptr_t)it->handle;
    return get != NULL && get(handle, (CUmemPool_attribute)RESERVED_NOW, &it->reserved_bytes) == 0 &&
           get(handle, (CUmemPool_attribute)USED_NOW, &it->used_bytes) == 0;
}

/* Store a reading, if the pool still exists. Call with the lock held. */
static void store(const reading *it)
{
    pool *p = find(it->handle);
    if (p == NULL)
        return;
    gwi_guard.device[p->device].pool_bytes += it->reserved_bytes - p->reserved_bytes;
    p->reserved_bytes = it->reserved_bytes;
    p->idle_bytes = it->reserved_bytes > it->used_bytes ? it->reserved_bytes - it->used_bytes : 0;
    p->since_bytes = p->since_count = 0;
}

/* List the pools that this thread may read. */
static int list_pools(int device, reading list[POOLS_MAX])
{
    int count = 0;
    if (!gwi_guard_lock())
        return 0;
    for (int i = 0; i < POOLS_MAX; i++)
        if (pools[i].handle != 0 && pools[i].device == device &&
            (pools[i].is_default || pools[i].thread == this_thread()))
            list[count++].handle = pools[i].handle;
    gwi_guard_unlock();
    return count;
}

static void find_default(int device)
{
    gw_fn_t_cuDeviceGetDefaultMemPool *get = GWI_REAL(cuDeviceGetDefaultMemPool);
    CUmemoryPool found = NULL;
    if (usual[device] != NULL || get == NULL || get(&found, device) != 0 || !gwi_guard_lock())
        return;
    pool *p = add((uint64_t)(uintptr_t)found, device, true);
    if (p != NULL)
        p->is_default = true;
    usual[device] = p;
    gwi_guard_unlock();
}

static void read_graphs(int device)
{
    gw_fn_t_cuDeviceGetGraphMemAttribute *get = GWI_REAL(cuDeviceGetGraphMemAttribute);
    cuuint64_t bytes = 0;
    if (!has_graphs[device] || get == NULL || get(device, (CUgraphMem_attribute)GRAPH_RESERVED_NOW, &bytes) != 0 ||
        !gwi_guard_lock())
        return;
    gwi_guard.device[device].graph_bytes = bytes;
    gwi_guard_unlock();
}

void gwi_pools_read(int device)
{
    reading list[POOLS_MAX];
    if (gwi_capture_is_open())
        return;
    find_default(device);
    int count = list_pools(device, list), good = 0;
    for (int i = 0; i < count; i++)
        if (read_pool(&list[i]))
            list[good++] = list[i];
    if (good > 0 && gwi_guard_lock()) {
        for (int i = 0; i < good; i++)
            store(&list[i]);
        gwi_guard_unlock();
    }
    read_graphs(device);
}
