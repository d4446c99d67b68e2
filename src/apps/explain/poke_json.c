/* What `gpuwhy poke --json` prints about processes that gpuwhy did not start (docs/json-schema.md). */
#include "gwi_poke.h"

#include "gw_clock.h"
#include "gw_json.h"

#include <stdio.h>
#include <string.h>

/* ---- small values ---- */

static void put(json_object *to, const char *name, json_object *value)
{
    json_object_object_add(to, name, value);
}

static void put_text(json_object *to, const char *name, const char *text)
{
    put(to, name, gw_json_text(text));
}

/* 0 stands for an unknown number. */
static void put_positive(json_object *to, const char *name, uint64_t number)
{
    put(to, name, gw_json_number(number != 0, number));
}

/* A number is unknown if a sample lacks it. */
static void put_growth(json_object *to, const char *name, bool is_known, uint64_t before, uint64_t after)
{
    put(to, name, gw_json_number(is_known && after >= before, after - before));
}

/* ---- threads ---- */

static json_object *frame_object(const gw_frame *frame, bool is_user)
{
    json_object *one = json_object_new_object();
    put(one, "function", gw_json_string(frame->function));
    put(one, "file", gw_json_string(frame->file));
    put_positive(one, "line", frame->line);
    put(one, "kind", json_object_new_string(frame->python ? "python" : "native"));
    put(one, "module", gw_json_string(frame->module));
    put(one, "is_user", json_object_new_boolean(is_user));
    return one;
}

static json_object *thread_object(const gwi_poked *poked, const gw_outside *process, const gw_outside_thread *thread)
{
    json_object *one = json_object_new_object(), *frames = json_object_new_array();
    const gw_stack_thread *is = thread->is;
    const gw_stack *stack = gw_sites_stack(poked->sites, thread->site);
    for (size_t i = 0; stack != NULL && i < stack->count; i++)
        json_object_array_add(frames, frame_object(&stack->frame[i], i == stack->user));
    put(one, "tid", json_object_new_int64(is->tid));
    put_text(one, "name", is->name);
    put(one, "state", json_object_new_string_len(&is->state, 1));
    put(one, "wait", json_object_new_string(gw_wait_word(is->wait)));
    put_text(one, "waits_in", is->where);
    put_text(one, "waits_for", thread->target);
    put_positive(one, "owner_tid", is->owner_tid);
    put(one, "is_deadlocked", json_object_new_boolean(gw_outside_is_deadlocked(process, thread)));
    put_text(one, "gpu_call", thread->gpu_call);
    put_text(one, "idle_of", thread->pool);
    put(one, "same_as_tid", json_object_new_int64(process->thread[thread->group].is->tid));
    put(one, "cpu_ms", gw_json_number(true, thread->cpu_ms));
    put(one, "is_complete", json_object_new_boolean(stack != NULL && stack->count > 0 && stack->flags == 0));
    put(one, "frames", frames);
    return one;
}

/* ---- progress ---- */

static json_object *output_object(const gw_outside_output *output)
{
    json_object *one = json_object_new_object();
    put(one, "fd", json_object_new_int(output->fd));
    put_text(one, "path", output->path);
    put(one, "bytes", gw_json_number(output->is_file, output->bytes));
    put(one, "grew_bytes", gw_json_number(output->is_file, output->grew_bytes));
    put(one, "written_s", gw_json_number(output->is_file, output->written_realtime_s));
    return one;
}

static json_object *network_object(const gw_outside_network *network)
{
    if (!network->is_known)
        return NULL;
    json_object *one = json_object_new_object();
    put(one, "connections", gw_json_number(true, network->connections));
    put(one, "unread_bytes", gw_json_number(true, network->unread_bytes));
    put(one, "unsent_bytes", gw_json_number(true, network->unsent_bytes));
    put_text(one, "peer", network->peer);
    return one;
}

static json_object *gpu_object(const gw_outside *process)
{
    json_object *one = json_object_new_object(), *cards = json_object_new_array();
    for (size_t i = 0; i < process->card_count; i++) {
        const gw_outside_card *card = &process->card[i];
        json_object *its = json_object_new_object();
        put(its, "gpu", json_object_new_int64(card->index));
        put(its, "bytes", gw_json_number(card->bytes != UINT64_MAX, card->bytes));
        put_positive(its, "busy_s", card->busy_realtime_s);
        json_object_array_add(cards, its);
    }
    put(one, "is_used",
        process->gpu == GW_OUTSIDE_GPU_UNKNOWN ? NULL : json_object_new_boolean(process->gpu == GW_OUTSIDE_GPU_USED));
    put(one, "cards", cards);
    put_text(one, "unreadable_because", process->no_cards);
    return one;
}

static json_object *progress_object(const gw_outside *process)
{
    const gw_outside_sample *before = &process->before, *after = &process->after;
    json_object *one = json_object_new_object(), *outputs = json_object_new_array();
    bool io_known = before->io_known && after->io_known;
    for (size_t i = 0; i < process->output_count; i++)
        json_object_array_add(outputs, output_object(&process->output[i]));
    put(one, "window_ms", gw_json_number(true, (after->t_ns - before->t_ns) / 1000000u));
    put_growth(one, "cpu_ms", before->cpu_known && after->cpu_known, before->cpu_ms, after->cpu_ms);
    put_growth(one, "read_bytes", io_known, before->read_bytes, after->read_bytes);
    put_growth(one, "written_bytes", io_known, before->written_bytes, after->written_bytes);
    put(one, "outputs", outputs);
    put(one, "network", network_object(&process->network));
    put(one, "gpu", gpu_object(process));
    return one;
}

/* ---- processes ---- */

static json_object *stops_object(const gw_stack_process *threads)
{
    json_object *one = json_object_new_object();
    put(one, "threads", gw_json_number(true, threads->stops));
    put(one, "longest_ms", json_object_new_double((double)threads->stop_ns_max / 1e6));
    return one;
}

static json_object *process_object(const gwi_poked *poked, const gw_outside *process)
{
    json_object *one = json_object_new_object(), *threads = json_object_new_array();
    const gw_stack_process *read = process->is_ended ? NULL : process->threads;
    for (size_t i = 0; read != NULL && i < read->thread_count; i++)
        json_object_array_add(threads, thread_object(poked, process, &process->thread[i]));
    put(one, "pid", json_object_new_int64(process->pid));
    put(one, "parent", json_object_new_int64(process->parent));
    put_text(one, "command", gw_text_str(&process->command));
    put_text(one, "name", process->name);
    put_text(one, "user", gw_text_str(&process->user));
    put_positive(one, "start_s", process->start_realtime_ns / 1000000000u);
    put(one, "state", json_object_new_string_len(&process->state, 1));
    put(one, "is_ended", json_object_new_boolean(process->is_ended));
    put(one, "rank", gw_json_number(process->rank >= 0, (uint64_t)process->rank));
    put(one, "ranks", gw_json_number(process->rank_count >= 0, (uint64_t)process->rank_count));
    put_positive(one, "tracer", process->tracer);
    put_text(one, "refused_because", process->refused);
    put_text(one, "possible_if", process->allow);
    put(one, "progress", process->is_ended ? NULL : progress_object(process));
    put(one, "threads", threads);
    put_text(one, "waits_unknown_because", read == NULL ? "" : read->no_waits);
    put_text(one, "stacks_unknown_because", read == NULL ? "" : read->no_stacks);
    put_text(one, "python_unknown_because", read == NULL ? "" : read->no_python);
    put(one, "stops", read == NULL ? NULL : stops_object(read));
    return one;
}

static json_object *lines_of(const char *text)
{
    json_object *lines = json_object_new_array();
    for (size_t bytes; (bytes = strcspn(text, "\n")) > 0; text += bytes + 1) {
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)bytes, text);
        json_object_array_add(lines, gw_json_string(line));
    }
    return lines;
}

gw_status gwi_poke_print_json(const gwi_poked *poked, gw_error *err)
{
    json_object *whole = json_object_new_object(), *processes = json_object_new_array();
    json_object *children = json_object_new_array();
    for (size_t i = 0; i < poked->count; i++)
        json_object_array_add(processes, process_object(poked, poked->process[i]));
    for (size_t i = 0; i < poked->child_count; i++)
        json_object_array_add(children, json_object_new_int64(poked->child[i]));
    put(whole, "schema", json_object_new_int(1));
    put(whole, "kind", json_object_new_string("poke"));
    put(whole, "time_s", json_object_new_double((double)gw_realtime_ns() / 1e9));
    put(whole, "processes", processes);
    put(whole, "left_out", lines_of(poked->left_out));
    put(whole, "nccl_ras", lines_of(poked->ras));
    put(whole, "descendants", children);
    return gw_json_print(whole, err);
}
