/* Failures that gpuwhy injected (--inject), how the program took them, and the fence (--fence). */
#ifndef GWI_INJECTED_H
#define GWI_INJECTED_H

#include "gwi_cause.h"

/* How the program took an injected failure. */
typedef enum gwi_taken {
    GWI_TAKEN_UNKNOWN, /* the end of the process is not known, and nothing followed */
    GWI_TAKEN_NOTICED, /* no further work in the thread, and an end with an error */
    GWI_TAKEN_ENDED,   /* no further work in the thread, and an end with status 0: nothing shows whether it noticed */
    GWI_TAKEN_RETRIED, /* the same call again from the same place */
    GWI_TAKEN_WENT_ON,
    GWI_TAKEN_HUNG,
    GWI_TAKEN_DIED /* a signal ended the process, and nobody sent it from outside */
} gwi_taken;

/* Return the injection that made this failure. NULL: the failure was not injected, or its fact is missing. */
const gw_injection *gwi_injection_of(const gwi_case *c, const gw_failure *failure);
/* Find out how the program took the injection, and append it as a clause: "retried: ..". */
gwi_taken gwi_injection_taken(const gwi_case *c, const gw_injection *injection, gw_text *text);
/* Add one line of advice for each rule that took effect, one for a plan without effect, and one for each fence. Returns
 * false if there is no memory. */
bool gwi_advise_interventions(const gwi_case *c, gw_string_list *advice);

#endif
