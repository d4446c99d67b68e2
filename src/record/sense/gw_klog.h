/* Parses the lines of the Linux kernel's log that concern a run on a GPU. Reads no file and keeps no state.
 *
 * The input is untrusted and may contain any bytes. A line may have these forms:
 * - /dev/kmsg: "4,1234,5678901,-;NVRM: Xid ..."
 * - dmesg: "[    5.678901] NVRM: Xid ..."
 * - no prefix */
#ifndef GW_KLOG_H
#define GW_KLOG_H

#include "gw_machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_KLOG_TEXT_MAX = 512, GW_KLOG_NAME_MAX = 32 };

typedef struct gw_klog {
    gw_machine_event_kind kind; /* one of XID, OOM_KILL, CRASH, BUS_ERROR, DRIVER_LOG */
    bool has_stamp;
    uint64_t stamp_us; /* time since boot on the kernel's clock, which is close to CLOCK_MONOTONIC */
    bool has_pci;
    uint32_t domain, bus, slot;
    uint32_t pid; /* pid in the kernel's initial pid namespace; 0: the line names no process */
    char name[GW_KLOG_NAME_MAX];
    uint64_t code, value;        /* meaning: see gw_machine_event_kind */
    char text[GW_KLOG_TEXT_MAX]; /* the message, truncated; control characters are replaced by spaces */
} gw_klog;

/* Parse one line, which ends at the first line feed or after `bytes` bytes. Returns false if it does not concern a GPU
 * run. */
bool gw_klog_parse(const char *line, size_t bytes, gw_klog *ret_klog);

#endif
