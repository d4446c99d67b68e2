/* Reports events and states of the cards and the machine that happened before or with the failure. */
#include "gwi_machine.h"

#include "gw_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Events of the machine, such as Xids, may be reported this late: the driver's threads are slow, and gpuwhy samples
 * only ten times a second. */
static const uint64_t told_late_ns = 5000000000u;

static uint64_t time_of_failure(const gwi_case *c)
{
    if (c->root != NULL)
        return c->root->t_ns;
    if (c->sticky != NULL)
        return c->sticky->t_ns;
    return c->hang.hang != NULL ? c->hang.hang->t_ns : c->model->t_end_ns;
}

bool gwi_is_before_failure(const gwi_case *c, uint64_t t_ns)
{
    return t_ns <= time_of_failure(c) + told_late_ns;
}

bool gwi_comes_first(const gwi_case *c, const gw_machine_event *event)
{
    return event != NULL && gwi_is_before_failure(c, event->t_ns);
}

bool gwi_happened_with_failure(const gwi_case *c, const gw_machine_event *event)
{
    const uint64_t before_ns = 10000000000u;
    bool hangs = c->root == NULL && c->sticky == NULL && c->hang.hang != NULL;
    uint64_t t_ns = time_of_failure(c), for_ns = hangs ? c->hang.hang->for_ns : 0;
    uint64_t since_ns = t_ns > for_ns ? t_ns - for_ns : 0;
    return event != NULL && gwi_comes_first(c, event) && event->t_last_ns + before_ns >= since_ns;
}

bool gwi_is_card_failure(const gwi_case *c)
{
    static const uint16_t results[] = {3, 46, 100, 101, 999};
    for (size_t i = 0; c->root != NULL && i < sizeof results / sizeof results[0]; i++)
        if (c->root->result == results[i])
            return true;
    return c->sticky != NULL || c->hang.hang != NULL;
}

const gw_machine_event *gwi_find_xid(const gwi_case *c, const unsigned *numbers)
{
    const gw_machine_event *event = NULL;
    while ((event = gw_machine_event_next(c->model, event, GW_MACHINE_XID, true)) != NULL)
        for (const unsigned *number = numbers; *number != 0; number++)
            if (event->code == *number && gwi_comes_first(c, event))
                return event;
    return NULL;
}

bool gwi_is_xid_verified(const gw_machine_event *event)
{
    const gw_xid *row = event->code <= UINT32_MAX ? gw_data_xid_of((unsigned)event->code) : NULL;
    return row != NULL && row->verified == GW_VERIFIED_YES;
}

char *gwi_card_text(char out[GWI_CARD_TEXT_MAX], const gw_model *model, uint32_t card)
{
    int device = gw_machine_device_of(model, card);
    if (device >= 0)
        snprintf(out, GWI_CARD_TEXT_MAX, "GPU %d", device);
    else if (card != GW_NO_DEVICE)
        snprintf(out, GWI_CARD_TEXT_MAX, "card %" PRIu32 " in nvidia-smi", card);
    else
        snprintf(out, GWI_CARD_TEXT_MAX, "a GPU of this machine");
    return out;
}

static const char *source_text(const gw_machine_event *event)
{
    bool log = (event->sources & 1u << GW_SOURCE_KERNEL_LOG) != 0;
    if (log)
        return "kernel log";
    if ((event->sources & 1u << GW_SOURCE_NVML) != 0)
        return "card";
    return "host";
}

void gwi_say_machine_event(const gwi_case *c, gwi_finding *finding, const gw_machine_event *event)
{
    char card[GWI_CARD_TEXT_MAX];
    const gw_xid *row =
        event->kind == GW_MACHINE_XID && event->code <= UINT32_MAX ? gw_data_xid_of((unsigned)event->code) : NULL;
    const char *line = event->text;
    if (event->kind == GW_MACHINE_XID)
        gwi_evidence(finding, event->t_ns, source_text(event), "Xid %" PRIu64 " on %s%s%s%s%s%s", event->code,
                     gwi_card_text(card, c->model, event->device), row == NULL ? "" : ": ",
                     row == NULL || row->meaning == NULL ? "" : row->meaning, line[0] == '\0' ? "" : " (", line,
                     line[0] == '\0' ? "" : ")");
    else if (event->kind == GW_MACHINE_CARD_LOST)
        gwi_evidence(finding, event->t_ns, "card", "NVML reports that %s %s",
                     gwi_card_text(card, c->model, event->device), event->code == 15 ? "is lost" : "must be reset");
    else
        gwi_evidence(finding, event->t_ns, source_text(event), "%s",
                     line[0] == '\0' ? gw_machine_event_text(event->kind) : line);
}

void gwi_say_xids(const gwi_case *c, gwi_finding *finding)
{
    enum { SHOWN_MAX = 4 };
    const gw_machine_event *event = NULL;
    for (int shown = 0; shown < SHOWN_MAX;) {
        event = gw_machine_event_next(c->model, event, GW_MACHINE_XID, false);
        if (event == NULL)
            return;
        if (gwi_comes_first(c, event)) {
            gwi_say_machine_event(c, finding, event);
            shown++;
        }
    }
}

size_t gwi_cards_used(const gwi_case *c, uint32_t out[GW_MODEL_DEVICES_MAX])
{
    size_t count = 0;
    for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++) {
        bool used = false;
        for (size_t i = 0; i < c->model->process_count; i++)
            used = used || c->model->process[i].usage[device].used;
        uint32_t card = used ? gw_machine_card_of(c->model, device) : GW_NO_DEVICE;
        if (card != GW_NO_DEVICE)
            out[count++] = card;
    }
    return count;
}

bool gwi_advise_cards(const gwi_case *c, gw_string_list *advice,
                      bool (*advise_card)(const gwi_case *c, uint32_t card, gw_string_list *advice))
{
    uint32_t card[GW_MODEL_DEVICES_MAX];
    size_t count = gwi_cards_used(c, card);
    bool good = true;
    for (size_t i = 0; i < count && good; i++)
        good = advise_card(c, card[i], advice);
    return good;
}

/* ---- the host's memory ---- */

/* True if stderr names the pid. A process without driver calls is not in the recording, but its parent may write
 * "worker (pid 123) is killed". */
static bool is_named(const gw_stderr_facts *facts, uint32_t pid)
{
    const gw_stderr_line *lines[] = {&facts->exception, &facts->child_exception, &facts->fatal};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *named = gw_stderr_field(facts, lines[i], GW_SAYS_NAMED_PID, "pid");
        if (named != NULL && strtoul(named, NULL, 10) == pid)
            return true;
    }
    return false;
}

gwi_oom_kill gwi_find_oom_kill(const gwi_case *c)
{
    const gw_model *model = c->model;
    gwi_oom_kill kill = {0};
    for (size_t i = 0; i < model->machine.event_count; i++) {
        const gw_machine_event *event = &model->machine.event[i];
        if (event->kind != GW_MACHINE_OOM_KILL)
            continue;
        if ((event->sources & 1u << GW_SOURCE_CGROUP) != 0)
            kill.group = event; /* keep the last one */
        else if (event->pid != 0 && (event->is_ours || is_named(&model->stderr_facts, event->pid)))
            kill.log = kill.log == NULL ? event : kill.log;
    }
    const gw_series *group = gw_machine_known(model, GW_METRIC_CGROUP_OOM_KILLS, GW_NO_DEVICE, 0);
    const gw_series *host = gw_machine_known(model, GW_METRIC_HOST_OOM_KILLS, GW_NO_DEVICE, 0);
    /* Two readings are needed to see a rise. */
    kill.is_group_known = group != NULL && group->t_last_ns > group->t_first_ns;
    kill.is_host_known = host != NULL && host->t_last_ns > host->t_first_ns;
    kill.group_count = kill.is_group_known ? group->rise : 0;
    kill.host_count = kill.is_host_known ? host->rise : 0;
    return kill;
}
