/* The GPU core dump that a card's driver writes when a kernel commits a fault and the environment asks for it: the same
 * tables as a real one's, filled from what the virtual card knows.
 *
 * As two dumps of a real card (driver 580) show: a failed assertion stops its warp, so grid, block and thread are
 * there; another fault is found when the warp has left, so the SM has the exception and its PC, and nothing more. Code
 * has made-up addresses: each kernel of the module one of its own. */
#ifndef GWI_DUMP_H
#define GWI_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_dump {
    const char *device_name;
    unsigned sm_count, capability[2];
    unsigned driver[2], cuda[2]; /* versions */
    int result;                  /* what the driver answers after the fault: 700, ... */
    const char *const *kernels;  /* of the module */
    size_t kernel_count, faulty; /* which of them */
    const char *file;            /* where it strikes; NULL: not known */
    unsigned line;
    unsigned grid[3], block[3];
    uint64_t context, function, module; /* handles */
    unsigned flags;                     /* CUCoredumpGenerationFlags */
    uint32_t time_s;                    /* since 1970 */
} gwi_dump;

enum { GWI_DUMP_SKIP_ABORT = 1 << 4 };

/* What the environment says: CUDA_ENABLE_COREDUMP_ON_EXCEPTION and CUDA_COREDUMP_GENERATION_FLAGS. */
bool gwi_dump_wanted(unsigned *ret_flags);
/* The exception behind a result; 0: none is known, as for a trap: then no dump is written. */
unsigned gwi_dump_exception(int result);
/* CUDA_COREDUMP_FILE with %h, %p and %t filled in. False: it does not fit. */
bool gwi_dump_path(char *out, size_t bytes_max);
/* False: the file could not be written; what there was of it is gone. */
bool gwi_dump_write(const char *path, const gwi_dump *dump);

#endif
