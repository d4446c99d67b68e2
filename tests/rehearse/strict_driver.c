/* See strict_driver.h. STRICT_NEXT is the virtual card's library, and STRICT_CARD its specification. With STRICT_ALL=1,
 * ranges that the program reserved count, too. Prints `strict: COUNT calls` at the end of each process. */
#include "strict_driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANGES = 256 };
static const uint64_t books_align = (uint64_t)32 << 20, books_handles = 0x7265;

static struct {
    _Atomic uint64_t base, bytes;
} ranges[RANGES];
static _Atomic unsigned range_count, call_count;
static void *card;

__attribute__((constructor)) static void begin(void)
{
    const char *specification = getenv("STRICT_CARD"), *library = getenv("STRICT_NEXT");
    if (specification != NULL)
        setenv("GPUWHY_VIRTUAL", specification, 1);
    card = library != NULL ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (card == NULL)
        fprintf(stderr, "strict: no driver behind it: %s\n", dlerror());
}

__attribute__((destructor)) static void end(void)
{
    if (call_count > 0)
        fprintf(stderr, "strict: %u calls, %u ranges\n", call_count, range_count);
}

void strict_look(const char *symbol, uint64_t value)
{
    bool is_bad = value >> 48 == books_handles;
    for (unsigned i = 0; !is_bad && i < range_count; i++)
        is_bad = value - ranges[i].base < ranges[i].bytes;
    if (!is_bad)
        return;
    fprintf(stderr, "strict: %s was given %#llx\n", symbol, (unsigned long long)value);
    abort();
}

void strict_look_in(const char *symbol, const void *structures, size_t count, size_t bytes)
{
    for (size_t i = 0; structures != NULL && i < count * bytes / sizeof(uint64_t); i++) {
        uint64_t word;
        memcpy(&word, (const char *)structures + i * sizeof word, sizeof word);
        strict_look(symbol, word);
    }
}

void *strict_next(const char *symbol)
{
    call_count++;
    return card != NULL ? dlsym(card, symbol) : NULL;
}

int cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags);
int cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
    gw_fn_t_cuMemAddressReserve *next = (gw_fn_t_cuMemAddressReserve *)strict_next("cuMemAddressReserve");
    int result = next(ptr, size, alignment, addr, flags);
    if (result != 0 || (alignment != books_align && getenv("STRICT_ALL") == NULL))
        return result;
    unsigned i = range_count;
    if (i == RANGES)
        abort();
    ranges[i].base = *ptr;
    ranges[i].bytes = size;
    range_count++;
    return 0;
}

int cuMemAddressFree(CUdeviceptr ptr, size_t size);
int cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    gw_fn_t_cuMemAddressFree *next = (gw_fn_t_cuMemAddressFree *)strict_next("cuMemAddressFree");
    int result = next(ptr, size);
    for (unsigned i = 0; result == 0 && i < range_count; i++)
        if (ranges[i].base == ptr)
            ranges[i].bytes = 0;
    return result;
}

/* Return the function of this library in place of the virtual card's. */
static void replace(void **function)
{
    Dl_info info;
    void *own = NULL;
    if (function == NULL || *function == NULL || dladdr(*function, &info) == 0 || info.dli_sname == NULL)
        return;
    void *self = dladdr((void *)replace, &info) != 0 ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (self != NULL && dladdr(*function, &info) != 0)
        own = dlsym(self, info.dli_sname);
    if (own != NULL)
        *function = own;
}

int cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags);
int cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    gw_fn_t_cuGetProcAddress *next = (gw_fn_t_cuGetProcAddress *)strict_next("cuGetProcAddress");
    int result = next(symbol, pfn, cudaVersion, flags);
    replace(pfn);
    return result;
}

int cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *symbolStatus);
int cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *symbolStatus)
{
    gw_fn_t_cuGetProcAddress_v2 *next = (gw_fn_t_cuGetProcAddress_v2 *)strict_next("cuGetProcAddress_v2");
    int result = next(symbol, pfn, cudaVersion, flags, symbolStatus);
    replace(pfn);
    return result;
}
