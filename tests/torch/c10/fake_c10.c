/* Replaces PyTorch's libc10.so. It only has the two functions that gpuwhy observes, and they count their calls. */
#include "fake_c10.h"
#include "gw_c10_door.h"

#include <stdatomic.h>

typedef struct fake_seen {
    _Atomic uint64_t usages, ooms, strange;
    _Atomic int64_t bytes_sum;
} fake_seen;

extern fake_seen fake_c10_seen;
fake_seen fake_c10_seen;

void usage(void *block, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes,
           gw_c10_device device) __asm__(GW_C10_USAGE);
void oom(int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device) __asm__(GW_C10_OOM);

/* Count a call, and check that all arguments arrived unchanged. */
void usage(void *block, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device)
{
    atomic_fetch_add(&fake_c10_seen.usages, 1);
    atomic_fetch_add(&fake_c10_seen.bytes_sum, bytes);
    if (block == NULL || reserved_bytes != fake_reserved(allocated_bytes) ||
        (device.type != 0 && device.type != GW_C10_CUDA))
        atomic_fetch_add(&fake_c10_seen.strange, 1);
}

void oom(int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device)
{
    atomic_fetch_add(&fake_c10_seen.ooms, 1);
    if (bytes <= 0 || reserved_bytes != fake_reserved(allocated_bytes) || device.type != GW_C10_CUDA)
        atomic_fetch_add(&fake_c10_seen.strange, 1);
}
