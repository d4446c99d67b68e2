/* Decides whether `gpuwhy run --restart` starts the program again. A state machine without processes, files or clocks.
 *
 * Another attempt follows a failure only if it can help: the cause is transient, others must release something first,
 * or
 * --on or --cure changes the command. The same cause at the same place with the same evidence is permanent when it
 * appears for the second time and nothing was changed in between. */
#ifndef GWI_RESTART_H
#define GWI_RESTART_H

#include "gw_verdict.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gwi_restart {
    uint32_t attempts_max; /* the first attempt and --restart N */
    uint32_t count;        /* attempts that have ended */
    uint64_t evidence;     /* see gwi_attempt_end; of the last attempt */
    bool is_changed;       /* the last attempt was not started in the same situation as the one before it */
} gwi_restart;

/* How an attempt ended. */
typedef struct gwi_attempt_end {
    bool has_failed; /* the program exited with a status other than 0, or by a signal */
    bool is_stopped; /* a user or another program ended it from outside */
    bool has_cause;
    gw_again again; /* of the cause */
    bool is_memory; /* other processes hold the memory that the program needs */
    /* hash of the cause, the place and the deciding evidence, without values that differ between equal failures
     * (gwi_attempt_evidence()) */
    uint64_t evidence;
    bool can_change; /* --on or --cure changes the next attempt */
} gwi_attempt_end;

typedef struct gwi_decision {
    bool again;
    bool waits_for_memory; /* first wait for memory, and call gwi_restart_waited() */
    unsigned pause_ms;     /* first wait this long; 0: do not */
    const char *why;       /* static; the reason, as the end of a sentence */
} gwi_decision;

/* `restart_count`: the N of --restart N. */
void gwi_restart_begin(gwi_restart *machine, uint32_t restart_count);
/* An attempt has ended. */
gwi_decision gwi_restart_ended(gwi_restart *machine, const gwi_attempt_end *end);

typedef enum gwi_waited { GWI_WAITED_FREE, GWI_WAITED_UNKNOWN, GWI_WAITED_TIMEOUT, GWI_WAITED_STOPPED } gwi_waited;
/* The wait that the last decision requested has ended. */
gwi_decision gwi_restart_waited(gwi_restart *machine, gwi_waited waited);

#endif
