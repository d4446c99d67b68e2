/* Copies and fills of a rehearsal: skipped. What is read back is zero. */
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

#include <string.h>

enum { COPIED_BYTES_PER_US = 1000000, FILLED_NS = 5000, COPY_NS = 5000 };

/* True if the host can use the memory at an address: the driver does not know it, or says that it is the host's; or it
 * is managed memory of the books. */
static bool is_host(uint64_t address)
{
    unsigned type = 0;
    if (!gwi_rehearses(address))
        return GWI_DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != 0 ||
               type == CU_MEMORYTYPE_HOST;
    if (!gwi_lock())
        return false;
    const gwi_held *held = gwi_held_at(address);
    bool is_managed = held != NULL && held->kind == GWI_HELD_MANAGED;
    gwi_unlock();
    return is_managed;
}

/* True if the address lies in a live block, or is not ours. */
static bool is_live(uint64_t address)
{
    if (!gwi_rehearses(address))
        return true;
    if (!gwi_lock())
        return false;
    bool is_live = gwi_held_at(address) != NULL;
    gwi_unlock();
    return is_live;
}

/* True for copies whose rows and planes lie apart; `to` is then only the first byte. */
static bool has_rows(unsigned fn)
{
    return strstr(gw_api_fns[fn].symbol, "2D") != NULL || strstr(gw_api_fns[fn].symbol, "3D") != NULL ||
           strstr(gw_api_fns[fn].symbol, "Batch") != NULL;
}

int gwi_rehearse_copy(unsigned fn, uint64_t to, uint64_t from, uint64_t bytes)
{
    CUcontext context = NULL;
    int result = GWI_DRIVER(cuCtxGetCurrent)(&context);
    if (result != 0 || context == NULL)
        return result != 0 ? result : CUDA_ERROR_INVALID_CONTEXT;
    if (!is_live(to) || !is_live(from))
        return CUDA_ERROR_INVALID_VALUE;
    bool to_host = is_host(to), from_host = is_host(from);
    if (to_host && bytes > 0 && !has_rows(fn)) {
        if (from_host)
            memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
        else
            memset((void *)(uintptr_t)to, 0, bytes);
    }
    gwi_clock_pass(COPY_NS + bytes / COPIED_BYTES_PER_US * 1000);
    if (to_host != from_host)
        gwi_steady_copy(bytes, to_host);
    return 0;
}

/* ---- copies of rows to the host ---- */

static void zero_rows(char *to, size_t pitch, size_t bytes, size_t rows)
{
    for (size_t row = 0; row < rows; row++)
        memset(to + row * pitch, 0, bytes);
}

static void zero_copied2d(const CUDA_MEMCPY2D *copy)
{
    bool is_host = copy->dstMemoryType == CU_MEMORYTYPE_HOST;
    bool ours = copy->srcMemoryType != CU_MEMORYTYPE_HOST && gwi_rehearses(copy->srcDevice);
    if (is_host && ours && copy->dstHost != NULL)
        zero_rows((char *)copy->dstHost + copy->dstY * copy->dstPitch + copy->dstXInBytes, copy->dstPitch,
                  copy->WidthInBytes, copy->Height);
}

static bool names_ours2d(const CUDA_MEMCPY2D *copy)
{
    return copy != NULL && ((copy->dstMemoryType != CU_MEMORYTYPE_HOST && gwi_rehearses(copy->dstDevice)) ||
                            (copy->srcMemoryType != CU_MEMORYTYPE_HOST && gwi_rehearses(copy->srcDevice)));
}

static int copied2d(const CUDA_MEMCPY2D *copy)
{
    zero_copied2d(copy);
    gwi_clock_pass(COPY_NS);
    gwi_steady_copy(copy->WidthInBytes * copy->Height, copy->dstMemoryType == CU_MEMORYTYPE_HOST);
    return 0;
}

GWI_REHEARSE(cuMemcpy2D_v2)(const CUDA_MEMCPY2D *pCopy)
{
    return names_ours2d(pCopy) ? copied2d(pCopy) : GWI_DRIVER(cuMemcpy2D_v2)(pCopy);
}

GWI_REHEARSE(cuMemcpy2DUnaligned_v2)(const CUDA_MEMCPY2D *pCopy)
{
    return names_ours2d(pCopy) ? copied2d(pCopy) : GWI_DRIVER(cuMemcpy2DUnaligned_v2)(pCopy);
}

GWI_REHEARSE(cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    return names_ours2d(pCopy) ? copied2d(pCopy) : GWI_DRIVER(cuMemcpy2DAsync_v2)(pCopy, hStream);
}

static bool names_ours3d(const CUDA_MEMCPY3D *copy)
{
    return copy != NULL && ((copy->dstMemoryType != CU_MEMORYTYPE_HOST && gwi_rehearses(copy->dstDevice)) ||
                            (copy->srcMemoryType != CU_MEMORYTYPE_HOST && gwi_rehearses(copy->srcDevice)));
}

static int copied3d(const CUDA_MEMCPY3D *copy)
{
    bool ours = copy->srcMemoryType != CU_MEMORYTYPE_HOST && gwi_rehearses(copy->srcDevice);
    if (ours && copy->dstMemoryType == CU_MEMORYTYPE_HOST && copy->dstHost != NULL)
        for (size_t z = 0; z < copy->Depth; z++)
            zero_rows((char *)copy->dstHost + ((copy->dstZ + z) * copy->dstHeight + copy->dstY) * copy->dstPitch +
                          copy->dstXInBytes,
                      copy->dstPitch, copy->WidthInBytes, copy->Height);
    gwi_clock_pass(COPY_NS);
    gwi_steady_copy(copy->WidthInBytes * copy->Height * copy->Depth, copy->dstMemoryType == CU_MEMORYTYPE_HOST);
    return 0;
}

GWI_REHEARSE(cuMemcpy3D_v2)(const CUDA_MEMCPY3D *pCopy)
{
    return names_ours3d(pCopy) ? copied3d(pCopy) : GWI_DRIVER(cuMemcpy3D_v2)(pCopy);
}

GWI_REHEARSE(cuMemcpy3DAsync_v2)(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    return names_ours3d(pCopy) ? copied3d(pCopy) : GWI_DRIVER(cuMemcpy3DAsync_v2)(pCopy, hStream);
}

/* ---- fills ---- */

int gwi_rehearse_fill(unsigned fn, uint64_t to)
{
    (void)fn;
    CUcontext context = NULL;
    int result = GWI_DRIVER(cuCtxGetCurrent)(&context);
    if (result != 0 || context == NULL)
        return result != 0 ? result : CUDA_ERROR_INVALID_CONTEXT;
    if (!is_live(to))
        return CUDA_ERROR_INVALID_VALUE;
    gwi_clock_pass(FILLED_NS);
    return 0;
}
