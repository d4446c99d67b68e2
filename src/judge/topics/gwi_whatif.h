/* What a replay of PyTorch's allocator with other settings adds to a verdict about memory (gw_whatif.h). */
#ifndef GWI_VERDICT_WHATIF_H
#define GWI_VERDICT_WHATIF_H

#include "gwi_cause.h"

/* Replay the allocations before the refused request, and add the result: the setting that would have helped, as a next
 * step with its peak; or that none would. If the program leaks, a setting would only have delayed the failure, so it is
 * not a next step. Adds nothing and returns false if there is no replay that is equal to the recording; then nothing is
 * known about settings. */
bool gwi_say_whatif(const gwi_case *c, gwi_finding *finding, bool is_leak);

#endif
