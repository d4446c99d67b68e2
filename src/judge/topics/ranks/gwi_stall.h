/* Compares the NCCL calls of ranks that make no progress: which rank keeps the others waiting, and why. Works on
 * digests alone (gw_ranks.h), so one recording and many are judged by the same rules, and by numbers instead of clocks.
 */
#ifndef GWI_VERDICT_STALL_H
#define GWI_VERDICT_STALL_H

#include "gwi_cause.h"

/* Find why ranks wait for each other. The kind is NONE if nothing shows it, or if an error of a rank came before:
 * - no rank is stuck in a collective, and no two ranks called different ones at the same number;
 * - a rank failed by itself before a waiting one gave up. If `has_clock` is false, the times of two ranks cannot be
 *   compared, and any error of a rank that did not wait counts as earlier.
 * Returns false if there is no memory. */
bool gwi_stall_find(const gw_ranks *ranks, bool has_clock, gwi_stall *ret_stall);

/* Set headline, evidence and next steps. The rank at fault comes first, then those that wait, in one line for each
 * place and call, the rarest first. */
void gwi_say_stall(const gw_ranks *ranks, const gwi_stall *stall, gwi_finding *finding);
/* Add the ranks that wait in NCCL to the consequences of another failure. `except_pid` is the failed process. */
void gwi_waiting_follows(const gw_ranks *ranks, uint32_t except_pid, gwi_finding *finding);

/* True if an exception was printed after the last call of the rank at fault, whose main thread no longer stands in the
 * program's code: the exception may have ended the program of this rank, although the interpreter's own report is
 * missing. */
bool gwi_may_have_raised(const gwi_case *c);

#endif
