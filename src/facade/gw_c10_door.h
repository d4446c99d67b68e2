/* The second preloaded library, libgpuwhy-c10.so, to which PyTorch's allocator reports each allocation and free.
 *
 * libc10.so exports c10::reportMemoryUsageToProfiler and c10::reportOutOfMemoryToProfiler. libc10_cuda.so calls the
 * first through its PLT for each block that its native caching allocator allocates or frees, and the second for each
 * request that it refuses. This library is preloaded, so the loader binds these calls to its definitions instead of
 * PyTorch's own. It defines these two functions and one object of type gw_c10_door, and each function jumps to
 * the code that a pointer in this object points to. At first this is code that calls PyTorch's own function. Once the
 * hook is in the process, it is the hook, which then calls PyTorch's function itself.
 *
 * The library also defines chroot(): after a change of the root folder, it removes our libraries from the environment
 * if they do not exist in the new root (leave_root.c). In a program that neither uses PyTorch nor changes its root
 * folder, no function of this library is called. It has no constructor, no thread-local storage and no other symbol. */
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

/* PyTorch calls this after it allocated a block (`bytes` is positive) or freed one (negative). allocated_bytes and
 * reserved_bytes are the device's totals after the change. The caller holds the allocator's lock. */
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
    /* Look for libc10.so among the loaded libraries and store its two functions in next_usage and next_oom, unless
     * next_usage is already set. Takes the loader's lock and preserves errno. */
    void (*resolve)(void);
    gw_c10_usage_fn *usage_alone; /* initial values of `usage` and `oom`: only call PyTorch's own functions */
    gw_c10_oom_fn *oom_alone;
} gw_c10_door;

#endif
