/* The failure that a page is about, and what the framework's allocator reported about it. */
#include "gwi_sections.h"

#include <stdlib.h>

/* The verdict has the time of its failure; several equal failures have one entry. */
static bool is_of_verdict(const gwi_part *at, const gw_failure *failure)
{
    uint64_t t_ns = at->run->verdict->t_failure_ns;
    return at->run->verdict->has_failure && failure->t_ns <= t_ns && t_ns <= failure->t_last_ns;
}

const gw_failure *gwi_refusal(const gwi_part *at)
{
    const gw_failure *found = NULL;
    for (size_t i = 0; i < at->model->failure_count; i++) {
        const gw_failure *failure = &at->model->failure[i];
        if (!failure->is_allocation)
            continue;
        if (is_of_verdict(at, failure))
            return failure;
        if (found == NULL || failure->recovery == GW_RECOVERED_NOT || found->recovery != GW_RECOVERED_NOT)
            found = failure;
    }
    return found;
}

static const gw_allocator_report *report_of(const gwi_part *at, const gw_failure *failure)
{
    bool has = failure != NULL && failure->allocator >= 0 && (size_t)failure->allocator < at->model->allocator_count;
    return has ? &at->model->allocator[failure->allocator] : NULL;
}

/* Return the last report about a refused request, one from which the program did not recover if there is one. Without
 * any, return the last report if the model was built from a memory snapshot. */
static const gw_allocator_report *last_report(const gwi_part *at)
{
    const gw_allocator_report *found = NULL;
    for (size_t i = 0; i < at->model->allocator_count; i++) {
        const gw_allocator_report *report = &at->model->allocator[i];
        if (report->is_oom &&
            (found == NULL || report->recovery == GW_RECOVERED_NOT || found->recovery != GW_RECOVERED_NOT))
            found = report;
    }
    bool is_snapshot = at->run->path == NULL && at->model->allocator_count > 0;
    return found == NULL && is_snapshot ? &at->model->allocator[at->model->allocator_count - 1] : found;
}

bool gwi_moment_find(const gwi_part *at, gwi_moment *ret_moment)
{
    const gw_failure *failure = gwi_refusal(at);
    const gw_allocator_report *report = failure != NULL ? report_of(at, failure) : last_report(at);
    if (failure == NULL && report == NULL)
        return false;
    *ret_moment = (gwi_moment){.failure = failure, .report = report};
    ret_moment->pid = failure != NULL ? failure->pid : report->pid;
    ret_moment->t_ns = failure != NULL ? failure->t_ns : report->t_ns;
    ret_moment->is_refusal = failure != NULL || report->is_oom;
    if (report != NULL && report->is_oom && report->bytes_wanted > 0)
        ret_moment->wanted_bytes = report->bytes_wanted;
    else if (failure != NULL)
        ret_moment->wanted_bytes = failure->bytes_wanted;
    return true;
}

gw_live *gwi_report_live(gwi_part *at, const gw_allocator_report *report)
{
    gw_live *live = report->live_count == 0 ? NULL : malloc(report->live_count * sizeof *live);
    uint64_t first = report->request_count == 0 ? 0 : report->request[0].order;
    at->failed = at->failed || (live == NULL && report->live_count > 0);
    for (size_t i = 0; live != NULL && i < report->live_count; i++) {
        live[i] = report->live[i];
        if (live[i].site == 0 && live[i].order != 0 && live[i].order >= first &&
            live[i].order - first < report->request_count)
            live[i].site = report->request[live[i].order - first].site;
    }
    return live;
}
