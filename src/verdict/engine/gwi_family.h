/* Judges runs of many processes: what went wrong in each, which failed first, and which failures were consequences. */
#ifndef GWI_FAMILY_H
#define GWI_FAMILY_H

#include "gwi_cause.h"

/* The unexplained failures of one process from which it did not recover; NULL: none. */
typedef struct gwi_roots {
    const gw_failure *oom, *oom_last, *sticky, *other, *handled;
    size_t handled_count;
} gwi_roots;
gwi_roots gwi_roots_of(const gw_model *model, uint32_t pid);
/* The root among these. A lost context or a full card outweighs a call that was merely refused. NULL: no failure. */
const gw_failure *gwi_root_of(const gwi_roots *roots);
/* True if `later` repeats the request of `first`, soon after `last`, the newest of that series. */
bool gwi_is_asked_again(const gw_failure *first, const gw_failure *last, const gw_failure *later);

/* Fill c's root, oom, oom_last, sticky, other, handled and handled_count according to how c->process ended (root.c). */
void gwi_root_find(gwi_case *c);
/* True if the program went on after that refusal, although the run ended badly. */
bool gwi_is_outlived(const gwi_case *c, const gw_failure *failure);
/* The newest handled refusal that may still explain a bad end: the refused thread did little after it, or the program
 * gave no reason for its end and later neither got as much memory nor deliberately used less. NULL: none. */
const gw_failure *gwi_doubtful_refusal(const gwi_case *c);

/* The process whose trouble came first, among those whose trouble may have ended the run or went unnoticed; else the
 * command; NULL: nothing was recorded.
 *
 * A lost context or a full card takes precedence. An earlier death of a process without either takes precedence over it
 * if the two are ranks of one job or children of one parent, unless a signal that launchers send caused that death. A
 * process that was replaced by another one, which did the same work successfully, does not count: the parent had
 * noticed. */
const gw_process *gwi_family_judge(const gw_model *model);

/* The pids from `process` up to the process that started the run, as far as recorded: "12 <- 10 <- 7". */
enum { GWI_CHAIN_TEXT_MAX = 120 };
char *gwi_chain_text(char out[GWI_CHAIN_TEXT_MAX], const gw_model *model, const gw_process *process);

/* The time at which the trouble of the judged process began; GWI_NO_TIME: nothing is known to have gone wrong.
 * *ret_weight, for comparison with other runs: 2 a lost context or a full card, 1 anything else, 0 ended from outside
 * or nothing. */
uint64_t gwi_trouble_time(const gwi_case *c, unsigned *ret_weight);

/* For runs of several processes: report which failed first, and the later failures of the others. Otherwise do nothing.
 */
void gwi_say_family(const gwi_case *c, gwi_finding *finding);

/* For a run without a fault: advice about children that failed and were replaced, and about processes that were still
 * running. False: no memory. */
bool gwi_advise_family(const gwi_case *c, gw_string_list *advice);

#endif
