/* Samples the machine and its cards while a program runs. Call all functions from one thread. They need no privileges.
 *
 * gw_sense_look() passes results to the sink as items of a recording. Call it at least ten times a second: it never
 * blocks and does not touch the program. If a value cannot be read, the reason is recorded ("not supported", "no
 * permission"). Sources:
 *
 * - NVML and file systems: read by a separate process. It starts when the program uses the driver or has run for a
 *   second, so short programs do not wait for it.
 * - The kernel's log (/dev/kmsg): lines written after gw_sense_open(), if we may read them.
 * - /proc and /sys: the control group, /dev/shm, the machine's memory and the processes. */
#ifndef GW_SENSE_H
#define GW_SENSE_H

#include "gw_recording.h"

#include <sys/types.h>

typedef struct gw_sense gw_sense;

/* The strings are borrowed and must stay valid until gw_sense_close(). */
typedef struct gw_sense_options {
    uint64_t t0_monotonic_ns; /* start of the run: times of items are relative to it */
    pid_t command;
    const char *nvml_path;          /* NULL: search for libnvidia-ml.so.1; "": do not use NVML */
    const char *const *environment; /* "NAME=value" strings to set for NVML, NULL-terminated; NULL: none */
    const char *root;               /* tests: a folder with proc, sys and dev; "" or NULL: the real machine */
    uint64_t settle_ns;             /* gw_sense_look() reads nothing for this time after gw_sense_open(); 0: 4 ms */
    bool is_virtual;                /* the cards are virtual: ignore kernel log lines about real cards */
} gw_sense_options;

/* What the supervisor knows about the run at the time of the call. */
typedef struct gw_sense_now {
    const uint32_t *pid; /* pids of the recorded processes */
    size_t pid_count;
    uint64_t failure_at_ns;       /* time in the run of the last failed driver call; 0: none */
    uint64_t out_of_memory_at_ns; /* time in the run of the last refused allocation; 0: none */
    bool holders_known; /* true: do not query NVML for the processes that hold card memory, because the caller finds
                           them */
} gw_sense_now;

/* Receives the results. After a refused allocation, `holder` is called
 * - for each process with memory on a card. `bytes` is UINT64_MAX if unknown. `matched` is true if `pid` is valid in
 *   our pid namespace.
 * - for each process with some card's device file open. `card` is then GW_NO_DEVICE. */
typedef struct gw_sense_sink {
    void *user;
    void (*item)(void *user, const gw_item *item);
    void (*holder)(void *user, uint32_t card, uint32_t pid, uint64_t bytes, bool matched);
} gw_sense_sink;

/* Allocate the state and open the kernel's log. The caller frees *ret_sense with gw_sense_close(). Returns GW_OK or
 * GW_NOMEM. */
GW_MUST_CHECK gw_status gw_sense_open(const gw_sense_options *options, gw_sense **ret_sense, gw_error *err);
/* Read the values that are due and pass them to `sink`. Never blocks. */
void gw_sense_look(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink);
/* Read all values once more at the program's end. Waits at most `wait_ms` for the sampler process. If the program
 * failed less than a second ago, waits a little longer, because the driver may still report a fault. */
void gw_sense_last(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink, unsigned wait_ms);
void gw_sense_close(gw_sense *sense); /* takes NULL */

#endif
