/* A run of many processes: what went wrong in each, which of them failed first, and who merely followed. */
#ifndef GWI_FAMILY_H
#define GWI_FAMILY_H

#include "gwi_cause.h"

/* The failures of one process that nothing explains and nothing made good; NULL: none. */
typedef struct gwi_roots {
    const gw_failure *oom, *oom_last, *sticky, *other, *handled;
    size_t handled_count;
} gwi_roots;
gwi_roots gwi_roots_of(const gw_model *model, uint32_t pid);
/* A lost context or a full card outweighs a call that was merely refused. NULL: no failure. */
const gw_failure *gwi_root_of(const gwi_roots *roots);
/* Is `later` the request of `first` again, soon after the `last` of that series? */
bool gwi_is_asked_again(const gw_failure *first, const gw_failure *last, const gw_failure *later);

/* Fill c's root, oom, oom_last, sticky, other, handled and handled_count by how c->process ended (root.c). */
void gwi_root_find(gwi_case *c);
/* Did the program go on after that refusal, though the run ended badly? */
bool gwi_is_outlived(const gwi_case *c, const gw_failure *failure);
/* The newest handled refusal that may still explain a bad end: the refused thread did little after it, or the program
 * gave no reason for its end and later got neither as much memory nor less by choice. NULL: none. */
const gw_failure *gwi_doubtful_refusal(const gwi_case *c);

/* The process whose trouble came first, among those whose trouble may have ended the run or was noticed by nobody; else
 * the command; NULL: nothing was recorded.
 *
 * First counts a lost context or a full card. The death of a process without either counts before it when the two are
 * ranks of one job or children of one parent, and not when it was ended by a signal that launchers send. A process
 * whose place another one took, with the same work and success, does not count: the parent had noticed. */
const gw_process *gwi_family_judge(const gw_model *model);

/* The pids from `process` up to the one that started it all, as far as recorded: "12 <- 10 <- 7". */
enum { GWI_CHAIN_TEXT_MAX = 120 };
char *gwi_chain_text(char out[GWI_CHAIN_TEXT_MAX], const gw_model *model, const gw_process *process);

/* When the trouble of the judged process began; GWI_NO_TIME: nothing is known to have gone wrong. *ret_weight, for
 * comparison with other runs: 2 a lost context or a full card, 1 anything else, 0 ended from outside or nothing. */
uint64_t gwi_trouble_time(const gwi_case *c, unsigned *ret_weight);

/* Who was first, and what the others' ends have to do with it: for runs of several processes, else nothing. */
void gwi_say_family(const gwi_case *c, gwi_finding *finding);

/* Children that failed and whose place was taken, processes that lived on: for a run without a fault. False: no memory.
 */
bool gwi_advise_family(const gwi_case *c, gw_string_list *advice);

#endif
