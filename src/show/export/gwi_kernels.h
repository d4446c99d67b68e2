/* Names of kernels by process and handle, from the recorded look-ups. At most GWI_KERNELS_MAX are kept. */
#ifndef GWI_KERNELS_H
#define GWI_KERNELS_H

#include "gw_recording.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GWI_KERNELS_MAX = 1 << 15 };

typedef struct gwi_kernel {
    uint64_t handle;
    uint32_t pid;
    char *name;    /* owned; NULL: a free place */
    uint64_t t_ns; /* when the handle first had this name; 0: it never had another one */
} gwi_kernel;

typedef struct gwi_kernels {
    gwi_kernel *item; /* owned; a hash table; NULL until the first kernel */
    size_t count;
} gwi_kernels;

void gwi_kernels_free(gwi_kernels *kernels);
/* Remember the name of a function, if the event (of kind FUNCTION) has one. The newest name of a handle counts, because
 * the driver uses handles of unloaded modules again. Returns false if there is no memory. */
bool gwi_kernels_add(gwi_kernels *kernels, const gw_event *event);
/* Return the name that the handle had at a time, or NULL if it is unknown. Valid until the next call of
 * gwi_kernels_add(). */
const char *gwi_kernels_find(const gwi_kernels *kernels, uint32_t pid, uint64_t handle, uint64_t t_ns);

#endif
