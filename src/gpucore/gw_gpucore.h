/* GPU core dumps: the files that the driver writes when a kernel commits a fault and
 * CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 is set.
 *
 * Such a file is an ELF64 file (OS ABI 0x33, machine 190, type core) whose sections are tables: devices, SMs, blocks,
 * warps and lanes, linked by sh_link (the parent's table) and sh_info (the row in it), and the loaded code as ELF
 * images with the addresses it has on the device. Rows grow with the driver's version; sh_entsize says how long they
 * are. Source of the layout: NVIDIA's cudacoredump.h (BSD), and files of driver 580.
 *
 * The tables have no checksums, so they are checked against each other: names against types and links, no two sections
 * share bytes, rows fit their counts. What does not fit is refused. What the file does not say is unknown, never zero:
 * a fault that was found after its warp had left has no block and no thread.
 *
 * One thread a call; nothing is shared between calls. */
#ifndef GW_GPUCORE_H
#define GW_GPUCORE_H

#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_GPUCORE_FAULTS_MAX = 32 };

/* Threads that met the same exception at the same place; or an SM that reports one whose threads have left. */
typedef struct gw_gpucore_fault {
    uint32_t exception; /* CUDBGException_t */
    uint32_t device;    /* row of the device table */
    uint32_t sm;        /* of the first of them */
    uint64_t count;     /* threads; SMs where !has_thread */
    bool has_thread;    /* block and thread are the first one's */
    uint32_t warp, lane;
    uint32_t block[3], thread[3];
    bool has_pc;
    uint64_t pc;
    char *kernel;    /* owned; mangled; NULL: unknown */
    char *function;  /* owned; the function that `pc` lies in, the kernel or one it calls; NULL: unknown */
    uint64_t offset; /* of `pc` in `function`, bytes */
    bool has_grid;
    uint32_t grid_dim[3], block_dim[3];
    char *file;    /* owned; the source line of `pc`; NULL: the image has no line information for it */
    uint32_t line; /* 0: unknown */
} gw_gpucore_fault;

typedef struct gw_gpucore {
    char *device_name; /* owned; of the first fault's device, else of the first; NULL: unknown */
    char *device_sm;   /* owned; "sm_90" */
    uint32_t driver_version[2], cuda_version[2];
    bool has_version;
    bool has_flags;
    uint32_t flags;                                /* CUCoredumpGenerationFlags */
    uint64_t image_count;                          /* loaded images with their addresses */
    uint64_t grid_count;                           /* rows of the grid tables */
    uint64_t faults_beyond;                        /* places that no longer fitted */
    size_t fault_count;                            /* 0: the dump holds no exception */
    gw_gpucore_fault fault[GW_GPUCORE_FAULTS_MAX]; /* threads first, then SMs; the most frequent first */
} gw_gpucore;

/* CUCoredumpGenerationFlags: exceptions do not end the process. */
enum { GW_GPUCORE_SKIP_ABORT = 1 << 4 };

/* Read the file. `name` is for errors.
 * GW_OK: *ret_core is the caller's, freed by gw_gpucore_free(). GW_CORRUPT: it is damaged or no GPU core dump; GW_IO;
 * GW_NOMEM; GW_UNSUPPORTED: compressed. `err` names file, place and reason. */
GW_MUST_CHECK gw_status gw_gpucore_read(int fd, const char *name, gw_gpucore **ret_core, gw_error *err);
void gw_gpucore_free(gw_gpucore *core); /* takes NULL */

/* "WARP_ILLEGAL_ADDRESS"; "EXCEPTION_77" for one newer than this build, written to `out`. */
enum { GW_GPUCORE_NAME_MAX = 40 };
const char *gw_gpucore_exception_name(char out[GW_GPUCORE_NAME_MAX], uint32_t exception);
/* What the driver's calls answer after it: 700, 710, 716, ...; 719, unspecified, for unknown ones. */
uint16_t gw_gpucore_exception_result(uint32_t exception);

#endif
