/* Wraps cuGetProcAddress in all its forms: calls the real resolver, then replaces its result.
 *
 * The replacement depends on the returned address, not on the requested name. Only the driver knows which function a
 * name means with this version and these flags. The map from addresses to functions is filled at the first call, from
 * the exports and from the driver's results for our whole table.
 *
 * If several functions have one address, the request selects one of them. If that fails, or the address is not in the
 * map, the result is unchanged and a note is recorded.
 *
 * The replacement is the address that dlsym() returns for the function, because a program may rely on both being
 * equal. */
#include "gw_hook_special.h"
#include "gwi_hook.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FLAG_PER_THREAD = 2, MAP_MAX = 4 * GW_FN_COUNT, NOTES_MAX = 16 };

typedef struct map_row {
    uintptr_t address;
    uint16_t fn;
} map_row;

static struct {
    _Atomic uint32_t ready;
    uint32_t count;
    map_row row[MAP_MAX]; /* sorted by address, then fn */
    uint8_t reached[GW_FN_COUNT];
    _Atomic uint32_t notes[GW_NOTE_COUNT];
} map;

static uint32_t map_lower(uintptr_t address)
{
    uint32_t low = 0, high = map.count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (map.row[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool map_has(uintptr_t address, unsigned fn)
{
    for (uint32_t i = map_lower(address); i < map.count && map.row[i].address == address; i++)
        if (map.row[i].fn == fn)
            return true;
    return false;
}

static bool map_knows(uintptr_t address)
{
    uint32_t i = map_lower(address);
    return i < map.count && map.row[i].address == address;
}

static void map_add(void *function, unsigned fn)
{
    uintptr_t address = (uintptr_t)function;
    if (map.count == MAP_MAX || map_has(address, fn))
        return;
    uint32_t at = map_lower(address);
    memmove(&map.row[at + 1], &map.row[at], (map.count - at) * sizeof map.row[0]);
    map.row[at] = (map_row){address, (uint16_t)fn};
    map.count++;
}

/* Return the function that our table lists for a request. Returns -1 if the table does not have the name, or has it
 * only for later versions. */
static int route_of(const char *name, int version, uint64_t flags)
{
    return gw_api_resolve(name, version, (flags & FLAG_PER_THREAD) != 0);
}

/* ---- the driver's own resolver ---- */

static int ask(const char *name, void **ret_function, int version, uint64_t flags)
{
    *ret_function = NULL;
    CUdriverProcAddressQueryResult status;
    if (GWI_REAL(cuGetProcAddress_v2) != NULL)
        return GWI_REAL(cuGetProcAddress_v2)(name, ret_function, version, flags, &status);
    if (GWI_REAL(cuGetProcAddress) != NULL)
        return GWI_REAL(cuGetProcAddress)(name, ret_function, version, flags);
    return 500;
}

/* Learn a function from the driver's result for a request. If no export has the returned address, assume that it is the
 * function in our table. */
static void learn(const char *name, int version, uint64_t flags)
{
    void *function;
    int fn = route_of(name, version, flags);
    if (fn < 0 || ask(name, &function, version, flags) != 0 || function == NULL)
        return;
    if (!map_knows((uintptr_t)function))
        map_add(function, (unsigned)fn);
    if (gwi_real[fn] == NULL && map_has((uintptr_t)function, (unsigned)fn))
        gwi_driver_found((unsigned)fn, function);
    for (uint32_t i = map_lower((uintptr_t)function); i < map.count && map.row[i].address == (uintptr_t)function; i++)
        map.reached[map.row[i].fn] = 1;
}

static void note_some(gw_note reason, uint64_t a, uint64_t b, const char *text)
{
    if (atomic_fetch_add(&map.notes[reason], 1) < NOTES_MAX)
        gwi_note(reason, a, b, 0, text);
}

/* Self-check: write a note for each wrapped function of the driver that its resolver never returned, although our table
 * lists requests for it. */
static void note_unreached(void)
{
    for (uint32_t i = 0; i < GW_API_ROUTE_COUNT; i++) {
        unsigned fn = gw_api_routes[i].fn;
        if (gwi_real[fn] != NULL && gwi_wrappers[fn] != NULL && !map.reached[fn]) {
            note_some(GW_NOTE_UNREACHED, fn, (uint64_t)gw_api_routes[i].version, gw_api_fns[fn].symbol);
            map.reached[fn] = 1;
        }
    }
}

static void map_fill(void)
{
    for (unsigned fn = 0; fn < GW_FN_COUNT; fn++)
        if (gwi_driver[fn] != NULL)
            map_add(gwi_driver[fn], fn);
    for (uint32_t i = 0; i < GW_API_ROUTE_COUNT; i++)
        for (uint64_t flags = 0; flags <= FLAG_PER_THREAD; flags++)
            learn(gw_api_routes[i].name, (int)gw_api_routes[i].version, flags);
}

static void map_prepare(void)
{
    if (atomic_load_explicit(&map.ready, memory_order_acquire) || !gwi_lock())
        return;
    bool fresh = !map.ready;
    if (fresh) {
        map_fill();
        atomic_store_explicit(&map.ready, 1, memory_order_release);
    }
    gwi_unlock();
    if (fresh)
        note_unreached();
}

/* ---- the result ---- */

static void *replacement(const char *name, int version, uint64_t flags, void *function)
{
    uintptr_t address = (uintptr_t)function;
    if (!atomic_load_explicit(&map.ready, memory_order_acquire))
        return function;
    uint32_t first = map_lower(address), end = first;
    while (end < map.count && map.row[end].address == address)
        end++;
    if (end == first) {
        note_some(GW_NOTE_NAME_UNKNOWN, (uint64_t)version, flags, name);
        return function;
    }
    int fn = map.row[first].fn;
    if (end - first > 1) {
        fn = route_of(name, version, flags);
        if (fn < 0 || !map_has(address, (unsigned)fn)) {
            note_some(GW_NOTE_SIGNATURE_UNKNOWN, (uint64_t)version, flags, name);
            return function;
        }
    }
    if (gwi_stub[fn] != NULL) /* the pointer that dlsym returns, as with the driver's own resolver */
        return gwi_stub[fn];
    return gwi_wrappers[fn] != NULL ? gwi_wrappers[fn] : function;
}

/* Replace the result of a resolver call, after the real call. Only failures are recorded, because programs call
 * resolvers thousands of times. */
static void answered(gwi_slot_ref *th, unsigned fn, int result, const char *name, void **pfn, int version,
                     uint64_t flags)
{
    int saved_errno = errno;
    if (result == 500)
        gwi_bump(&th->slot->counter[GW_COUNT_NOT_FOUND], 1);
    else if (result != 0)
        gwi_event(th, fn, GW_EV_CALL, result, gwi_slot_take_forced(th->slot), 0, (uint64_t)(uintptr_t)name,
                  (uint64_t)(uintptr_t)pfn, (uint64_t)version, flags, name);
    else if (name != NULL && pfn != NULL && *pfn != NULL) {
        map_prepare();
        *pfn = replacement(name, version, flags, *pfn);
    }
    errno = saved_errno;
}

/* Return the pointer for a resolver call that is not recorded. While recording is off, programs get our function,
 * because they may use it later. The hook and the driver get the driver's function. */
static void *answer_unrecorded(const char *name, int version, uint64_t flags, void *function)
{
    gw_slot *slot = gwi_slot_usable();
    if (slot == NULL || atomic_load_explicit(&slot->inside_fn, memory_order_relaxed) != 0)
        return function;
    map_prepare();
    return replacement(name, version, flags, function);
}

int gwi_instead_get_proc_address(unsigned fn, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    gwi_slot_ref th;
    gw_fn_t_cuGetProcAddress *real = (gw_fn_t_cuGetProcAddress *)gwi_real[fn];
    bool entered = !gwi_recording_is_off() && gwi_enter(&th, fn);
    int result = real(symbol, pfn, cudaVersion, flags);
    if (entered) {
        answered(&th, fn, result, symbol, pfn, cudaVersion, flags);
        gwi_leave(&th);
    } else if (result == 0 && symbol != NULL && pfn != NULL && *pfn != NULL) {
        GWI_KEEP_ERRNO(*pfn = answer_unrecorded(symbol, cudaVersion, flags, *pfn));
    }
    return result;
}

int gwi_instead_get_proc_address_v2(unsigned fn, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *symbolStatus)
{
    gwi_slot_ref th;
    gw_fn_t_cuGetProcAddress_v2 *real = (gw_fn_t_cuGetProcAddress_v2 *)gwi_real[fn];
    bool entered = !gwi_recording_is_off() && gwi_enter(&th, fn);
    int result = real(symbol, pfn, cudaVersion, flags, symbolStatus);
    if (entered) {
        answered(&th, fn, result, symbol, pfn, cudaVersion, flags);
        gwi_leave(&th);
    } else if (result == 0 && symbol != NULL && pfn != NULL && *pfn != NULL) {
        GWI_KEEP_ERRNO(*pfn = answer_unrecorded(symbol, cudaVersion, flags, *pfn));
    }
    return result;
}

/* Extra work of some wrappers after a successful call. Rows of driver.api request it by name (after=...). */

/* Write a note at the first cuGetExportTable of a process. The call returns private tables, through which a program can
 * call the driver without the hook. */
void gwi_after_export_table(gwi_slot_ref *th, unsigned fn, const void **ppExportTable, const CUuuid *pExportTableId)
{
    static _Atomic uint32_t said_by_pid;
    int saved_errno = errno;
    (void)th;
    (void)ppExportTable;
    if (atomic_exchange(&said_by_pid, gwi.head->pid) != gwi.head->pid) {
        char id[33] = "";
        const unsigned char *bytes = (const unsigned char *)pExportTableId;
        for (int i = 0; bytes != NULL && i < 16; i++)
            snprintf(id + (size_t)(2 * i), 3, "%02x", bytes[i]);
        gwi_note(GW_NOTE_EXPORT_TABLE, fn, 0, 0, id);
    }
    errno = saved_errno;
}

enum { ENUMERATED_MAX = 8192 };

/* Record the names of the kernels that the program has just obtained handles for. cuModuleEnumerateFunctions and
 * cuLibraryEnumerateKernels do not return names, so query them. */
void gwi_after_module_functions(gwi_slot_ref *th, unsigned fn, CUfunction *functions, unsigned int numFunctions,
                                CUmodule mod)
{
    gw_fn_t_cuFuncGetName *get_name = GWI_REAL(cuFuncGetName);
    int saved_errno = errno;
    for (unsigned i = 0; functions != NULL && i < numFunctions && i < ENUMERATED_MAX; i++) {
        const char *name = NULL;
        if (functions[i] == NULL)
            continue;
        if (get_name == NULL || get_name(&name, functions[i]) != 0)
            name = NULL;
        gwi_event(th, fn, GW_EV_FUNCTION, 0, 0, 0, (uint64_t)(uintptr_t)functions[i], (uint64_t)(uintptr_t)mod,
                  GW_OWNER_MODULE, 0, name);
    }
    errno = saved_errno;
}

void gwi_after_library_kernels(gwi_slot_ref *th, unsigned fn, CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    gw_fn_t_cuKernelGetName *get_name = GWI_REAL(cuKernelGetName);
    int saved_errno = errno;
    for (unsigned i = 0; kernels != NULL && i < numKernels && i < ENUMERATED_MAX; i++) {
        const char *name = NULL;
        if (kernels[i] == NULL)
            continue;
        if (get_name == NULL || get_name(&name, kernels[i]) != 0)
            name = NULL;
        gwi_event(th, fn, GW_EV_FUNCTION, 0, 0, 0, (uint64_t)(uintptr_t)kernels[i], (uint64_t)(uintptr_t)lib,
                  GW_OWNER_LIBRARY, 0, name);
    }
    errno = saved_errno;
}

/* ---- functions of kernels ---- */

/* Hashes of the recorded pairs of kernel and function, so that each pair is recorded only once. Runtime libraries query
 * a kernel's function before each launch. */
enum { SAID_COUNT = 4096 };
static _Atomic uint64_t said_pairs[SAID_COUNT];

__attribute__((hot)) void gwi_after_kernel_function(gwi_slot_ref *th, unsigned fn, CUfunction *pFunc, CUkernel kernel)
{
    if (pFunc == NULL)
        return;
    uint64_t function = (uint64_t)(uintptr_t)*pFunc, of = (uint64_t)(uintptr_t)kernel;
    uint64_t when = (uint64_t)gwi_wipe.mark << 32 | atomic_load_explicit(&gwi.handles_made, memory_order_relaxed);
    uint64_t digest = ((of * 0x9e3779b97f4a7c15u ^ function) * 0xff51afd7ed558ccdu ^ when) * 0xc4ceb9fe1a85ec53u;
    _Atomic uint64_t *said = &said_pairs[(of * 0x9e3779b97f4a7c15u >> 40) % SAID_COUNT];
    if (gwi_likely(atomic_load_explicit(said, memory_order_relaxed) == digest))
        return;
    uint64_t lost = atomic_load_explicit(&th->slot->counter[GW_COUNT_LOST], memory_order_relaxed);
    gwi_event(th, fn, GW_EV_FUNCTION, 0, 0, 0, function, of, GW_OWNER_KERNEL, 0, NULL);
    if (atomic_load_explicit(&th->slot->counter[GW_COUNT_LOST], memory_order_relaxed) == lost)
        atomic_store_explicit(said, digest, memory_order_relaxed);
}
