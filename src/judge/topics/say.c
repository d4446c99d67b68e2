/* Writes evidence lines that several causes share: the refused request, a sticky fault, and its consequences. */
#include "gw_text.h"
#include "gwi_fault.h"
#include "gwi_kept.h"
#include "gwi_machine.h"
#include "gwi_request.h"
#include "gwi_suspects.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- memory ---- */

/* Report how often the refused request was repeated, and whether an earlier request of this size was refused at first
 * and granted later. */
static void say_earlier(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *first = c->handled;
    char bytes[GW_BYTES_TEXT_MAX];
    if (c->oom != NULL && c->oom->repeat_count > 1) {
        gwi_measure(finding, c->oom->t_ns, "driver", (double)c->oom->repeat_count, "count",
                    "the same request was refused %" PRIu64 " times, first at %.2f s", c->oom->repeat_count,
                    (double)c->oom->t_ns / 1e9);
        gwi_weigh(finding, GW_WEIGHT_ASIDE);
    }
    if (first != NULL && c->oom != NULL && first->t_ns < c->oom->t_ns && first->fn == c->oom->fn &&
        first->bytes_wanted == c->oom->bytes_wanted && first->bytes_wanted != 0) {
        gwi_measure(finding, first->t_ns, "driver", (double)first->bytes_wanted, "bytes",
                    "the same request of %s was refused at %.2f s and granted later",
                    gw_bytes_text(bytes, first->bytes_wanted), (double)first->t_ns / 1e9);
        gwi_weigh(finding, GW_WEIGHT_ASIDE);
    }
}

/* Report PyTorch's limit: "PyTorch's own limit of 2.80 GiB (...) was reached; 134.98 GiB of the card's 139.80 GiB was
 * free". */
static void say_framework_limit(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char limit[GW_BYTES_TEXT_MAX], left[GW_BYTES_TEXT_MAX], card[GW_BYTES_TEXT_MAX];
    gw_text free_text = {0};
    gw_bytes_text(limit, memory->limit_bytes);
    gw_bytes_text(left, memory->card_free_bytes);
    gw_bytes_text(card, memory->card_bytes);
    if (memory->card_free_known && memory->card_bytes != 0)
        gw_text_addf(&free_text, "; %s of the card's %s was free", left, card);
    else if (memory->card_free_known)
        gw_text_addf(&free_text, "; %s of the card was free", left);
    gwi_measure(finding, memory->t_ns, "observer", (double)memory->limit_bytes, "bytes",
                "PyTorch's own limit of %s (set_per_process_memory_fraction) was reached%s", limit,
                free_text.failed ? "" : gw_text_str(&free_text));
    finding->failed = finding->failed || free_text.failed;
    gw_text_free(&free_text);
    gwi_next(finding, "Raise PyTorch's own limit of %s (torch.cuda.set_per_process_memory_fraction), or do not set it",
             limit);
}

void gwi_say_pool_sums(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char used[GW_BYTES_TEXT_MAX], limit[GW_BYTES_TEXT_MAX];
    gwi_measure(finding, memory->t_ns, "stderr", (double)memory->pool_used_bytes, "bytes",
                "the framework's pool had %s of %s in use", gw_bytes_text(used, memory->pool_used_bytes),
                gw_bytes_text(limit, memory->pool_limit_bytes));
    gwi_weigh(finding, GW_WEIGHT_DECIDES);
}

static const char *source_of_request(const gwi_case *c)
{
    if (c->memory.from_stderr)
        return "stderr";
    return c->memory.report != NULL && c->oom == NULL ? "observer" : "driver";
}

void gwi_say_request(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char wanted[GW_BYTES_TEXT_MAX], left[GW_BYTES_TEXT_MAX], limit[GW_BYTES_TEXT_MAX], own[GW_BYTES_TEXT_MAX];
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX], gpu[GWI_GPU_TEXT_MAX];
    gwi_call_text(call, memory->call);
    gwi_at(c, gwi_request_site(c), at);
    gwi_on_gpu(c, memory->device, gpu);
    bool is_call = c->oom != NULL && !memory->from_stderr;
    const char *request = is_call ? "" : "a request to ", *link = is_call ? "of" : "for";
    gw_bytes_text(wanted, memory->wanted_bytes);
    gw_bytes_text(left, memory->free_bytes);
    gw_bytes_text(limit, memory->limit_bytes);
    const char *source = source_of_request(c);
    const char *by = memory->limit_is_guard ? " (limit set by gpuwhy)" : "";
    if (memory->limit_is_about)
        gwi_measure(finding, memory->t_ns, source, (double)memory->wanted_bytes, "bytes",
                    "%s%s %s %s failed at PyTorch's own limit (set_per_process_memory_fraction), with %s reserved",
                    request, call, link, wanted, limit);
    else if (memory->limit_is_framework && memory->wanted_bytes != 0)
        gwi_measure(finding, memory->t_ns, source, (double)memory->wanted_bytes, "bytes",
                    "%s%s %s %s failed%s%s; %s of the %s that PyTorch may take was left", request, call, link, wanted,
                    at, gpu, left, limit);
    else if (memory->wanted_bytes != 0 && memory->has_free && memory->has_limit)
        gwi_measure(finding, memory->t_ns, source, (double)memory->wanted_bytes, "bytes",
                    "%s%s %s %s failed%s%s; %s of %s was free%s", request, call, link, wanted, at, gpu, left, limit,
                    by);
    else if (memory->wanted_bytes != 0 && memory->has_free)
        gwi_measure(finding, memory->t_ns, source, (double)memory->wanted_bytes, "bytes",
                    "%s%s %s %s failed%s; %s was free%s", request, call, link, wanted, gpu, left, by);
    else if (memory->wanted_bytes != 0)
        gwi_measure(finding, memory->t_ns, source, (double)memory->wanted_bytes, "bytes",
                    "%s%s %s %s failed for lack of memory%s%s%s", request, call, link, wanted, at, gpu, by);
    else if (memory->has_free && memory->has_limit)
        gwi_measure(finding, memory->t_ns, source, (double)memory->free_bytes, "bytes",
                    "%s%s failed for lack of memory%s%s; %s of %s was free%s", request, call, at, gpu, left, limit, by);
    else
        gwi_evidence(finding, memory->t_ns, source, "%s%s failed for lack of memory%s%s%s", request, call, at, gpu, by);
    gwi_weigh(finding, GW_WEIGHT_DECIDES);
    if (memory->limit_is_framework && !memory->limit_is_about)
        say_framework_limit(c, finding);
    gwi_where(finding, gwi_request_site(c), "the request that was refused");
    if (memory->from_stderr)
        gwi_say_line(c, finding, c->told != NULL ? c->told : &c->model->stderr_facts.exception, "");
    say_earlier(c, finding);
    if (memory->report != NULL && memory->reserved_bytes != 0) {
        char reserved[GW_BYTES_TEXT_MAX];
        gwi_measure(finding, memory->t_ns, "observer", (double)memory->own_bytes, "bytes",
                    "PyTorch had %s in live blocks and %s reserved from the driver%s",
                    gw_bytes_text(own, memory->own_bytes), gw_bytes_text(reserved, memory->reserved_bytes),
                    memory->is_other_request ? "; the refused request was not made by PyTorch's allocator" : "");
    } else if (memory->snapshot != NULL && memory->own_bytes > 0) {
        gwi_measure(finding, memory->t_ns, "ledger", (double)memory->own_bytes, "bytes",
                    "this process held %s in %" PRIu64 " block%s", gw_bytes_text(own, memory->own_bytes),
                    memory->snapshot->usage.live_count, memory->snapshot->usage.live_count == 1 ? "" : "s");
        /* of minor weight, because other lines report the live blocks with their sites */
        gwi_weigh(finding, GW_WEIGHT_ASIDE);
    }
    gwi_say_kept(c, finding);
}

/* ---- sticky faults ---- */

static void say_reset(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky)
{
    for (size_t i = 0; i < c->model->teardown_count; i++) {
        const gw_teardown *teardown = &c->model->teardown[i];
        if (teardown->pid != sticky->pid || teardown->t_ns < sticky->t_ns || teardown->kind != GW_TEARDOWN_RESET)
            continue;
        gwi_evidence(finding, teardown->t_ns, "driver",
                     "the program reset the device, but a reset does not help: restart the process");
        return;
    }
    if (gwi_ended_by_dump(c))
        return; /* the driver has already ended the process, so do not advise to restart it */
    gwi_next(finding, "Restart the process: after this error all its CUDA calls fail, even after a device reset");
}

/* Mark the decisive lines: the first `reported` lines of evidence, and the first two lines from a core dump or the
 * second run (--blame). */
static void weigh_report(gwi_finding *finding, size_t reported)
{
    enum { FOUND_MAX = 2 };
    size_t found = 0;
    for (size_t i = 0; i < finding->evidence_count; i++) {
        gw_evidence *one = &finding->evidence[i];
        bool finds = strcmp(one->source, "core dump") == 0 || strcmp(one->source, "second run") == 0;
        if (i < reported || (finds && found++ < FOUND_MAX))
            one->weight = GW_WEIGHT_DECIDES;
    }
}

void gwi_say_sticky(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const char *what)
{
    gwi_say_report(c, finding, sticky, what);
    size_t reported = finding->evidence_count;
    if (!gwi_is_own_report(c, sticky)) {
        gwi_say_suspects(c, finding, sticky);
        gwi_say_window(c, finding, sticky);
    }
    gwi_say_fault_details(c, finding, sticky);
    weigh_report(finding, reported);
    gwi_say_xids(c, finding);
    say_reset(c, finding, sticky);
}

void gwi_say_consequences(const gwi_case *c, gwi_finding *finding, const gw_failure *after)
{
    enum { SHOWN_MAX = 6 };
    size_t shown = 0, more = 0;
    const gw_stderr_line *status = &c->model->stderr_facts.library_status;
    if (after == c->oom_last && c->memory.is_other_request)
        gwi_line_follows(finding, status);
    for (const gw_failure *next = gwi_failure_next(c, after); next != NULL; next = gwi_failure_next(c, next)) {
        if (next->is_probe)
            continue;
        if (shown == SHOWN_MAX) {
            more++;
            continue;
        }
        char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
        gwi_call_text(call, next->fn_name);
        gwi_at(c, next->site, at);
        if (next->repeat_count > 1)
            gwi_consequence(finding, "%.3f s: %s%s returned %u (%s), %" PRIu64 " times", (double)next->t_ns / 1e9, call,
                            at, next->result, gw_result_name(next->result), next->repeat_count);
        else
            gwi_consequence(finding, "%.3f s: %s%s returned %u (%s)", (double)next->t_ns / 1e9, call, at, next->result,
                            gw_result_name(next->result));
        shown++;
    }
    if (more > 0)
        gwi_consequence(finding, "and %zu more failing call%s", more, GWI_PLURAL(more));
}
