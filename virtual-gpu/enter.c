/* cuInit(), and the checks that run before every other call. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gwi_virt.h"

/* --- before every call ---------------------------------------------------------------------------------- */

enum {
    ANY_TIME = 1,   /* works before cuInit and in a forked child */
    NO_CONTEXT = 2, /* works without a current context */
    NO_STICKY = 4,  /* works although a kernel has ruined the context */
    UNSAFE = 8,     /* forbidden while a capture is open */
    OWN_THREAD = 16 /* uses only thread-local state, so it takes no lock, like a real driver */
};

/* Patterns of names, separated by spaces. The first row with a matching pattern applies. A star at the end matches any
 * end of the name. A function without a row needs a context and returns its sticky error. */
static const struct {
    const char *patterns;
    int flags;
} classes[] = {
    {"cuInit cuDriverGetVersion cuGetErrorName cuGetErrorString cuGetProcAddress* cuGetExportTable cuLogs* "
     "cuCoredump*",
     ANY_TIME | NO_CONTEXT | NO_STICKY},
    {"cuProfiler* cuDevice*", NO_CONTEXT | NO_STICKY},
    {"cuCtxGetCurrent", NO_CONTEXT | NO_STICKY | OWN_THREAD},
    {"cuCtxSetCurrent cuCtxPushCurrent* cuCtxPopCurrent* cuCtxCreate* cuCtxDestroy* cuCtxGetApiVersion",
     NO_CONTEXT | NO_STICKY},
    {"cuCtxGetDevice*", NO_STICKY},
    {"cuCtxGetId", NO_CONTEXT | NO_STICKY},
    {"cuCtxSynchronize_v2", NO_CONTEXT | UNSAFE},
    {"cuCtxSynchronize", UNSAFE},
    {"cuPointer*", NO_CONTEXT | NO_STICKY},
    {"cuMemFreeHost", NO_CONTEXT},
    {"cuMemFree_v2 cuMemFree", NO_CONTEXT | UNSAFE},
    {"cuMemAllocAsync* cuMemAllocFromPoolAsync*", 0},
    {"cuMemAlloc* cuMemHost*", UNSAFE},
    {"cuMemPool* cuMemGetDefaultMemPool cuMemGetMemPool cuMemSetMemPool cuMemAddress* cuMemCreate cuMemRelease "
     "cuMemRetainAllocationHandle cuMemMap cuMemUnmap cuMemSetAccess cuMemGetAccess cuMemGetAllocation* "
     "cuMemExportToShareableHandle cuMemImportFromShareableHandle",
     NO_CONTEXT},
    {"cuMemcpyHtoDAsync* cuMemcpyDtoHAsync* cuMemcpyDtoDAsync* cuMemcpyAsync* cuMemcpyPeerAsync* "
     "cuMemcpy2DAsync* cuMemcpy3DAsync* cuMemcpyBatchAsync*",
     0},
    {"cuMemcpy* cuModuleLoad* cuModuleUnload", UNSAFE},
    {"cuLibrary* cuKernel*", NO_CONTEXT},
    {"cuEventCreate cuEventRecord*", 0},
    {"cuEvent* cuGraph* cuThreadExchangeStreamCaptureMode cuUserObject* cuIpcGetEventHandle", NO_CONTEXT},
};

static bool fits(const char *pattern, size_t bytes, const char *symbol)
{
    if (pattern[bytes - 1] == '*')
        return strncmp(pattern, symbol, bytes - 1) == 0;
    /* A variant for the per-thread default stream (_ptsz, _ptds) has the same flags as the plain function. */
    return strncmp(pattern, symbol, bytes) == 0 &&
           (symbol[bytes] == '\0' || strcmp(symbol + bytes, "_ptsz") == 0 || strcmp(symbol + bytes, "_ptds") == 0);
}

static bool one_fits(const char *patterns, const char *symbol)
{
    for (const char *at = patterns; *at != '\0'; at += strspn(at, " ")) {
        size_t bytes = strcspn(at, " ");
        if (fits(at, bytes, symbol))
            return true;
        at += bytes;
    }
    return false;
}

static int class_of(unsigned fn)
{
    static unsigned char known[GW_FN_COUNT]; /* by function: flags + 1; 0: not looked up yet */
    int found = __atomic_load_n(&known[fn], __ATOMIC_RELAXED);
    if (found != 0)
        return found - 1;
    found = 0;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (one_fits(classes[i].patterns, gw_api_fns[fn].symbol)) {
            found = classes[i].flags;
            break;
        }
    __atomic_store_n(&known[fn], (unsigned char)(found + 1), __ATOMIC_RELAXED);
    return found;
}

/* Return the error that the specification's `fault=CODE@FUNCTION:N` sets for this call; 0 if none. */
static int fault_by_option(unsigned fn)
{
    for (unsigned i = 0; i < gwi.spec.fault_count; i++) {
        const gw_virt_fault *fault = &gwi.spec.faults[i];
        if (fault->kind == GW_VIRT_FAULT_CALL && strcmp(fault->name, gw_api_fns[fn].symbol) == 0 &&
            __atomic_add_fetch(&gwi.fault_calls[i], 1, __ATOMIC_RELAXED) == fault->count)
            return fault->code;
    }
    return 0;
}

static int context_check(int class)
{
    gwi_context *context = gwi_current();
    if (context == NULL) {
        if (class & NO_CONTEXT)
            return 0;
        gwi_say("No CUDA context is current to the calling thread");
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!context->alive)
        return class & NO_CONTEXT ? 0 : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!(class & NO_STICKY) && context->fault != 0) {
        /* Every call reports a failed assertion. Other faults are reported here only after a call that checks for
         * faults, such as a synchronisation, has reported them. */
        if (context->fault == CUDA_ERROR_ASSERT)
            gwi_see_fault(context);
        if (context->fault_seen) {
            gwi_say("Sticky error detected");
            return context->fault;
        }
    }
    return class & UNSAFE ? gwi_capture_forbids() : 0;
}

int gwi_virt_enter(unsigned fn)
{
    int class = class_of(fn);
    gwi_self.fn = fn;
    gwi_self.per_thread_stream = (gw_api_fns[fn].flags & 2) != 0;
    if (class & ANY_TIME)
        return 0;
    if (!__atomic_load_n(&gwi.initialised, __ATOMIC_ACQUIRE) || *gwi.fork_mark == 0) {
        gwi_log_result(gw_api_fns[fn].symbol, CUDA_ERROR_NOT_INITIALIZED);
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if ((class & OWN_THREAD) && gwi.spec.fault_count == 0)
        return 0;
    gwi_lock();
    if (gwi.cards_fail) {
        gwi_cards_call(fn);
        gwi_cards_look();
    }
    if (gwi.active != NULL)
        gwi_advance();
    int result = gwi.spec.fault_count > 0 ? fault_by_option(fn) : 0;
    if (result == 0)
        result = context_check(class);
    if (result != 0)
        return gwi_leave(result);
    if (class & OWN_THREAD)
        gwi_unlock();
    return 0;
}

int gwi_virt_leave(unsigned fn, int result)
{
    return class_of(fn) & (ANY_TIME | OWN_THREAD) ? result : gwi_leave(result);
}

/* --- cuInit --------------------------------------------------------------------------------------------- */

static void sources_read(void)
{
    gw_error err = {{0}};
    const char *text = getenv("GPUWHY_VIRTUAL");
    gwi.sources_read = true;
    gwi.folder = getenv("GPUWHY_VIRTUAL_DIR");
    if (gwi.folder != NULL && gwi.folder[0] == '\0')
        gwi.folder = NULL;
    if (gw_virt_spec_parse(text != NULL && text[0] != '\0' ? text : "h200", &gwi.spec, &err) != GW_OK) {
        /* Only a program that was started without gpuwhy gets here, because gpuwhy itself rejects a bad
         * specification. */
        snprintf(gwi.init_reason, sizeof gwi.init_reason, "GPUWHY_VIRTUAL: %s", err.text);
        gwi.spec.driver_version = GW_VIRT_DRIVER_VERSION;
        gwi.init_result = CUDA_ERROR_NO_DEVICE;
    }
}

/* True if all GPUs are lost, so that cuInit must fail. Other faults that happened before this process started do not
 * affect it. */
static bool cards_are_gone(void)
{
    unsigned lost_count = 0;
    gwi_cards_look();
    for (unsigned d = 0; d < gwi.spec.device_count; d++)
        lost_count += gwi_card_is_lost(d);
    return lost_count == gwi.spec.device_count;
}

static int initialise(void)
{
    for (unsigned i = 0; i < gwi.spec.fault_count; i++)
        if (gwi.spec.faults[i].kind == GW_VIRT_FAULT_INIT)
            return gwi.spec.faults[i].code;
    if (gwi.init_result != 0) {
        gwi_note("init %s", gwi.init_reason);
        gwi_say("%s", gwi.init_reason);
        return gwi.init_result;
    }
    if (gwi.shared == NULL && !gwi_shared_open(gwi.folder, &gwi.spec, &gwi.shared, &gwi.shared_slot)) {
        gwi_say("the virtual cards' state cannot be shared through %s", gwi.folder != NULL ? gwi.folder : "memory");
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (unsigned d = 0; d < gwi.spec.device_count; d++)
        gwi.devices[d].index = d;
    for (unsigned i = 0; i < gwi.spec.fault_count; i++)
        gwi.cards_fail |= gwi.spec.faults[i].kind == GW_VIRT_FAULT_CARD;
    if (cards_are_gone())
        return CUDA_ERROR_NO_DEVICE;
    unsigned char *mark = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mark == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mark[0] = 1;
    madvise(mark, 4096, MADV_WIPEONFORK);
    gwi.fork_mark = mark;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&gwi.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    gwi.next_id = 1;
    __atomic_store_n(&gwi.initialised, true, __ATOMIC_RELEASE);
    return 0;
}

GWI_API(cuInit)(unsigned flags)
{
    /* Do not take the lock in a forked child: another thread of the parent may have held it at the fork. */
    if (gwi.fork_mark != NULL && *gwi.fork_mark == 0)
        return CUDA_ERROR_NOT_INITIALIZED;
    gwi_lock();
    if (!gwi.sources_read)
        sources_read();
    if (flags != 0)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    return gwi_leave(gwi.initialised ? 0 : initialise());
}

static void sources_need(void)
{
    if (gwi.sources_read)
        return;
    gwi_lock();
    if (!gwi.sources_read)
        sources_read();
    gwi_unlock();
}

GWI_API(cuDriverGetVersion)(int *driverVersion)
{
    if (driverVersion == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sources_need();
    *driverVersion = gwi.spec.driver_version;
    return 0;
}

/* Runtime libraries request undocumented tables through this call and cannot run without them. The note makes gpuwhy
 * report this. */
GWI_API(cuGetExportTable)(const void **ppExportTable, const CUuuid *pExportTableId)
{
    static int noted;
    if (ppExportTable == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *ppExportTable = NULL;
    sources_need();
    if (!__atomic_exchange_n(&noted, 1, __ATOMIC_RELAXED))
        gwi_note("export-table");
    return CUDA_ERROR_INVALID_VALUE;
}
