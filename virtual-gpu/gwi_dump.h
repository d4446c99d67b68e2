/* The GPU core dump that a driver writes when a kernel faults and the environment requests it. The tables are those of
 * a real dump.
 *
 * On a real GPU (driver 580), the content depends on the fault:
 * - A failed assertion stops its warp, so the dump has the grid, block and thread.
 * - Other faults are detected after the warp has left the SM. The dump has only the SM's exception and its PC.
 *
 * Code addresses are made up. */
#ifndef GWI_DUMP_H
#define GWI_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_dump {
    const char *device_name;
    unsigned sm_count, capability[2];
    unsigned driver[2], cuda[2]; /* versions: major, minor */
    int result;                  /* the driver's result after the fault, such as 700 */
    const char *const *kernels;  /* the kernels of the module */
    size_t kernel_count, faulty; /* faulty: index of the kernel with the fault */
    const char *file;            /* source file of the fault; NULL if not known */
    unsigned line;
    unsigned grid[3], block[3];
    uint64_t context, function, module; /* handles */
    unsigned flags;                     /* CUCoredumpGenerationFlags */
    uint32_t time_s;                    /* Unix time */
} gwi_dump;

enum { GWI_DUMP_SKIP_ABORT = 1 << 4 };

/* True if CUDA_ENABLE_COREDUMP_ON_EXCEPTION requests a dump. *ret_flags is set from CUDA_COREDUMP_GENERATION_FLAGS. */
bool gwi_dump_wanted(unsigned *ret_flags);
/* Return the exception code that a dump has for a CUDA result. Returns 0 if no code is known, for example for a trap;
 * then no dump is written. */
unsigned gwi_dump_exception(int result);
/* Expand %h, %p and %t in CUDA_COREDUMP_FILE. Returns false if the path does not fit. */
bool gwi_dump_path(char *out, size_t bytes_max);
/* Write the dump. On failure, remove the partial file and return false. */
bool gwi_dump_write(const char *path, const gwi_dump *dump);

#endif
