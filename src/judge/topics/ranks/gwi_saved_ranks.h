/* Compares what the ranks of a job called last on each communicator, and where their threads stand, as files of other
 * programs list it: Flight Recorder dumps, answers of NCCL's RAS, dumps of py-spy. */
#ifndef GWI_SAVED_RANKS_H
#define GWI_SAVED_RANKS_H

#include "gwi_cause.h"

/* True if the model was read from such files. */
bool gwi_are_saved_ranks(const gwi_case *c);

/* Judge ranks that made fewer calls of one kind on a communicator, of which only counts are known. They may be late, or
 * be somewhere else in their program. */
gw_certainty gwi_judge_fewer_calls(const gwi_case *c, gwi_finding *finding);

/* Report what NCCL's RAS answered during the hang: which ranks have launched fewer calls. Returns SUPPORTED if two
 * answers are equal, which shows that the ranks were stuck; HYPOTHESIS for one answer; NONE without a difference. */
gw_certainty gwi_say_ras(const gwi_case *c, gwi_finding *finding);

/* Report where the main thread of each rank stands (dumps of py-spy), equal stacks in one line, the rank that is
 * elsewhere first. Returns how certain it is that the others wait for it: HYPOTHESIS, because a rank of a program that
 * works is also somewhere; SUPPORTED if all ranks stood still in several dumps; NONE if no rank is elsewhere, or if a
 * rank went on between two dumps. */
gw_certainty gwi_say_stacks(const gwi_case *c, gwi_finding *finding);

/* Report what the files show. Used if no cause is supported. */
void gwi_say_saved_ranks(const gwi_case *c, gwi_finding *finding);

#endif
