/* Parses lines of the Linux kernel's log that concern a run on a GPU. The parser reads no file and keeps no state.
 *
 * Lines may have the form of /dev/kmsg ("4,1234,5678901,-;NVRM: Xid ..."), the form of dmesg ("[ 5.678901] NVRM: Xid
 * ...") or no prefix. The input is untrusted and may hold any bytes. */
#ifndef GW_KLOG_H
#define GW_KLOG_H

#include "gw_machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_KLOG_TEXT_MAX = 512, GW_KLOG_NAME_MAX = 32 };

typedef struct gw_klog {
    gw_machine_event_kind kind; /* XID, OOM_KILL, CRASH, BUS_ERROR, DRIVER_LOG */
    bool has_stamp;
    uint64_t stamp_us; /* the kernel's clock since boot, close to CLOCK_MONOTONIC */
    bool has_pci;
    uint32_t domain, bus, slot;
    uint32_t pid; /* in the kernel's own pid namespace; 0: the line names none */
    char name[GW_KLOG_NAME_MAX];
    uint64_t code, value;        /* meaning: see gw_machine_event_kind */
    char text[GW_KLOG_TEXT_MAX]; /* the message, truncated; control characters are replaced by blanks */
} gw_klog;

/* Parse one line. Returns false if it does not concern a GPU run. `line` need not be zero-terminated and ends at the
 * first line feed. */
bool gw_klog_parse(const char *line, size_t bytes, gw_klog *ret_klog);

#endif
