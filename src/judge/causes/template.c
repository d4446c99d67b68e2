/* An empty cause to copy. It never reports anything, and it has no row in causes.def, so it is never called.
 * docs/HOWTO_ADD_CAUSE.md explains each part.
 *
 * The first comment of a cause ends with one of these paragraphs; verdict_cause_heads checks this:
 *
 * Established only by: the observation that proves the cause, and why no other cause can explain it.
 * Supported by: weaker observations; leave this out if there are none.
 *
 * Never established: why nothing in a recording can prove the cause, and what makes it supported. */
#include "gwi_cause.h"

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    if (c->root == NULL)
        return GW_CERTAINTY_NONE; /* check a fact that this cause requires */
    (void)finding;                /* fill `finding` with gwi_headline(), gwi_evidence(), gwi_rule_out(), gwi_next() */
    return GW_CERTAINTY_NONE;
}

const gw_cause gwi_cause_template = {
    .id = "template",
    .summary = "One sentence: what happened.",
    .proof = "the evidence that establishes the cause, as a noun phrase",
    .fixes = {[GW_FRAMEWORK_RAW] = "The best fix\nThe next best"},
    .judge = judge,
};
