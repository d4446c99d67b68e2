/* Groups of calls about memory: see calls.h. */
#include "calls.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- without a context, and with several ---- */

static void no_context(void)
{
    CUdeviceptr p = 0;
    CUmemoryPool pool = NULL;
    size_t a = 0, b = 0;
    int number = 0;
    result_of("alloc-before-init", cuMemAlloc(&p, 16));
    result_of("free-before-init", cuMemFree(16));
    need(cuInit(0), "cuInit");
    result_of("alloc", cuMemAlloc(&p, 16));
    result_of("alloc-zero", cuMemAlloc(&p, 0));
    result_of("pitched", cuMemAllocPitch(&p, &a, 100, 10, 4));
    result_of("managed", cuMemAllocManaged(&p, 100, CU_MEM_ATTACH_GLOBAL));
    result_of("async", cuMemAllocAsync(&p, 100, NULL));
    result_of("info", cuMemGetInfo(&a, &b));
    result_of("free-null", cuMemFree(0));
    result_of("free-wild", cuMemFree(16));
    result_of("free-async-null", cuMemFreeAsync(0, NULL));
    result_of("range", cuMemGetAddressRange(&p, &a, 16));
    result_of("attribute", cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 16));
    result_of("copy", cuMemcpyDtoH(&number, 16, 4));
    result_of("fill", cuMemsetD8(16, 0, 4));
    result_of("launch", cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    result_of("total", cuDeviceTotalMem(&a, 0));
    value_of("total-value", a);
    result_of("pool", cuDeviceGetDefaultMemPool(&pool, 0));
}

static void contexts(void)
{
    CUcontext second = NULL;
    up();
    CUdeviceptr ours = must_alloc(3 * MIB), small = must_alloc(100);
    size_t before = free_bytes();
    result_of("create", cuCtxCreate(&second, 0, device));
    value_of("second-takes", before - free_bytes());
    CUdeviceptr theirs = must_alloc(5 * MIB), small_too = must_alloc(200), managed = 0;
    result_of("managed", cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
    result_of("free-of-other", cuMemFree(ours));
    value_of("after", before - free_bytes());
    result_of("destroy", cuCtxDestroy(second));
    need(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    result_of("free-of-destroyed", cuMemFree(theirs));
    result_of("free-small-of-destroyed", cuMemFree(small_too));
    result_of("free-managed-of-destroyed", cuMemFree(managed));
    value_of("back", free_bytes() - before);
    result_of("alloc", cuMemAlloc(&ours, 5 * MIB));
    value_of("old-address-is-not-reused", ours != theirs);
    result_of("free-small", cuMemFree(small));
}

static void reset(void)
{
    CUdeviceptr a = 0, b = 0, c = 0;
    up();
    size_t before = free_bytes();
    CUdeviceptr p = must_alloc(4 * MIB), q = must_alloc(10);
    need(cuMemAllocAsync(&a, 40 * MIB, NULL), "cuMemAllocAsync");
    result_of("reset", cuDevicePrimaryCtxReset(device));
    result_of("alloc", cuMemAlloc(&b, 10));
    result_of("info", cuMemGetInfo(&(size_t){0}, &(size_t){0}));
    result_of("retain", cuDevicePrimaryCtxRetain(&context, device));
    value_of("all-is-back", before - free_bytes());
    result_of("alloc-again", cuMemAlloc(&b, 10));
    result_of("alloc-large-again", cuMemAlloc(&c, 4 * MIB));
    result_of("free-old", cuMemFree(p));
    result_of("free-old-small", cuMemFree(q));
    result_of("copy-from-old", cuMemcpyDtoH(&(char){0}, p, 1));
    result_of("free-old-of-pool", cuMemFreeAsync(a, NULL));
    value_of("held", before - free_bytes());
    result_of("release", cuDevicePrimaryCtxRelease(device));
    result_of("release-again", cuDevicePrimaryCtxRelease(device));
    result_of("free-of-released", cuMemFree(b));
}

static void after_fork(void)
{
    int status = 0, number = 0;
    up();
    CUdeviceptr p = must_alloc(3 * MIB), q = 0;
    size_t before = free_bytes();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        result_of("child-alloc", cuMemAlloc(&q, 10));
        result_of("child-free", cuMemFree(p));
        result_of("child-free-async", cuMemFreeAsync(p, NULL));
        result_of("child-copy", cuMemcpyDtoH(&number, p, 4));
        result_of("child-fill", cuMemsetD8(p, 0, 4));
        result_of("child-range", cuMemGetAddressRange(&q, NULL, p));
        result_of("child-attribute", cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
        result_of("child-info", cuMemGetInfo(&(size_t){0}, &(size_t){0}));
        result_of("child-launch", cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    value_of("child-status", status);
    value_of("same", before - free_bytes());
    result_of("free", cuMemFree(p));
}

/* ---- plain memory ---- */

static void plain(void)
{
    static const size_t sizes[] = {1,       100, 511,         512,     513,         4096,     MIB - 1,  MIB,
                                   MIB + 1, MIB, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 31 * MIB, 32 * MIB, 33 * MIB};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    CUdeviceptr p[COUNT], base = 0;
    size_t bytes = 0;
    char name[64];
    up();
    size_t before = free_bytes();
    for (int i = 0; i < COUNT; i++) {
        size_t now = free_bytes();
        need(cuMemAlloc(&p[i], sizes[i]), "cuMemAlloc");
        snprintf(name, sizeof name, "%zu-takes", sizes[i]);
        value_of(name, now - free_bytes());
        value_of("aligned", p[i] % 512);
        need(cuMemGetAddressRange(&base, &bytes, p[i] + sizes[i] - 1), "cuMemGetAddressRange");
        value_of("offset", p[i] - base);
        value_of("bytes", bytes);
        result_of("range-behind", cuMemGetAddressRange(NULL, NULL, p[i] + (sizes[i] + 511) / 512 * 512 - 1));
    }
    for (int i = 0; i < COUNT; i += 2) {
        result_of("free-inside", cuMemFree(p[i] + 1));
        result_of("free", cuMemFree(p[i]));
        result_of("free-twice", cuMemFree(p[i]));
        value_of("held", before - free_bytes());
    }
    for (int i = 1; i < COUNT; i += 2)
        result_of("free", cuMemFree(p[i]));
    value_of("all-back", before - free_bytes());
    result_of("null-out", cuMemAlloc(NULL, 16));
    result_of("zero", cuMemAlloc(&base, 0));
    result_of("free-null", cuMemFree(0));
    result_of("free-wild", cuMemFree(0x1000));
    result_of("info-null", cuMemGetInfo(NULL, &bytes));
}

/* Fill the card, then ask for more: the same request is refused, and the same bytes are free. */
static void full(void)
{
    CUdeviceptr p = 0;
    int count = 0;
    up();
    result_of("too-large", cuMemAlloc(&p, (size_t)1 << 50));
    result_of("largest", cuMemAlloc(&p, SIZE_MAX));
    for (size_t bytes = (size_t)8 << 30; bytes >= 1000; bytes = bytes * 3 / 5, count = 0) {
        while (cuMemAlloc(&p, bytes) == 0 && count < 3000)
            count++;
        value_of("blocks", count);
        value_of("free", free_bytes());
    }
    result_of("managed", cuMemAllocAsync(&p, 64 * MIB, NULL));
    result_of("free", cuMemFree(p));
    value_of("free-after", free_bytes());
}

static void pitched(void)
{
    static const size_t widths[] = {1, 511, 512, 513, 1000, 4097, 70000};
    CUdeviceptr p = 0, base = 0;
    size_t pitch = 0, bytes = 0;
    up();
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        size_t before = free_bytes();
        result_of("alloc", cuMemAllocPitch(&p, &pitch, widths[i], 100, 16));
        value_of("pitch", pitch);
        value_of("takes", before - free_bytes());
        result_of("range", cuMemGetAddressRange(&base, &bytes, p + pitch * 99));
        value_of("bytes", bytes);
        result_of("free", cuMemFree(p));
    }
    result_of("width-zero", cuMemAllocPitch(&p, &pitch, 0, 10, 4));
    result_of("height-zero", cuMemAllocPitch(&p, &pitch, 10, 0, 4));
    result_of("element", cuMemAllocPitch(&p, &pitch, 10, 10, 3));
    result_of("pitch-null", cuMemAllocPitch(&p, NULL, 10, 10, 4));
    result_of("out-null", cuMemAllocPitch(NULL, &pitch, 10, 10, 4));
    result_of("too-large", cuMemAllocPitch(&p, &pitch, (size_t)1 << 40, (size_t)1 << 10, 4));
    result_of("overflow", cuMemAllocPitch(&p, &pitch, (size_t)1 << 40, (size_t)1 << 30, 4));
}

static void managed(void)
{
    CUdeviceptr p = 0, base = 0;
    size_t bytes = 0;
    char back[16] = "";
    up();
    result_of("zero", cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL));
    result_of("flags", cuMemAllocManaged(&p, 100, 0));
    result_of("null-out", cuMemAllocManaged(NULL, 100, CU_MEM_ATTACH_GLOBAL));
    result_of("alloc", cuMemAllocManaged(&p, 3 * MIB + 5, CU_MEM_ATTACH_GLOBAL));
    char *host = (char *)(uintptr_t)p;
    value_of("is-zero", host[0] == 0 && host[3 * MIB + 4] == 0);
    strcpy(host, "written by host");
    result_of("copy", cuMemcpyDtoH(back, p, 16));
    value_of("content", strcmp(back, "written by host"));
    result_of("copy-in", cuMemcpyHtoD(p + 3 * MIB, "abcd", 5));
    value_of("content-in", strcmp(host + 3 * MIB, "abcd"));
    result_of("copy-over", cuMemcpyHtoD(p + 3 * MIB, back, 6));
    result_of("fill", cuMemsetD8(p, 'x', 7));
    result_of("synchronise", cuCtxSynchronize());
    value_of("filled", strcmp(host, "xxxxxxx by host"));
    result_of("fill-wide", cuMemsetD32(p, 0x61626364, 2));
    value_of("filled-wide", strncmp(host, "dcbadcba", 8));
    result_of("range", cuMemGetAddressRange(&base, &bytes, p + 100));
    value_of("range-bytes", bytes);
    result_of("prefetch", cuMemPrefetchAsync(p, 100, 0, NULL));
    result_of("prefetch-over", cuMemPrefetchAsync(p, 4 * MIB, 0, NULL));
    result_of("advise", cuMemAdvise(p, 100, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    result_of("advise-over", cuMemAdvise(p, 4 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    result_of("free-inside", cuMemFree(p + 1));
    result_of("free", cuMemFree(p));
    result_of("free-twice", cuMemFree(p));
    CUdeviceptr plain = must_alloc(100);
    result_of("prefetch-plain", cuMemPrefetchAsync(plain, 100, 0, NULL));
    result_of("advise-plain", cuMemAdvise(plain, 100, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
}

/* ---- pools ---- */

static void pool_numbers(CUmemoryPool pool, size_t before)
{
    unsigned long long value = 0;
    for (int i = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD; i <= CU_MEMPOOL_ATTR_USED_MEM_HIGH; i++) {
        result_of("attribute", cuMemPoolGetAttribute(pool, (CUmemPool_attribute)i, &value));
        value_of("attribute-value", value);
    }
    value_of("held", before - free_bytes());
}

static void pools(void)
{
    CUmemPoolProps wanted = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .maxSize = 96 * MIB};
    CUmemoryPool pool = NULL, own = NULL;
    CUdeviceptr p[6] = {0};
    unsigned long long keep = 64 * MIB, none = 0;
    up();
    need(cuDeviceGetDefaultMemPool(&pool, device), "cuDeviceGetDefaultMemPool");
    size_t before = free_bytes();
    pool_numbers(pool, before);
    for (int i = 0; i < 6; i++) {
        result_of("alloc", cuMemAllocAsync(&p[i], i % 2 == 0 ? 1000 + (size_t)i : (size_t)(i * 20) * MIB + 7, NULL));
        pool_numbers(pool, before);
    }
    result_of("threshold", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    for (int i = 0; i < 5; i++) {
        result_of("free", cuMemFreeAsync(p[i], NULL));
        result_of("free-twice", cuMemFreeAsync(p[i], NULL));
        pool_numbers(pool, before);
        result_of("synchronise", cuStreamSynchronize(NULL));
        pool_numbers(pool, before);
    }
    result_of("free-plainly", cuMemFree(p[5]));
    unsigned long long reserved = 0;
    need(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved), "cuMemPoolGetAttribute");
    value_of("after-plain-free", reserved);
    value_of("after-plain-free-held", before - free_bytes());
    result_of("trim", cuMemPoolTrimTo(pool, 32 * MIB));
    pool_numbers(pool, before);
    result_of("reset-high", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &none));
    result_of("reset-used-high", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none));
    result_of("set-used", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &none));
    pool_numbers(pool, before);
    result_of("own", cuMemPoolCreate(&own, &wanted));
    result_of("own-alloc", cuMemAllocFromPoolAsync(&p[0], 60 * MIB, own, NULL));
    result_of("own-beyond", cuMemAllocFromPoolAsync(&p[1], 60 * MIB, own, NULL));
    pool_numbers(own, before);
    result_of("from-null", cuMemAllocFromPoolAsync(&p[1], 60 * MIB, NULL, NULL));
    result_of("set-current", cuDeviceSetMemPool(device, own));
    result_of("current-alloc", cuMemAllocAsync(&p[1], 20 * MIB, NULL));
    pool_numbers(own, before);
    result_of("current-free", cuMemFreeAsync(p[1], NULL));
    result_of("own-free", cuMemFreeAsync(p[0], NULL));
    result_of("own-destroy", cuMemPoolDestroy(own));
    result_of("synchronise", cuCtxSynchronize());
    value_of("held", before - free_bytes());
    result_of("default-destroy", cuMemPoolDestroy(pool));
    result_of("zero", cuMemAllocAsync(&p[0], 0, NULL));
    result_of("null-out", cuMemAllocAsync(NULL, 10, NULL));
    result_of("huge", cuMemAllocAsync(&p[0], (size_t)1 << 45, NULL));
    result_of("free-wild", cuMemFreeAsync(0x1234, NULL));
    p[0] = must_alloc(100);
    result_of("free-async-of-plain", cuMemFreeAsync(p[0], NULL));
}

/* ---- physical memory and mappings ---- */

static const CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAccessDesc access_all = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void vmm(void)
{
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CUmemAllocationProp told = {0};
    CUdeviceptr p = 0;
    unsigned long long flags = 0;
    up();
    size_t before = free_bytes();
    result_of("create-odd", cuMemCreate(&handle, MIB, &wanted, 0));
    result_of("create-zero", cuMemCreate(&handle, 0, &wanted, 0));
    result_of("create-null", cuMemCreate(NULL, 2 * MIB, &wanted, 0));
    result_of("create-no-properties", cuMemCreate(&handle, 2 * MIB, NULL, 0));
    result_of("create", cuMemCreate(&handle, 6 * MIB, &wanted, 0));
    value_of("takes", before - free_bytes());
    result_of("properties", cuMemGetAllocationPropertiesFromHandle(&told, handle));
    value_of("properties-type", told.location.type);
    result_of("reserve", cuMemAddressReserve(&p, 64 * MIB, 0, 0, 0));
    result_of("map-odd", cuMemMap(p, MIB, 0, handle, 0));
    result_of("map-too-far", cuMemMap(p, 8 * MIB, 0, handle, 0));
    result_of("map-offset", cuMemMap(p, 2 * MIB, 2 * MIB, handle, 0));
    result_of("unmap-offset", cuMemUnmap(p, 2 * MIB));
    result_of("map-flags", cuMemMap(p, 6 * MIB, 0, handle, 1));
    result_of("map-unreserved", cuMemMap((CUdeviceptr)1 << 45, 6 * MIB, 0, handle, 0));
    result_of("map", cuMemMap(p, 6 * MIB, 0, handle, 0));
    result_of("map-twice", cuMemMap(p, 6 * MIB, 0, handle, 0));
    result_of("map-overlapping", cuMemMap(p + 4 * MIB, 6 * MIB, 0, handle, 0));
    result_of("map-second-place", cuMemMap(p + 8 * MIB, 6 * MIB, 0, handle, 0));
    result_of("fill-no-access", cuMemsetD8(p, 1, 100));
    result_of("access-null", cuMemSetAccess(p, 6 * MIB, NULL, 1));
    result_of("access-too-far", cuMemSetAccess(p, 8 * MIB, &access_all, 1));
    result_of("access-unmapped", cuMemSetAccess(p + 32 * MIB, 2 * MIB, &access_all, 1));
    result_of("access", cuMemSetAccess(p, 6 * MIB, &access_all, 1));
    result_of("get-access", cuMemGetAccess(&flags, &wanted.location, p));
    value_of("get-access-value", flags);
    result_of("fill", cuMemsetD8(p, 1, 6 * MIB));
    result_of("fill-over", cuMemsetD8(p, 1, 6 * MIB + 1));
    result_of("fill-second-place", cuMemsetD8(p + 8 * MIB, 1, 4));
    result_of("retain", cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + 5 * MIB)));
    value_of("retain-same", again == handle);
    result_of("retain-unmapped", cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + 32 * MIB)));
    result_of("release", cuMemRelease(handle));
    result_of("release-retained", cuMemRelease(handle));
    result_of("release-thrice", cuMemRelease(handle));
    value_of("held-by-mappings", before - free_bytes());
    result_of("plain-free", cuMemFree(p));
    result_of("async-free", cuMemFreeAsync(p, NULL));
    result_of("address-free-mapped", cuMemAddressFree(p, 64 * MIB));
    result_of("unmap-part", cuMemUnmap(p, 2 * MIB));
    result_of("unmap-both", cuMemUnmap(p, 14 * MIB));
    result_of("unmap-one", cuMemUnmap(p, 6 * MIB));
    result_of("unmap-other", cuMemUnmap(p + 8 * MIB, 6 * MIB));
    result_of("unmap-again", cuMemUnmap(p, 6 * MIB));
    value_of("back", before - free_bytes());
    result_of("fill-unmapped", cuMemsetD8(p, 1, 100));
    result_of("address-free", cuMemAddressFree(p, 64 * MIB));
    result_of("address-free-twice", cuMemAddressFree(p, 64 * MIB));
    result_of("huge", cuMemCreate(&handle, (size_t)1 << 45, &wanted, 0));
}

/* Four steps in every order in which a program may end the life of a mapping. */
static void vmm_orders(void)
{
    static const char *const orders[] = {"rufm", "urfm", "ufrm", "mruf", "mrum"};
    up();
    size_t before = free_bytes();
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        CUmemGenericAllocationHandle handle = 0;
        CUdeviceptr p = 0;
        need(cuMemCreate(&handle, 2 * MIB, &wanted, 0), "cuMemCreate");
        need(cuMemAddressReserve(&p, 2 * MIB, 0, 0, 0), "cuMemAddressReserve");
        need(cuMemMap(p, 2 * MIB, 0, handle, 0), "cuMemMap");
        need(cuMemSetAccess(p, 2 * MIB, &access_all, 1), "cuMemSetAccess");
        for (const char *step = orders[i]; *step != '\0'; step++) {
            if (*step == 'r')
                result_of("release", cuMemRelease(handle));
            else if (*step == 'u')
                result_of("unmap", cuMemUnmap(p, 2 * MIB));
            else if (*step == 'f')
                result_of("address-free", cuMemAddressFree(p, 2 * MIB));
            else
                result_of("fill", cuMemsetD8(p, 0, 1));
            value_of("held", before - free_bytes());
        }
    }
}

/* As PyTorch's expandable segments do: one reservation, into which pieces are mapped side by side. */
static void segments(void)
{
    enum { PIECES = 8 };
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr p = 0;
    static char host[6 * MIB];
    up();
    size_t before = free_bytes();
    need(cuMemAddressReserve(&p, 64 * MIB, 0, 0, 0), "cuMemAddressReserve");
    for (int i = 0; i < PIECES; i++) {
        result_of("create", cuMemCreate(&handle, 2 * MIB, &wanted, 0));
        result_of("map", cuMemMap(p + (size_t)i * 2 * MIB, 2 * MIB, 0, handle, 0));
        result_of("release", cuMemRelease(handle));
    }
    result_of("access", cuMemSetAccess(p, PIECES * 2 * MIB, &access_all, 1));
    value_of("held", before - free_bytes());
    result_of("fill-one", cuMemsetD8(p + MIB, 0, MIB));
    result_of("copy-one", cuMemcpyHtoD(p + 2 * MIB, host, 2 * MIB));
    result_of("unmap-three", cuMemUnmap(p + 2 * MIB, 6 * MIB));
    value_of("held-after", before - free_bytes());
    result_of("copy-other", cuMemcpyDtoH(host, p + 8 * MIB, 2 * MIB));
    result_of("unmap-first", cuMemUnmap(p, 2 * MIB));
    result_of("unmap-rest", cuMemUnmap(p + 8 * MIB, 8 * MIB));
    result_of("address-free", cuMemAddressFree(p, 64 * MIB));
    value_of("back", before - free_bytes());
}

/* ---- threads ---- */

enum { THREADS = 4, BLOCKS = 200 };

static void *allocate_and_free(void *unused)
{
    CUdeviceptr p[BLOCKS];
    int bad = 0;
    (void)unused;
    bad += cuCtxSetCurrent(context) != 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < BLOCKS; i++)
            bad += (i % 3 == 0 ? cuMemAllocAsync(&p[i], (size_t)i * 1000 + 1, NULL)
                               : cuMemAlloc(&p[i], (size_t)i * i * 100 + 1)) != 0;
        for (int i = 0; i < BLOCKS; i++)
            bad += (i % 3 == 0 ? cuMemFreeAsync(p[i], NULL) : cuMemFree(p[i])) != 0;
    }
    return (void *)(uintptr_t)bad;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    up();
    size_t before = free_bytes();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, allocate_and_free, NULL);
    for (int i = 0; i < THREADS; i++) {
        void *bad = NULL;
        pthread_join(thread[i], &bad);
        value_of("failed", (uintptr_t)bad);
    }
    result_of("synchronise", cuCtxSynchronize());
    value_of("held", before - free_bytes());
}

const group memory_groups[] = {{"no-context", no_context}, {"contexts", contexts},
                               {"reset", reset},           {"after-fork", after_fork},
                               {"plain", plain},           {"full", full},
                               {"pitched", pitched},       {"managed", managed},
                               {"pools", pools},           {"vmm", vmm},
                               {"vmm-orders", vmm_orders}, {"segments", segments},
                               {"threads", threads},       {NULL, NULL}};
