/* Implements the driver calls for devices and contexts. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gwi_virt.h"

static void limits_reset(gwi_context *context)
{
    memset(context->limits, 0, sizeof context->limits);
    context->limits[0] = 1024;
    context->limits[1] = 8650752;
    context->limits[2] = 8388608;
    context->limits[4] = 2048;
    context->limits[5] = 64;
    context->limits[6] = 11796480;
    context->limits[7] = 232448;
}

/* Set up a context: allocate its own memory and create its default stream. */
static int context_make(gwi_context *context, gwi_device *device)
{
    if (gwi_card_is_lost(device->index))
        return CUDA_ERROR_UNKNOWN;
    if (!gwi_device_ready(device))
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t own = device->context_count == 0 ? gwi.spec.card.context_bytes : gwi.spec.card.context_next_bytes;
    if (!gwi_device_take(device, own))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->device = device;
    context->own_bytes = own;
    context->alive = true;
    context->fault = 0;
    context->fault_seen = false;
    context->stream_used_bytes = context->stream_held_bytes = 0;
    context->stream_count = 0;
    context->peers = 0;
    context->id = gwi.next_id++;
    limits_reset(context);
    context->legacy = gwi_stream_make(context, 0, 0);
    if (context->legacy == NULL) {
        gwi_device_give(device, own);
        context->alive = false;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->legacy->is_legacy = context->legacy->is_default = true;
    device->context_count++;
    return 0;
}

/* Return the block of this context with the lowest address at or after `address`; NULL if there is none. */
static gwi_block *own_block(const gwi_context *context, uint64_t address)
{
    gw_range *range = gw_ranges_from(&gwi.blocks, address);
    while (range != NULL) {
        gwi_block *block = (gwi_block *)range;
        if (block->context == context)
            return block;
        range = gw_ranges_from(&gwi.blocks, range->base + range->bytes);
    }
    return NULL;
}

static void streams_end(gwi_context *context)
{
    /* Discard the pending work but keep the handles valid, so that a later use of a handle can be distinguished from a
     * random pointer. */
    gwi_abandon(context);
    for (gw_range *range = gw_ranges_from(&gwi.objects, 0); range != NULL;
         range = gw_ranges_from(&gwi.objects, range->base + 1)) {
        gwi_object *object = (gwi_object *)range;
        if (object->kind == GWI_STREAM && ((gwi_stream *)object)->context == context &&
            ((gwi_stream *)object)->generation == context->generation)
            gwi_capture_end((gwi_stream *)object);
    }
    context->legacy = NULL;
}

static void arrays_end(gwi_context *context)
{
    gw_range *range = gw_ranges_from(&gwi.objects, 0);
    while (range != NULL) {
        gwi_object *object = (gwi_object *)range;
        range = gw_ranges_from(&gwi.objects, range->base + 1);
        gwi_array *array = (gwi_array *)object;
        if (object->kind != GWI_ARRAY || array->context != context)
            continue;
        gwi_object_remove(object);
        gw_pages_free(&array->device->pages, array->address, array->bytes, array->page);
        free(array);
    }
}

static void context_end(gwi_context *context)
{
    if (!context->alive)
        return;
    if (context->fault != 0)
        gwi.process_fault = context->fault;
    context->device->pages.retiring = true;
    streams_end(context);
    gwi_modules_end(context);
    arrays_end(context);
    for (gwi_block *block = own_block(context, 0); block != NULL;) {
        uint64_t after = block->range.base + block->range.bytes;
        gwi_block_free(block);
        block = own_block(context, after);
    }
    context->device->pages.retiring = false;
    gwi_device_give(context->device, context->own_bytes + context->stream_held_bytes);
    context->device->context_count--;
    if (context->device->context_count == 0)
        gwi_pools_end(context->device);
    context->alive = false;
    context->generation++;
}

/* Return the context of a handle; the caller must check whether it is alive. Returns NULL for a NULL handle. Crashes on
 * any other invalid handle. */
static gwi_context *context_find(CUcontext handle)
{
    gwi_context *context = gwi_object_find(handle, GWI_CONTEXT);
    if (context == NULL && handle != NULL)
        gwi_crash(handle);
    return context;
}

static gwi_context *context_or_current(CUcontext handle)
{
    return handle != NULL ? context_find(handle) : gwi_current();
}

/* --- devices -------------------------------------------------------------------------------------------- */

GWI_ANSWER(cuDeviceGetCount, (int *count), count, (int)gwi.spec.device_count)
GWI_ANSWER_OF(cuDeviceGet, (CUdevice * device, int ordinal), device, gwi_device, gwi_device_find(ordinal),
              CUDA_ERROR_INVALID_DEVICE, (CUdevice)found->index)

GWI_API(cuDeviceGetName)(char *name, int len, CUdevice dev)
{
    if (name == NULL || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (gwi_device_find(dev) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)len, "%s", gwi.spec.card.name);
    return 0;
}

GWI_ANSWER_OF(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice dev), bytes, gwi_device, gwi_device_find(dev),
              CUDA_ERROR_INVALID_DEVICE, (size_t)gwi.spec.card.memory_bytes)

static int attribute_of(const gwi_device *device, int attribute)
{
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)
        return gwi.spec.card.attributes[attribute] + (int)device->index;
    return gwi.spec.card.attributes[attribute];
}

GWI_API(cuDeviceGetAttribute)(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    const gwi_device *device = gwi_device_find(dev);
    if (pi == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if ((int)attrib < 0 || (int)attrib >= GW_VIRT_ATTRIBUTES_MAX || !gwi.spec.card.attributes_known[attrib])
        return CUDA_ERROR_INVALID_VALUE;
    *pi = attribute_of(device, (int)attrib);
    return 0;
}

GWI_API(cuDeviceComputeCapability)(int *major, int *minor, CUdevice dev)
{
    if (major == NULL || minor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (gwi_device_find(dev) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *major = gwi.spec.card.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
    *minor = gwi.spec.card.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
    return 0;
}

GWI_API(cuDeviceGetProperties)(CUdevprop *prop, CUdevice dev)
{
    if (prop == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (gwi_device_find(dev) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    const int *a = gwi.spec.card.attributes;
    *prop = (CUdevprop){a[1], {a[2], a[3], a[4]}, {a[5], a[6], a[7]}, a[8], a[9], a[10], a[11], a[12], a[13], a[14]};
    return 0;
}

/* The UUID is "GPUWHY virtual" and the device's number. No real GPU has such a UUID. */
GWI_API(cuDeviceGetUuid)(CUuuid *uuid, CUdevice dev)
{
    const gwi_device *device = gwi_device_find(dev);
    if (uuid == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "GPUWHY virtual \0", 16);
    uuid->bytes[15] = (char)device->index;
    return 0;
}
GWI_ALIAS(cuDeviceGetUuid_v2, cuDeviceGetUuid);

GWI_API(cuDeviceGetPCIBusId)(char *pciBusId, int len, CUdevice dev)
{
    const gwi_device *device = gwi_device_find(dev);
    if (pciBusId == NULL || len < 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(pciBusId, (size_t)len, "%04X:%02X:%02X.0", (unsigned)attribute_of(device, 50) & 0xffff,
             (unsigned)attribute_of(device, 33) & 0xff, (unsigned)attribute_of(device, 34) & 0xff);
    return 0;
}

GWI_API(cuDeviceGetByPCIBusId)(CUdevice *dev, const char *pciBusId)
{
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned slot = 0;
    if (dev == NULL || pciBusId == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) == 3)
        for (unsigned d = 0; d < gwi.spec.device_count; d++)
            if ((unsigned)attribute_of(&gwi.devices[d], 34) == slot &&
                (unsigned)attribute_of(&gwi.devices[d], 33) == bus) {
                *dev = (CUdevice)d;
                return 0;
            }
    return CUDA_ERROR_INVALID_DEVICE;
}

GWI_API(cuDeviceCanAccessPeer)(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    if (canAccessPeer == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (gwi_device_find(dev) == NULL || gwi_device_find(peerDev) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *canAccessPeer = dev != peerDev;
    return 0;
}

GWI_API(cuDeviceGetP2PAttribute)(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)
{
    if (value == NULL || (int)attrib < 1 || (int)attrib > 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (gwi_device_find(srcDevice) == NULL || gwi_device_find(dstDevice) == NULL || srcDevice == dstDevice)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attrib == 2; /* 2: access to the other GPU's memory; the other attributes need a direct link */
    return 0;
}

/* --- primary contexts ----------------------------------------------------------------------------------- */

GWI_API(cuDevicePrimaryCtxRetain)(CUcontext *pctx, CUdevice dev)
{
    gwi_device *device = gwi_device_find(dev);
    if (pctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (device->primary == NULL) {
        device->primary = calloc(1, sizeof *device->primary);
        if (device->primary == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        device->primary->is_primary = true;
        device->primary->device = device;
        gwi_object_add(&device->primary->object, GWI_CONTEXT);
    }
    gwi_context *context = device->primary;
    if (!context->alive) {
        int result = gwi.process_fault != 0 ? gwi.process_fault : context_make(context, device);
        if (result != 0)
            return result;
        context->flags = device->primary_flags;
    }
    context->retain_count++;
    *pctx = (CUcontext)context;
    return 0;
}

GWI_API(cuDevicePrimaryCtxRelease_v2)(CUdevice dev)
{
    gwi_device *device = gwi_device_find(dev);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    /* A reset ends the context but does not change retain_count, so the context may have ended already. */
    gwi_context *context = device->primary;
    if (context == NULL || context->retain_count == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--context->retain_count == 0)
        context_end(context);
    return 0;
}
GWI_ALIAS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);

GWI_API(cuDevicePrimaryCtxReset_v2)(CUdevice dev)
{
    gwi_device *device = gwi_device_find(dev);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (device->primary != NULL)
        context_end(device->primary);
    return 0;
}
GWI_ALIAS(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2);

GWI_API(cuDevicePrimaryCtxSetFlags_v2)(CUdevice dev, unsigned int flags)
{
    gwi_device *device = gwi_device_find(dev);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    device->primary_flags = flags;
    if (device->primary != NULL)
        device->primary->flags = flags;
    return 0;
}
GWI_ALIAS(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2);

GWI_API(cuDevicePrimaryCtxGetState)(CUdevice dev, unsigned int *flags, int *active)
{
    const gwi_device *device = gwi_device_find(dev);
    if (flags == NULL || active == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = device->primary_flags;
    *active = device->primary != NULL && device->primary->alive;
    return 0;
}

/* --- contexts ------------------------------------------------------------------------------------------- */

static int push(gwi_context *context)
{
    if (gwi_self.context_count == GWI_CONTEXT_STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    gwi_self.contexts[gwi_self.context_count++] = context;
    return 0;
}

static int create(CUcontext *ret_context, unsigned flags, CUdevice dev)
{
    gwi_device *device = gwi_device_find(dev);
    if (ret_context == NULL || (flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (gwi.process_fault != 0)
        return gwi.process_fault;
    gwi_context *context = calloc(1, sizeof *context);
    if (context == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int result = context_make(context, device);
    if (result == 0)
        result = push(context);
    if (result != 0) {
        if (context->alive)
            context_end(context);
        free(context);
        return result;
    }
    context->flags = flags;
    gwi_object_add(&context->object, GWI_CONTEXT);
    *ret_context = (CUcontext)context;
    return 0;
}

GWI_RETURN(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev), create(pctx, flags, dev))
GWI_ALIAS(cuCtxCreate, cuCtxCreate_v2);

GWI_RETURN(cuCtxCreate_v3,
           (CUcontext * pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags, CUdevice dev),
           numParams != 0 ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : create(pctx, flags, dev))

GWI_API(cuCtxCreate_v4)(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
    if (ctxCreateParams != NULL && (ctxCreateParams->numExecAffinityParams != 0 || ctxCreateParams->cigParams != NULL))
        return CUDA_ERROR_NOT_SUPPORTED;
    return create(pctx, flags, dev);
}

GWI_API(cuCtxDestroy_v2)(CUcontext ctx)
{
    gwi_context *context = context_find(ctx);
    if (context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive || context->is_primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    context_end(context);
    if (gwi_current() == context)
        gwi_self.context_count--;
    return 0;
}
GWI_ALIAS(cuCtxDestroy, cuCtxDestroy_v2);

GWI_API(cuCtxGetCurrent)(CUcontext *pctx)
{
    if (pctx == NULL) {
        gwi_lock();
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *pctx = (CUcontext)gwi_current();
    return 0;
}

GWI_API(cuCtxSetCurrent)(CUcontext ctx)
{
    gwi_context *context = context_find(ctx);
    if (gwi_self.context_count > 0)
        gwi_self.context_count--;
    return context != NULL ? push(context) : 0;
}

GWI_API(cuCtxPushCurrent_v2)(CUcontext ctx)
{
    gwi_context *context = context_find(ctx);
    return context != NULL ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}
GWI_ALIAS(cuCtxPushCurrent, cuCtxPushCurrent_v2);

GWI_API(cuCtxPopCurrent_v2)(CUcontext *pctx)
{
    if (gwi_self.context_count == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (pctx != NULL)
        *pctx = (CUcontext)gwi_current();
    gwi_self.context_count--;
    return 0;
}
GWI_ALIAS(cuCtxPopCurrent, cuCtxPopCurrent_v2);

GWI_ANSWER(cuCtxGetDevice, (CUdevice * device), device, (CUdevice)gwi_current()->device->index)
GWI_ANSWER_OF(cuCtxGetDevice_v2, (CUdevice * device, CUcontext ctx), device, gwi_context, context_or_current(ctx),
              CUDA_ERROR_INVALID_CONTEXT, (CUdevice)found->device->index)
GWI_ANSWER_OF(cuCtxGetApiVersion, (CUcontext ctx, unsigned int *version), version, gwi_context, context_or_current(ctx),
              CUDA_ERROR_INVALID_CONTEXT, 3020)
GWI_ANSWER_OF(cuCtxGetId, (CUcontext ctx, unsigned long long *ctxId), ctxId, gwi_context, context_or_current(ctx),
              CUDA_ERROR_INVALID_CONTEXT, found->id)
GWI_ANSWER(cuCtxGetFlags, (unsigned int *flags), flags, gwi_current()->flags)

GWI_API(cuCtxSetFlags)(unsigned int flags)
{
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_current()->flags = flags;
    return 0;
}

GWI_API(cuCtxGetStreamPriorityRange)(int *leastPriority, int *greatestPriority)
{
    if (leastPriority != NULL)
        *leastPriority = 0;
    if (greatestPriority != NULL)
        *greatestPriority = -5;
    return 0;
}

static int limit_check(unsigned limit)
{
    if (limit > 9)
        return CUDA_ERROR_INVALID_VALUE;
    return limit == 3 || limit == 9 ? CUDA_ERROR_UNSUPPORTED_LIMIT : 0;
}

GWI_API(cuCtxGetLimit)(size_t *pvalue, CUlimit limit)
{
    int result = pvalue == NULL ? CUDA_ERROR_INVALID_VALUE : limit_check((unsigned)limit);
    if (result == 0)
        *pvalue = (size_t)gwi_current()->limits[limit];
    return result;
}

GWI_API(cuCtxSetLimit)(CUlimit limit, size_t value)
{
    int result = limit_check((unsigned)limit);
    if (result == 0 && limit == 0 && value > 523712)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == 0)
        gwi_current()->limits[limit] = value;
    return result;
}

GWI_RETURN(cuCtxResetPersistingL2Cache, (void), 0)

GWI_ANSWER(cuCtxGetCacheConfig, (CUfunc_cache * pconfig), pconfig, (CUfunc_cache)gwi_current()->cache_config)

GWI_API(cuCtxSetCacheConfig)(CUfunc_cache config)
{
    gwi_current()->cache_config = (int)config;
    return 0;
}

GWI_API(cuCtxEnablePeerAccess)(CUcontext peerContext, unsigned int Flags)
{
    const gwi_context *peer = context_find(peerContext);
    gwi_context *context = gwi_current();
    if (Flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (peer == NULL || !peer->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (peer->device == context->device)
        return CUDA_ERROR_INVALID_DEVICE;
    uint32_t bit = (uint32_t)1 << peer->device->index;
    if (context->peers & bit)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= bit;
    return 0;
}

GWI_API(cuCtxDisablePeerAccess)(CUcontext peerContext)
{
    const gwi_context *peer = context_find(peerContext);
    gwi_context *context = gwi_current();
    if (peer == NULL || !peer->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    uint32_t bit = (uint32_t)1 << peer->device->index;
    if (!(context->peers & bit))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~bit;
    return 0;
}
