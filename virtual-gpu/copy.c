/* Implements copies and fills. The call checks the arguments. The bytes are copied later, when the stream reaches the
 * command. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "gw_api_args.h"
#include "gwi_virt.h"

typedef enum side_kind { HOST, DEVICE, ANY } side_kind;

/* Return the memory that stores the bytes at one side of a copy. An address in a live block is accepted for every kind.
 * Other host addresses are accepted unless the kind is DEVICE. Returns NULL for a freed block, or if the address is not
 * accepted. */
static char *side_at(uint64_t address, size_t bytes, side_kind kind)
{
    char *storage = gwi_storage(address, bytes);
    if (storage != NULL || kind == DEVICE)
        return storage;
    /* The address is in a GPU's range but in no block, so its block was freed. */
    for (unsigned d = 0; d < gwi.spec.device_count; d++)
        if (gwi.devices[d].arena.base != 0 && address - gwi.devices[d].arena.base < gwi.devices[d].arena.bytes)
            return NULL;
    return (char *)(uintptr_t)address;
}

/* True for pageable memory. The driver cannot read such memory later, so it either reads the memory during the call or
 * makes the call wait. */
static bool is_pageable(const char *host)
{
    return gwi_block_at((uintptr_t)host) == NULL;
}

typedef struct request {
    gwi_work work;
    bool from_pageable, to_pageable;
} request;

static int not_found(void)
{
    gwi_say("Allocation not found");
    return CUDA_ERROR_INVALID_VALUE;
}

static bool is_host(uint64_t address)
{
    const gwi_block *block = gwi_block_at(address);
    return block == NULL || gwi_is_host_block(block);
}

static int linear(uint64_t to, side_kind to_kind, uint64_t from, side_kind from_kind, size_t bytes, request *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->work.kind = GWI_WORK_COPY;
    char *to_at = side_at(to, bytes, to_kind);
    char *from_at = side_at(from, bytes, from_kind);
    if (bytes > 0 && (to_at == NULL || from_at == NULL))
        return not_found();
    ret->work.copy.to = (gwi_side){to_at, bytes, 1};
    ret->work.copy.from = (gwi_side){from_at, bytes, 1};
    ret->work.copy.width = bytes;
    ret->work.copy.height = ret->work.copy.depth = bytes > 0 ? 1 : 0;
    ret->from_pageable = gwi_block_at(from) == NULL;
    ret->to_pageable = gwi_block_at(to) == NULL;
    ret->work.copy.crosses_link = is_host(from) != is_host(to);
    return 0;
}

/* Copy the source of the work into a buffer (staged), because the program may change it after the call. */
static bool stage(gwi_work *work)
{
    size_t plane = work->copy.width * work->copy.height;
    gwi_host_need(NULL, plane * work->copy.depth);
    char *staged = malloc(plane * work->copy.depth + 1);
    if (staged == NULL)
        return false;
    for (size_t z = 0; z < work->copy.depth; z++)
        for (size_t y = 0; y < work->copy.height; y++)
            memcpy(staged + z * plane + y * work->copy.width,
                   work->copy.from.base + (z * work->copy.from.height + y) * work->copy.from.pitch, work->copy.width);
    work->copy.staged = staged;
    work->copy.from = (gwi_side){staged, work->copy.width, work->copy.height};
    return true;
}

static int submit(request *asked, gwi_stream *stream, bool wait)
{
    bool captured = stream->capture != NULL || stream->capture_owner != NULL;
    gwi_context *context = stream->context;
    if (asked->work.copy.depth == 0 || asked->work.copy.height == 0 || asked->work.copy.width == 0)
        return 0;
    if (asked->from_pageable && !wait && !captured && !stage(&asked->work))
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait = (wait || asked->to_pageable) && !captured;
    gwi_command *command = NULL;
    int result = gwi_submit(stream, &asked->work, NULL, wait ? &command : NULL);
    if (result != 0) {
        gwi_work_free(&asked->work);
        return result;
    }
    if (command != NULL) {
        gwi_wait_command(command);
        gwi_command_drop(command);
        if (context->fault != 0)
            result = gwi_see_fault(gwi_current());
    }
    return result;
}

static int copy_now(uint64_t to, side_kind to_kind, uint64_t from, side_kind from_kind, size_t bytes)
{
    request asked;
    int result = linear(to, to_kind, from, from_kind, bytes, &asked);
    /* The call does not wait for a copy within the GPU. */
    bool inside = !asked.to_pageable && !asked.from_pageable && to_kind == DEVICE && from_kind == DEVICE;
    return result != 0 ? result : submit(&asked, gwi_stream_find(NULL), !inside);
}

static int copy_later(uint64_t to, side_kind to_kind, uint64_t from, side_kind from_kind, size_t bytes, CUstream handle)
{
    request asked;
    gwi_stream *stream = gwi_stream_find(handle);
    int result = linear(to, to_kind, from, from_kind, bytes, &asked);
    return result != 0 ? result : submit(&asked, stream, false);
}

/* Define a copy and its asynchronous form. */
#define COPY(symbol, version, to_type, to_kind, from_type, from_kind)                                                  \
    GWI_API(symbol##version)(to_type to, from_type from, size_t bytes)                                                 \
    {                                                                                                                  \
        return copy_now((uintptr_t)to, to_kind, (uintptr_t)from, from_kind, bytes);                                    \
    }                                                                                                                  \
    GWI_API(symbol##Async##version)(to_type to, from_type from, size_t bytes, CUstream stream)                         \
    {                                                                                                                  \
        return copy_later((uintptr_t)to, to_kind, (uintptr_t)from, from_kind, bytes, stream);                          \
    }

COPY(cuMemcpyHtoD, _v2, CUdeviceptr, DEVICE, const void *, HOST)
COPY(cuMemcpyDtoH, _v2, void *, HOST, CUdeviceptr, DEVICE)
COPY(cuMemcpyDtoD, _v2, CUdeviceptr, DEVICE, CUdeviceptr, DEVICE)
COPY(cuMemcpy, , CUdeviceptr, ANY, CUdeviceptr, ANY)

GWI_API(cuMemcpyPeer)
(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount)
{
    if (gwi_object_find(dstContext, GWI_CONTEXT) == NULL || gwi_object_find(srcContext, GWI_CONTEXT) == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy_now(dstDevice, DEVICE, srcDevice, DEVICE, ByteCount);
}

GWI_API(cuMemcpyPeerAsync)
(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount,
 CUstream hStream)
{
    if (gwi_object_find(dstContext, GWI_CONTEXT) == NULL || gwi_object_find(srcContext, GWI_CONTEXT) == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy_later(dstDevice, DEVICE, srcDevice, DEVICE, ByteCount, hStream);
}

/* --- shapes --------------------------------------------------------------------------------------------- */

/* Source or destination of a multi-dimensional copy: kind, address and offsets, taken from the caller's structure. */
typedef struct shape_side {
    CUmemorytype type;
    uint64_t host, device;
    CUarray array;
    size_t x, y, z, pitch, height;
} shape_side;

static int shape_resolve(const shape_side *side, size_t width, size_t height, size_t depth, gwi_side *ret_side,
                         bool *ret_pageable)
{
    *ret_pageable = false;
    if (side->type == CU_MEMORYTYPE_ARRAY) {
        const gwi_array *array = gwi_object_find(side->array, GWI_ARRAY);
        if (array == NULL)
            return CUDA_ERROR_INVALID_HANDLE;
        size_t row = array->descriptor.Width * array->element_bytes;
        size_t rows = array->descriptor.Height != 0 ? array->descriptor.Height : 1;
        size_t planes = array->descriptor.Depth != 0 ? array->descriptor.Depth : 1;
        if (side->x > row || width > row - side->x || side->y > rows || height > rows - side->y || side->z > planes ||
            depth > planes - side->z)
            return CUDA_ERROR_INVALID_VALUE;
        *ret_side = (gwi_side){array->storage + (side->z * rows + side->y) * row + side->x, row, rows};
        return 0;
    }
    size_t pitch = side->pitch != 0 ? side->pitch : width + side->x;
    size_t rows = side->height != 0 ? side->height : height + side->y;
    if (pitch < width || rows < height || rows > SIZE_MAX / 4 || depth > SIZE_MAX / 4 || side->z > SIZE_MAX / 4 ||
        pitch > SIZE_MAX / 2 / (rows + 1) / (depth + side->z + 1))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t offset = (side->z * rows + side->y) * pitch + side->x;
    uint64_t bytes = ((depth - 1) * rows + height - 1) * pitch + width;
    uint64_t address = (side->type == CU_MEMORYTYPE_HOST ? side->host : side->device) + offset;
    side_kind place = DEVICE;
    if (side->type == CU_MEMORYTYPE_HOST)
        place = HOST;
    else if (side->type == CU_MEMORYTYPE_UNIFIED)
        place = ANY;
    char *at = side_at(address, (size_t)bytes, place);
    if (at == NULL)
        return not_found();
    *ret_pageable = is_pageable((const char *)(uintptr_t)address);
    *ret_side = (gwi_side){at, pitch, rows};
    return 0;
}

static int shape_work(const CUDA_MEMCPY3D *copy, request *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->work.kind = GWI_WORK_COPY;
    ret->work.copy.asked = *copy;
    ret->work.copy.width = copy->WidthInBytes;
    ret->work.copy.height = copy->Height;
    ret->work.copy.depth = copy->Depth;
    if (copy->WidthInBytes == 0 || copy->Height == 0 || copy->Depth == 0)
        return 0;
    shape_side from = {copy->srcMemoryType, (uintptr_t)copy->srcHost, copy->srcDevice,
                       copy->srcArray,      copy->srcXInBytes,        copy->srcY,
                       copy->srcZ,          copy->srcPitch,           copy->srcHeight};
    shape_side to = {copy->dstMemoryType, (uintptr_t)copy->dstHost, copy->dstDevice,
                     copy->dstArray,      copy->dstXInBytes,        copy->dstY,
                     copy->dstZ,          copy->dstPitch,           copy->dstHeight};
    int result =
        shape_resolve(&from, copy->WidthInBytes, copy->Height, copy->Depth, &ret->work.copy.from, &ret->from_pageable);
    if (result == 0)
        result =
            shape_resolve(&to, copy->WidthInBytes, copy->Height, copy->Depth, &ret->work.copy.to, &ret->to_pageable);
    ret->work.copy.crosses_link = (from.type == CU_MEMORYTYPE_HOST) != (to.type == CU_MEMORYTYPE_HOST);
    return result;
}

/* Convert the parameters of a copy to work for a graph node. */
int gwi_copy_work(const CUDA_MEMCPY3D *copy, gwi_work *ret_work)
{
    request asked;
    int result = shape_work(copy, &asked);
    if (result == 0)
        *ret_work = asked.work;
    return result;
}

static int shape_copy(const CUDA_MEMCPY3D *copy, CUstream stream, bool wait)
{
    request asked;
    int result = shape_work(copy, &asked);
    bool inside = !asked.to_pageable && !asked.from_pageable;
    return result != 0 ? result : submit(&asked, gwi_stream_find(stream), wait && !inside);
}

GWI_API(cuMemcpy2D_v2)(const CUDA_MEMCPY2D *pCopy)
{
    if (pCopy == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D copy = gw_copy_3d(pCopy);
    return shape_copy(&copy, NULL, true);
}
GWI_ALIAS(cuMemcpy2DUnaligned_v2, cuMemcpy2D_v2);

GWI_API(cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    if (pCopy == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D copy = gw_copy_3d(pCopy);
    return shape_copy(&copy, hStream, false);
}

GWI_RETURN(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *pCopy),
           pCopy == NULL ? CUDA_ERROR_INVALID_VALUE : shape_copy(pCopy, NULL, true))
GWI_RETURN(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *pCopy, CUstream hStream),
           pCopy == NULL ? CUDA_ERROR_INVALID_VALUE : shape_copy(pCopy, hStream, false))

static int array_copy(shape_side to, shape_side from, size_t bytes, CUstream stream, bool wait)
{
    CUDA_MEMCPY3D copy = {.srcXInBytes = from.x,
                          .srcMemoryType = from.type,
                          .srcHost = (const void *)(uintptr_t)from.host,
                          .srcDevice = from.device,
                          .srcArray = from.array,
                          .dstXInBytes = to.x,
                          .dstMemoryType = to.type,
                          .dstHost = (void *)(uintptr_t)to.host,
                          .dstDevice = to.device,
                          .dstArray = to.array,
                          .WidthInBytes = bytes,
                          .Height = 1,
                          .Depth = 1};
    return shape_copy(&copy, stream, wait);
}

// clang-format off
#define ARRAY_SIDE(handle, offset) (shape_side){.type = CU_MEMORYTYPE_ARRAY, .array = handle, .x = offset}
#define HOST_SIDE(address) (shape_side){.type = CU_MEMORYTYPE_HOST, .host = (uintptr_t)(address)}
#define DEVICE_SIDE(address) (shape_side){.type = CU_MEMORYTYPE_DEVICE, .device = address}
// clang-format on

GWI_RETURN(cuMemcpyHtoA_v2, (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount),
           array_copy(ARRAY_SIDE(dstArray, dstOffset), HOST_SIDE(srcHost), ByteCount, NULL, true))
GWI_RETURN(cuMemcpyAtoH_v2, (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount),
           array_copy(HOST_SIDE(dstHost), ARRAY_SIDE(srcArray, srcOffset), ByteCount, NULL, true))
GWI_RETURN(cuMemcpyDtoA_v2, (CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount),
           array_copy(ARRAY_SIDE(dstArray, dstOffset), DEVICE_SIDE(srcDevice), ByteCount, NULL, true))
GWI_RETURN(cuMemcpyAtoD_v2, (CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount),
           array_copy(DEVICE_SIDE(dstDevice), ARRAY_SIDE(srcArray, srcOffset), ByteCount, NULL, true))
GWI_RETURN(cuMemcpyHtoAAsync_v2,
           (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream),
           array_copy(ARRAY_SIDE(dstArray, dstOffset), HOST_SIDE(srcHost), ByteCount, hStream, false))
GWI_RETURN(cuMemcpyAtoHAsync_v2,
           (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream),
           array_copy(HOST_SIDE(dstHost), ARRAY_SIDE(srcArray, srcOffset), ByteCount, hStream, false))

/* --- fills ---------------------------------------------------------------------------------------------- */

/* Check a fill and convert it to work. Also used for memset nodes of graphs. */
int gwi_fill_work(CUdeviceptr to, size_t pitch, unsigned value, unsigned element_bytes, size_t width, size_t height,
                  gwi_work *ret_work)
{
    memset(ret_work, 0, sizeof *ret_work);
    size_t row = 0;
    size_t span = 0;
    if (to % element_bytes != 0 || __builtin_mul_overflow(width, element_bytes, &row) ||
        (height > 1 && (pitch < row || pitch % element_bytes != 0)) ||
        __builtin_mul_overflow(pitch, height > 0 ? height - 1 : 0, &span))
        return CUDA_ERROR_INVALID_VALUE;
    if (width == 0 || height == 0)
        return 0;
    char *at = gwi_storage(to, span + row);
    if (at == NULL)
        return not_found();
    ret_work->kind = GWI_WORK_FILL;
    ret_work->fill.to = at;
    ret_work->fill.asked = to;
    ret_work->fill.pitch = pitch;
    ret_work->fill.width = width;
    ret_work->fill.height = height;
    ret_work->fill.value = value;
    ret_work->fill.element_bytes = element_bytes;
    return 0;
}

/* Submit a fill. The host never waits for it. */
static int fill(CUdeviceptr to, size_t pitch, unsigned value, unsigned element_bytes, size_t width, size_t height,
                CUstream handle)
{
    gwi_work work;
    gwi_stream *stream = gwi_stream_find(handle);
    int result = gwi_fill_work(to, pitch, value, element_bytes, width, height, &work);
    if (result != 0 || width == 0 || height == 0)
        return result;
    return gwi_submit(stream, &work, NULL, NULL);
}

#define FILL(bits, type)                                                                                               \
    GWI_API(cuMemsetD##bits##_v2)(CUdeviceptr dstDevice, type value, size_t N)                                         \
    {                                                                                                                  \
        return fill(dstDevice, 0, value, bits / 8, N, 1, NULL);                                                        \
    }                                                                                                                  \
    GWI_API(cuMemsetD##bits##Async)(CUdeviceptr dstDevice, type value, size_t N, CUstream hStream)                     \
    {                                                                                                                  \
        return fill(dstDevice, 0, value, bits / 8, N, 1, hStream);                                                     \
    }                                                                                                                  \
    GWI_API(cuMemsetD2D##bits##_v2)(CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height)   \
    {                                                                                                                  \
        return fill(dstDevice, dstPitch, value, bits / 8, Width, Height, NULL);                                        \
    }                                                                                                                  \
    GWI_API(cuMemsetD2D##bits##Async)                                                                                  \
    (CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height, CUstream hStream)                \
    {                                                                                                                  \
        return fill(dstDevice, dstPitch, value, bits / 8, Width, Height, hStream);                                     \
    }

FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)
