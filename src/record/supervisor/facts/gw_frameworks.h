/* Finds frameworks that cache device memory in a process. Keeps no state; any thread may call it. */
#ifndef GW_FRAMEWORKS_H
#define GW_FRAMEWORKS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    GW_FRAMEWORK_TORCH = 1, /* PyTorch with CUDA */
    /* TensorFlow or JAX: they take three quarters, or all, of a card at the start, and hand it out themselves */
    GW_FRAMEWORK_GREEDY = 2
};

/* Store which frameworks are mapped in a process, as a sum of the constants above. Returns false if its mapped files
 * cannot be read: it has ended, or it belongs to somebody else. Reads /proc/PID/maps, which has thousands of lines in a
 * Python process and holds up its mmap() meanwhile, so do not call it often. */
bool gw_frameworks_find(uint32_t pid, unsigned *ret_found);

#endif
