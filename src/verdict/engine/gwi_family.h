/* Judges runs of many processes: what went wrong in each process, which process failed first, and which failures were
 * consequences. */
#ifndef GWI_FAMILY_H
#define GWI_FAMILY_H

#include "gwi_cause.h"

/* Failures of one process that nothing earlier explains, and from which it did not recover (except `handled`). NULL:
 * none. */
typedef struct gwi_roots {
    const gw_failure *oom, *oom_last, *sticky, *other, *handled;
    size_t handled_count;
} gwi_roots;
gwi_roots gwi_roots_of(const gw_model *model, uint32_t pid);
/* Return the root failure among `roots`. A lost context or a full card takes precedence over a call that was merely
 * refused. Returns NULL if there is no failure. */
const gw_failure *gwi_root_of(const gwi_roots *roots);
/* True if `later` repeats the request of `first`, soon after `last`, which is the newest refusal of that request so
 * far. */
bool gwi_is_asked_again(const gw_failure *first, const gw_failure *last, const gw_failure *later);

/* Set the fields root, oom, oom_last, sticky, other, handled and handled_count of `c` according to how c->process ended
 * (root.c). */
void gwi_root_find(gwi_case *c);
/* True if the program continued after `failure`, although the run ended badly. */
bool gwi_is_outlived(const gwi_case *c, const gw_failure *failure);
/* Return the newest refusal that the program seemed to handle but that may still explain a bad end. There are two
 * cases: the refused thread did little after the refusal; or the program printed no reason for its end, and later
 * neither got as much memory nor deliberately used less. Returns NULL if there is none. */
const gw_failure *gwi_doubtful_refusal(const gwi_case *c);

/* Return the process whose trouble came first. Trouble counts only if it may have ended the run or went unnoticed. If
 * no process had such trouble, returns the command, or NULL if no process was recorded.
 *
 * A process with a lost context or a full card takes precedence over others. There is one exception: the earlier death
 * of a process without either takes precedence if the two processes are ranks of one job or children of one parent, and
 * no signal from a launcher caused that death. A process does not count if another one replaced it and did the same
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
