/* The virtual GPU's specification: the known GPU models as data, and the text that a user writes:
 *
 *     [COUNTx]CARD[,memory=SIZE][,driver=VERSION][,hostmem=SIZE][,host=SIZE][,fault=FAULT]...
 *
 *     2xh200,memory=16GiB,fault=oom-at:12
 *
 * Functions in this header do not allocate, lock or keep state. A specification may be copied freely.
 * docs/virtual-gpu.md describes the options. */
#ifndef GW_VIRT_SPEC_H
#define GW_VIRT_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gw_status.h"

enum {
    GW_VIRT_DEVICES_MAX = 16,
    GW_VIRT_FAULTS_MAX = 16,
    GW_VIRT_ATTRIBUTES_MAX = 160,
    GW_VIRT_DRIVER_VERSION = 13000
};

/* The exit status of a process that the virtual card has ended because the host's memory was used up, and the first
 * word of the line in `notes` about it. */
enum { GW_VIRT_EXIT_HOST = 124 };
#define GW_VIRT_NOTE_HOST "host-memory" /* a blank, the folder of the run, a colon and the amounts follow */

/* Values that a GPU's sensors and its board report to NVML. 0: this GPU does not have the value. */
typedef struct gw_virt_board {
    uint64_t reserved_bytes; /* included in NVML's total, but not in cuDeviceTotalMem */
    uint64_t bar1_bytes;
    uint64_t power_idle_mw, power_busy_mw, power_limit_mw, power_min_mw;
    uint64_t temperature_idle, temperature_busy; /* all temperatures: degrees Celsius */
    uint64_t temperature_slowdown, temperature_shutdown, temperature_gpu_max, temperature_memory_max;
    uint64_t clock_idle_mhz; /* of the SMs; the highest clocks are device attributes 13 (SMs) and 36 (memory) */
    uint64_t link_generation, link_lanes;
    uint64_t nvlink_count;
    uint64_t pci_id, pci_subsystem_id; /* device << 16 | vendor */
    uint64_t cores_per_sm;
    uint64_t fan_count;
    uint64_t has_ecc, has_row_remap;
} gw_virt_board;

/* One GPU model. The sizes in bytes were measured on a real GPU. */
typedef struct gw_virt_card {
    char name[96];               /* as returned by cuDeviceGetName */
    uint64_t memory_bytes;       /* as returned by cuDeviceTotalMem */
    uint64_t context_bytes;      /* used by a process's first context */
    uint64_t context_next_bytes; /* used by each further context */
    uint64_t stream_bytes;       /* used by each stream */
    int attributes[GW_VIRT_ATTRIBUTES_MAX];
    bool attributes_known[GW_VIRT_ATTRIBUTES_MAX];
    gw_virt_board board;
} gw_virt_card;

typedef enum gw_virt_fault_kind {
    GW_VIRT_FAULT_OOM_AT, /* the count-th allocation of device memory fails */
    GW_VIRT_FAULT_INIT,   /* cuInit returns `code` */
    GW_VIRT_FAULT_CALL,   /* the count-th call of `name` returns `code` */
    GW_VIRT_FAULT_KERNEL, /* every launch of kernel `name` fails with `code` (enum gw_kernel_fault) */
    GW_VIRT_FAULT_LAUNCH, /* the count-th launch fails with `code` */
    GW_VIRT_FAULT_CARD    /* the GPU itself fails with `code` (gw_virt_card_fault); see `when` */
} gw_virt_fault_kind;

/* Faults of the GPU itself, independent of the program that uses it. The program's calls and NVML both report them. */
typedef enum gw_virt_card_fault {
    GW_VIRT_CARD_XID, /* values[0]: the Xid number */
    GW_VIRT_CARD_LOST,
    GW_VIRT_CARD_ECC, /* an uncorrectable ECC error */
    GW_VIRT_CARD_THERMAL,
    GW_VIRT_CARD_POWER_CAP,
    GW_VIRT_CARD_POWER_BRAKE,
    GW_VIRT_CARD_LINK, /* values[0]: PCIe generation, values[1]: lanes */
    GW_VIRT_CARD_FAULT_COUNT
} gw_virt_card_fault;

typedef enum gw_virt_when {
    GW_VIRT_WHEN_TIME,  /* after_ns after the GPUs were first used */
    GW_VIRT_WHEN_CALL,  /* before a process's count-th call of `name` */
    GW_VIRT_WHEN_LAUNCH /* when a process's count-th launch starts */
} gw_virt_when;

typedef struct gw_virt_fault {
    gw_virt_fault_kind kind;
    int code;
    uint64_t count;
    char name[96];
    gw_virt_when when; /* this field and the following ones are used only for GW_VIRT_FAULT_CARD */
    unsigned card;
    unsigned values[2];
    uint64_t after_ns;
} gw_virt_fault;

typedef struct gw_virt_spec {
    unsigned device_count;
    gw_virt_card card; /* with `memory=` already applied */
    int driver_version;
    uint64_t host_bytes_max; /* page-locked host memory; UINT64_MAX: no limit */
    uint64_t host_bytes;     /* a process may take so much of the host's memory; UINT64_MAX: what the host has */
    unsigned fault_count;
    gw_virt_fault faults[GW_VIRT_FAULTS_MAX];
} gw_virt_spec;

/* Parse `text`. If it is invalid, returns GW_USAGE: `err` names the wrong word and what is allowed, and *ret_spec
 * is unchanged. */
GW_MUST_CHECK gw_status gw_virt_spec_parse(const char *text, gw_virt_spec *ret_spec, gw_error *err);

/* Return the name of a known card; NULL: there are no more. Static. */
const char *gw_virt_card_name(size_t index);

/* Check `text` without returning the result. The errors are those of gw_virt_spec_parse(). */
GW_MUST_CHECK gw_status gw_virt_spec_check(const char *text, gw_error *err);

#endif
