/* The second preloaded library, libgpuwhy-c10.so: PyTorch's allocator reports every block to it.
 *
 * libc10.so exports c10::reportMemoryUsageToProfiler and c10::reportOutOfMemoryToProfiler. libc10_cuda.so calls the
 * first through its PLT for each block that its native caching allocator allocates or frees, and the second for each
 * request that it refuses. This library is preloaded, so the loader binds these calls to its definitions instead of
 * PyTorch's own. It defines these two functions and the object below, and each function jumps through a pointer
 * in this object. At first the pointer leads to code that passes the call on to PyTorch's own function. Once the
 * hook is in the process, the pointer leads to the hook, which passes the call on itself.
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
    int8_t type;  /* c10::DeviceType: 0 the host, 1 CUDA */
    int8_t index; /* -1: the current device */
} gw_c10_device;

/* A block was allocated (`bytes` is positive) or freed (negative). The totals include this event. PyTorch calls this
 * with the allocator's lock held. */
typedef void gw_c10_usage_fn(void *block, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes,
                             gw_c10_device device);
/* The allocator refused a request, after all its attempts to find memory failed. */
typedef void gw_c10_oom_fn(int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device);

typedef struct gw_c10_door {
    uint32_t version;
    uint32_t reserved;
    gw_c10_usage_fn *usage; /* where the two functions jump to; never NULL. The hook may change them at any time */
    gw_c10_oom_fn *oom;
    gw_c10_usage_fn *next_usage; /* PyTorch's own functions; NULL: not found, or not looked up yet */
    gw_c10_oom_fn *next_oom;
    /* Look for libc10.so among the loaded libraries, unless its functions were found before. Takes the loader's lock
     * and preserves errno. */
    void (*resolve)(void);
    gw_c10_usage_fn *usage_alone; /* the initial values of `usage` and `oom`, for calls without the hook */
    gw_c10_oom_fn *oom_alone;
} gw_c10_door;

#endif
