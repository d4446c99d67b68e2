/* Replaces PyTorch's libc10_cuda.so. Its allocator only adds up bytes, and reports to libc10.so through the PLT, as the
 * real one does. */
#include "gw_c10_door.h"

#include <stdatomic.h>

void usage(void *block, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes,
           gw_c10_device device) __asm__(GW_C10_USAGE);
void oom(int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device) __asm__(GW_C10_OOM);
void fake_block(uint64_t address, int64_t bytes, int device);
void fake_host_block(uint64_t address, int64_t bytes);
void fake_refuse(int64_t bytes, int device);

static _Atomic uint64_t allocated[16];

void fake_block(uint64_t address, int64_t bytes, int device)
{
    uint64_t now = atomic_fetch_add(&allocated[device], (uint64_t)bytes) + (uint64_t)bytes;
    usage((void *)(uintptr_t)address, bytes, now, now + 12345, (gw_c10_device){GW_C10_CUDA, (int8_t)device});
}

void fake_host_block(uint64_t address, int64_t bytes)
{
    usage((void *)(uintptr_t)address, bytes, 0, 12345, (gw_c10_device){0, -1});
}

void fake_refuse(int64_t bytes, int device)
{
    uint64_t now = atomic_load(&allocated[device]);
    oom(bytes, now, now + 12345, (gw_c10_device){GW_C10_CUDA, (int8_t)device});
}
