/* Reads GPU core dumps. The driver writes one if a kernel faults and CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 is set.
 *
 * A dump is an ELF64 file (OS ABI 0x33, machine 190, type core). It has two kinds of sections:
 * - Tables of devices, SMs, blocks, warps and lanes. sh_link is the index of the parent table, and sh_info is a row in
 *   it. sh_entsize is the length of a row; newer drivers may write longer rows.
 * - The loaded code, as ELF images with the addresses on the device.
 * The layout is from NVIDIA's cudacoredump.h (BSD) and from files of driver 580.
 *
 * The tables have no checksums, so they are checked against each other. A file is refused if:
 * - a name does not match a type or link;
 * - sections overlap;
 * - a size is not a multiple of the row length.
 * A missing value is reported as unknown, never as zero. For example, a warp may leave its SM before its fault is
 * detected. Block and thread are then unknown.
 *
 * Calls share no state. */
#ifndef GW_GPUCORE_H
#define GW_GPUCORE_H

#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_GPUCORE_FAULTS_MAX = 32 };

/* An exception at one PC. `count` is the number of threads that have it. If the threads have left their SM, it is the
 * number of SMs. */
typedef struct gw_gpucore_fault {
    uint32_t exception; /* CUDBGException_t */
    uint32_t device;    /* row in the table of devices */
    uint32_t sm;        /* the SM of the first thread, or the first SM if !has_thread */
    uint64_t count;     /* number of threads; number of SMs if !has_thread */
    bool has_thread;    /* warp, lane, block and thread are known; they are those of the first thread */
    uint32_t warp, lane;
    uint32_t block[3], thread[3];
    bool has_pc;
    uint64_t pc;
    char *kernel;   /* owned; mangled name; NULL: unknown */
    char *function; /* owned; the function that contains `pc`: the kernel, or a function that it calls; NULL: unknown */
    uint64_t offset; /* offset of `pc` in `function`, in bytes */
    bool has_grid;
    uint32_t grid_dim[3], block_dim[3];
    char *file;    /* owned; source file of `pc`; NULL: the image has no line information for `pc` */
    uint32_t line; /* 0: unknown */
} gw_gpucore_fault;

typedef struct gw_gpucore {
    char *device_name; /* owned; name of the device with the first fault, or of the first device if there is no fault;
                          NULL: unknown */
    char *device_sm;   /* owned; architecture of the same device, such as "sm_90"; NULL: unknown */
    uint32_t driver_version[2], cuda_version[2];
    bool has_version;
    bool has_flags;
    uint32_t flags;         /* CUCoredumpGenerationFlags */
    uint64_t image_count;   /* number of loaded images */
    uint64_t grid_count;    /* number of grids in all tables */
    uint64_t faults_beyond; /* number of faults that did not fit into `fault` */
    size_t fault_count;     /* 0: the dump contains no exception */
    /* Faults with threads come first, then those without. Both groups are sorted by decreasing count. */
    gw_gpucore_fault fault[GW_GPUCORE_FAULTS_MAX];
} gw_gpucore;

/* A flag of CUCoredumpGenerationFlags: an exception does not end the process. */
enum { GW_GPUCORE_SKIP_ABORT = 1 << 4 };

/* Read a dump. `name` is used only in error texts. On failure, `err` has the file's name, the damaged section if there
 * is one, and the reason. Results besides GW_IO and GW_NOMEM:
 * - GW_OK: free *ret_core with gw_gpucore_free().
 * - GW_CORRUPT: the file is damaged or not a GPU core dump.
 * - GW_UNSUPPORTED: the file is compressed. */
GW_MUST_CHECK gw_status gw_gpucore_read(int fd, const char *name, gw_gpucore **ret_core, gw_error *err);
void gw_gpucore_free(gw_gpucore *core); /* NULL is allowed */

/* Return the name of an exception, such as "WARP_ILLEGAL_ADDRESS" (static). For an unknown number such as 77, writes
 * "EXCEPTION_77" to `out` and returns `out`. */
enum { GW_GPUCORE_NAME_MAX = 40 };
const char *gw_gpucore_exception_name(char out[GW_GPUCORE_NAME_MAX], uint32_t exception);
/* Return the CUresult that driver calls return after the exception, such as 700. It is 719 (unspecified launch failure)
 * for an unknown exception. */
uint16_t gw_gpucore_exception_result(uint32_t exception);

#endif
