/* Replaces PyTorch's libc10_cuda.so. Its allocator only adds up bytes, and reports to libc10.so through the PLT, as the
 * real one does. */
#include "fake_c10.h"
#include "gw_c10_door.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

void usage(void *block, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes,
           gw_c10_device device) __asm__(GW_C10_USAGE);
void oom(int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device) __asm__(GW_C10_OOM);
void fake_block(uint64_t address, int64_t bytes, int device);
void fake_host_block(uint64_t address, int64_t bytes);
void fake_refuse(int64_t bytes, int device);
void fake_event(uint64_t address, int64_t bytes, uint64_t allocated_bytes, uint64_t reserved_bytes);
int fake_segment(uint64_t *ret_address, uint64_t bytes);
int fake_segment_end(uint64_t address);

static _Atomic uint64_t allocated[16];

void fake_block(uint64_t address, int64_t bytes, int device)
{
    uint64_t now = atomic_fetch_add(&allocated[device], (uint64_t)bytes) + (uint64_t)bytes;
    usage((void *)(uintptr_t)address, bytes, now, fake_reserved(now), (gw_c10_device){GW_C10_CUDA, (int8_t)device});
}

void fake_host_block(uint64_t address, int64_t bytes)
{
    usage((void *)(uintptr_t)address, bytes, 0, fake_reserved(0), (gw_c10_device){0, -1});
}

void fake_refuse(int64_t bytes, int device)
{
    uint64_t now = atomic_load(&allocated[device]);
    oom(bytes, now, fake_reserved(now), (gw_c10_device){GW_C10_CUDA, (int8_t)device});
}

/* Report an event of device 0 with any totals. */
void fake_event(uint64_t address, int64_t bytes, uint64_t allocated_bytes, uint64_t reserved_bytes)
{
    usage((void *)(uintptr_t)address, bytes, allocated_bytes, reserved_bytes, (gw_c10_device){GW_C10_CUDA, 0});
}

/* Return a function of the driver, which the program has opened. */
static void *driver_name(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver == NULL ? NULL : dlsym(driver, name);
}

/* Request a segment from the driver. The request's call site is in this library, as it is in the real one. Returns the
 * driver's result. The barrier keeps the compiler from ending this function before the driver's. */
int fake_segment(uint64_t *ret_address, uint64_t bytes)
{
    int (*allocate)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))driver_name("cuMemAlloc_v2");
    int result = allocate == NULL ? 1 : allocate(ret_address, bytes);
    atomic_signal_fence(memory_order_seq_cst);
    return result;
}

int fake_segment_end(uint64_t address)
{
    int (*release)(uint64_t) = (int (*)(uint64_t))driver_name("cuMemFree_v2");
    int result = release == NULL ? 1 : release(address);
    atomic_signal_fence(memory_order_seq_cst);
    return result;
}
