/* Finish a model at the end of a recording: decode the rings, then finish each part of the model. */
#include "gwi_inner.h"

#include "gw_text.h"

#include <stdlib.h>
#include <string.h>

static void decode_call(gw_model *model, gwi_process *process, uint32_t tid, const gw_hot_call *hot, gw_ring_call *call)
{
    const char *name = gw_model_fn_name(model, hot->fn);
    *call = (gw_ring_call){.t_ns = hot->t_ns, .what = hot->what, .stream = hot->stream, .fn_name = name};
    call->is_graph_launch = gw_begins(name, "cuGraphLaunch");
    call->is_launch = gw_begins(name, "cuLaunch") && !gw_begins(name, "cuLaunchHostFunc");
    call->is_copy = gw_begins(name, "cuMemcpy");
    call->is_sync = strstr(name, "Synchronize") != NULL;
    call->is_query = gw_begins(name, "cuStreamQuery") || gw_begins(name, "cuEventQuery");
    if (process == NULL)
        return;
    if (gw_is_any_launch(call))
        call->captured = gwi_was_captured(process, tid, hot->t_ns);
    if (call->is_launch)
        call->kernel = gwi_function_name(model, process, hot->what);
    if (call->is_graph_launch)
        call->kernel = gwi_exec_names(model, process, hot->what);
}

static void decode_rings(gw_model *model)
{
    for (size_t i = 0; i < model->thread_count; i++) {
        gw_thread *thread = &model->thread[i];
        const gwi_hot_ring *ring = &model->inner->ring[i];
        gwi_process *process = gwi_process_of(model, thread->pid, 0);
        uint16_t inside = model->inner->inside_fn_plus_1[i];
        thread->inside_fn = inside == 0 ? NULL : gw_model_fn_name(model, (uint16_t)(inside - 1));
        thread->ring_total = ring->total;
        thread->ring_synced_total = ring->synced_total;
        thread->ring = ring->count == 0 ? NULL : calloc(ring->count, sizeof *thread->ring);
        if (thread->ring == NULL)
            continue;
        thread->ring_count = ring->count;
        for (uint32_t k = 0; k < ring->count; k++)
            decode_call(model, process, thread->tid, &ring->call[k], &thread->ring[k]);
    }
}

static void find_command(gw_model *model)
{
    for (size_t i = 0; i < model->process_count; i++) {
        if (model->process[i].is_command)
            model->command = &model->process[i];
    }
    if (model->t_end_ns == 0)
        model->t_end_ns = model->inner->t_last_ns;
}

static void find_card(gw_model *model)
{
    const char *gpu = gw_model_meta(model, "option.gpu");
    model->is_virtual = gpu != NULL && gw_begins(gpu, "virtual");
    uint64_t limit;
    const char *memory = gw_model_meta(model, "option.memory");
    if (memory == NULL || !gw_bytes_parse(memory, &limit) || limit == 0)
        return;
    for (size_t i = 0; i < GW_MODEL_DEVICES_MAX; i++) {
        if (model->device[i].known && !model->device[i].has_limit) {
            model->device[i].has_limit = true;
            model->device[i].bytes_limit = limit;
        }
    }
}

/* For each process whose end was not recorded, take a snapshot of its ledger at the end of the recording. */
static void snapshot_survivors(gw_model *model)
{
    for (size_t i = 0; i < model->process_count; i++) {
        int device = gwi_fullest_device(&model->process[i]);
        if (!model->process[i].exit_known && device >= 0)
            gwi_snapshot_end(model, model->inner->process[i], device, model->inner->t_last_ns);
    }
}

gw_status gw_model_finish(gw_model *model, gw_error *err)
{
    for (size_t i = 0; i < model->process_count; i++)
        gwi_replaced_apply(model, model->inner->process[i]);
    snapshot_survivors(model);
    gwi_groups_finish(model);
    gwi_phases_sort(model);
    decode_rings(model);
    gwi_waits_finish(model);
    find_command(model);
    find_card(model);
    gwi_raised_finish(model);
    gwi_stderr_finish(model);
    gwi_observer_finish(model);
    gwi_failures_finish(model);
    gwi_faults_finish(model);
    gwi_launches_finish(model);
    gwi_alone_finish(model);
    gwi_collectives_finish(model);
    gwi_hangs_finish(model);
    gwi_machine_finish(model);
    gwi_crash_finish(model);
    gwi_order_finish(model);
    gwi_failures_link(model);
    return model->inner->nomem ? gw_fail(err, GW_NOMEM, "the model of the run") : GW_OK;
}
