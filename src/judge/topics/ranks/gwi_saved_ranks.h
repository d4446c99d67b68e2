/* Compares what the ranks of a job called last on each communicator, as a saved file lists it: Flight Recorder dumps,
 * or the answer of NCCL's RAS. */
#ifndef GWI_SAVED_RANKS_H
#define GWI_SAVED_RANKS_H

#include "gwi_cause.h"

/* True if the model has only communicators, read from such files. */
bool gwi_are_saved_ranks(const gwi_case *c);

/* Judge ranks that made fewer calls of one kind on a communicator, of which only counts are known. They may be late, or
 * be somewhere else in their program. */
gw_certainty gwi_judge_fewer_calls(const gwi_case *c, gwi_finding *finding);

/* Report what NCCL's RAS answered during the hang: which ranks have launched fewer calls. Returns SUPPORTED if two
 * answers are equal, which shows that the ranks were stuck; HYPOTHESIS for one answer; NONE without a difference. */
gw_certainty gwi_say_ras(const gwi_case *c, gwi_finding *finding);

/* Report what the files show. Used if no cause is supported. */
void gwi_say_saved_ranks(const gwi_case *c, gwi_finding *finding);

#endif
