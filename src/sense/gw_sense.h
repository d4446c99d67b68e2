/* Samples the machine and its cards while a program runs. The supervisor calls it.
 *
 * It needs no privilege, never blocks and does not touch the program. A value that cannot be read is recorded with the
 * reason ("not supported", "no permission"). Use it from one thread. gw_sense_look() passes all results to the sink as
 * items of a recording. Call it at least ten times a second.
 *
 * - A separate process queries NVML and file systems. It starts when the program uses the driver or has run for a
 *   second, so that programs that do neither do not pay for it.
 * - The kernel's log (/dev/kmsg) is read from gw_sense_open() on, if permitted.
 * - Values of the control group, /dev/shm, the machine's memory and the processes come from /proc and /sys. */
#ifndef GW_SENSE_H
#define GW_SENSE_H

#include "gw_recording.h"

#include <sys/types.h>

typedef struct gw_sense gw_sense;

/* Strings are borrowed until gw_sense_close(). */
typedef struct gw_sense_options {
    uint64_t t0_monotonic_ns; /* start of the run: times of items are relative to it */
    pid_t command;
    const char *nvml_path;          /* NULL: search for libnvidia-ml.so.1; "": do not use NVML */
    const char *const *environment; /* "NAME=value" strings set for that library, NULL-terminated; NULL: none */
    const char *root;               /* "": the real machine; tests use a folder with proc, sys and dev */
    uint64_t settle_ns;             /* a program that ends earlier is not sampled; 0: 4 ms */
    bool is_virtual;                /* the cards are virtual: ignore what the kernel's log says about real cards */
} gw_sense_options;

/* What the supervisor knows about the run at the time of the call. */
typedef struct gw_sense_now {
    const uint32_t *pid; /* recorded processes */
    size_t pid_count;
    uint64_t failure_at_ns;       /* run time of the last failure of a driver call; 0: none */
    uint64_t out_of_memory_at_ns; /* run time of the last refused allocation; 0: none */
    bool holders_known;           /* the caller finds the holders of card memory itself: do not query NVML for them */
} gw_sense_now;

/* Receives the results. `holder` reports a process with memory on a card after a refused allocation. `matched` is
 * true if the pid has the same meaning here as for the driver. `bytes` is UINT64_MAX if unknown. `card` is
 * GW_NO_DEVICE if the process has the device file of some card open and the card is unknown. */
typedef struct gw_sense_sink {
    void *user;
    void (*item)(void *user, const gw_item *item);
    void (*holder)(void *user, uint32_t card, uint32_t pid, uint64_t bytes, bool matched);
} gw_sense_sink;

/* Allocate the state and open the kernel's log. The caller closes *ret_sense with gw_sense_close(). GW_NOMEM: `err`
 * has the text. */
GW_MUST_CHECK gw_status gw_sense_open(const gw_sense_options *options, gw_sense **ret_sense, gw_error *err);
/* Read what is due and pass it to `sink`. Never blocks. */
void gw_sense_look(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink);
/* Read everything once more at the program's end. Waits for the sampler process for at most `wait_ms`. */
void gw_sense_last(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink, unsigned wait_ms);
void gw_sense_close(gw_sense *sense); /* takes NULL */

#endif
