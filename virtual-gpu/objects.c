/* Implements the driver calls for arrays, pointer attributes and memory shared between processes, and
 * cuGetProcAddress. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gwi_virt.h"

/* --- arrays --------------------------------------------------------------------------------------------- */

static unsigned format_bytes(CUarray_format format)
{
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

/* Create an array. Even a small one has pages of its own. */
static int array_create(CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    gwi_context *context = gwi_current();
    if (ret_array == NULL || descriptor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned channels = descriptor->NumChannels;
    unsigned element = format_bytes(descriptor->Format) * channels;
    uint64_t bytes = element;
    if (element == 0 || (channels != 1 && channels != 2 && channels != 4) || descriptor->Width == 0 ||
        __builtin_mul_overflow(bytes, descriptor->Width, &bytes) ||
        __builtin_mul_overflow(bytes, descriptor->Height != 0 ? descriptor->Height : 1, &bytes) ||
        __builtin_mul_overflow(bytes, descriptor->Depth != 0 ? descriptor->Depth : 1, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    gwi_array *array = calloc(1, sizeof *array);
    if (array == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    array->bytes = bytes > GW_SMALL_BYTES_MAX ? bytes : GW_PAGE_BYTES;
    if (gwi_allocation_refused() ||
        !gw_pages_alloc(&context->device->pages, array->bytes, &array->address, &array->page)) {
        free(array);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    array->device = context->device;
    array->context = context;
    array->generation = context->generation;
    array->descriptor = *descriptor;
    array->element_bytes = element;
    array->storage = context->device->arena.shadow + (array->address - context->device->arena.base);
    gwi_object_add(&array->object, GWI_ARRAY);
    *ret_array = (CUarray)array;
    return 0;
}

GWI_RETURN(cuArray3DCreate_v2, (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray),
           array_create(pHandle, pAllocateArray))

GWI_API(cuArrayCreate_v2)(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    if (pAllocateArray == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {pAllocateArray->Width,  pAllocateArray->Height,      0,
                                          pAllocateArray->Format, pAllocateArray->NumChannels, 0};
    return array_create(pHandle, &descriptor);
}

GWI_API(cuArrayDestroy)(CUarray hArray)
{
    gwi_array *array = gwi_object_find(hArray, GWI_ARRAY);
    if (array == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    gwi_wait_device(array->device);
    gwi_object_remove(&array->object);
    gw_pages_free(&array->device->pages, array->address, array->bytes, array->page);
    free(array);
    return 0;
}

GWI_ANSWER_OF(cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR * pArrayDescriptor, CUarray hArray), pArrayDescriptor,
              gwi_array, gwi_object_find(hArray, GWI_ARRAY), CUDA_ERROR_INVALID_HANDLE, found->descriptor)

GWI_ANSWER_OF(cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR * pArrayDescriptor, CUarray hArray), pArrayDescriptor,
              gwi_array, gwi_object_find(hArray, GWI_ARRAY), CUDA_ERROR_INVALID_HANDLE,
              ((CUDA_ARRAY_DESCRIPTOR){found->descriptor.Width, found->descriptor.Height, found->descriptor.Format,
                                       found->descriptor.NumChannels}))

/* --- pointers ------------------------------------------------------------------------------------------- */

static int pointer_attribute(void *data, int attribute, CUdeviceptr pointer)
{
    gwi_block *block = gwi_block_at(pointer);
    if (data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (block == NULL || block->freed)
        return CUDA_ERROR_INVALID_VALUE;
    bool host = gwi_is_host_block(block);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = (CUcontext)(block->context != NULL ? block->context : block->device->primary);
        return 0;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return 0;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = pointer;
        return 0;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && block->kind != GWI_BLOCK_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)pointer;
        return 0;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(int *)data = 0;
        return 0;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = block->id;
        return 0;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(int *)data = block->kind == GWI_BLOCK_MANAGED;
        return 0;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = (int)block->device->index;
        return 0;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)data = block->kind == GWI_BLOCK_DEVICE;
        return 0;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = block->range.base;
        return 0;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = (size_t)block->range.bytes;
        return 0;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)data = 1;
        return 0;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(uint64_t *)data = 0;
        return 0;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = (CUmemoryPool)block->pool;
        return 0;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

GWI_RETURN(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr ptr),
           pointer_attribute(data, (int)attribute, ptr))

/* For an unknown pointer, the call succeeds and every value is zero. */
GWI_API(cuPointerGetAttributes)
(unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
    if (attributes == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numAttributes; i++)
        if (pointer_attribute(data[i], (int)attributes[i], ptr) != 0 && data[i] != NULL) {
            int attribute = (int)attributes[i];
            bool is_int = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                          attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                          attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || attribute == CU_POINTER_ATTRIBUTE_MAPPED ||
                          attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
            if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
                *(int *)data[i] = -2;
            else
                memset(data[i], 0, is_int ? sizeof(int) : sizeof(void *));
        }
    return 0;
}

GWI_API(cuPointerSetAttribute)(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    const gwi_block *block = gwi_block_at(ptr);
    bool ok = value != NULL && block != NULL && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    return ok ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/* --- memory of other processes of the run --------------------------------------------------------------- */

/* Content of the 64 bytes of an IPC handle. When a block is exported, its pages move into a file in the run's
 * folder. */
typedef struct ipc_handle {
    char magic[8]; /* "GWVIPC1" */
    int32_t pid;
    uint32_t device;
    uint64_t id;     /* identifies the range of pages: its first address in the exporting process */
    uint64_t offset; /* offset of the block in that range */
    uint64_t bytes;  /* size of the block */
    uint64_t run_bytes;
} ipc_handle;

_Static_assert(sizeof(ipc_handle) <= sizeof(CUipcMemHandle), "a handle is 64 bytes");

static int ipc_path(char *path, size_t bytes, int pid, uint64_t id)
{
    return snprintf(path, bytes, "%s/ipc-%d-%llx", gwi.folder, pid, (unsigned long long)id) < (int)bytes;
}

/* Move the content of the pages that hold the block into a file, and map the file over them. */
static bool ipc_share(char *storage, uint64_t bytes, const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return access(path, F_OK) == 0; /* true if the block was already shared */
    bool ok = ftruncate(fd, (off_t)bytes) == 0;
    gwi_host_need(NULL, bytes);
    for (uint64_t at = 0; ok && at < bytes; at += (uint64_t)1 << 20)
        ok = pwrite(fd, storage + at, bytes - at < (1u << 20) ? bytes - at : 1u << 20, (off_t)at) >= 0;
    ok = ok && mmap(storage, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
    close(fd);
    if (!ok)
        unlink(path);
    return ok;
}

GWI_API(cuIpcGetMemHandle)(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    char path[4096];
    const gwi_block *block = gwi_block_at(dptr);
    if (pHandle == NULL || block == NULL || block->kind != GWI_BLOCK_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (gwi.folder == NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    uint64_t run = block->page != NULL ? block->page->base : block->range.base;
    ipc_handle handle = {.magic = "GWVIPC1",
                         .pid = getpid(),
                         .device = block->device->index,
                         .id = run,
                         .offset = block->range.base - run,
                         .bytes = block->range.bytes,
                         .run_bytes = block->page != NULL ? GW_PAGE_BYTES : gw_pages_own_bytes(block->range.bytes)};
    char *storage = block->device->arena.shadow + (run - block->device->arena.base);
    gwi.shares_memory = true;
    if (!ipc_path(path, sizeof path, handle.pid, run) || !ipc_share(storage, handle.run_bytes, path))
        return CUDA_ERROR_OPERATING_SYSTEM;
    memset(pHandle, 0, sizeof *pHandle);
    memcpy(pHandle, &handle, sizeof handle);
    return 0;
}

GWI_API(cuIpcOpenMemHandle_v2)(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    ipc_handle in;
    char path[4096];
    memcpy(&in, &handle, sizeof in);
    if (pdptr == NULL || (Flags & ~1u) != 0 || memcmp(in.magic, "GWVIPC1", 8) != 0 ||
        gwi_device_find((int)in.device) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (in.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* a real driver returns this for a handle of the same process */
    if (gwi.folder == NULL || !ipc_path(path, sizeof path, in.pid, in.id))
        return CUDA_ERROR_NOT_SUPPORTED;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    off_t file_bytes = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (file_bytes < 0 || (uint64_t)file_bytes < in.run_bytes || in.offset + in.bytes > in.run_bytes) {
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    gwi_block *block = calloc(1, sizeof *block);
    char *shadow = mmap(NULL, in.run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    char *addresses = mmap(NULL, in.run_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == NULL || shadow == MAP_FAILED || addresses == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->kind = GWI_BLOCK_IPC;
    block->device = gwi_device_find((int)in.device);
    block->context = gwi_current();
    block->generation = block->context->generation;
    block->storage = shadow + in.offset;
    block->range.base = (uintptr_t)addresses + in.offset;
    block->range.bytes = in.bytes;
    block->id = gwi.next_id++;
    gw_ranges_add(&gwi.blocks, &block->range);
    *pdptr = block->range.base;
    return 0;
}
GWI_ALIAS(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2);

GWI_API(cuIpcCloseMemHandle)(CUdeviceptr dptr)
{
    gwi_block *block = gwi_block_at(dptr);
    if (block == NULL || block->kind != GWI_BLOCK_IPC || block->range.base != dptr)
        return CUDA_ERROR_INVALID_VALUE;
    gwi_wait_device(block->device);
    block = gwi_block_at(dptr);
    if (block != NULL)
        gwi_block_free(block);
    return 0;
}

/* --- cuGetProcAddress ----------------------------------------------------------------------------------- */

/* Return the oldest driver version that has a function of this name. Returns 0 if there is none. */
static int oldest_version(const char *name)
{
    int oldest = 0;
    for (int i = 0; i < GW_API_ROUTE_COUNT; i++)
        if (strcmp(gw_api_routes[i].name, name) == 0 && (oldest == 0 || gw_api_routes[i].version < oldest))
            oldest = gw_api_routes[i].version;
    return oldest;
}

/* Return this library's own export, even if another driver library is loaded. */
static void *own_symbol(const char *symbol)
{
    static void *self;
    if (self == NULL) {
        Dl_info info;
        if (dladdr((const void *)&gwi, &info) != 0)
            self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }
    return self != NULL ? dlsym(self, symbol) : NULL;
}

static int resolve(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                   CUdriverProcAddressQueryResult *symbolStatus)
{
    int driver = GW_VIRT_DRIVER_VERSION;
    gwi_virt_cuDriverGetVersion(&driver);
    if (symbol == NULL || pfn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags != 0 && flags != 1 && flags != 2) {
        gwi_say("Invalid flags: 0x%llx", (unsigned long long)flags);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (cudaVersion > driver) {
        gwi_say("cudaVersion argument (%d) exceeds the driver version (%d)", cudaVersion, driver);
        return CUDA_ERROR_INVALID_VALUE;
    }
    int fn = gw_api_resolve(symbol, cudaVersion, flags == 2);
    void *address = fn >= 0 ? own_symbol(gw_api_fns[fn].symbol) : NULL;
    *pfn = address;
    int oldest = address == NULL ? oldest_version(symbol) : 0;
    int status = 1;
    if (address != NULL)
        status = 0;
    else if (oldest > cudaVersion && oldest <= driver)
        status = 2;
    if (symbolStatus != NULL)
        *symbolStatus = (CUdriverProcAddressQueryResult)status;
    return address != NULL || symbolStatus != NULL ? 0 : CUDA_ERROR_NOT_FOUND;
}

GWI_API(cuGetProcAddress_v2)
(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
    int result = resolve(symbol, pfn, cudaVersion, flags, symbolStatus);
    gwi_lock();
    return gwi_leave(result);
}

GWI_API(cuGetProcAddress)(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    int result = resolve(symbol, pfn, cudaVersion, flags, NULL);
    gwi_lock();
    return gwi_leave(result);
}

GWI_API(cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode *mode)
{
    if (mode == NULL || (unsigned)*mode > 2)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned before = gwi_self.capture_mode;
    gwi_self.capture_mode = (unsigned)*mode;
    *mode = (CUstreamCaptureMode)before;
    return 0;
}

GWI_RETURN(cuProfilerStart, (void), 0)
GWI_RETURN(cuProfilerStop, (void), 0)
