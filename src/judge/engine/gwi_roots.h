/* The failures of one process that no earlier failure explains (roots.c), and the failure that ended the process
 * (root.c). */
#ifndef GWI_ROOTS_H
#define GWI_ROOTS_H

#include "gwi_cause.h"

/* Failures of one process that no earlier failure explains; NULL if there is none. The process recovered from
 * `handled`, but not from `oom` and `oom_last`. */
typedef struct gwi_roots {
    const gw_failure *oom, *oom_last, *sticky, *other, *handled;
    size_t handled_count;
} gwi_roots;
/* Find the failures of the process that no earlier failure explains. */
gwi_roots gwi_roots_of(const gw_model *model, uint32_t pid);
/* Return the root failure among `roots`, or NULL. A lost context or a full card takes precedence over a call that
 * was merely refused. */
const gw_failure *gwi_root_of(const gwi_roots *roots);
/* True if `later` repeats the request of `first` less than 2 s after its last refusal `last`: same size, same
 * driver call. */
bool gwi_is_asked_again(const gw_failure *first, const gw_failure *last, const gw_failure *later);

/* Set the fields root, oom, oom_last, sticky, other, handled and handled_count of `c` according to how c->process ended
 * (root.c). */
void gwi_root_find(gwi_case *c);
/* True if the program continued after `failure`, although the run ended badly. */
bool gwi_is_outlived(const gwi_case *c, const gw_failure *failure);
/* If a bad end has no root, return the newest refusal that the refused thread did not certainly handle, or NULL. The
 * thread handled a refusal if it got memory or submitted work afterwards, and one of these is true:
 * - A later request of at least the same size succeeded, or the program continued with a smaller one.
 * - An exception unrelated to memory ended the program, and the thread did enough work or made enough requests. */
const gw_failure *gwi_doubtful_refusal(const gwi_case *c);

/* True if the process ended by a fault of its own code. An abort may also be an uncaught exception. */
bool gwi_is_crash(const gwi_case *c);

#endif
