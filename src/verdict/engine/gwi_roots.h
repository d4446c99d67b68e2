/* The failures of one process that nothing earlier explains (roots.c), and the one that ended the process (root.c). */
#ifndef GWI_ROOTS_H
#define GWI_ROOTS_H

#include "gwi_cause.h"

/* Failures of one process that nothing earlier explains, and from which it did not recover (except `handled`). NULL:
 * none. */
typedef struct gwi_roots {
    const gw_failure *oom, *oom_last, *sticky, *other, *handled;
    size_t handled_count;
} gwi_roots;
/* Return the failures of the process that nothing earlier explains. */
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
 * neither got as much memory as was refused nor deliberately used less. Returns NULL if there is none. */
const gw_failure *gwi_doubtful_refusal(const gwi_case *c);

#endif
