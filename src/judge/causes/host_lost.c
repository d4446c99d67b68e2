/* A machine of a job was lost. One recording cannot show it: that of the lost machine only stops. So the cause is found
 * when the recordings of a job are combined (engine/first.c).
 *
 * Never established: a recording also stops without an end if gpuwhy itself was killed.
 * Supported by: all recordings of one machine stop without an end, those of all other machines have one, and no run
 * there failed by itself, or was ended from outside, within the next seconds. */
#include "gwi_cause.h"

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    (void)c;
    (void)finding;
    return GW_CERTAINTY_NONE;
}

const gw_cause gwi_cause_host_lost = {
    .id = "host-lost",
    .summary = "A machine of a job was lost: it crashed, was switched off, or was cut off from the others.",
    .proof = "recordings of one machine that all stop without an end, while the recordings of the job's other machines "
             "have one",
    .fixes = {[GW_FRAMEWORK_RAW] = "Ask the scheduler for the state of the machine (sinfo -R, kubectl describe node)\n"
                                   "Look at the machine's own log of the minutes before: power, kernel panic, memory "
                                   "errors, an Xid of a card\n"
                                   "Exclude the machine, and continue from the last checkpoint"},
    .judge = judge,
};
