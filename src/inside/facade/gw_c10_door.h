/* The second preloaded library, libgpuwhy-c10.so. PyTorch's allocator reports each allocation and free to it.
 *
 * libc10.so exports two functions, which libc10_cuda.so calls through its PLT:
 * - c10::reportMemoryUsageToProfiler, for each block that its native caching allocator allocates or frees;
 * - c10::reportOutOfMemoryToProfiler, for each request that the allocator refuses.
 *
 * This library defines both functions, so the loader binds these calls to ours instead of PyTorch's. Ours jump to the
 * code that a pointer in the library's gw_c10_door points to (`usage` or `oom`). At first, this code only calls
 * PyTorch's own function. Later, it is a function of the hook, which then calls PyTorch's.
 *
 * The library also defines chroot(). After a change of the root folder, it removes our libraries from the environment
 * if they do not exist in the new root (leave_root.c). It defines prctl(), to stop recording in time (gw_quiet_door.h).
 * Its constructor loads the driver if the program is linked to it (early.c).
 *
 * A program that uses none of these calls nothing here. The library has no thread-local storage and no other
 * symbol. */
#ifndef GW_C10_DOOR_H
#define GW_C10_DOOR_H

#include <stddef.h>
#include <stdint.h>

#define GW_C10_DOOR_FILE "libgpuwhy-c10.so"
#define GW_C10_USAGE     "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define GW_C10_OOM       "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"

enum { GW_C10_DOOR_VERSION = 1, GW_C10_CUDA = 1 };

/* c10::Device: two bytes, passed in a register. */
typedef struct gw_c10_device {
    int8_t type;  /* c10::DeviceType: 0 host, 1 CUDA */
    int8_t index; /* -1: the current device */
} gw_c10_device;

/* PyTorch calls this after it allocated a block (`bytes` is positive) or freed one (negative), with the allocator's
 * lock held. The totals of the device include the change. */
typedef void gw_c10_usage_fn(void *block, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes,
                             gw_c10_device device);
/* PyTorch calls this when its allocator refuses a request, after all its attempts to find memory failed. */
typedef void gw_c10_oom_fn(int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device);

typedef struct gw_c10_door {
    uint32_t version;
    uint32_t reserved;
    gw_c10_usage_fn *usage; /* targets of the two functions; never NULL; the hook may change them at any time */
    gw_c10_oom_fn *oom;
    gw_c10_usage_fn *next_usage; /* PyTorch's own functions; NULL: not found, or not looked up yet */
    gw_c10_oom_fn *next_oom;
    /* Store libc10.so's two functions in next_usage and next_oom, unless next_usage is set. Takes the loader's lock and
     * preserves errno. */
    void (*resolve)(void);
    gw_c10_usage_fn *usage_alone; /* initial values of `usage` and `oom`: only call PyTorch's own functions */
    gw_c10_oom_fn *oom_alone;
} gw_c10_door;

#endif
