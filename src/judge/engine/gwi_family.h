/* Judges runs of many processes: what went wrong in each process, which process failed first, and which failures were
 * consequences. */
#ifndef GWI_FAMILY_H
#define GWI_FAMILY_H

#include "gwi_cause.h"

/* Return the process whose trouble came first: a lost context, a full card, a hang, a death, or another refused call.
 * Trouble that cannot have ended the run is ignored, unless it went unnoticed. Without trouble, returns the command, or
 * NULL if no process was recorded.
 *
 * A lost context, a full card or a hang takes precedence over other trouble. Only an earlier death in another process
 * may come before these three, if:
 * - that process had none of the three;
 * - both processes are ranks of one job or children of one parent;
 * - no signal from a launcher caused the death.
 *
 * A process that was replaced is ignored if its successor did its work. */
const gw_process *gwi_family_judge(const gw_model *model);

/* True if the process was refused memory and the command ended badly, but nothing shows that the process ended by
 * itself: it may only have filled the card. If its parent waits for it, its status is unknown. */
bool gwi_may_only_have_filled(const gw_model *model, const gw_process *process);

/* Write the pids from `process` up to the process that started the run, if they were recorded: "12 <- 10 <- 7". */
enum { GWI_CHAIN_TEXT_MAX = 120 };
char *gwi_chain_text(char out[GWI_CHAIN_TEXT_MAX], const gw_model *model, const gw_process *process);

/* Return when the trouble of the judged process began, or GWI_NO_TIME. *ret_weight is for comparison with other runs:
 * - 2: a lost context or a full card;
 * - 1: another death, or a hang;
 * - 0: anything else, such as an end by a signal from outside. */
uint64_t gwi_trouble_time(const gwi_case *c, unsigned *ret_weight);

/* Report which process of a run failed first, and the later failures of the others. Does nothing if there is only one
 * process. */
void gwi_say_family(const gwi_case *c, gwi_finding *finding);

/* Add advice about failed children that were replaced, about ranks that were started again (unless the verdict is a
 * fault and gwi_say_family() reports them), and about processes still running at the end. Returns false if there is no
 * memory. */
bool gwi_advise_family(const gwi_case *c, gw_verdict_status status, gw_string_list *advice);

#endif
