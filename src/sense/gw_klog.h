/* Lines of the Linux kernel's log that concern a run on a GPU: text in, struct out. Reads no file and keeps nothing.
 *
 * Lines may come as /dev/kmsg hands them out ("4,1234,5678901,-;NVRM: Xid ..."), as dmesg prints them ("[ 5.678901]
 * NVRM: Xid ...") or bare. Anything may stand in them: they are somebody else's bytes. */
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
    uint64_t stamp_us; /* the kernel's clock: since boot, near CLOCK_MONOTONIC */
    bool has_pci;
    uint32_t domain, bus, slot;
    uint32_t pid; /* as the kernel counts; 0: none named */
    char name[GW_KLOG_NAME_MAX];
    uint64_t code, value;        /* as gw_machine_event_kind says */
    char text[GW_KLOG_TEXT_MAX]; /* the message, cut; control characters are blanks */
} gw_klog;

/* Is it a line worth keeping? `line` need not end with a zero byte; it ends at the first line feed. */
bool gw_klog_parse(const char *line, size_t bytes, gw_klog *ret_klog);

#endif
