/* What is said when no cause is: a clean run, an undetermined one, and the advice that goes with any verdict. */
#ifndef GWI_HEALTHY_H
#define GWI_HEALTHY_H

#include "gwi_cause.h"

/* It ended well, no driver call was observed, and a part of the run was not seen. */
void gwi_say_unseen_run(const gwi_case *c, gwi_finding *finding);
void gwi_say_clean(const gwi_case *c, gwi_finding *finding);
void gwi_say_undetermined(const gwi_case *c, bool unobserved, gwi_finding *finding);
bool gwi_say_advice(const gwi_case *c, gw_verdict_status status, gw_string_list *advice); /* false: no memory */
/* A failure that nothing made good, in a process whose end is not known; NULL: none. */
const gw_failure *gwi_open_end(const gwi_case *c);
/* What the program asked of a virtual card and did not get because no virtual card has it. False: nothing. */
typedef struct gwi_lacks {
    bool private_tables; /* the runtime API's */
    const char *fn_name; /* an entry point; NULL: none */
    uint64_t count;      /* calls of such entry points */
    uint64_t t_ns;       /* of the first */
} gwi_lacks;
bool gwi_find_lacks(const gwi_case *c, gwi_lacks *ret_lacks);

#endif
