/* Read the supervisor's facts about kernel faults: GPU core dumps, and the second run of --blame.
 *
 * The driver ends the process after a dump, so no call reports the fault. The verdict needs a failed call with a sticky
 * error. So the first exception in the dump is added as one, with by_dump set. */
#define _GNU_SOURCE
#include "gw_array.h"
#include "gw_cuda_results.h"
#include "gwi_inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_room(gw_model *model, void *array, size_t count, size_t element_bytes)
{
    bool good = gw_array_more(array, count, element_bytes);
    if (!good)
        model->inner->nomem = true;
    return good;
}

static void take_fault(gw_model *model, const gw_item *item)
{
    gw_fault_facts *facts = &model->faults;
    gw_fact_gpu_fault said;
    gw_fact_gpu_fault_read(gw_fact_text_of(item->pair.value), &said);
    if (facts->fault_count == GW_GPU_FAULTS_MAX || !said.has_exception || !said.has_result || said.result > UINT16_MAX)
        return;
    if (!has_room(model, &facts->fault, facts->fault_count, sizeof *facts->fault))
        return;
    gw_gpu_fault *fault = &facts->fault[facts->fault_count++];
    *fault = (gw_gpu_fault){.t_ns = item->t_ns,
                            .pid = item->pid,
                            .exception = said.exception,
                            .result = (uint16_t)said.result,
                            .device = said.device,
                            .sm = said.sm,
                            .count = said.has_count ? said.count : 1,
                            .has_thread = said.has_block && said.has_thread,
                            .has_grid = said.has_grid_dim && said.has_block_dim,
                            .has_pc = said.has_pc,
                            .pc = said.pc,
                            .offset = said.offset,
                            .line = said.line};
    memcpy(fault->block, said.block.at, sizeof fault->block);
    memcpy(fault->thread, said.thread.at, sizeof fault->thread);
    memcpy(fault->grid_dim, said.grid_dim.at, sizeof fault->grid_dim);
    memcpy(fault->block_dim, said.block_dim.at, sizeof fault->block_dim);
    fault->name = gwi_copy_fact_text(model, said.name);
    fault->kernel = gwi_copy_fact_text(model, said.kernel);
    fault->function = said.has_offset ? gwi_copy_fact_text(model, said.function) : NULL;
    fault->file = gwi_copy_fact_text(model, said.file);
}

static void take_dump(gw_model *model, const gw_item *item)
{
    gw_fault_facts *facts = &model->faults;
    gw_fact_gpu_dump said;
    if (facts->dump_count == GW_GPU_DUMPS_MAX || !has_room(model, &facts->dump, facts->dump_count, sizeof *facts->dump))
        return;
    gw_fact_gpu_dump_read(gw_fact_text_of(item->pair.value), &said);
    facts->dump[facts->dump_count++] = (gw_gpu_dump){.t_ns = item->t_ns,
                                                     .pid = item->pid,
                                                     .path = gwi_copy_fact_text(model, said.path),
                                                     .bytes = said.bytes,
                                                     .kept = said.kept,
                                                     .refused = gwi_copy_fact_text(model, said.refused),
                                                     .fault_count = said.faults,
                                                     .fault_beyond = said.beyond,
                                                     .skip_abort = said.skip_abort};
}

static void take_blame_frame(gw_model *model, gw_blame_frame *frame, gw_fact_text columns)
{
    gw_fact_blame_frame said;
    gw_fact_blame_frame_read(columns, &said);
    *frame = (gw_blame_frame){.function = gwi_copy_fact_text(model, said.function),
                              .file = gwi_copy_fact_text(model, said.file),
                              .module = gwi_copy_fact_text(model, said.module),
                              .text = gwi_copy_fact_text(model, said.text),
                              .whose = gwi_copy_fact_text(model, said.whose),
                              .address = said.address,
                              .line = said.line,
                              .python = gw_fact_text_is(said.kind, "python"),
                              .inlined = gw_fact_text_is(said.kind, "inlined")};
}

static void take_blame_stack(gw_model *model, gw_blame *blame, const char *value, const gw_fact_blame *said)
{
    char name[32];
    gw_fact_text line;
    if (!said->has_user)
        return;
    for (blame->stack_count = 0; blame->stack_count < GW_BLAME_FRAMES_MAX;) {
        snprintf(name, sizeof name, "stack.%zu", blame->stack_count);
        if (!gw_fact_line(value, name, &line) ||
            !has_room(model, &blame->stack, blame->stack_count, sizeof *blame->stack))
            break;
        take_blame_frame(model, &blame->stack[blame->stack_count++], line);
    }
    for (size_t i = 0; i < GW_BLAME_NOTES_MAX; i++) {
        snprintf(name, sizeof name, "note.%zu", i);
        blame->note[i] = gw_fact_line(value, name, &line) ? gwi_copy_fact_text(model, line) : NULL;
        if (blame->note[i] == NULL)
            break;
    }
    blame->where_reason = gwi_copy_fact_text(model, said->where_reason);
    /* Without the user's frame, the stack is of no use: drop it. */
    if (said->user >= blame->stack_count || blame->stack[said->user].text == NULL)
        blame->stack_count = 0;
    else
        blame->stack_user = (size_t)said->user;
}

static const char *const blame_ends[] = {[GW_BLAME_IN_LAUNCH] = "in-launch",
                                         [GW_BLAME_ELSEWHERE] = "elsewhere",
                                         [GW_BLAME_NO_FAULT] = "no-fault",
                                         [GW_BLAME_OTHER] = "other",
                                         [GW_BLAME_NOT_RUN] = "not-run"};

const char *gw_blame_end_text(gw_blame_end end)
{
    return blame_ends[end];
}

static void take_blame(gw_model *model, const gw_item *item)
{
    gw_blame *blame = &model->faults.blame;
    gw_fact_blame said;
    gw_fact_blame_read(gw_fact_text_of(item->pair.value), &said);
    size_t end = 0, count = sizeof blame_ends / sizeof blame_ends[0];
    while (end < count && !gw_fact_text_is(said.end, blame_ends[end]))
        end++;
    if (end == count || blame->known)
        return;
    *blame = (gw_blame){.known = true,
                        .end = (gw_blame_end)end,
                        .recording = gwi_copy_fact_text(model, said.recording),
                        .ended = gwi_copy_fact_text(model, said.ended),
                        .result = (uint16_t)said.result,
                        .call = gwi_copy_fact_text(model, said.call),
                        .kernel = gwi_copy_fact_text(model, said.kernel),
                        .stream = said.stream,
                        .tid = said.tid,
                        .thread = gwi_copy_fact_text(model, said.thread),
                        .has_order = said.has_order,
                        .order = said.order,
                        .t_ns = said.t_ns,
                        .frame = gwi_copy_fact_text(model, said.frame),
                        .where = gwi_copy_fact_text(model, said.where)};
    take_blame_stack(model, blame, item->pair.value, &said);
}

void gwi_fault_fact(gw_model *model, gw_fact_key what, const gw_item *item)
{
    if (what == GW_FACT_GPUCORE_FAULT)
        take_fault(model, item);
    else if (what == GW_FACT_GPUCORE_FILE)
        take_dump(model, item);
    else
        take_blame(model, item);
}

/* ---- the driver's log ---- */

/* True for lines such as "Sticky error detected" or "Returning 700 (CUDA_ERROR_ILLEGAL_ADDRESS) from
 * cuCtxSynchronize_v2". */
static bool tells_of_a_fault(const char *line, size_t bytes)
{
    static const char sticky[] = "Sticky error", returning[] = "Returning ";
    if (memmem(line, bytes, sticky, sizeof sticky - 1) != NULL)
        return true;
    const char *at = memmem(line, bytes, returning, sizeof returning - 1);
    return at != NULL && gw_cuda_is_sticky((unsigned)strtoul(at + sizeof returning - 1, NULL, 10));
}

static void keep_log_line(gw_fault_facts *facts, const gw_event *event, const char *line, size_t bytes)
{
    gw_fault_log kept = {.t_ns = event->t_ns, .pid = event->pid};
    snprintf(kept.text, sizeof kept.text, "%.*s", (int)(bytes < sizeof kept.text ? bytes : sizeof kept.text - 1), line);
    for (size_t i = 0; i < facts->log_count; i++)
        if (facts->log[i].pid == kept.pid && strcmp(facts->log[i].text, kept.text) == 0)
            return;
    if (facts->log_count < GW_FAULT_LOGS_MAX)
        facts->log[facts->log_count++] = kept;
}

void gwi_fault_log(gw_model *model, const gw_event *event)
{
    for (const char *line = event->text; line != NULL && *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        if (tells_of_a_fault(line, bytes))
            keep_log_line(&model->faults, event, line, bytes);
        line += bytes + (line[bytes] == '\n');
    }
}

/* ---- the end ---- */

static bool has_sticky(const gw_model *model, uint32_t pid)
{
    for (size_t i = 0; i < model->failure_count; i++)
        if (model->failure[i].pid == pid && model->failure[i].is_sticky)
            return true;
    return false;
}

static const gw_thread *thread_inside(const gw_model *model, uint32_t pid)
{
    const gw_thread *thread = gw_model_first_thread(model, pid);
    while (thread != NULL && thread->inside_fn == NULL)
        thread = gw_model_next_thread(model, thread);
    return thread;
}

static void add_told_by_dump(gw_model *model, const gw_gpu_fault *fault)
{
    if (has_sticky(model, fault->pid))
        return;
    if (!gwi_room(model, &model->failure, model->failure_count, &model->inner->failure_capacity, sizeof(gw_failure)))
        return;
    const gw_thread *inside = thread_inside(model, fault->pid);
    gw_failure *failure = &model->failure[model->failure_count++];
    *failure = (gw_failure){.t_ns = fault->t_ns,
                            .t_last_ns = fault->t_ns,
                            .pid = fault->pid,
                            .tid = inside == NULL ? 0 : inside->tid,
                            .fn = UINT16_MAX,
                            .result = fault->result,
                            .kind = GW_EV_CALL,
                            .repeat_count = 1,
                            .fn_name = inside == NULL ? "?" : inside->inside_fn,
                            .device = fault->device == UINT32_MAX ? -1 : gwi_device_place(fault->device),
                            .is_sticky = true,
                            .by_dump = true,
                            .snapshot = -1,
                            .allocator = -1};
}

/* If the driver aborted the process after a dump that shows no fault, add a fault of unknown kind. A process that
 * already has a sticky failure gets none. */
static void add_told_by_abort(gw_model *model, gw_gpu_dump *dump)
{
    enum { ABORT = 6, UNSPECIFIED = 719 };
    if (gwi_process_known(model, dump->pid) == NULL && model->command != NULL)
        dump->pid = model->command->pid;
    const gw_process *process = gw_model_process(model, dump->pid);
    if (process == NULL || !process->exit_known || !process->exit.status_known || process->exit.signal != ABORT)
        return;
    const gw_gpu_fault unknown = {.t_ns = dump->t_ns, .pid = dump->pid, .result = UNSPECIFIED, .device = UINT32_MAX};
    add_told_by_dump(model, &unknown);
}

/* For each launch that reported a fault, store the name of its kernel. For a launch of a graph, store the names of all
 * its kernels. */
static void name_launches(gw_model *model)
{
    for (size_t i = 0; i < model->failure_count; i++) {
        gw_failure *failure = &model->failure[i];
        const gwi_process *process = failure->is_sticky ? gwi_process_known(model, failure->pid) : NULL;
        if (process == NULL)
            continue;
        if (failure->kind == GW_EV_LAUNCH)
            failure->kernel = gwi_function_name(model, process, failure->arg[0]);
        if (failure->kind == GW_EV_GRAPH_LAUNCH)
            failure->kernel = gwi_exec_names(model, model->inner->process[process->index], failure->arg[0]);
    }
}

void gwi_faults_finish(gw_model *model)
{
    const gw_fault_facts *facts = &model->faults;
    name_launches(model);
    for (size_t i = 0; i < facts->fault_count; i++) {
        gw_gpu_fault *fault = &model->faults.fault[i];
        if (gwi_process_known(model, fault->pid) == NULL && model->command != NULL)
            /* no process with the pid in the dump's file name was recorded: assume that it was the command */
            fault->pid = model->command->pid;
        add_told_by_dump(model, fault);
    }
    for (size_t i = 0; i < facts->dump_count; i++)
        add_told_by_abort(model, &model->faults.dump[i]);
}
