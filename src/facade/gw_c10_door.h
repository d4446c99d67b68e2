/* The second preloaded library, libgpuwhy-c10.so: PyTorch's allocator tells it of every block.
 *
 * libc10.so exports c10::reportMemoryUsageToProfiler and c10::reportOutOfMemoryToProfiler, and libc10_cuda.so calls
 * them through its PLT for each block that its native caching allocator hands out or takes back, with the allocator's
 * lock held. A preloaded definition is bound instead of PyTorch's own. The library defines the two, and nothing else
 * but the object below. Each call jumps through a pointer of this object: at first to code that only passes the call on
 * to PyTorch's own definition, and, once the hook is in the process, to the hook, which then passes it on itself.
 *
 * In a program without PyTorch nobody calls it: it has no constructor, no thread-local storage and no other symbol. */
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
    int8_t index; /* -1: the current one */
} gw_c10_device;

/* A block was handed out (`bytes` positive) or taken back (negative); the totals are those after it. */
typedef void gw_c10_usage_fn(void *block, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes,
                             gw_c10_device device);
/* A request was refused, whatever the allocator tried. */
typedef void gw_c10_oom_fn(int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device);

typedef struct gw_c10_door {
    uint32_t version;
    uint32_t reserved;
    gw_c10_usage_fn *usage; /* where the two names lead; never NULL. Written by the hook, at any time */
    gw_c10_oom_fn *oom;
    gw_c10_usage_fn *next_usage; /* PyTorch's own; NULL: not found, or not looked for yet */
    gw_c10_oom_fn *next_oom;
    /* Look for libc10.so among the libraries that are loaded, unless it was found before. Takes the loader's lock;
     * keeps errno. */
    void (*resolve)(void);
    gw_c10_usage_fn *usage_alone; /* what `usage` holds without the hook */
    gw_c10_oom_fn *oom_alone;
} gw_c10_door;

#endif
