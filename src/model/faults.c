/* The supervisor's facts about kernel faults: "gpucore.file", "gpucore.fault", "blame". Each is a text of lines
 * "name=value"; names that this build does not know are passed over, what is missing is unknown.
 *
 * A dump ends the process before any call can report the fault. So that whoever asks for the failure that cost the
 * context finds one, the dump's first exception becomes such a failure, marked as told by the dump. */
#define _GNU_SOURCE
#include "gw_cuda_results.h"
#include "gwi_fields.h"
#include "gwi_inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool three_field(const char *value, const char *name, uint32_t out[3])
{
    size_t bytes;
    const char *text = gwi_field(value, name, &bytes);
    return text != NULL && sscanf(text, "%u,%u,%u", &out[0], &out[1], &out[2]) == 3;
}

static void *grown(gw_model *model, void *array, size_t count, size_t element_bytes)
{
    void *wider = realloc(array, (count + 1) * element_bytes);
    if (wider == NULL)
        model->inner->nomem = true;
    return wider;
}

static void take_fault(gw_model *model, const gw_item *item)
{
    gw_fault_facts *facts = &model->faults;
    const char *value = item->pair.value;
    uint64_t exception, result;
    if (facts->fault_count == GW_GPU_FAULTS_MAX || !gwi_number_field(value, "exception", &exception) ||
        !gwi_number_field(value, "result", &result) || exception > UINT32_MAX || result > UINT16_MAX)
        return;
    gw_gpu_fault *wider = grown(model, facts->fault, facts->fault_count, sizeof *wider);
    if (wider == NULL)
        return;
    facts->fault = wider;
    gw_gpu_fault *fault = &wider[facts->fault_count++];
    *fault = (gw_gpu_fault){.t_ns = item->t_ns, .pid = item->pid, .exception = (uint32_t)exception};
    fault->result = (uint16_t)result;
    fault->name = gwi_text_field(model, value, "name");
    fault->device = gwi_small_field(value, "device");
    fault->sm = gwi_small_field(value, "sm");
    if (!gwi_number_field(value, "count", &fault->count))
        fault->count = 1;
    fault->has_thread = three_field(value, "block", fault->block) && three_field(value, "thread", fault->thread);
    fault->has_grid =
        three_field(value, "grid_dim", fault->grid_dim) && three_field(value, "block_dim", fault->block_dim);
    fault->has_pc = gwi_number_field(value, "pc", &fault->pc);
    fault->kernel = gwi_text_field(model, value, "kernel");
    fault->function =
        gwi_number_field(value, "offset", &fault->offset) ? gwi_text_field(model, value, "function") : NULL;
    fault->file = gwi_text_field(model, value, "file");
    fault->line = gwi_small_field(value, "line");
}

static void take_dump(gw_model *model, const gw_item *item)
{
    gw_fault_facts *facts = &model->faults;
    const char *value = item->pair.value;
    gw_gpu_dump *wider =
        facts->dump_count == GW_GPU_DUMPS_MAX ? NULL : grown(model, facts->dump, facts->dump_count, sizeof *wider);
    if (wider == NULL)
        return;
    facts->dump = wider;
    gw_gpu_dump *dump = &wider[facts->dump_count++];
    *dump = (gw_gpu_dump){.t_ns = item->t_ns, .pid = item->pid};
    dump->path = gwi_text_field(model, value, "path");
    dump->refused = gwi_text_field(model, value, "refused");
    dump->kept = gwi_small_field(value, "kept") != 0;
    dump->skip_abort = gwi_small_field(value, "skip_abort") != 0;
    gwi_number_field(value, "bytes", &dump->bytes);
    gwi_number_field(value, "faults", &dump->fault_count);
    gwi_number_field(value, "beyond", &dump->fault_beyond);
}

static void free_blame_stack(gw_blame *blame)
{
    for (size_t i = 0; i < blame->stack_count; i++) {
        const gw_blame_frame *frame = &blame->stack[i];
        char *const texts[] = {frame->function, frame->file, frame->module, frame->text, frame->whose};
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
            free(texts[k]);
    }
    free(blame->stack);
    blame->stack = NULL;
    blame->stack_count = 0;
}

/* What is between two tabs, moving on behind the second; NULL: nothing. */
static char *next_part(gw_model *model, const char **at, const char *end)
{
    const char *begin = *at, *tab = memchr(begin, '\t', (size_t)(end - begin));
    *at = tab == NULL ? end : tab + 1;
    tab = tab == NULL ? end : tab;
    char *copy = tab == begin ? NULL : strndup(begin, (size_t)(tab - begin));
    if (copy == NULL && tab != begin)
        model->inner->nomem = true;
    return copy;
}

static void take_blame_frame(gw_model *model, gw_blame_frame *frame, const char *text, size_t bytes)
{
    const char *end = text + bytes;
    char *kind = next_part(model, &text, end), *number;
    *frame = (gw_blame_frame){0};
    frame->python = kind != NULL && strcmp(kind, "python") == 0;
    frame->inlined = kind != NULL && strcmp(kind, "inlined") == 0;
    free(kind);
    frame->whose = next_part(model, &text, end);
    number = next_part(model, &text, end);
    frame->line = number == NULL ? 0 : (uint32_t)strtoul(number, NULL, 10);
    free(number);
    number = next_part(model, &text, end);
    frame->address = number == NULL ? 0 : strtoull(number, NULL, 0);
    free(number);
    frame->function = next_part(model, &text, end);
    frame->file = next_part(model, &text, end);
    frame->module = next_part(model, &text, end);
    frame->text = next_part(model, &text, end);
}

static void take_blame_stack(gw_model *model, gw_blame *blame, const char *value)
{
    char name[32];
    size_t bytes;
    const char *text;
    uint64_t user;
    if (!gwi_number_field(value, "user", &user))
        return;
    for (blame->stack_count = 0; blame->stack_count < GW_BLAME_FRAMES_MAX;) {
        snprintf(name, sizeof name, "stack.%zu", blame->stack_count);
        text = gwi_field(value, name, &bytes);
        gw_blame_frame *wider =
            text == NULL ? NULL : grown(model, blame->stack, blame->stack_count, sizeof *blame->stack);
        if (wider == NULL)
            break;
        blame->stack = wider;
        take_blame_frame(model, &wider[blame->stack_count++], text, bytes);
    }
    for (size_t i = 0; i < GW_BLAME_NOTES_MAX; i++) {
        snprintf(name, sizeof name, "note.%zu", i);
        blame->note[i] = gwi_text_field(model, value, name);
        if (blame->note[i] == NULL)
            break;
    }
    blame->where_reason = gwi_text_field(model, value, "where_reason");
    /* A verdict's place without its user's frame is none. */
    if (user >= blame->stack_count || blame->stack[user].text == NULL)
        free_blame_stack(blame);
    else
        blame->stack_user = (size_t)user;
}

static void take_blame(gw_model *model, const gw_item *item)
{
    static const char *const ends[] = {[GW_BLAME_IN_LAUNCH] = "in-launch",
                                       [GW_BLAME_ELSEWHERE] = "elsewhere",
                                       [GW_BLAME_NO_FAULT] = "no-fault",
                                       [GW_BLAME_OTHER] = "other",
                                       [GW_BLAME_NOT_RUN] = "not-run"};
    gw_blame *blame = &model->faults.blame;
    const char *value = item->pair.value;
    size_t bytes;
    const char *end = gwi_field(value, "end", &bytes);
    for (size_t i = 0; end != NULL && !blame->known && i < sizeof ends / sizeof ends[0]; i++) {
        if (strlen(ends[i]) != bytes || strncmp(end, ends[i], bytes) != 0)
            continue;
        *blame = (gw_blame){.known = true, .end = (gw_blame_end)i};
        blame->recording = gwi_text_field(model, value, "recording");
        blame->ended = gwi_text_field(model, value, "ended");
        blame->result = (uint16_t)gwi_small_field(value, "result");
        blame->call = gwi_text_field(model, value, "call");
        blame->kernel = gwi_text_field(model, value, "kernel");
        gwi_number_field(value, "stream", &blame->stream);
        blame->tid = gwi_small_field(value, "tid");
        blame->thread = gwi_text_field(model, value, "thread");
        blame->has_order = gwi_number_field(value, "order", &blame->order);
        gwi_number_field(value, "t_ns", &blame->t_ns);
        blame->frame = gwi_text_field(model, value, "frame");
        blame->where = gwi_text_field(model, value, "where");
        take_blame_stack(model, blame, value);
    }
}

void gwi_fault_fact(gw_model *model, const gw_item *item)
{
    const char *key = item->pair.key;
    if (key == NULL || item->pair.value == NULL)
        return;
    if (strcmp(key, "gpucore.fault") == 0)
        take_fault(model, item);
    else if (strcmp(key, "gpucore.file") == 0)
        take_dump(model, item);
    else if (strcmp(key, "blame") == 0)
        take_blame(model, item);
}

/* ---- the driver's log ---- */

/* "Sticky error detected", "Returning 700 (CUDA_ERROR_ILLEGAL_ADDRESS) from cuCtxSynchronize_v2". */
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

static const gwi_process *inner_of(const gw_model *model, uint32_t pid)
{
    for (size_t i = model->process_count; i-- > 0;)
        if (model->process[i].pid == pid)
            return model->inner->process[i];
    return NULL;
}

static bool has_sticky(const gw_model *model, uint32_t pid)
{
    for (size_t i = 0; i < model->failure_count; i++)
        if (model->failure[i].pid == pid && model->failure[i].is_sticky)
            return true;
    return false;
}

static const gw_thread *thread_inside(const gw_model *model, uint32_t pid)
{
    for (size_t i = 0; i < model->thread_count; i++)
        if (model->thread[i].pid == pid && model->thread[i].inside_fn != NULL)
            return &model->thread[i];
    return NULL;
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
                            .device = fault->device < GW_MODEL_DEVICES_MAX ? (int)fault->device : -1,
                            .is_sticky = true,
                            .by_dump = true,
                            .snapshot = -1,
                            .allocator = -1};
}

/* A dump that names no exception, or cannot be read, and the driver's abort after it: something struck, of no known
 * kind. */
static void add_told_by_abort(gw_model *model, gw_gpu_dump *dump)
{
    enum { ABORT = 6, UNSPECIFIED = 719 };
    if (inner_of(model, dump->pid) == NULL && model->command != NULL)
        dump->pid = model->command->pid;
    const gw_process *process = gw_model_process(model, dump->pid);
    if (process == NULL || !process->exit_known || !process->exit.status_known || process->exit.signal != ABORT)
        return;
    const gw_gpu_fault unknown = {.t_ns = dump->t_ns, .pid = dump->pid, .result = UNSPECIFIED, .device = UINT32_MAX};
    add_told_by_dump(model, &unknown);
}

/* A launch that reports a fault: its kernel. */
static void name_launches(gw_model *model)
{
    for (size_t i = 0; i < model->failure_count; i++) {
        gw_failure *failure = &model->failure[i];
        const gwi_process *process = failure->is_sticky ? inner_of(model, failure->pid) : NULL;
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
        if (inner_of(model, fault->pid) == NULL && model->command != NULL)
            fault->pid = model->command->pid; /* its file name told no process that was recorded */
        add_told_by_dump(model, fault);
    }
    for (size_t i = 0; i < facts->dump_count; i++)
        add_told_by_abort(model, &model->faults.dump[i]);
}

void gwi_faults_free(gw_model *model)
{
    gw_fault_facts *facts = &model->faults;
    for (size_t i = 0; i < facts->fault_count; i++) {
        free(facts->fault[i].name);
        free(facts->fault[i].kernel);
        free(facts->fault[i].function);
        free(facts->fault[i].file);
    }
    for (size_t i = 0; i < facts->dump_count; i++) {
        free(facts->dump[i].path);
        free(facts->dump[i].refused);
    }
    free(facts->fault);
    free(facts->dump);
    gw_blame *blame = &facts->blame;
    char *const texts[] = {blame->recording, blame->ended, blame->call,  blame->kernel,
                           blame->thread,    blame->frame, blame->where, blame->where_reason};
    free_blame_stack(blame);
    for (size_t i = 0; i < GW_BLAME_NOTES_MAX; i++)
        free(blame->note[i]);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(texts[i]);
}
