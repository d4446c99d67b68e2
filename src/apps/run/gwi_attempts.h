/* The attempts of `gpuwhy run --restart`: judges each one, decides whether another one follows, and records both.
 *
 * run.c watches an attempt; attempts.c judges it while its recording is open, and writes the decision into the
 * recording; restart.c decides, mainly by the cause's column in causes.def (gw_again); change.c changes the command for
 * --on, and cure.c finds a setting for --cure. gw_supervisor_next() starts the next attempt. Its recording begins with
 * the facts of the earlier ones, so the last recording has the whole story (src/judge/engine/interventions.c reads
 * them). */
#ifndef GWI_ATTEMPTS_H
#define GWI_ATTEMPTS_H

#include "gw_supervisor.h"
#include "gw_text.h"
#include "gw_verdict.h"
#include "gwi_change.h"
#include "gwi_restart.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gwi_attempts {
    const gw_run_options *options; /* borrowed */
    gwi_cure_find_fn *find_cure;   /* NULL: no search for cures */
    gwi_rules rules;
    gwi_command command; /* of the next attempt; owned */
    gwi_restart machine;
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
