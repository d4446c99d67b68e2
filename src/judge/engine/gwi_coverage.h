/* Determines which parts of a run were observed. The verdict makes no claim about the other parts. "No driver call
 * failed" does not cover:
 * - a child without the hook
 * - a run without any driver call
 * - a call that had not returned when its process ended */
#ifndef GWI_COVERAGE_H
#define GWI_COVERAGE_H

#include "gwi_cause.h"

/* True if gpuwhy found no GPU driver on this machine, so that no process can have used a GPU. gwi_say_no_driver()
 * reports this fact. */
bool gwi_has_no_driver(const gw_model *model);
void gwi_say_no_driver(const gw_model *model, gwi_finding *finding);

/* Rule the GPU out if the run was observed and no driver call failed or hung. `words` is the reason, such as "no driver
 * call failed". Otherwise, return false and report as evidence why the GPU is not ruled out. */
bool gwi_rule_out_gpu(const gwi_case *c, gwi_finding *finding, const char *words);
/* True if gwi_rule_out_gpu() would rule the GPU out. Reports nothing. */
bool gwi_gpu_is_ruled_out(const gwi_case *c);

/* Return static text for a headline. If the GPU is ruled out, it is "; the GPU is not at fault". Otherwise, it states
 * what was not observed, or is "". */
const char *gwi_gpu_words(const gwi_case *c);

/* Return the last query that the driver refused, if the process ended without any later driver call. Returns NULL if
 * there is none. */
const gw_failure *gwi_ended_in_probe(const gwi_case *c);

/* Return a refused look-up of a kernel after which the process worked, but too little to show that it does without this
 * kernel. Returns NULL if there is none, or if the run did not end badly. */
const gw_failure *gwi_doubtful_lookup(const gwi_case *c);

/* Report the unobserved parts as evidence. */
void gwi_say_unseen(const gwi_case *c, gwi_finding *finding);

/* True if no process used a GPU, and the program's output or its framework shows that it could have used one. */
bool gwi_ran_on_cpu(const gwi_case *c);
/* If gwi_ran_on_cpu(), add advice with the reason, unless the verdict's `cause` is about this. Returns false if there
 * is no memory. */
bool gwi_advise_unused_gpu(const gwi_case *c, const char *cause, gw_string_list *advice);

#endif
