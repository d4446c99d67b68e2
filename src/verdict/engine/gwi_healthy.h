/* Reports runs for which no cause was found, clean or undetermined, and the advice that goes with any verdict. */
#ifndef GWI_HEALTHY_H
#define GWI_HEALTHY_H

#include "gwi_cause.h"

/* Report a run that ended well without an observed driver call, and of which a part was not observed. */
void gwi_say_unseen_run(const gwi_case *c, gwi_finding *finding);
void gwi_say_clean(const gwi_case *c, gwi_finding *finding);
void gwi_say_undetermined(const gwi_case *c, bool unobserved, gwi_finding *finding);
bool gwi_say_advice(const gwi_case *c, gw_verdict_status status, gw_string_list *advice); /* false: no memory */
/* A failure without recovery, in a process whose end is not known; NULL: none. */
const gw_failure *gwi_open_end(const gwi_case *c);
/* Features that the program requested and that no virtual card has. False: none. */
typedef struct gwi_lacks {
    bool private_tables; /* the runtime API's */
    const char *fn_name; /* an entry point; NULL: none */
    uint64_t count;      /* calls of such entry points */
    uint64_t t_ns;       /* of the first */
} gwi_lacks;
bool gwi_find_lacks(const gwi_case *c, gwi_lacks *ret_lacks);

#endif
