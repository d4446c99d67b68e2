/* The attempts of `gpuwhy run --restart` and --rescue: judges each one, decides whether another one follows, and
 * records both.
 *
 * run.c watches an attempt; attempts.c judges it while its recording is open, and writes the decision into the
 * recording; gwi_restart_ended() decides, mainly by the cause's column in causes.def (gw_again); change.c changes the
 * command for --on, and finds a setting for --cure; rescue.c does what --rescue may do. gw_supervisor_next() starts the
 * next attempt. Its recording begins with the facts of the earlier ones, so the last recording has the whole story
 * (src/judge/engine/interventions.c reads them). */
#ifndef GWI_ATTEMPTS_H
#define GWI_ATTEMPTS_H

#include "gw_supervisor.h"
#include "gw_text.h"
#include "gw_verdict.h"
#include "gwi_change.h"
#include "gwi_rescue.h"

#include <stdbool.h>
#include <stdint.h>

/* Decides whether `gpuwhy run --restart` starts the program again. A state machine without processes, files or clocks.
 *
 * Another attempt follows a failure only if it can help: the cause is transient, others must release something first,
 * or --on or --cure changes the command. The same cause at the same place with the same evidence is permanent when it
 * appears for the second time and nothing was changed in between. */

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
    bool can_change;     /* --on, --cure or --rescue changes the next attempt */
    const char *why_not; /* static; why --rescue changes nothing; NULL: not known */
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

/* WAS_FREE: at the first look, so this is no change */
typedef enum gwi_waited {
    GWI_WAITED_FREE,
    GWI_WAITED_WAS_FREE,
    GWI_WAITED_UNKNOWN,
    GWI_WAITED_TIMEOUT,
    GWI_WAITED_STOPPED
} gwi_waited;
/* The wait that the last decision requested has ended. */
gwi_decision gwi_restart_waited(gwi_restart *machine, gwi_waited waited);

typedef struct gwi_attempts {
    const gw_run_options *options; /* borrowed */
    gwi_cure_find_fn *find_cure;   /* NULL: no search for cures */
    gwi_rules rules;
    gwi_rescue rescue;
    gwi_command command; /* of the next attempt; owned */
    gwi_restart machine;
    bool was_free; /* the memory that an attempt lacked was free when it had ended */
    gw_text *fact; /* owned; the fact "attempt" of each attempt that has ended */
    size_t fact_count;
    gw_text cure; /* the fact "cure" for the next attempt; empty: none */
} gwi_attempts;

/* Read the options. `program` is the command line of the first attempt. GW_USAGE: `err` names the option and the
 * reason. The caller must call gwi_attempts_free(), also after an error. */
GW_MUST_CHECK gw_status gwi_attempts_begin(gwi_attempts *attempts, const gw_run_options *options, char *const *program,
                                           gw_error *err);
/* Judge the attempt that has ended, decide, and record the decision in its recording. Waits if the decision requires
 * it. Returns true if another attempt follows. Call it between gw_supervisor_watch() and gw_supervisor_close(). */
bool gwi_attempts_again(gwi_attempts *attempts, gw_supervisor *run);
/* Start the next attempt, and record in it how the earlier ones ended. Returns like gw_supervisor_next(). */
int gwi_attempts_next(gwi_attempts *attempts, gw_supervisor **run);
void gwi_attempts_free(gwi_attempts *attempts);

/* Return a hash of the cause, the place and the deciding evidence. Numbers in the evidence do not count, because
 * addresses, pids and times differ between equal failures. */
uint64_t gwi_attempt_evidence(const gw_verdict *verdict);

#endif
