/* Reads GPU core dumps. The driver writes such a file if a kernel faults and CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 is
 * set.
 *
 * A dump is an ELF64 file (OS ABI 0x33, machine 190, type core). Some of its sections are tables of devices, SMs,
 * blocks, warps and lanes. For these, sh_link is the index of the parent table, and sh_info is a row in the parent
 * table. Other sections contain the loaded code, as ELF images with the addresses on the device. Newer drivers may
 * write longer rows; sh_entsize is the length of a row. Source of the layout: NVIDIA's cudacoredump.h (BSD), and files
 * of driver 580.
 *
 * The tables have no checksums, so they are checked against each other: names must match types and links, sections
 * must not overlap, and sizes must be multiples of the row length. A file that fails a check is refused. A value that
 * is missing in the file is reported as unknown, never as zero. For example, if a warp left its SM before its fault
 * was detected, block and thread are unknown.
 *
 * Each call runs in one thread, and calls share no state. */
#ifndef GW_GPUCORE_H
#define GW_GPUCORE_H

#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_GPUCORE_FAULTS_MAX = 32 };

/* An exception at one place. It is counted once for each thread that has the exception there or, if the threads have
 * already left their SM, once for each SM that recorded it. */
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

/* Read a dump. `name` is used only in error texts. GW_OK: free *ret_core with gw_gpucore_free(). GW_CORRUPT: the file
 * is damaged or not a GPU core dump. GW_UNSUPPORTED: the file is compressed. GW_IO, GW_NOMEM. On failure, `err`
 * contains the name of the file, the damaged section if there is one, and the reason. */
GW_MUST_CHECK gw_status gw_gpucore_read(int fd, const char *name, gw_gpucore **ret_core, gw_error *err);
void gw_gpucore_free(gw_gpucore *core); /* NULL is allowed */

/* Return the name of an exception, such as "WARP_ILLEGAL_ADDRESS" (static). For an unknown number such as 77, writes
 * "EXCEPTION_77" to `out` and returns `out`. */
enum { GW_GPUCORE_NAME_MAX = 40 };
const char *gw_gpucore_exception_name(char out[GW_GPUCORE_NAME_MAX], uint32_t exception);
/* Return the CUresult of driver calls after the exception, such as 700, 710 or 716. Returns 719 (unspecified launch
 * failure) for an unknown exception. */
uint16_t gw_gpucore_exception_result(uint32_t exception);

#endif
