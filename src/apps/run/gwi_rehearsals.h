/* Finds values of the placeholders with which the program fits the card, for `gpuwhy run --rescue`.
 *
 * A candidate is rehearsed by `gpuwhy rehearse`, in a process of its own: it takes no memory of the card but a context
 * and the code, and computes nothing. If the failed values fit in a rehearsal, too, or if a rehearsal gives no answer,
 * or if the program has written checkpoints, which a rehearsal might overwrite, values are tried for real instead. */
#ifndef GWI_REHEARSALS_H
#define GWI_REHEARSALS_H

#include "gwi_rescue.h"

/* Choose other values after the present ones have failed for lack of memory. Returns false, and sets
 * rescued->why_not, if none is left that could help; the values are then as before. */
bool gwi_numbers_change(gwi_rescue *rescue, gw_supervisor *run, gwi_rescued *rescued);

/* True if a rehearsal with the present values and the present environment shows that the memory is not enough. */
bool gwi_rehearsal_lacks_memory(const gwi_rescue *rescue, gw_supervisor *run);

#endif
