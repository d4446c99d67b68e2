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

static void free_pairs(gw_pair *pair, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(pair[i].key);
        free(pair[i].value);
    }
    free(pair);
}

static void free_pool(gwi_string_pool *pool)
{
    for (size_t i = 0; i < pool->count; i++)
        free(pool->item[i]);
    free(pool->item);
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
    free_pool(&inner->fn_names);
    free_pool(&inner->names);
    free(inner);
}

void gw_model_free(gw_model *model)
{
    if (model == NULL)
        return;
    free_inner(model);
    gwi_injected_free(model);
    gwi_phases_free(model);
    gwi_rehearsal_free(model);
    gwi_faults_free(model);
    free(model->launch_site);
    free(model->alone);
    gwi_machine_free(model);
    gwi_cudnn_free(model);
    gwi_stderr_free(&model->stderr_facts);
    for (size_t i = 0; i < model->process_count; i++) {
        if (model->process[i].usage != gwi_no_usage)
            free(model->process[i].usage);
        free(model->process[i].exe);
        free(model->process[i].driver_path);
        free(model->process[i].raised);
        free(model->process[i].driver_build_id);
        gw_libraries_free(&model->process[i].libraries);
    }
    for (size_t i = 0; i < model->thread_count; i++)
        free(model->thread[i].ring);
    for (size_t i = 0; i < GW_MODEL_DEVICES_MAX; i++)
        free(model->device[i].name);
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
    free_pairs(model->meta, model->meta_count);
    free_pairs(model->fact, model->fact_count);
    free(model);
}
