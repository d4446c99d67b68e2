/* Copies of a rehearsal: skipped. What is read back is zero. */
#include "gw_api_args.h"
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

#include <string.h>

/* Fills of a rehearsal: checked as the driver does, then skipped. Managed memory is filled, because the host may read
 * it. */

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

enum { COPIED_BYTES_PER_US = 1000000, COPY_NS = 5000 };

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

/* True if all bytes lie in live memory of the books, or the address is not ours. */
static bool is_live(uint64_t address, uint64_t bytes)
{
    if (bytes == 0 || !gwi_rehearses(address))
        return true;
    if (!gwi_lock())
        return false;
    bool is_live = gwi_held_covers(address, bytes);
    gwi_unlock();
    return is_live;
}

/* True if the driver would accept the address as that of device memory. */
static bool is_device(uint64_t address)
{
    unsigned type;
    return gwi_rehearses(address) ||
           GWI_DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == 0;
}

/* Return 0 if a context is current, or the driver's error. */
static int context_state(void)
{
    CUcontext context = NULL;
    int result = GWI_DRIVER(cuCtxGetCurrent)(&context);
    return result == 0 && context == NULL ? CUDA_ERROR_INVALID_CONTEXT : result;
}

static bool name_has(unsigned fn, const char *part)
{
    return strstr(gw_api_fns[fn].symbol, part) != NULL;
}

/* True if that side of a copy is an array: its "address" is then the driver's handle. Arrays are the driver's. */
static bool is_to_array(unsigned fn)
{
    return name_has(fn, "toA");
}

static bool is_from_array(unsigned fn)
{
    return name_has(fn, "Ato");
}

/* True for copies of which `to` and `from` are only the first bytes. */
static bool has_rows(unsigned fn)
{
    return name_has(fn, "2D") || name_has(fn, "3D");
}

int gwi_rehearse_copy(unsigned fn, uint64_t to, uint64_t from, uint64_t bytes)
{
    int result = context_state();
    uint64_t checked = has_rows(fn) ? bytes > 0 : bytes;
    if (result != 0)
        return result;
    if (!is_live(to, checked) || !is_live(from, checked))
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > 0 && (name_has(fn, "DtoD") || name_has(fn, "Peer")) && (!is_device(to) || !is_device(from)))
        return CUDA_ERROR_INVALID_VALUE;
    bool to_host = !is_to_array(fn) && is_host(to), from_host = !is_from_array(fn) && is_host(from);
    if (to_host && bytes > 0 && !has_rows(fn)) {
        if (from_host)
            memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
        else
            memset((void *)(uintptr_t)to, 0, bytes);
    }
    gwi_clock_pass(COPY_NS + bytes / COPIED_BYTES_PER_US * 1000);
    if (to_host != from_host)
        gwi_steady_copy(bytes, to_host);
    if (to_host && !from_host && is_device(from))
        gwi_reads_see(fn, bytes);
    return 0;
}

/* ---- copies of rows ---- */

/* One side of such a copy. */
typedef struct side {
    CUmemorytype type;
    uint64_t base; /* of the first byte that is copied, once side_begin() has run */
    size_t x, y, z, pitch, height;
} side;

static side to_side(const CUDA_MEMCPY3D *copy)
{
    uint64_t base = copy->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->dstHost : copy->dstDevice;
    return (side){copy->dstMemoryType, base,           copy->dstXInBytes, copy->dstY,
                  copy->dstZ,          copy->dstPitch, copy->dstHeight};
}

static side from_side(const CUDA_MEMCPY3D *copy)
{
    uint64_t base = copy->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->srcHost : copy->srcDevice;
    return (side){copy->srcMemoryType, base,           copy->srcXInBytes, copy->srcY,
                  copy->srcZ,          copy->srcPitch, copy->srcHeight};
}

/* Fill in what the copy leaves open, and check that the rows lie in live memory. Arrays are the driver's. */
static bool side_begin(side *s, size_t width, size_t height, size_t depth)
{
    if (s->type == CU_MEMORYTYPE_ARRAY)
        return true;
    s->pitch = s->pitch != 0 ? s->pitch : width + s->x;
    s->height = s->height != 0 ? s->height : height + s->y;
    if (s->pitch < width || s->height < height || s->height > SIZE_MAX / 4 || depth > SIZE_MAX / 4 ||
        s->z > SIZE_MAX / 4 || s->pitch > SIZE_MAX / 2 / (s->height + 1) / (depth + s->z + 1))
        return false;
    s->base += (s->z * s->height + s->y) * s->pitch + s->x;
    return s->type == CU_MEMORYTYPE_HOST || is_live(s->base, ((depth - 1) * s->height + height - 1) * s->pitch + width);
}

static bool side_is_host(const side *s)
{
    return s->type != CU_MEMORYTYPE_ARRAY && (s->type == CU_MEMORYTYPE_HOST || is_host(s->base));
}

static void rows_to_host(const side *to, const side *from, const CUDA_MEMCPY3D *copy)
{
    bool from_host = side_is_host(from);
    for (size_t z = 0; z < copy->Depth; z++)
        for (size_t y = 0; y < copy->Height; y++) {
            void *row = (void *)(uintptr_t)(to->base + (z * to->height + y) * to->pitch);
            if (from_host)
                memmove(row, (const void *)(uintptr_t)(from->base + (z * from->height + y) * from->pitch),
                        copy->WidthInBytes);
            else
                memset(row, 0, copy->WidthInBytes);
        }
}

static bool names_ours(const CUDA_MEMCPY3D *copy)
{
    bool to = copy->dstMemoryType == CU_MEMORYTYPE_DEVICE || copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED;
    bool from = copy->srcMemoryType == CU_MEMORYTYPE_DEVICE || copy->srcMemoryType == CU_MEMORYTYPE_UNIFIED;
    return (to && gwi_rehearses(copy->dstDevice)) || (from && gwi_rehearses(copy->srcDevice));
}

static int copied(const CUDA_MEMCPY3D *copy)
{
    side to = to_side(copy), from = from_side(copy);
    int result = context_state();
    if (result != 0 || copy->WidthInBytes == 0 || copy->Height == 0 || copy->Depth == 0)
        return result;
    if (!side_begin(&from, copy->WidthInBytes, copy->Height, copy->Depth) ||
        !side_begin(&to, copy->WidthInBytes, copy->Height, copy->Depth))
        return CUDA_ERROR_INVALID_VALUE;
    if (side_is_host(&to))
        rows_to_host(&to, &from, copy);
    gwi_clock_pass(COPY_NS);
    if (side_is_host(&to) != side_is_host(&from))
        gwi_steady_copy(copy->WidthInBytes * copy->Height * copy->Depth, side_is_host(&to));
    return 0;
}

/* Make the copy here and return true if it names memory of the books. */
static bool made2d(const CUDA_MEMCPY2D *copy, int *ret_result)
{
    if (copy == NULL)
        return false;
    CUDA_MEMCPY3D shape = gw_copy_3d(copy);
    if (!names_ours(&shape))
        return false;
    *ret_result = copied(&shape);
    return true;
}

static bool made3d(const CUDA_MEMCPY3D *copy, int *ret_result)
{
    if (copy == NULL || !names_ours(copy))
        return false;
    *ret_result = copied(copy);
    return true;
}

static bool made_peer(const CUDA_MEMCPY3D_PEER *copy, int *ret_result)
{
    _Static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER), "only the contexts are reserved in one");
    CUDA_MEMCPY3D shape;
    if (copy == NULL)
        return false;
    memcpy(&shape, copy, sizeof shape);
    return made3d(&shape, ret_result);
}

#define GWI_REHEARSE_SHAPE(symbol, made, shape)                                                                        \
    GWI_REHEARSE(symbol)(const shape *pCopy)                                                                           \
    {                                                                                                                  \
        int result;                                                                                                    \
        return made(pCopy, &result) ? result : GWI_DRIVER(symbol)(pCopy);                                              \
    }
GWI_REHEARSE_SHAPE(cuMemcpy2D_v2, made2d, CUDA_MEMCPY2D)
GWI_REHEARSE_SHAPE(cuMemcpy2DUnaligned_v2, made2d, CUDA_MEMCPY2D)
GWI_REHEARSE_SHAPE(cuMemcpy3D_v2, made3d, CUDA_MEMCPY3D)
GWI_REHEARSE_SHAPE(cuMemcpy3DPeer, made_peer, CUDA_MEMCPY3D_PEER)

#define GWI_REHEARSE_SHAPE_LATER(symbol, made, shape)                                                                  \
    GWI_REHEARSE(symbol)(const shape *pCopy, CUstream hStream)                                                         \
    {                                                                                                                  \
        int result;                                                                                                    \
        return made(pCopy, &result) ? result : GWI_DRIVER(symbol)(pCopy, hStream);                                     \
    }
GWI_REHEARSE_SHAPE_LATER(cuMemcpy2DAsync_v2, made2d, CUDA_MEMCPY2D)
GWI_REHEARSE_SHAPE_LATER(cuMemcpy3DAsync_v2, made3d, CUDA_MEMCPY3D)
GWI_REHEARSE_SHAPE_LATER(cuMemcpy3DPeerAsync, made_peer, CUDA_MEMCPY3D_PEER)

/* ---- batches: each copy is made here or by the driver ---- */

static bool batch_names_ours(const CUdeviceptr *to, const CUdeviceptr *from, size_t count)
{
    for (size_t i = 0; to != NULL && from != NULL && i < count; i++)
        if (gwi_rehearses(to[i]) || gwi_rehearses(from[i]))
            return true;
    return false;
}

/* Make the copies one by one. *ret_failed is the index of the one that failed. */
static int batch(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *sizes, size_t count, CUstream stream,
                 size_t *ret_failed)
{
    int result = sizes == NULL ? CUDA_ERROR_INVALID_VALUE : 0;
    for (size_t i = 0; result == 0 && i < count; i++) {
        if (gwi_rehearses(to[i]) || gwi_rehearses(from[i]))
            result = gwi_rehearse_copy(GW_FN_cuMemcpyAsync, to[i], from[i], sizes[i]);
        else
            result = GWI_DRIVER(cuMemcpyAsync)(to[i], from[i], sizes[i], stream);
        if (result != 0 && ret_failed != NULL)
            *ret_failed = i;
    }
    return result;
}

GWI_REHEARSE(cuMemcpyBatchAsync)
(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
 size_t numAttrs, size_t *failIdx, CUstream hStream)
{
    if (batch_names_ours(dsts, srcs, count))
        return batch(dsts, srcs, sizes, count, hStream, failIdx);
    return GWI_DRIVER(cuMemcpyBatchAsync)(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream);
}

GWI_REHEARSE(cuMemcpyBatchAsync_v2)
(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
 size_t numAttrs, CUstream hStream)
{
    if (batch_names_ours(dsts, srcs, count))
        return batch(dsts, srcs, sizes, count, hStream, NULL);
    return GWI_DRIVER(cuMemcpyBatchAsync_v2)(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}

static CUDA_MEMCPY3D operation(const CUDA_MEMCPY3D_BATCH_OP *op)
{
    bool to_array = op->dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY,
         from_array = op->src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
    CUDA_MEMCPY3D copy = {.WidthInBytes = op->extent.width,
                          .Height = op->extent.height,
                          .Depth = op->extent.depth,
                          .dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED,
                          .srcMemoryType = from_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED};
    if (!to_array) {
        copy.dstDevice = op->dst.op.ptr.ptr;
        copy.dstPitch = op->dst.op.ptr.rowLength;
        copy.dstHeight = op->dst.op.ptr.layerHeight;
    }
    if (!from_array) {
        copy.srcDevice = op->src.op.ptr.ptr;
        copy.srcPitch = op->src.op.ptr.rowLength;
        copy.srcHeight = op->src.op.ptr.layerHeight;
    }
    return copy;
}

static bool batch3d_names_ours(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count)
{
    bool ours = false;
    for (size_t i = 0; ops != NULL && !ours && i < count; i++) {
        CUDA_MEMCPY3D copy = operation(&ops[i]);
        ours = names_ours(&copy);
    }
    return ours;
}

static int batch3d(CUDA_MEMCPY3D_BATCH_OP *ops, size_t count, unsigned long long flags, CUstream stream,
                   size_t *ret_failed)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i++) {
        CUDA_MEMCPY3D copy = operation(&ops[i]);
        if (names_ours(&copy))
            result = copied(&copy);
        else if (GWI_DRIVER(cuMemcpy3DBatchAsync_v2) != NULL)
            result = GWI_DRIVER(cuMemcpy3DBatchAsync_v2)(1, &ops[i], flags, stream);
        else
            result = GWI_DRIVER(cuMemcpy3DBatchAsync)(1, &ops[i], NULL, flags, stream);
        if (result != 0 && ret_failed != NULL)
            *ret_failed = i;
    }
    return result;
}

GWI_REHEARSE(cuMemcpy3DBatchAsync)
(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags, CUstream hStream)
{
    if (batch3d_names_ours(opList, numOps))
        return batch3d(opList, numOps, flags, hStream, failIdx);
    return GWI_DRIVER(cuMemcpy3DBatchAsync)(numOps, opList, failIdx, flags, hStream);
}

GWI_REHEARSE(cuMemcpy3DBatchAsync_v2)
(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags, CUstream hStream)
{
    if (batch3d_names_ours(opList, numOps))
        return batch3d(opList, numOps, flags, hStream, NULL);
    return GWI_DRIVER(cuMemcpy3DBatchAsync_v2)(numOps, opList, flags, hStream);
}
