/* The state of a run in progress, for `gpuwhy watch` and `gpuwhy who`: a small file in the run folder that the
 * supervisor replaces about once a second. It is not part of the recording and disappears with the run folder.
 *
 * A reader must be able to trust nothing in the file: gw_live_read() checks owner, size, version, checksum, counts and
 * texts. Numbers may still be wrong. Times are CLOCK_MONOTONIC ns. The functions keep no state; any thread may call
 * them. */
#ifndef GW_LIVE_H
#define GW_LIVE_H

#include "gw_status.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define GW_LIVE_NAME "live"

enum { GW_LIVE_VERSION = 2, GW_LIVE_DEVICES_MAX = 16, GW_LIVE_PIDS_MAX = 256 };

/* The memory of the run's processes on one device, by CUDA's number. */
typedef struct gw_live_device {
    uint64_t live_bytes;                      /* allocated through the driver and not freed */
    uint64_t reserved_bytes, allocated_bytes; /* of PyTorch's allocator; reserved 0: not used, or not known */
    uint64_t kept_bytes;                      /* live, without what PyTorch only caches */
    uint64_t total_bytes;                     /* the device's memory; 0: unknown */
    uint64_t limit_bytes;                     /* what the program can use (--memory); 0: unknown */
    uint64_t bytes_per_minute, full_s;        /* if `grows`: growth of kept_bytes, and seconds until limit_bytes */
    uint32_t pci_domain, pci_bus, pci_device; /* if has_pci */
    uint8_t grows, has_pci;
    uint8_t is_mixed; /* the run's processes use this number for different cards */
    uint8_t reserved;
} gw_live_device;

typedef struct gw_live {
    char magic[8];
    uint32_t version, bytes;
    uint64_t started_ns, written_ns;
    uint32_t supervisor_pid, command_pid;
    uint32_t process_count; /* processes whose driver calls were recorded, also ended ones */
    uint32_t pid_count;     /* of these, alive now; at most GW_LIVE_PIDS_MAX of them are in `pid` */
    uint32_t pid[GW_LIVE_PIDS_MAX];
    uint8_t has_cache[GW_LIVE_PIDS_MAX]; /* 1: PyTorch's allocator is followed in this process */
    uint64_t failure_count; /* failed driver calls, without those that programs make to find out something */
    uint64_t failed_ns;     /* the last of them; 0: none */
    uint32_t failed_pid;    /* its process */
    uint32_t failed_result; /* its CUresult */
    char failed_call[64];   /* its function */
    uint64_t worked_ns;     /* the last time at which the processes had given new work to a GPU; 0: never */
    uint16_t is_rehearsal;  /* 1: the memory exists only in gpuwhy's books */
    uint16_t is_incomplete; /* 1: there were too many blocks to follow, so live_bytes is too small */
    uint32_t reserved;
    char virtual_cards[256]; /* "": real cards; otherwise the value of GPUWHY_VIRTUAL */
    char virtual_folder[PATH_MAX];
    char recording[PATH_MAX]; /* "": none */
    char command[256];        /* the command line, with secrets masked; may be cut */
    gw_live_device device[GW_LIVE_DEVICES_MAX];
    uint32_t reserved_too;
    uint32_t checksum; /* CRC-32C of all bytes before it */
} gw_live;

/* Write the file in the run folder `folder`: sets magic, version, bytes and checksum in `live`, writes a new file and
 * renames it, so a reader sees the old or the new state. GW_IO: `err` names the file. */
GW_MUST_CHECK gw_status gw_live_write(const char *folder, gw_live *live, gw_error *err);

/* Read the file of the run folder `folder`, which must belong to `owner`. Unless GW_OK, *ret_live is unspecified.
 * GW_MISSING: there is none (yet). GW_IO, GW_UNSUPPORTED (another owner, or others may write to it), GW_VERSION,
 * GW_CORRUPT: `err` names the file and the reason. */
GW_MUST_CHECK gw_status gw_live_read(const char *folder, uid_t owner, gw_live *ret_live, gw_error *err);

#endif
