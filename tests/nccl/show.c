/* Print the NCCL communicators of a recording, and their last calls, as the model has them: one line each. */
#include "gw_model.h"
#include "gw_model_facts.h"
#include "gw_sites.h"

#include <stdio.h>
#include <string.h>

static void show_call(const gw_model *model, const gw_collective *call)
{
    static const char *const states[] = {
#define GW_X(name, word) word,
        GW_COLLECTIVE_STATES(GW_X)
#undef GW_X
    };
    const gw_stack *stack = call->site == 0 ? NULL : gw_sites_stack(model->sites, call->site);
    const gw_frame *user = stack == NULL || stack->user >= stack->count ? NULL : &stack->frame[stack->user];
    const char *file = user == NULL || user->file == NULL ? "?" : user->file, *slash = strrchr(file, '/');
    printf("call %s number=%llu elements=%llu type=%s op=%d root=%d result=%d grouped=%d state=%s at %s:%u\n",
           gw_nccl_call_name(call->call), (unsigned long long)call->number, (unsigned long long)call->elements,
           gw_nccl_type_name(call->type, NULL), call->op, call->root_or_peer, call->result, call->group != 0,
           states[call->state], slash == NULL ? file : slash + 1, user == NULL ? 0 : user->line);
}

static void show_process(const gw_model *model, const gw_process *process)
{
    printf("process %u unseen=%d\n", process->pid, process->nccl_unseen);
    for (size_t i = 0; i < process->communicator_count; i++) {
        const gw_communicator *c = &process->communicator[i];
        printf("communicator %zu id=%llx size=%u rank=%u device=%d ready=%d ended=%d aborted=%d collectives=%llu "
               "p2p=%llu\n",
               i, (unsigned long long)c->id, c->size, c->rank, c->device, c->is_ready, c->t_end_ns != 0, c->is_aborted,
               (unsigned long long)c->collectives, (unsigned long long)c->p2p);
        for (size_t k = 0; k < c->last_count; k++)
            show_call(model, &c->last[k]);
    }
}

int main(int argc, char **argv)
{
    gw_model *model = NULL;
    gw_reader *reader = NULL;
    gw_error err = {""};
    if (argc != 2 || gw_reader_open(argv[1], &reader, &err) != GW_OK || gw_model_build(reader, &model, &err) != GW_OK) {
        fprintf(stderr, "usage: show RECORDING\n%s\n", err.text);
        return 2;
    }
    gw_reader_close(reader);
    (void)!gw_model_name_sites(model, 60000, 60000, NULL);
    for (size_t i = 0; i < model->process_count; i++)
        show_process(model, &model->process[i]);
    gw_model_free(model);
    return 0;
}
