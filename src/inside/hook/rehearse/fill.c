/* Fills of a rehearsal: checked as the driver does, then skipped. Managed memory is filled, because the host may read
 * it. */
#include "gw_api_args.h"
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

#include <string.h>

enum { FILLED_NS = 5000 };

/* Number of bytes of an element, from the name of the call. */
static unsigned element_bytes(unsigned fn)
{
    const char *symbol = gw_api_fns[fn].symbol;
    if (strstr(symbol, "D32") != NULL)
        return 4;
    return strstr(symbol, "D16") != NULL ? 2 : 1;
}

static void fill_host(uint64_t to, uint64_t bytes, const void *value, unsigned element)
{
    char *at = (char *)(uintptr_t)to;
    for (uint64_t i = 0; i + element <= bytes; i += element)
        memcpy(at + i, value, element);
}

/* Fill `height` rows of `row` bytes, of which the first begins at `to`. */
static int fill(uint64_t to, uint64_t pitch, uint64_t row, uint64_t height, uint32_t value, unsigned element)
{
    CUcontext context = NULL;
    uint64_t span = 0;
    int result = GWI_DRIVER(cuCtxGetCurrent)(&context);
    if (result != 0 || context == NULL)
        return result != 0 ? result : CUDA_ERROR_INVALID_CONTEXT;
    if (to % element != 0 || (height > 1 && (pitch < row || pitch % element != 0)) ||
        __builtin_mul_overflow(pitch, height > 0 ? height - 1 : 0, &span) || __builtin_add_overflow(span, row, &span))
        return CUDA_ERROR_INVALID_VALUE;
    if (row == 0 || height == 0)
        return 0;
    if (!gwi_lock())
        return CUDA_ERROR_INVALID_VALUE;
    bool is_live = gwi_held_covers(to, span);
    gwi_unlock();
    if (!is_live)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t y = 0; y < height && gwi_is_managed(to, span); y++)
        fill_host(to + y * pitch, row, &value, element); /* x86: the low bytes come first */
    gwi_clock_pass(FILLED_NS);
    return 0;
}

int gwi_rehearse_fill(unsigned fn, uint64_t to, uint64_t value, uint64_t bytes)
{
    return fill(to, 0, bytes, 1, (uint32_t)value, element_bytes(fn));
}

/* ---- fills of rows ---- */

#define GWI_REHEARSE_ROWS(symbol, word)                                                                                \
    GWI_REHEARSE(symbol)(CUdeviceptr dstDevice, size_t dstPitch, word value, size_t Width, size_t Height)              \
    {                                                                                                                  \
        if (gwi_rehearses(dstDevice))                                                                                  \
            return fill(dstDevice, dstPitch, gw_product(Width, sizeof value), Height, value, sizeof value);            \
        return GWI_DRIVER(symbol)(dstDevice, dstPitch, value, Width, Height);                                          \
    }
GWI_REHEARSE_ROWS(cuMemsetD2D8_v2, unsigned char)
GWI_REHEARSE_ROWS(cuMemsetD2D16_v2, unsigned short)
GWI_REHEARSE_ROWS(cuMemsetD2D32_v2, unsigned int)

#define GWI_REHEARSE_ROWS_LATER(symbol, word)                                                                          \
    GWI_REHEARSE(symbol)                                                                                               \
    (CUdeviceptr dstDevice, size_t dstPitch, word value, size_t Width, size_t Height, CUstream hStream)                \
    {                                                                                                                  \
        if (gwi_rehearses(dstDevice))                                                                                  \
            return fill(dstDevice, dstPitch, gw_product(Width, sizeof value), Height, value, sizeof value);            \
        return GWI_DRIVER(symbol)(dstDevice, dstPitch, value, Width, Height, hStream);                                 \
    }
GWI_REHEARSE_ROWS_LATER(cuMemsetD2D8Async, unsigned char)
GWI_REHEARSE_ROWS_LATER(cuMemsetD2D16Async, unsigned short)
GWI_REHEARSE_ROWS_LATER(cuMemsetD2D32Async, unsigned int)
