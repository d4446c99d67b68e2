/* Reports memory by program line and by phase: what holds live memory, what held memory at peak use, and which phases
 * the program named. */
#include "gwi_cause.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOLDERS_SAID_MAX = 3 };

/* ---- live memory ---- */

void gwi_say_live_holder(const gwi_case *c, gwi_finding *finding, const char *of_what)
{
    const gwi_memory *memory = &c->memory;
    if (memory->report == NULL || memory->live != memory->report->live)
        return; /* the live blocks are the driver's, not a framework's; the cause itself reports those */
    gwi_wanted_place kept = finding->where;
    if (gwi_say_holder(c, finding, memory->t_ns, "observer", memory->live, memory->live_count, of_what) &&
        kept.site != 0)
        finding->where = kept; /* gwi_say_holder() replaced a place that was already set */
}

/* ---- the peak ---- */

static uint64_t bytes_held(const gw_allocator_report *report)
{
    uint64_t sum = report->held_rest.bytes;
    for (size_t i = 0; i < report->held_count; i++)
        sum += report->held[i].bytes;
    return sum;
}

/* Merge call sites with equal text into one entry of `out`, and sort the entries by bytes, largest first. Returns the
 * number of entries. */
static size_t join_held(const gwi_case *c, const gw_allocator_report *report, gw_held *out)
{
    char one[GWI_PLACE_TEXT_MAX], other[GWI_PLACE_TEXT_MAX];
    size_t count = 0;
    for (size_t i = 0; i < report->held_count; i++) {
        size_t at = 0;
        gwi_place(c, report->held[i].site, one);
        if (one[0] == '\0')
            continue;
        while (at < count && strcmp(one, gwi_place(c, out[at].site, other)) != 0)
            at++;
        if (at == count)
            out[count++] = (gw_held){.site = report->held[i].site};
        out[at].bytes += report->held[i].bytes;
        out[at].count += report->held[i].count;
        for (; at > 0 && out[at - 1].bytes < out[at].bytes; at--) {
            gw_held held = out[at];
            out[at] = out[at - 1];
            out[at - 1] = held;
        }
    }
    return count;
}

/* Write which lines hold the memory: "61 % (3.10 GiB) allocated at train.py:25 in loss; 20 % ...". Returns false if no
 * place is known, or if there is no memory. */
static bool holders_text(const gwi_case *c, const gw_allocator_report *report, gw_text *text)
{
    gw_held held[GW_HELD_MAX];
    size_t count = join_held(c, report, held);
    uint64_t all = bytes_held(report);
    char bytes[GW_BYTES_TEXT_MAX], place[GWI_PLACE_TEXT_MAX];
    for (size_t i = 0; i < count && i < HOLDERS_SAID_MAX && held[i].bytes * 20 >= all; i++)
        gw_text_addf(text, "%s%.0f %% (%s) allocated at %s", i == 0 ? "" : "; ",
                     (double)held[i].bytes * 100 / (double)all, gw_bytes_text(bytes, held[i].bytes),
                     gwi_place(c, held[i].site, place));
    return text->bytes > 0 && !text->failed;
}

void gwi_say_peak(const gwi_case *c, gwi_finding *finding, const gw_allocator_report *report)
{
    uint64_t peak = report == NULL ? 0 : bytes_held(report);
    uint64_t live = report == NULL ? 0 : report->field[GW_ALLOCATOR_ALLOCATED];
    char bytes[GW_BYTES_TEXT_MAX];
    gw_text text = {0};
    /* If memory use was at or near its peak when the request failed, other evidence already lists the holders of this
     * memory. */
    if (peak <= live + live / 32 || !holders_text(c, report, &text)) {
        gw_text_free(&text);
        return;
    }
    gwi_measure(finding, report->t_held_ns, "observer", (double)peak, "bytes",
                "memory use peaked at %.2f s with %s: %s", (double)report->t_held_ns / 1e9, gw_bytes_text(bytes, peak),
                gw_text_str(&text));
    gw_text_free(&text);
}

bool gwi_advise_peak(const gwi_case *c, uint32_t pid, gw_string_list *advice)
{
    const gw_model *model = c->model;
    bool good = true;
    for (size_t i = 0; i < model->allocator_count && good; i++) {
        const gw_allocator_report *report = &model->allocator[i];
        char bytes[GW_BYTES_TEXT_MAX], gpu[GW_DEVICE_TEXT_MAX];
        gw_text text = {0}, line = {0};
        if (report->pid == pid && !report->is_oom && report->held_count > 0 && holders_text(c, report, &text)) {
            gw_text_addf(&line, "PyTorch's memory on %s peaked at %.2f s with %s: %s",
                         gw_device_text(gpu, report->device), (double)report->t_held_ns / 1e9,
                         gw_bytes_text(bytes, bytes_held(report)), gw_text_str(&text));
            good = !line.failed && gwi_list_add(advice, gw_text_str(&line));
        }
        gw_text_free(&text);
        gw_text_free(&line);
    }
    return good;
}

/* ---- phases ---- */

void gwi_say_phase(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = c->root;
    uint64_t t_ns = 0;
    if (c->memory.known)
        t_ns = c->memory.t_ns;
    else if (failure != NULL)
        t_ns = failure->t_ns;
    uint32_t pid = 0;
    if (c->memory.known)
        pid = c->memory.pid;
    else if (failure != NULL)
        pid = failure->pid;
    const gw_phase *phase = pid == 0 ? NULL : gw_model_phase_at(c->model, pid, t_ns);
    if (phase != NULL && c->model->asked_phase == NULL) /* do not repeat the phase that the user asked for */
        gwi_evidence(finding, t_ns, "observer", "this happened in phase %s, which began at %.2f s", phase->name,
                     (double)phase->t_ns / 1e9);
}

const char *gwi_later_phase(const gwi_case *c, uint64_t before_ns)
{
    const gw_phase *now = gw_model_phase_at(c->model, c->memory.pid, c->memory.t_ns);
    const gw_phase *then = gw_model_phase_at(c->model, c->memory.pid, before_ns);
    return now == NULL || (then != NULL && then->alike == now->alike) ? NULL : now->name;
}
