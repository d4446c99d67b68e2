/* Reports the content of a memory snapshot that PyTorch saved, one device after the other. */
#include "gwi_snapshot.h"

#include <inttypes.h>
#include <string.h>

/* Report the places that allocated the live memory. Keep the place that the verdict already has: after a refusal, it is
 * the place of the refused request. */
static void say_holder(const gwi_case *c, gwi_finding *finding, const gw_allocator_report *report)
{
    gwi_wanted_place kept = finding->where;
    gwi_say_holder(c, finding, report->t_ns, "observer", report->live, report->live_count, "that");
    finding->where = kept;
}

static void say_report(const gwi_case *c, gwi_finding *finding, const gw_allocator_report *report)
{
    char live[GW_BYTES_TEXT_MAX], reserved[GW_BYTES_TEXT_MAX], largest[GW_BYTES_TEXT_MAX];
    char gpu[GW_DEVICE_TEXT_MAX];
    uint64_t live_bytes = report->field[GW_ALLOCATOR_ALLOCATED], reserved_bytes = report->field[GW_ALLOCATOR_RESERVED];
    gwi_measure(finding, report->t_ns, "observer", (double)live_bytes, "bytes",
                "%s: %s in %zu live blocks, %s reserved from the driver", gw_device_text(gpu, report->device),
                gw_bytes_text(live, live_bytes), report->live_count, gw_bytes_text(reserved, reserved_bytes));
    say_holder(c, finding, report);
    gwi_say_peak(c, finding, report);
    if (report->has_field[GW_ALLOCATOR_LARGEST_INACTIVE] && reserved_bytes > live_bytes)
        gwi_measure(finding, report->t_ns, "observer", (double)report->field[GW_ALLOCATOR_LARGEST_INACTIVE], "bytes",
                    "the largest free piece in its %" PRIu64 " segments had %s", report->field[GW_ALLOCATOR_SEGMENTS],
                    gw_bytes_text(largest, report->field[GW_ALLOCATOR_LARGEST_INACTIVE]));
}

/* Report memory that grows from step to step, or from run to run, even if no request has failed yet. */
static void say_growth(const gwi_case *c, gwi_finding *finding, const gw_allocator_report *report)
{
    gw_growth growth;
    char all[GW_BYTES_TEXT_MAX], one[GW_BYTES_TEXT_MAX];
    gw_growth_question question = {.pid = report->pid,
                                   .live = report->live,
                                   .live_count = report->live_count,
                                   .order_now = report->order,
                                   .report = report};
    gw_growth_find(c->model, &question, &growth);
    if (growth.steps)
        gwi_measure(finding, growth.step_end_ns, "observer", (double)growth.step_all_bytes, "bytes",
                    "%" PRIu64 " blocks of %s accumulated while other memory was allocated and freed; %s in total with "
                    "the other memory that was kept",
                    growth.step_count, gw_bytes_text(one, growth.step_bytes),
                    gw_bytes_text(all, growth.step_all_bytes));
    else if (growth.repeats && growth.repeat_goes_on)
        gwi_measure(finding, growth.last_begin_ns, "observer", (double)growth.first_bytes, "bytes",
                    "the same sizes were allocated again in the same order while %s of a first run was still allocated",
                    gw_bytes_text(all, growth.first_bytes));
}

void gwi_say_snapshot(const gwi_case *c, gwi_finding *finding)
{
    const gw_model *model = c->model;
    char wanted[GW_BYTES_TEXT_MAX], left[GW_BYTES_TEXT_MAX];
    if (c->memory.known && c->memory.has_free) {
        gwi_headline(finding,
                     "PyTorch's request for %s was refused with %s free on the card; a snapshot does not show which "
                     "other processes held memory",
                     gw_bytes_text(wanted, c->memory.wanted_bytes), gw_bytes_text(left, c->memory.free_bytes));
        gwi_say_request(c, finding);
        gwi_next(finding, "Run the program under gpuwhy: it also sees the card, the driver and other processes");
    } else if (c->memory.known) {
        gwi_headline(finding,
                     "PyTorch's request for %s was refused; a snapshot does not show which other processes held memory",
                     gw_bytes_text(wanted, c->memory.wanted_bytes));
        gwi_say_request(c, finding);
    } else {
        gwi_headline(finding, "this snapshot shows no out-of-memory error from which the program did not recover");
    }
    for (size_t i = 0; i < model->fact_count; i++)
        if (model->fact[i].what == GW_FACT_TORCH_HANDLED)
            gwi_evidence(finding, model->fact[i].t_ns, "observer", "%s", model->fact[i].value);
    for (size_t i = 0; i < model->allocator_count; i++) {
        if (model->allocator[i].live_count == 0 && model->allocator[i].field[GW_ALLOCATOR_RESERVED] == 0)
            continue;
        say_report(c, finding, &model->allocator[i]);
        say_growth(c, finding, &model->allocator[i]);
    }
    if (model->allocator_count == 0)
        gwi_evidence(finding, GWI_NO_TIME, "observer", "the snapshot contains neither segments nor history");
    else if (model->event_count > 0 && model->allocator[0].field[GW_ALLOCATOR_HISTORY_TOTAL] == 0)
        gwi_next(finding,
                 "Record the memory history before the next snapshot: torch.cuda.memory._record_memory_history()");
}
