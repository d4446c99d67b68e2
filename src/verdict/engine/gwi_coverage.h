/* Determines which parts of a run were observed. The verdict makes no claim about the other parts.
 *
 * "No driver call failed" holds for processes whose calls were recorded. It does not cover a child without the hook, a
 * run without any driver call, or a call that had not returned when its process ended. */
#ifndef GWI_COVERAGE_H
#define GWI_COVERAGE_H

#include "gwi_cause.h"

/* The number of processes whose driver calls were recorded. */
size_t gwi_observed_count(const gw_model *model);

/* The fact about the unobserved part number `index` of the run, from 0. NULL: no more; the rest was observed as far as
 * the supervisor could see. */
const gw_pair *gwi_unseen(const gw_model *model, size_t index);
/* The first unobserved part that used a driver, or may have. With such a part, no verdict is "clean". NULL: none. */
const gw_pair *gwi_unseen_driver(const gw_model *model);

/* Rule the GPU out if the run was observed and no call in it failed or hangs. `words` gives the reason: "no driver call
 * failed". Otherwise report as evidence what is not known, and return false. */
bool gwi_rule_out_gpu(const gwi_case *c, gwi_finding *finding, const char *words);
/* True if gwi_rule_out_gpu() would rule the GPU out. Reports nothing. */
bool gwi_gpu_is_ruled_out(const gwi_case *c);

/* For a headline: "; the GPU is not at fault" if the GPU is ruled out, else what was observed of it. Static. */
const char *gwi_gpu_words(const gwi_case *c);

/* Report the unobserved parts as evidence. */
void gwi_say_unseen(const gwi_case *c, gwi_finding *finding);

/* ---- what the program wrote (coverage_words.c) ---- */

/* True if both outputs of the program were recorded and are empty. */
bool gwi_said_nothing(const gwi_case *c);
/* Report the last lines that the program wrote as evidence, or why they are not known. */
void gwi_say_last_words(const gwi_case *c, gwi_finding *finding);
/* Mark the source of evidence that was read from the interpreter and did not appear on stderr. */
void gwi_name_inside(const gwi_case *c, gwi_finding *finding);
/* True if the exception was read from the interpreter and may be an older one that the program had caught. */
bool gwi_exception_is_uncertain(const gwi_case *c);

#endif
