/* Helper functions for rows of api/driver.api: they read the data that a call's arguments point to.
 *
 * Every function accepts NULL structures, huge sizes and numbers out of range. Products saturate at UINT64_MAX.
 * Functions named gw_out_ read what the driver wrote and are called only after success. No function allocates, calls
 * the driver or changes anything. */
#ifndef GW_API_ARGS_H
#define GW_API_ARGS_H

#include "gw_cuda_abi.h"

#define GW_ARG static inline __attribute__((unused))

/* Return the product, or UINT64_MAX on overflow. */
GW_ARG uint64_t gw_product(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Return a copy of rows as a copy of one plane. */
GW_ARG CUDA_MEMCPY3D gw_copy_3d(const CUDA_MEMCPY2D *copy)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = copy->srcXInBytes,
                           .srcY = copy->srcY,
                           .srcMemoryType = copy->srcMemoryType,
                           .srcHost = copy->srcHost,
                           .srcDevice = copy->srcDevice,
                           .srcArray = copy->srcArray,
                           .srcPitch = copy->srcPitch,
                           .dstXInBytes = copy->dstXInBytes,
                           .dstY = copy->dstY,
                           .dstMemoryType = copy->dstMemoryType,
                           .dstHost = copy->dstHost,
                           .dstDevice = copy->dstDevice,
                           .dstArray = copy->dstArray,
                           .dstPitch = copy->dstPitch,
                           .WidthInBytes = copy->WidthInBytes,
                           .Height = copy->Height,
                           .Depth = 1};
}

/* Return the distance of two rows of pitched memory with this width in bytes, as drivers choose it. */
GW_ARG uint64_t gw_pitch(uint64_t width)
{
    return width > UINT64_MAX - 511 ? UINT64_MAX : (width + 511) / 512 * 512;
}

/* Return the smaller of `value` and `most`. */
GW_ARG uint64_t gw_clamp(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

/* --- launches: packed as gw_event.h describes --------------------------------------------------------------------- */

/* Pack the size of a grid, in blocks: 32 bits for x, 16 bits each for y and z. Too large sizes become the largest value
 * that fits. */
GW_ARG uint64_t gw_grid(uint64_t x, uint64_t y, uint64_t z)
{
    return gw_clamp(x, 0xffffffff) | gw_clamp(y, 0xffff) << 32 | gw_clamp(z, 0xffff) << 48;
}

/* Pack the size of a block, in threads: 21 bits per dimension. A size that is too large is replaced by the largest
 * value that fits. */
GW_ARG uint64_t gw_block(uint64_t x, uint64_t y, uint64_t z)
{
    return gw_clamp(x, 0x1fffff) | gw_clamp(y, 0x1fffff) << 21 | gw_clamp(z, 0x1fffff) << 42;
}

/* The packed size of the grid of cuLaunchKernelEx. The other gw_config_...() functions read other fields of the
 * structure. */
GW_ARG uint64_t gw_config_grid(const CUlaunchConfig *c)
{
    return c ? gw_grid(c->gridDimX, c->gridDimY, c->gridDimZ) : 0;
}

GW_ARG uint64_t gw_config_block(const CUlaunchConfig *c)
{
    return c ? gw_block(c->blockDimX, c->blockDimY, c->blockDimZ) : 0;
}

GW_ARG CUstream gw_config_stream(const CUlaunchConfig *c)
{
    return c ? c->hStream : NULL;
}

/* The dynamic shared memory of a block, in bytes. */
GW_ARG unsigned gw_config_shared_bytes(const CUlaunchConfig *c)
{
    return c ? c->sharedMemBytes : 0;
}

/* The gw_list_...() functions read a launch on several devices, but only the first element: gpuwhy records it as a
 * launch on the first device. */
GW_ARG CUfunction gw_list_function(const CUDA_LAUNCH_PARAMS *list, unsigned count)
{
    return list && count ? list->function : NULL;
}

GW_ARG uint64_t gw_list_grid(const CUDA_LAUNCH_PARAMS *list, unsigned count)
{
    return list && count ? gw_grid(list->gridDimX, list->gridDimY, list->gridDimZ) : 0;
}

GW_ARG uint64_t gw_list_block(const CUDA_LAUNCH_PARAMS *list, unsigned count)
{
    return list && count ? gw_block(list->blockDimX, list->blockDimY, list->blockDimZ) : 0;
}

GW_ARG CUstream gw_list_stream(const CUDA_LAUNCH_PARAMS *list, unsigned count)
{
    return list && count ? list->hStream : NULL;
}

/* The dynamic shared memory of a block on the first device, in bytes. */
GW_ARG unsigned gw_list_shared_bytes(const CUDA_LAUNCH_PARAMS *list, unsigned count)
{
    return list && count ? list->sharedMemBytes : 0;
}

/* --- lists of pointers and sizes ------------------------------------------------------------------------- */

/* The first address of a list; 0 if the list is empty or NULL. */
GW_ARG CUdeviceptr gw_first(const CUdeviceptr *list, size_t count)
{
    return list && count ? list[0] : 0;
}

/* The sum of a list of sizes; UINT64_MAX on overflow. */
GW_ARG uint64_t gw_sum(const size_t *list, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; list && i < count; i++)
        if (__builtin_add_overflow(sum, list[i], &sum))
            return UINT64_MAX;
    return sum;
}

/* --- memory ---------------------------------------------------------------------------------------------- */

/* The size in bytes of memory with `height` rows: the pitch that the driver returned, times the height. This is a
 * macro, because `pitch` may point to size_t or unsigned. */
#define gw_out_product(pitch, height) gw_product((pitch) ? *(pitch) : 0, height)

/* Where the memory will be: CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_HOST, ... */
GW_ARG uint64_t gw_prop_location(const CUmemAllocationProp *p)
{
    return p ? (uint64_t)p->location.type : CU_MEM_LOCATION_TYPE_INVALID;
}

/* The device on which the memory will be. Returns 0 for host memory, too, so check gw_prop_location() first. */
GW_ARG int gw_prop_device(const CUmemAllocationProp *p)
{
    return p && p->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? p->location.id : 0;
}

/* Number of bytes that an allocation takes from a device: 0 for host memory. */
GW_ARG uint64_t gw_prop_device_bytes(const CUmemAllocationProp *p, size_t bytes)
{
    return gw_prop_location(p) == CU_MEM_LOCATION_TYPE_DEVICE ? bytes : 0;
}

/* The size limit, in bytes, of a pool that is being created; 0: no limit. */
GW_ARG uint64_t gw_pool_bytes_max(const CUmemPoolProps *p)
{
    return p ? p->maxSize : 0;
}

/* The device of a pool that is being created. Returns 0 also for a pool of host memory. */
GW_ARG int gw_pool_device(const CUmemPoolProps *p)
{
    return p && p->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? p->location.id : 0;
}

/* The value of a pool's attribute: an int for reuse policies, 64 bits for all sizes in bytes. */
GW_ARG uint64_t gw_pool_value(CUmemPool_attribute attribute, const void *value)
{
    uint64_t wide = 0;
    int narrow = 0;
    if (value == NULL)
        return 0;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        __builtin_memcpy(&wide, value, sizeof wide);
        return wide;
    default:
        __builtin_memcpy(&narrow, value, sizeof narrow);
        return (uint64_t)narrow;
    }
}

/* Size, in bytes, of imported memory, which was allocated by another interface such as Vulkan. */
GW_ARG uint64_t gw_external_bytes(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d)
{
    return d ? d->size : 0;
}

/* Size, in bytes, of the part of imported memory that is mapped. */
GW_ARG uint64_t gw_external_buffer_bytes(const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d)
{
    return d ? d->size : 0;
}

/* --- arrays: bytes of the elements, without the padding that the driver adds -------------------------------------- */

/* Bits per array element with `channels` channels, or 0 for an unknown format. For a block-compressed format, this is
 * the element's share of the compressed block. */
GW_ARG uint64_t gw_element_bits(unsigned format, unsigned channels)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 8 * (uint64_t)channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 16 * (uint64_t)channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 32 * (uint64_t)channels;
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_BC2_UNORM:
    case CU_AD_FORMAT_BC2_UNORM_SRGB:
    case CU_AD_FORMAT_BC3_UNORM:
    case CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM:
    case CU_AD_FORMAT_BC5_SNORM:
    case CU_AD_FORMAT_BC6H_UF16:
    case CU_AD_FORMAT_BC6H_SF16:
    case CU_AD_FORMAT_BC7_UNORM:
    case CU_AD_FORMAT_BC7_UNORM_SRGB:
        return 8;
    case CU_AD_FORMAT_BC1_UNORM:
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM:
        return 4;
    case CU_AD_FORMAT_NV12:
        return 12;
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
        return 16;
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT_101010_2:
        return 32;
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4:
        return 64;
    default:
        return 0;
    }
}

/* Bytes of an array with the given size in elements. A height or depth of 0 means that the array does not have this
 * dimension. */
GW_ARG uint64_t gw_volume_bytes(uint64_t width, uint64_t height, uint64_t depth, unsigned format, unsigned channels)
{
    uint64_t elements = gw_product(gw_product(width, height ? height : 1), depth ? depth : 1);
    uint64_t bits = gw_product(elements, gw_element_bits(format, channels));
    return bits == UINT64_MAX ? bits : bits / 8 + (bits % 8 != 0);
}

/* Bytes of an array of one or two dimensions, from the old structure with 32-bit sizes. */
GW_ARG uint64_t gw_array_bytes_v1(const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
    return d ? gw_volume_bytes(d->Width, d->Height, 0, (unsigned)d->Format, d->NumChannels) : 0;
}

/* Bytes of an array of one or two dimensions, from the structure with 64-bit sizes. */
GW_ARG uint64_t gw_array_bytes(const CUDA_ARRAY_DESCRIPTOR *d)
{
    return d ? gw_volume_bytes(d->Width, d->Height, 0, (unsigned)d->Format, d->NumChannels) : 0;
}

/* Bytes of an array of up to three dimensions, from the old structure with 32-bit sizes. */
GW_ARG uint64_t gw_array3d_bytes_v1(const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
    return d ? gw_volume_bytes(d->Width, d->Height, d->Depth, (unsigned)d->Format, d->NumChannels) : 0;
}

/* Bytes of an array of up to three dimensions. Returns 0 for sparse and deferred arrays, which take no memory until
 * memory is mapped to them. */
GW_ARG uint64_t gw_array3d_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    if (d == NULL || d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0;
    return gw_volume_bytes(d->Width, d->Height, d->Depth, (unsigned)d->Format, d->NumChannels);
}

/* The flags of an array (CUDA_ARRAY3D_LAYERED, ...), from the old structure with 32-bit sizes. */
GW_ARG unsigned gw_array3d_flags_v1(const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
    return d ? d->Flags : 0;
}

/* The flags of an array (CUDA_ARRAY3D_LAYERED, ...), from the structure with 64-bit sizes. */
GW_ARG unsigned gw_array3d_flags(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    return d ? d->Flags : 0;
}

/* Bytes of all levels of a mipmapped array. Each level halves the dimensions, except the depth of a layered array or
 * cubemap, which is the number of layers. */
GW_ARG uint64_t gw_mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    uint64_t sum = 0;
    if (d == NULL || d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0;
    for (unsigned i = 0; i < gw_clamp(levels, 64); i++) {
        uint64_t depth = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP) ? d->Depth : d->Depth >> i;
        uint64_t level = gw_volume_bytes(d->Width >> i ? d->Width >> i : 1, d->Height >> i, depth, (unsigned)d->Format,
                                         d->NumChannels);
        if (__builtin_add_overflow(sum, level, &sum))
            return UINT64_MAX;
    }
    return sum;
}

/* Bytes of all levels of a mipmapped array that is mapped from imported memory. */
GW_ARG uint64_t gw_external_mipmap_bytes(const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *d)
{
    return d ? gw_mipmap_bytes(&d->arrayDesc, d->numLevels) : 0;
}

/* --- copies of rectangles and boxes ---------------------------------------------------------------------- */

/* The source or the destination of a copy. The memory type selects which of the arguments is used: an address, or the
 * handle of an array. */
GW_ARG uint64_t gw_copy_end(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array)
{
    if (type == CU_MEMORYTYPE_HOST)
        return (uint64_t)(uintptr_t)host;
    if (type == CU_MEMORYTYPE_ARRAY)
        return (uint64_t)(uintptr_t)array;
    return (uint64_t)device;
}

/* Define gw_copy2d_to() (the destination), gw_copy2d_from() (the source) and gw_copy2d_bytes() (the bytes copied) for a
 * copy structure, here copy2d. */
#define GW_COPY_FUNCTIONS(name, suffix, type, depth)                                                                   \
    GW_ARG uint64_t gw_##name##_to##suffix(const type *c)                                                              \
    {                                                                                                                  \
        return c ? gw_copy_end(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray) : 0;                           \
    }                                                                                                                  \
    GW_ARG uint64_t gw_##name##_from##suffix(const type *c)                                                            \
    {                                                                                                                  \
        return c ? gw_copy_end(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray) : 0;                           \
    }                                                                                                                  \
    GW_ARG uint64_t gw_##name##_bytes##suffix(const type *c)                                                           \
    {                                                                                                                  \
        return c ? gw_product(gw_product(c->WidthInBytes, c->Height), depth) : 0;                                      \
    }

GW_COPY_FUNCTIONS(copy2d, _v1, CUDA_MEMCPY2D_v1, 1)
GW_COPY_FUNCTIONS(copy2d, , CUDA_MEMCPY2D, 1)
GW_COPY_FUNCTIONS(copy3d, _v1, CUDA_MEMCPY3D_v1, c->Depth)
GW_COPY_FUNCTIONS(copy3d, , CUDA_MEMCPY3D, c->Depth)
GW_COPY_FUNCTIONS(copy3d, _peer, CUDA_MEMCPY3D_PEER, c->Depth)
#undef GW_COPY_FUNCTIONS

/* The address or array handle of one end of a copy in a batch. `o` must not be NULL. */
GW_ARG uint64_t gw_operand(const CUmemcpy3DOperand *o)
{
    return o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? (uint64_t)(uintptr_t)o->op.array.array : o->op.ptr.ptr;
}

/* The destination of the first copy of a batch. */
GW_ARG uint64_t gw_batch3d_to(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count)
{
    return ops && count ? gw_operand(&ops->dst) : 0;
}

/* The source of the first copy of a batch. */
GW_ARG uint64_t gw_batch3d_from(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count)
{
    return ops && count ? gw_operand(&ops->src) : 0;
}

/* Number of bytes in a batch of copies, or a lower bound. Copies between arrays have extents in elements, whose size
 * only the driver knows. One byte per element is assumed. */
GW_ARG uint64_t gw_batch3d_bytes(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; ops && i < count; i++) {
        uint64_t bytes = gw_product(gw_product(ops[i].extent.width, ops[i].extent.height), ops[i].extent.depth);
        if (__builtin_add_overflow(sum, bytes, &sum))
            return UINT64_MAX;
    }
    return sum;
}

/* --- graphs ---------------------------------------------------------------------------------------------- */

/* The function that a kernel node launches. */
GW_ARG CUfunction gw_kernel_node_function_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *n)
{
    return n ? n->func : NULL;
}

/* The function that a kernel node launches: a CUfunction, or a CUkernel if the node has no CUfunction. */
GW_ARG const void *gw_kernel_node_function(const CUDA_KERNEL_NODE_PARAMS *n)
{
    if (n == NULL)
        return NULL;
    return n->func ? (const void *)n->func : (const void *)n->kern;
}

/* The address that a memset node fills. */
GW_ARG CUdeviceptr gw_memset_node_to(const CUDA_MEMSET_NODE_PARAMS *n)
{
    return n ? n->dst : 0;
}

/* The address of the function that a host node calls. */
GW_ARG uint64_t gw_host_node_function(const CUDA_HOST_NODE_PARAMS *n)
{
    return n ? (uint64_t)(uintptr_t)n->fn : 0;
}

/* The address that the driver assigned to an allocation node. */
GW_ARG CUdeviceptr gw_out_alloc_node_address(const CUDA_MEM_ALLOC_NODE_PARAMS *n)
{
    return n ? n->dptr : 0;
}

/* Size of an allocation node in KiB, rounded up. Sizes below 4 TiB fit the 32-bit `extra` of an event; larger ones are
 * clamped. */
GW_ARG uint32_t gw_alloc_node_kib(const CUDA_MEM_ALLOC_NODE_PARAMS *n)
{
    return n ? (uint32_t)gw_clamp(n->bytesize / 1024 + (n->bytesize % 1024 != 0), UINT32_MAX) : 0;
}

/* The type of a graph node: CU_GRAPH_NODE_TYPE_KERNEL, ... */
GW_ARG unsigned gw_node_type(const CUgraphNodeParams *n)
{
    return n ? (unsigned)n->type : 0;
}

/* The size of an allocation node in KiB, rounded up; 0 for nodes of other types. */
GW_ARG uint32_t gw_node_kib(const CUgraphNodeParams *n)
{
    return n && n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? gw_alloc_node_kib(&n->alloc) : 0;
}

/* The object that a graph node works on: a function, the destination of a copy, a graph, an event, ... Returns 0 if
 * there is none, or if the driver chooses it, as for an allocation node. */
GW_ARG uint64_t gw_node_object(const CUgraphNodeParams *n)
{
    if (n == NULL)
        return 0;
    switch (n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return (uint64_t)(uintptr_t)gw_kernel_node_function(&n->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return gw_copy3d_to(&n->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return n->memset.dst;
    case CU_GRAPH_NODE_TYPE_HOST:
        return (uint64_t)(uintptr_t)n->host.fn;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return (uint64_t)(uintptr_t)n->graph.graph;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return (uint64_t)(uintptr_t)n->eventWait.event;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return (uint64_t)(uintptr_t)n->eventRecord.event;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return n->free.dptr;
    default:
        return 0;
    }
}

/* Like gw_node_object(), but for use after the call: for an allocation node, returns the address that the driver
 * assigned. */
GW_ARG uint64_t gw_out_node_object(const CUgraphNodeParams *n)
{
    return n && n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? n->alloc.dptr : gw_node_object(n);
}

/* The flags for instantiating a graph. */
GW_ARG uint64_t gw_instantiate_flags(const CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    return p ? p->flags : 0;
}

#undef GW_ARG
#endif
