/* An empty cause, to copy: it compiles, and it never says anything. It has no row in causes.def, so nobody asks it.
 * What fits where is told in docs/HOWTO_ADD_CAUSE.md. */
#include "cause.h"

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    if (c->root == NULL)
        return GW_CERTAINTY_NONE; /* look for the one fact without which it cannot be this */
    (void)finding;                /* gwi_headline(), gwi_evidence(), gwi_rule_out(), gwi_next() */
    return GW_CERTAINTY_NONE;
}

const gw_cause gwi_cause_template = {
    .id = "template",
    .summary = "One sentence: what happened.",
    .proof = "what must be seen before it is established",
    .fixes = {[GW_FRAMEWORK_RAW] = "The best fix\nThe next best"},
    .judge = judge,
};
