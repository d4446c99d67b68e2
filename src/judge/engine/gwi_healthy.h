/* Writes the findings of runs without a cause, which are clean or undetermined, and the general advice of all
 * verdicts. */
#ifndef GWI_HEALTHY_H
#define GWI_HEALTHY_H

#include "gwi_cause.h"

/* Report a run that ended well although no driver call was observed, if a part of the run was not observed. */
void gwi_say_unseen_run(const gwi_case *c, gwi_finding *finding);
void gwi_say_clean(const gwi_case *c, gwi_finding *finding);
void gwi_say_undetermined(const gwi_case *c, bool unobserved, gwi_finding *finding);
bool gwi_say_advice(const gwi_case *c, gw_verdict_status status, gw_string_list *advice); /* false: no memory */
/* Return a refused allocation that the process did not recover from, if it is not known how this process ended. Returns
 * NULL if there is none. */
const gw_failure *gwi_open_end(const gwi_case *c);
/* Find the features that the program requested and that no virtual card has. Returns false if there are none. */
typedef struct gwi_lacks {
    bool private_tables; /* private tables of the runtime API */
    const char *fn_name; /* first missing entry point; NULL: none */
    uint64_t count;      /* number of refused calls */
    uint64_t t_ns;       /* time of the first refused call */
} gwi_lacks;
bool gwi_find_lacks(const gwi_case *c, gwi_lacks *ret_lacks);

#endif
