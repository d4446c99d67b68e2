/* Judges runs of many processes: what went wrong in each process, which process failed first, and which failures were
 * consequences. */
#ifndef GWI_FAMILY_H
#define GWI_FAMILY_H

#include "gwi_cause.h"

/* Return the process whose trouble came first. Trouble counts only if it may have ended the run or went unnoticed. If
 * no process had such trouble, returns the command, or NULL if no process was recorded.
 *
 * A process with a lost context or a full card takes precedence over others. There is one exception: the earlier death
 * of a process that had neither takes precedence if the two processes are ranks of one job or children of one parent,
 * and no signal from a launcher caused that death. A process does not count if another one replaced it and did the same
 * work successfully, because the parent had then noticed the failure. */
const gw_process *gwi_family_judge(const gw_model *model);

/* Write the pids from `process` up to the process that started the run, if they were recorded: "12 <- 10 <- 7". */
enum { GWI_CHAIN_TEXT_MAX = 120 };
char *gwi_chain_text(char out[GWI_CHAIN_TEXT_MAX], const gw_model *model, const gw_process *process);

/* Return the time at which the trouble of the judged process began. Returns GWI_NO_TIME if nothing is known to have
 * gone wrong. *ret_weight is for comparison with other runs: 2 for a lost context or a full card, 1 for another death
 * or a hang, 0 for anything else, such as an end by a signal from outside. */
uint64_t gwi_trouble_time(const gwi_case *c, unsigned *ret_weight);

/* Report which process of a run failed first, and the later failures of the others. Does nothing if there is only one
 * process. */
void gwi_say_family(const gwi_case *c, gwi_finding *finding);

/* For a run without a fault: add advice about children that failed and were replaced, and about processes that were
 * still running at the end. Returns false if there is no memory. */
bool gwi_advise_family(const gwi_case *c, gw_string_list *advice);

#endif
