/* How causes speak: lists that grow, and the sentences that several causes share. */
#include "gw_array.h"
#include "gw_text.h"
#include "gwi_fault.h"
#include "gwi_kept.h"
#include "gwi_machine.h"
#include "gwi_request.h"
#include "gwi_suspects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gwi_list_add(gw_string_list *list, const char *text)
{
    if (!gw_array_more(&list->item, list->count, sizeof *list->item))
        return false;
    list->item[list->count] = strdup(text);
    if (list->item[list->count] == NULL)
        return false;
    list->count++;
    return true;
}

static char *format_text(const char *format, va_list args)
{
    char *text = NULL;
    return vasprintf(&text, format, args) < 0 ? NULL : text;
}

bool gwi_list_addf(gw_string_list *list, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    bool good = text != NULL && gwi_list_add(list, text);
    free(text);
    return good;
}

static void list_format(gwi_finding *finding, gw_string_list *list, const char *format, va_list args)
{
    char *text = format_text(format, args);
    if (text == NULL || !gwi_list_add(list, text))
        finding->failed = true;
    free(text);
}

#define LIST_SAYER(name, list)                                                                                         \
    void name(gwi_finding *finding, const char *format, ...)                                                           \
    {                                                                                                                  \
        va_list args;                                                                                                  \
        va_start(args, format);                                                                                        \
        list_format(finding, &finding->list, format, args);                                                            \
        va_end(args);                                                                                                  \
    }
LIST_SAYER(gwi_rule_out, ruled_out)
LIST_SAYER(gwi_consequence, consequences)
LIST_SAYER(gwi_next, next)

void gwi_headline(gwi_finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    gw_text_clear(&finding->headline);
    gw_text_add_str(&finding->headline, text == NULL ? "" : text);
    finding->failed = finding->failed || text == NULL || finding->headline.failed;
    free(text);
}

static void evidence_add(gwi_finding *finding, gw_evidence evidence)
{
    if (evidence.text == NULL ||
        !gw_array_more(&finding->evidence, finding->evidence_count, sizeof *finding->evidence)) {
        finding->failed = true;
        free(evidence.text);
        return;
    }
    finding->evidence[finding->evidence_count++] = evidence;
}

void gwi_evidence(gwi_finding *finding, uint64_t t_ns, const char *source, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    evidence_add(finding, (gw_evidence){.t_ns = t_ns == GWI_NO_TIME ? 0 : t_ns,
                                        .has_time = t_ns != GWI_NO_TIME,
                                        .text = text,
                                        .unit = "",
                                        .source = source});
}

void gwi_measure(gwi_finding *finding, uint64_t t_ns, const char *source, double value, const char *unit,
                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    evidence_add(finding, (gw_evidence){.t_ns = t_ns == GWI_NO_TIME ? 0 : t_ns,
                                        .has_time = t_ns != GWI_NO_TIME,
                                        .text = text,
                                        .has_value = true,
                                        .value = value,
                                        .unit = unit,
                                        .source = source});
}

void gwi_weigh(gwi_finding *finding, gw_weight weight)
{
    if (finding->evidence_count > 0)
        finding->evidence[finding->evidence_count - 1].weight = weight;
}

static void list_free(gw_string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->item[i]);
    free(list->item);
    *list = (gw_string_list){0};
}

void gwi_finding_free(gwi_finding *finding)
{
    gw_text_free(&finding->headline);
    for (size_t i = 0; i < finding->evidence_count; i++)
        free(finding->evidence[i].text);
    free(finding->evidence);
    list_free(&finding->ruled_out);
    list_free(&finding->consequences);
    list_free(&finding->next);
    *finding = (gwi_finding){0};
}

char *gwi_call_text(char out[GWI_CALL_TEXT_MAX], const char *fn_name)
{
    _Static_assert((int)GWI_CALL_TEXT_MAX == (int)GW_CALL_TEXT_MAX, "the same names");
    return gw_call_text(out, fn_name);
}

/* One length-prefixed part of a mangled name; NULL: there is none. */
static const char *name_part(const char *at, const char **ret_text, size_t *ret_bytes)
{
    size_t bytes = 0, digits = 0;
    for (; at[digits] >= '0' && at[digits] <= '9' && digits < 4; digits++)
        bytes = bytes * 10 + (size_t)(at[digits] - '0');
    if (digits == 0 || bytes == 0 || strnlen(at + digits, bytes) < bytes)
        return NULL;
    *ret_text = at + digits;
    *ret_bytes = bytes;
    return at + digits + bytes;
}

char *gwi_kernel_text(char out[GWI_KERNEL_TEXT_MAX], const char *kernel)
{
    snprintf(out, GWI_KERNEL_TEXT_MAX, "%s", kernel);
    if (!gw_begins(kernel, "_Z"))
        return out;
    const char *at = kernel + 2, *text;
    bool nested = *at == 'N';
    size_t used = 0, bytes;
    at += nested;
    while ((at = name_part(at, &text, &bytes)) != NULL) {
        bool anonymous = bytes > 9 && gw_begins(text, "_GLOBAL__");
        if (!anonymous && used + bytes + 3 < GWI_KERNEL_TEXT_MAX)
            used += (size_t)snprintf(out + used, GWI_KERNEL_TEXT_MAX - used, "%s%.*s",
                                     used == 0 ? "" : "::", (int)bytes, text);
        if (!nested)
            break;
    }
    return out;
}

/* ---- memory ---- */

/* The same request had been refused before, and the program went on. */
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
                    "the same request of %s had been refused at %.2f s already, and was granted later",
                    gw_bytes_text(bytes, first->bytes_wanted), (double)first->t_ns / 1e9);
        gwi_weigh(finding, GW_WEIGHT_ASIDE);
    }
}

/* "PyTorch's own limit of 2.80 GiB (...) was reached; 134.98 GiB of the card's 139.80 GiB was free" */
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

void gwi_say_request(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char wanted[GW_BYTES_TEXT_MAX], left[GW_BYTES_TEXT_MAX], limit[GW_BYTES_TEXT_MAX], own[GW_BYTES_TEXT_MAX];
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX], gpu[GWI_GPU_TEXT_MAX];
    gwi_call_text(call, memory->call);
    gwi_at(c, gwi_request_site(c), at);
    gwi_on_gpu(c, memory->device, gpu);
    const char *request = c->oom == NULL ? "a request to " : "", *link = c->oom == NULL ? "for" : "of";
    gw_bytes_text(wanted, memory->wanted_bytes);
    gw_bytes_text(left, memory->free_bytes);
    gw_bytes_text(limit, memory->limit_bytes);
    const char *source = memory->from_stderr                        ? "stderr"
                         : memory->report != NULL && c->oom == NULL ? "observer"
                                                                    : "driver";
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
        gwi_evidence(finding, memory->t_ns, "stderr", "%s",
                     c->told != NULL ? c->told->text : c->model->stderr_facts.exception.text);
    say_earlier(c, finding);
    if (memory->report != NULL && memory->reserved_bytes != 0) {
        char reserved[GW_BYTES_TEXT_MAX];
        gwi_measure(finding, memory->t_ns, "observer", (double)memory->own_bytes, "bytes",
                    "PyTorch had %s in live blocks and %s reserved from the driver",
                    gw_bytes_text(own, memory->own_bytes), gw_bytes_text(reserved, memory->reserved_bytes));
    } else if (memory->snapshot != NULL && memory->own_bytes > 0) {
        gwi_measure(finding, memory->t_ns, "ledger", (double)memory->own_bytes, "bytes",
                    "this process held %s that it had asked for, %" PRIu64 " block%s",
                    gw_bytes_text(own, memory->own_bytes), memory->snapshot->usage.live_count,
                    memory->snapshot->usage.live_count == 1 ? "" : "s");
        gwi_weigh(finding, GW_WEIGHT_ASIDE); /* what lives of it is told with its sites */
    }
    gwi_say_kept(c, finding);
}

static void rule_out_foreign(const gwi_memory *memory, gwi_finding *finding)
{
    char bytes[GW_BYTES_TEXT_MAX];
    if (memory->limit_is_guard && !memory->foreign_recorded)
        gwi_rule_out(finding, "other processes (the limit counts this program alone)");
    else if (memory->limit_is_framework)
        gwi_rule_out(finding, "other processes (PyTorch's own limit counts this program alone)");
    else if (memory->foreign_known && !gwi_would_fit(memory, memory->foreign_bytes))
        gwi_rule_out(finding, "other processes (%s)", gw_bytes_text(bytes, memory->foreign_bytes));
    else if (!memory->foreign_known && memory->rest_known && !gwi_would_fit(memory, memory->rest_bytes))
        gwi_rule_out(finding, "other processes (at most %s, contexts included)",
                     gw_bytes_text(bytes, memory->rest_bytes));
}

static void rule_out_fragmentation(const gwi_memory *memory, gwi_finding *finding)
{
    char idle[GW_BYTES_TEXT_MAX], cached[GW_BYTES_TEXT_MAX];
    uint64_t both = memory->idle_page_bytes + memory->cached_bytes;
    if (memory->wanted_bytes == 0 || gwi_would_fit(memory, both) || !memory->has_free)
        return;
    if (memory->cached_bytes > 0)
        gwi_rule_out(finding, "fragmentation (%s cached but not in use)", gw_bytes_text(cached, memory->cached_bytes));
    else if (memory->snapshot != NULL && memory->snapshot->live != NULL)
        gwi_rule_out(finding, "fragmentation (%s in half-used pages)", gw_bytes_text(idle, memory->idle_page_bytes));
}

const char *gwi_memory_source(const gwi_memory *memory)
{
    return memory->report != NULL && memory->live == memory->report->live ? "observer" : "ledger";
}

void gwi_say_memory_ruled_out(const gwi_case *c, gwi_finding *finding, unsigned which)
{
    const gwi_memory *memory = &c->memory;
    if (which & GWI_NOT_FOREIGN)
        rule_out_foreign(memory, finding);
    if (which & GWI_NOT_FRAGMENTED)
        rule_out_fragmentation(memory, finding);
    if ((which & GWI_NOT_GROWTH) && gwi_loop_is_balanced(memory) && !memory->growth.steps && !memory->growth.repeats)
        gwi_rule_out(finding, "a leak (the last %" PRIu64 " iterations left nothing behind)",
                     memory->growth.loop.balanced_count);
}

/* ---- faults on the device ---- */

typedef struct launch_list {
    const gw_ring_call *last;    /* NULL: none */
    const gw_ring_call *call[8]; /* the newest of those of which nothing shows that they were over, oldest first */
    size_t count;
    uint64_t open_count;   /* of such launches */
    uint64_t before_count; /* of these, made before the last good synchronisation, which was one for other work */
} launch_list;

bool gwi_is_open_launch(const gw_ring_call *call, uint64_t t_ns)
{
    return gw_is_any_launch(call) && !call->captured && call->t_ns <= t_ns && !call->waited;
}

/* Is the thread's last good synchronisation the process's? One stamp in two items may differ a little: the clock of the
 * buffers is measured anew each time. */
static bool is_own_sync(const gw_thread *thread, uint64_t synced_ns)
{
    enum { CLOCK_SLACK_NS = 10000 };
    uint64_t apart =
        synced_ns > thread->synced_at_ns ? synced_ns - thread->synced_at_ns : thread->synced_at_ns - synced_ns;
    return synced_ns != 0 && thread->synced_at_ns != 0 && apart <= CLOCK_SLACK_NS;
}

/* Times may be shared by calls that were over at once; the ring's own count is exact for the thread that waited. */
static bool is_after_sync(const gw_thread *thread, size_t at, uint64_t synced_ns)
{
    if (is_own_sync(thread, synced_ns) && thread->ring_synced_total != 0)
        return thread->ring_total - thread->ring_count + at >= thread->ring_synced_total;
    return thread->ring[at].t_ns > synced_ns;
}

static void keep_launch(launch_list *list, const gw_ring_call *call)
{
    const size_t room = sizeof list->call / sizeof list->call[0];
    if (list->count == room) {
        if (call->t_ns < list->call[0]->t_ns)
            return;
        memmove(&list->call[0], &list->call[1], --list->count * sizeof list->call[0]);
    }
    size_t at = list->count++;
    for (; at > 0 && list->call[at - 1]->t_ns > call->t_ns; at--)
        list->call[at] = list->call[at - 1];
    list->call[at] = call;
}

static launch_list launches_before(const gwi_case *c, uint64_t t_ns, uint64_t synced_ns)
{
    launch_list list = {0};
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        if (c->process == NULL || thread->pid != c->process->pid)
            continue;
        for (size_t k = 0; k < thread->ring_count; k++) {
            const gw_ring_call *call = &thread->ring[k];
            if ((!call->is_launch && !call->is_graph_launch) || call->captured || call->t_ns > t_ns)
                continue;
            list.last = list.last == NULL || call->t_ns >= list.last->t_ns ? call : list.last;
            if (!gwi_is_open_launch(call, t_ns))
                continue;
            list.open_count++;
            list.before_count += synced_ns != 0 && !is_after_sync(thread, k, synced_ns);
            keep_launch(&list, call);
        }
    }
    return list;
}

const char *gwi_stream_text(char out[GWI_STREAM_TEXT_MAX], uint64_t stream)
{
    if (stream <= 2)
        snprintf(out, GWI_STREAM_TEXT_MAX, "%s",
                 stream == 0   ? "the default stream"
                 : stream == 1 ? "the legacy stream"
                               : "the per-thread stream");
    else
        snprintf(out, GWI_STREAM_TEXT_MAX, "stream 0x%" PRIx64, stream);
    return out;
}

/* Calls of the process between the two instants, as far as they are known one by one: hot ones of the rings, failures.
 */
static uint64_t calls_between(const gw_model *model, const gw_failure *until, uint64_t from_ns)
{
    uint64_t count = 0;
    for (size_t i = 0; i < model->thread_count; i++) {
        const gw_thread *thread = &model->thread[i];
        for (size_t k = 0; thread->pid == until->pid && k < thread->ring_count; k++)
            count += thread->ring[k].t_ns > from_ns && thread->ring[k].t_ns < until->t_ns;
    }
    for (size_t i = 0; i < model->failure_count; i++)
        count += model->failure[i].pid == until->pid && model->failure[i].t_ns > from_ns &&
                 model->failure[i].t_ns < until->t_ns;
    return count;
}

bool gwi_window_is_whole(const gwi_case *c, uint64_t synced_ns)
{
    if (c->model->note_count[GW_NOTE_SLOTS_FULL] > 0 || c->process->lost_threads > 0)
        return false;
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        if (thread->pid == c->process->pid && thread->ring_count == 0 && gw_launches(thread->counter) > 0)
            return false; /* there are more threads than rings */
        if (thread->pid != c->process->pid || thread->ring_count == 0 || thread->ring_total <= thread->ring_count)
            continue;
        bool own = is_own_sync(thread, synced_ns) && thread->ring_synced_total != 0;
        if (own ? thread->ring_synced_total < thread->ring_total - thread->ring_count
                : thread->ring[0].t_ns > synced_ns)
            return false;
    }
    return true;
}

/* The ring holds a thread's last calls. What came before them since the last good synchronisation is not known one by
 * one. */
static void say_before_ring(const gwi_case *c, gwi_finding *finding, uint64_t synced_ns)
{
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        if (thread->pid != c->process->pid || thread->ring_count == 0 || thread->ring_total <= thread->ring_count)
            continue;
        uint64_t begin = thread->ring_total - thread->ring_count; /* calls of the thread before the ring's first */
        bool own = is_own_sync(thread, synced_ns);
        uint64_t unknown = own && thread->ring_synced_total < begin ? begin - thread->ring_synced_total : 0;
        if (unknown > 0)
            gwi_measure(finding, GWI_NO_TIME, "driver", (double)unknown, "calls",
                        "that synchronisation lies before the calls of thread %u that are kept: %" PRIu64
                        " calls between are not known one by one",
                        thread->tid, unknown);
        else if (!own && thread->ring[0].t_ns > synced_ns)
            gwi_evidence(
                finding, GWI_NO_TIME, "driver",
                "the calls of thread %u that are kept begin at %.3f s: earlier ones since then are not known one "
                "by one",
                thread->tid, (double)thread->ring[0].t_ns / 1e9);
    }
}

static void say_distance(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const launch_list *list)
{
    const gw_ring_call *last = list->last;
    uint64_t between = calls_between(c->model, sticky, last->t_ns);
    double ms = (double)(sticky->t_ns - last->t_ns) / 1e6;
    if (sticky->by_dump)
        gwi_measure(finding, sticky->t_ns, "driver", ms, "ms", "the dump was complete %.2f ms after the last launch",
                    ms);
    else if (sticky->kind == GW_EV_LAUNCH || sticky->kind == GW_EV_GRAPH_LAUNCH)
        gwi_measure(
            finding, sticky->t_ns, "driver", ms, "ms",
            "the report came %.2f ms and %" PRIu64
            " other call%s after the last launch that succeeded: a launch reports what an earlier one did, unless "
            "the program waits for each (CUDA_LAUNCH_BLOCKING=1)",
            ms, between, GWI_PLURAL(between));
    else
        gwi_measure(finding, sticky->t_ns, "driver", ms, "ms",
                    "the report came %.2f ms and %" PRIu64
                    " other call%s after the last launch: the call that reports it is not the one at fault",
                    ms, between, GWI_PLURAL(between));
}

static void say_window(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky)
{
    uint64_t synced = c->process->synced_at_ns;
    launch_list list = launches_before(c, sticky->t_ns, synced);
    double ms = (double)(sticky->t_ns - synced) / 1e6;
    if (synced != 0 && synced < sticky->t_ns && list.before_count > 0)
        gwi_measure(finding, synced, "driver", ms, "ms",
                    "last good synchronisation, %.2f ms before the report, but not of all streams: of %" PRIu64
                    " launch%s nothing shows that they were over, %" PRIu64 " made before it",
                    ms, list.open_count, list.open_count == 1 ? "" : "es", list.before_count);
    else if (synced != 0 && synced < sticky->t_ns)
        gwi_measure(finding, synced, "driver", ms, "ms",
                    "last good synchronisation: the fault happened in the %.2f ms (%" PRIu64
                    " launch%s) between it and the report",
                    ms, list.open_count, list.open_count == 1 ? "" : "es");
    else if (synced == 0 && list.last != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "driver",
                     "no synchronisation had succeeded before: any launch of the process may have caused it");
    say_before_ring(c, finding, synced);
    if (list.last != NULL)
        say_distance(c, finding, sticky, &list);
}

static void say_reset(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky)
{
    for (size_t i = 0; i < c->model->teardown_count; i++) {
        const gw_teardown *teardown = &c->model->teardown[i];
        if (teardown->pid != sticky->pid || teardown->t_ns < sticky->t_ns || teardown->kind != GW_TEARDOWN_RESET)
            continue;
        gwi_evidence(finding, teardown->t_ns, "driver",
                     "the program reset the device: no reset inside the process cures this, only a new process does");
        return;
    }
    if (gwi_ended_by_dump(c))
        return; /* the process is gone */
    gwi_next(finding, "Restart the process: after this error no call of it can succeed, and no device reset inside it "
                      "helps");
}

/* The report decides, what a cause said before it, and what a dump or the second run found out: its first lines. */
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
        say_window(c, finding, sticky);
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
        gwi_consequence(finding, "and %zu more failing calls", more);
}
