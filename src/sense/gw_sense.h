/* The senses: what the supervisor reads about machine and cards while a program runs.
 *
 * Nothing here needs a privilege, waits, or touches the program. What cannot be read is told as such ("not supported",
 * "no permission"). One thread. Everything is handed out as items of a recording, by gw_sense_look(), which is to be
 * called at least ten times a second.
 *
 * - NVML and file systems are asked by a process of their own, which begins when the program is seen to use the driver
 *   or has run for a second: programs that use neither do not pay.
 * - The kernel's log (/dev/kmsg) is read from the moment of gw_sense_open() on, where that is allowed.
 * - Control group, /dev/shm, the machine's memory and the processes' own numbers come from /proc and /sys. */
#ifndef GW_SENSE_H
#define GW_SENSE_H

#include "gw_recording.h"

#include <sys/types.h>

typedef struct gw_sense gw_sense;

/* Strings are borrowed until gw_sense_close(). */
typedef struct gw_sense_options {
    uint64_t t0_monotonic_ns; /* the run's zero */
    pid_t command;
    const char *nvml_path;          /* NULL: what the loader finds under libnvidia-ml.so.1; "": none */
    const char *const *environment; /* "NAME=value" for that library, NULL-terminated; NULL: none */
    const char *root;               /* "": the machine's own; else a folder that holds proc, sys and dev (tests) */
    bool is_virtual; /* the cards are virtual ones: what the kernel's log says of real cards is not about them */
} gw_sense_options;

/* What the supervisor knows at this moment. */
typedef struct gw_sense_now {
    const uint32_t *pid; /* recorded processes */
    size_t pid_count;
    uint64_t failure_at_ns;       /* run time of the last failure of a driver call; 0: none */
    uint64_t out_of_memory_at_ns; /* run time of the last refused allocation; 0: none */
    bool holders_known;           /* the caller knows better than NVML who holds a card: do not ask */
} gw_sense_now;

/* Where everything goes. `holder`: a process with memory on a card, told after a refused allocation; `matched`: its pid
 * means here what it meant to the driver. bytes UINT64_MAX: not known. card GW_NO_DEVICE: it has some card's device
 * file open, more is not known. */
typedef struct gw_sense_sink {
    void *user;
    void (*item)(void *user, const gw_item *item);
    void (*holder)(void *user, uint32_t card, uint32_t pid, uint64_t bytes, bool matched);
} gw_sense_sink;

GW_MUST_CHECK gw_status gw_sense_open(const gw_sense_options *options, gw_sense **ret_sense, gw_error *err);
void gw_sense_look(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink);
/* Everything once more, at the program's end: waits for it, `wait_ms` at most. */
void gw_sense_last(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink, unsigned wait_ms);
void gw_sense_close(gw_sense *sense); /* takes NULL */

#endif
