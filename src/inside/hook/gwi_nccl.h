/* NCCL's calls: the wrappers (nccl.c), and how the program comes to call them (nccl_slots.c).
 *
 * Nothing is preloaded for NCCL, and no name of NCCL becomes visible. A program without NCCL, one that tests for
 * functions with weak references, and one with an older NCCL find what they find without gpuwhy. NCCL's calls of its
 * own functions are never seen. */
#ifndef GWI_NCCL_H
#define GWI_NCCL_H

#include "gw_nccl_abi.h"
#include "gwi_hook.h"

/* The functions of gw_nccl_abi.h. The first GWI_NCCL_WRAPPED have wrappers. */
typedef enum gwi_nccl_fn {
#define GW_X(name, ...) GWI_##name,
    GW_NCCL_WORK(GW_X) GW_NCCL_OTHER_WORK(GW_X) GW_NCCL_CONTROL(GW_X) GWI_NCCL_WRAPPED,
    GWI_NCCL_BEFORE_QUERIES = GWI_NCCL_WRAPPED - 1,
    GW_NCCL_QUERIES(GW_X)
#undef GW_X
        GWI_NCCL_FN_COUNT
} gwi_nccl_fn;

/* A process may contain two copies of NCCL at a time, such as PyTorch's and the system's. Calls of a third one are not
 * seen. */
enum { GWI_NCCL_LIBRARIES = 2 };

typedef struct gwi_nccl_library {
    uintptr_t base, low, high;   /* low, high: its first mapped byte, and one past the last; high 0: a free place */
    void *fn[GWI_NCCL_FN_COUNT]; /* NULL: it does not have the function */
} gwi_nccl_library;

extern GWI_HIDDEN gwi_nccl_library gwi_nccl[GWI_NCCL_LIBRARIES];
typedef void *const gwi_nccl_table[GWI_NCCL_LIBRARIES][GWI_NCCL_WRAPPED];

/* nccl.c. Record the calls of NCCL from now on. Call without our locks, when a facade was attached. */
void gwi_nccl_begin(void);

/* nccl_slots.c. Look for NCCL and its users among the loaded files, and lead their calls to these wrappers. The same
 * table each time. */
void gwi_nccl_look(const gwi_nccl_table *wrappers);
/* Call these around a fork, in the parent. */
void gwi_nccl_before_fork(void);
void gwi_nccl_after_fork(void);

#endif
