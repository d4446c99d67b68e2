/* The failure that ended the run is one that gpuwhy injected (--inject).
 *
 * No other cause is judged then: neither the hardware nor the program made the call fail. How the program took it may
 * still show a mistake of the program, and the verdict says what it did.
 *
 * Established only by: a root failure whose event has the mark of --inject, which the hook sets exactly when it answers
 * a call instead of the driver. */
#include "gwi_injected.h"

#include <inttypes.h>
#include <string.h>

static void say_how(const gwi_case *c, gwi_finding *finding, const gw_injection *injection)
{
    gw_text text = {0};
    gwi_taken taken = gwi_injection_taken(c, injection, &text);
    gwi_evidence(finding, injection->t_ns, "injection", "the program %s", gw_text_str(&text));
    gwi_weigh(finding, GW_WEIGHT_DECIDES);
    gw_text_free(&text);
    if (taken == GWI_TAKEN_WENT_ON || taken == GWI_TAKEN_DIED)
        gwi_next(finding, "Check the result of this call, and stop or retry if it fails");
    if (taken == GWI_TAKEN_HUNG)
        gwi_next(finding, "Let the other threads and processes stop waiting if this call fails");
}

/* The program used the NULL that the failed call left. */
static void say_null(const gwi_case *c, gwi_finding *finding)
{
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    uint64_t used_at = c->root->after.null_used_at;
    if (used_at == 0 || used_at > c->model->failure_count)
        return;
    const gw_failure *use = &c->model->failure[used_at - 1];
    gwi_evidence(finding, use->t_ns, "driver", "the program went on with the NULL pointer of the failed call: %s%s",
                 gwi_call_text(call, use->fn_name), gwi_at(c, use->site, at));
}

static const char *taken_word(const gwi_case *c, const gw_injection *injection)
{
    gw_text text = {0};
    gwi_taken taken = gwi_injection_taken(c, injection, &text);
    gw_text_free(&text);
    switch (taken) {
    case GWI_TAKEN_NOTICED:
        return "the program noticed it and ended";
    case GWI_TAKEN_RETRIED:
        return "the program retried the call";
    case GWI_TAKEN_WENT_ON:
        return "the program went on";
    case GWI_TAKEN_HUNG:
        return "the program hung";
    case GWI_TAKEN_DIED:
        return "the program died by a signal";
    case GWI_TAKEN_ENDED:
    case GWI_TAKEN_UNKNOWN:
        break;
    }
    return "the program did no further GPU work";
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *root = c->root;
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    if (root == NULL || !root->injected)
        return GW_CERTAINTY_NONE;
    const gw_injection *injection = gwi_injection_of(c, root);
    gwi_call_text(call, root->fn_name);
    gwi_headline(finding, "gpuwhy let %s fail on purpose (--inject), with %u (%s)%s%s", call, root->result,
                 gw_result_name(root->result), injection == NULL ? "" : "; ",
                 injection == NULL ? "" : taken_word(c, injection));
    gwi_evidence(finding, root->t_ns, "injection",
                 "%s%s returned %u (%s): gpuwhy answered, and the driver was not called", call,
                 gwi_at(c, root->site, at), root->result, gw_result_name(root->result));
    gwi_weigh(finding, GW_WEIGHT_DECIDES);
    if (injection != NULL) {
        say_how(c, finding, injection);
        gwi_evidence(finding, injection->t_ns, "injection", "the rule of the plan was %s%s",
                     injection->rule == NULL ? "?" : injection->rule,
                     injection->closes ? "; from then on every call failed with this result" : "");
    }
    say_null(c, finding);
    gwi_where(finding, root->site, "the call that gpuwhy let fail");
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "the GPU, the driver and the program as the reason of this failure");
    gwi_say_consequences(c, finding, root);
    return GW_ESTABLISHED;
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    return gwi_advise_interventions(c, advice);
}

const gw_cause gwi_cause_injected_failure = {
    .id = "injected-failure",
    .summary = "gpuwhy let a GPU call fail on purpose, because --inject asked for it.",
    .proof = "a failed call that the recording marks as injected, and that nothing earlier explains",
    .fixes = {[GW_FRAMEWORK_RAW] = "Run the program without --inject: this failure was made on purpose\n"
                                   "Check how the program took the failure, and change that"},
    .is_sole = true,
    .judge = judge,
    .advise = advise,
};
