/* Creates a model, and frees it with everything that it owns. */
#include "gw_logs.h"
#include "gwi_inner.h"

#include <stdlib.h>
#include <unistd.h>

gw_status gw_model_new(gw_model **ret_model, gw_error *err)
{
    gw_model *model = calloc(1, sizeof *model);
    if (model == NULL)
        return gw_fail(err, GW_NOMEM, "make a model");
    model->inner = calloc(1, sizeof *model->inner);
    model->sites = gw_sites_new();
    if (model->inner == NULL || model->sites == NULL || !gwi_groups_start(model)) {
        gw_model_free(model);
        return gw_fail(err, GW_NOMEM, "make a model");
    }
    model->owner = geteuid();
    *ret_model = model;
    return GW_OK;
}

static void process_free(gwi_process *process)
{
    if (process == NULL)
        return;
    free(process->object);
    for (int i = 0; i < GWI_SPACE_COUNT; i++)
        gwi_table_free(&process->table[i]);
    free(process->grave);
    free(process->capture);
    free(process->node);
    free(process->history);
    free(process->order);
    gwi_requests_free(&process->requests);
    free(process->memory_calls.call);
    free(process);
}

static void free_inner(gw_model *model)
{
    gwi_model *inner = model->inner;
    if (inner == NULL)
        return;
    for (size_t i = 0; i < model->process_count; i++)
        process_free(inner->process[i]);
    for (size_t i = 0; inner->ring != NULL && i < model->thread_count; i++)
        free(inner->ring[i].call);
    free(inner->process);
    free(inner->pid);
    gwi_table_free(&inner->pid_table);
    gwi_table_free(&inner->thread_table);
    free(inner->holder);
    free(inner->ring);
    free(inner->inside_fn_plus_1);
    gwi_table_free(&inner->group_table);
    free(inner->picture);
    for (size_t i = 0; i < inner->texts.count; i++)
        free(inner->texts.item[i]);
    free(inner->texts.item);
    free(inner->fn_names.item);
    free(inner);
}

void gw_model_free(gw_model *model)
{
    if (model == NULL)
        return;
    free_inner(model);
    free(model->injection);
    free(model->fence);
    free(model->phase);
    free(model->rehearsal.card);
    free(model->faults.fault);
    free(model->faults.dump);
    free(model->faults.blame.stack);
    free(model->launch_site);
    free(model->alone);
    gwi_machine_free(model);
    free(model->cudnn_line);
    gwi_stderr_free(&model->stderr_facts);
    for (size_t i = 0; i < model->process_count; i++) {
        if (model->process[i].usage != gwi_no_usage)
            free(model->process[i].usage);
        free(model->process[i].raised);
        gw_libraries_free(&model->process[i].libraries);
        gwi_collectives_free(&model->process[i]);
    }
    for (size_t i = 0; i < model->thread_count; i++)
        free(model->thread[i].ring);
    for (size_t i = 0; i < model->failure_count; i++)
        free(model->failure[i].text);
    for (size_t i = 0; i < model->snapshot_count; i++)
        free(model->snapshot[i].live);
    for (size_t i = 0; i < model->teardown_count; i++)
        free(model->teardown[i].buried);
    for (size_t i = 0; i < model->allocator_count; i++) {
        if (model->allocator[i].shares_lists)
            continue;
        free(model->allocator[i].live);
        free(model->allocator[i].peak);
        free(model->allocator[i].request);
        free(model->allocator[i].entry);
    }
    free(model->process);
    free(model->thread);
    free(model->failure);
    free(model->snapshot);
    free(model->teardown);
    gw_sites_free(model->sites);
    free(model->group);
    free(model->info);
    free(model->allocator);
    gwi_hangs_free(model);
    free(model->unordered);
    free(model->unwaited);
    free(model->meta);
    free(model->fact);
    free(model);
}
