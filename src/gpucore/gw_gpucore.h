/* Reads GPU core dumps: the files that the driver writes when a kernel faults and CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1
 * is set.
 *
 * A dump is an ELF64 file (OS ABI 0x33, machine 190, type core) whose sections are tables: devices, SMs, blocks, warps
 * and lanes, linked by sh_link (the parent's table) and sh_info (the row in it), and the loaded code as ELF images with
 * their addresses on the device. Newer drivers may write longer rows; sh_entsize is the length of a row. Source of the
 * layout: NVIDIA's cudacoredump.h (BSD), and files of driver 580.
 *
 * The tables have no checksums, so they are checked against each other: names match types and links, no two sections
 * share bytes, rows fit their counts. A file that fails a check is refused. A value that is not in the file is unknown,
 * never zero: a fault detected after its warp had left has no block and no thread.
 *
 * Each call runs in one thread. Calls share no state. */
#ifndef GW_GPUCORE_H
#define GW_GPUCORE_H

#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_GPUCORE_FAULTS_MAX = 32 };

/* Threads with the same exception at the same place, or an SM that records an exception whose threads have left. */
typedef struct gw_gpucore_fault {
    uint32_t exception; /* CUDBGException_t */
    uint32_t device;    /* row of the device table */
    uint32_t sm;        /* of the first thread */
    uint64_t count;     /* number of threads; of SMs if !has_thread */
    bool has_thread;    /* block and thread are those of the first thread */
    uint32_t warp, lane;
    uint32_t block[3], thread[3];
    bool has_pc;
    uint64_t pc;
    char *kernel;    /* owned; mangled; NULL: unknown */
    char *function;  /* owned; the function that contains `pc`, i.e. the kernel or a function it calls; NULL: unknown */
    uint64_t offset; /* offset of `pc` in `function`, bytes */
    bool has_grid;
    uint32_t grid_dim[3], block_dim[3];
    char *file;    /* owned; the source line of `pc`; NULL: the image has no line information for it */
    uint32_t line; /* 0: unknown */
} gw_gpucore_fault;

typedef struct gw_gpucore {
    char *device_name; /* owned; device of the first fault, else the first device; NULL: unknown */
    char *device_sm;   /* owned; "sm_90" */
    uint32_t driver_version[2], cuda_version[2];
    bool has_version;
    bool has_flags;
    uint32_t flags;                                /* CUCoredumpGenerationFlags */
    uint64_t image_count;                          /* number of loaded images with addresses */
    uint64_t grid_count;                           /* rows of the grid tables */
    uint64_t faults_beyond;                        /* number of fault places beyond the limit */
    size_t fault_count;                            /* 0: the dump holds no exception */
    gw_gpucore_fault fault[GW_GPUCORE_FAULTS_MAX]; /* faults with threads first, then those of SMs, each by
                                                    * decreasing count */
} gw_gpucore;

/* A flag of CUCoredumpGenerationFlags: exceptions do not end the process. */
enum { GW_GPUCORE_SKIP_ABORT = 1 << 4 };

/* Read a dump. `name` is used in error texts. GW_OK: the caller frees *ret_core with gw_gpucore_free(). GW_CORRUPT:
 * damaged or not a GPU core dump; GW_IO; GW_NOMEM; GW_UNSUPPORTED: compressed.
 * `err` names file, place and reason. */
GW_MUST_CHECK gw_status gw_gpucore_read(int fd, const char *name, gw_gpucore **ret_core, gw_error *err);
void gw_gpucore_free(gw_gpucore *core); /* takes NULL */

/* "WARP_ILLEGAL_ADDRESS"; static. For an exception newer than this build, "EXCEPTION_77" is written to `out` and
 * `out` is returned. */
enum { GW_GPUCORE_NAME_MAX = 40 };
const char *gw_gpucore_exception_name(char out[GW_GPUCORE_NAME_MAX], uint32_t exception);
/* The result of driver calls after the exception: 700, 710, 716, ...; 719 (unspecified) for unknown exceptions. */
uint16_t gw_gpucore_exception_result(uint32_t exception);

#endif
