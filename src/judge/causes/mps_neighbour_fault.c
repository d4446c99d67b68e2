/* Another client of the MPS server crashed, and this process lost its context, too.
 *
 * Established only by: the result 810 (the server ended this client), together with a verified Xid on the same card.
 * The Xid must be within two seconds of the result, and name a process of another run.
 * Supported by: 810 alone, or such an Xid if MPS is set up and the context was lost. */
#include "gwi_machine.h"

#include <inttypes.h>
#include <string.h>

enum { MPS_RPC_FAILURE = 806, MPS_CLIENT_TERMINATED = 810 };
static const uint64_t same_time_ns = 2000000000u;

/* Return the name of an environment variable that sets up MPS for this program. Returns NULL if none is set. */
static const char *mps_setting(const gw_model *model)
{
    static const char *const keys[] = {"env.CUDA_MPS_PIPE_DIRECTORY", "env.CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                                       "env.CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (gw_model_meta(model, keys[i]) != NULL)
            return keys[i] + strlen("env.");
    return NULL;
}

/* Return an Xid that names a process of another run, on the same card and within two seconds of the failure, or
 * NULL. */
static const gw_machine_event *neighbour_of(const gwi_case *c, const gw_failure *first)
{
    uint32_t card = gw_machine_card_of(c->model, first->device);
    for (size_t i = 0; i < c->model->machine.event_count; i++) {
        const gw_machine_event *event = &c->model->machine.event[i];
        if (event->kind != GW_MACHINE_XID || event->pid == 0 || event->is_ours || event->device != card ||
            card == GW_NO_DEVICE)
            continue;
        if (event->t_ns <= first->t_ns + same_time_ns && first->t_ns <= event->t_ns + same_time_ns)
            return event;
    }
    return NULL;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *first = c->sticky != NULL ? c->sticky : c->root;
    const char *setting = mps_setting(c->model);
    char call[GWI_CALL_TEXT_MAX];
    if (first == NULL)
        return GW_CERTAINTY_NONE;
    bool terminated = first->result == MPS_CLIENT_TERMINATED;
    const gw_machine_event *neighbour = neighbour_of(c, first);
    if (!terminated && first->result != MPS_RPC_FAILURE && (setting == NULL || neighbour == NULL || c->sticky == NULL))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "another client of the MPS server caused a fault, and this process lost its context, too");
    gwi_evidence(finding, first->t_ns, "driver", "%s returned %u (%s)", gwi_call_text(call, first->fn_name),
                 first->result, gw_result_name(first->result));
    if (setting != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "the card is shared through MPS: %s is set", setting);
    if (neighbour != NULL) {
        gwi_say_machine_event(c, finding, neighbour);
        gwi_evidence(finding, neighbour->t_ns, "card", "pid %" PRIu32 " is not a process of this run", neighbour->pid);
    }
    gwi_say_consequences(c, finding, first);
    if (terminated && neighbour != NULL && gwi_is_xid_verified(neighbour))
        return GW_ESTABLISHED;
    return terminated || neighbour != NULL ? GW_SUPPORTED : GW_HYPOTHESIS;
}

const gw_cause gwi_cause_mps_neighbour_fault = {
    .id = "mps-neighbour-fault",
    .summary = "Another client of the MPS server crashed, and this process lost its context, too.",
    .proof = "the driver's result 810, and an Xid on the same card within two seconds that names another process",
    .fixes = {[GW_FRAMEWORK_RAW] = "Do not share a card through MPS with programs that you do not trust\n"
                                   "Use MIG or time slicing to isolate clients\n"
                                   "Let clients exit normally: killing a busy client harms the others, too"},
    .judge = judge,
};
