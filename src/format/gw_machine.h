/* Kinds of events of the machine and its cards, from the kernel log, NVML and control groups.
 *
 * Recordings store the row number. So rows never move, and new rows are added at the end. */
#ifndef GW_MACHINE_H
#define GW_MACHINE_H

/* The kinds of events. The meaning of an event's `code` and `value` depends on its kind. */
#define GW_MACHINE_EVENTS(X)                                                                                           \
    X(XID, "xid")               /* code: number of the Xid; value: the driver's "caused by Xid", 0: none */            \
    X(CARD_EVENT, "card event") /* code: NVML's event type; value: the event's data */                                 \
    X(CARD_LOST, "card lost")   /* code: NVML's result (15 GPU lost, 16 reset required) */                             \
    X(OOM_KILL, "oom kill")     /* processes killed because host memory ran out; value: their number */                \
    /* code of OOM_KILL: 1 limit of a cgroup, 0 memory of the machine, 2 unknown, 3 oomd */                            \
    X(CRASH, "crash")           /* the Linux kernel logged a fault signal; code: the signal; value: the address */     \
    X(BUS_ERROR, "bus error")   /* PCIe's advanced error reporting; code: 0 corrected, 1 uncorrected, 2 fatal */       \
    X(DRIVER_LOG, "driver log") /* another log line of NVIDIA's kernel driver; code: GW_DRIVER_LINE_* */               \
    X(SENSE, "sense")           /* gpuwhy cannot read a source; the text names the source and the reason */

/* The code of an OOM_KILL event if not the kernel but systemd-oomd killed the processes. */
enum { GW_OOM_BY_OOMD = 3 };

typedef enum gw_machine_event_kind {
#define GW_X(name, text) GW_MACHINE_##name,
    GW_MACHINE_EVENTS(GW_X)
#undef GW_X
        GW_MACHINE_EVENT_COUNT
} gw_machine_event_kind;

enum {
    GW_DRIVER_LINE_OTHER,
    GW_DRIVER_LINE_OFF_BUS,
    GW_DRIVER_LINE_VERSIONS, /* kernel driver and driver library have different versions ("API mismatch") */
    GW_DRIVER_LINE_INIT,     /* the kernel driver could not initialise the card */
    GW_DRIVER_LINE_FIRMWARE, /* the card's firmware processor did not answer */
    GW_DRIVER_LINE_SWITCH,   /* an NVSwitch error (SXid); value: its number */
    GW_DRIVER_LINE_NVLINK
};

const char *gw_machine_event_text(unsigned kind); /* "?": unknown */

#endif
