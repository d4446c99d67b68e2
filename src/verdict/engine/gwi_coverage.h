/* What of a run was observed, and what may be said of the rest: nothing.
 *
 * "No driver call failed" holds for processes whose calls were recorded. It is no word on a child that the hook was not
 * in, on a run without any driver call, or on a call that had not come back when its process ended. */
#ifndef GWI_COVERAGE_H
#define GWI_COVERAGE_H

#include "gwi_cause.h"

/* Processes of which driver calls were recorded. */
size_t gwi_observed_count(const gw_model *model);

/* A part of the run was not observed: what is known of it. NULL: all of it was, as far as the supervisor could see.
 * `index` counts from 0. */
const gw_pair *gwi_unseen(const gw_model *model, size_t index);
/* The same, but only what is known to have used a driver, or cannot be told from it: then no verdict is "clean". */
const gw_pair *gwi_unseen_driver(const gw_model *model);

/* Rule the GPU out, where the run was observed and no call in it failed or hangs; `words` say why: "no driver call
 * failed". Else say as evidence what is not known, and return false. */
bool gwi_rule_out_gpu(const gwi_case *c, gwi_finding *finding, const char *words);
/* Would it? Says nothing. */
bool gwi_gpu_is_ruled_out(const gwi_case *c);

/* For a headline: "; the GPU is not at fault" where it is ruled out, else what is known of it. Static. */
const char *gwi_gpu_words(const gwi_case *c);

/* What was not observed, as evidence. */
void gwi_say_unseen(const gwi_case *c, gwi_finding *finding);

/* ---- what the program wrote (coverage_words.c) ---- */

/* Nothing at all: both of its outputs are recorded, and they are empty. */
bool gwi_said_nothing(const gwi_case *c);
/* The last lines that it wrote, as evidence, or why they are not known. */
void gwi_say_last_words(const gwi_case *c, gwi_finding *finding);
/* What the interpreter told from inside did not stand on stderr: name the source of such evidence. */
void gwi_name_inside(const gwi_case *c, gwi_finding *finding);
/* The exception was read from inside, and may be an older one that the program had caught. */
bool gwi_exception_is_uncertain(const gwi_case *c);

#endif
