/* Manages submitted commands: counts references to them, stores what each waits for, and finishes or abandons them. */
#include <stdlib.h>
#include <string.h>

#include "gw_array.h"
#include "gwi_virt.h"

gwi_command *gwi_command_keep(gwi_command *command)
{
    command->references++;
    return command;
}

static void waits_drop(gwi_command *command)
{
    for (size_t i = 0; i < command->wait_count; i++)
        gwi_command_drop(command->waits_for[i]);
    free(command->waits_for);
    command->waits_for = NULL;
    command->wait_count = 0;
}

void gwi_command_drop(gwi_command *command)
{
    if (command == NULL || --command->references > 0)
        return;
    waits_drop(command);
    gwi_work_free(&command->work);
    free(command);
}

bool gwi_command_wait_for(gwi_command *command, gwi_command *other)
{
    if (other == NULL || other->done)
        return true;
    if (!gw_array_more(&command->waits_for, command->wait_count, sizeof *command->waits_for))
        return false;
    command->waits_for[command->wait_count++] = gwi_command_keep(other);
    return true;
}

void gwi_stream_activate(gwi_stream *stream)
{
    if (stream->is_active)
        return;
    stream->is_active = true;
    stream->active_previous = NULL;
    stream->active_next = gwi.active;
    if (gwi.active != NULL)
        gwi.active->active_previous = stream;
    gwi.active = stream;
}

static void active_remove(gwi_stream *stream)
{
    if (!stream->is_active)
        return;
    stream->is_active = false;
    if (stream->active_previous != NULL)
        stream->active_previous->active_next = stream->active_next;
    else
        gwi.active = stream->active_next;
    if (stream->active_next != NULL)
        stream->active_next->active_previous = stream->active_previous;
}

void gwi_stream_free(gwi_stream *stream)
{
    gwi_command_drop(stream->last);
    free(stream->capture_tail);
    free(stream);
}

/* Remove a command that ended at `end_ns`. It must be the first one of its stream. */
void gwi_command_finish(gwi_command *command, uint64_t end_ns)
{
    gwi_stream *stream = command->stream;
    command->done = true;
    command->end_ns = end_ns;
    stream->head = command->next;
    if (stream->head == NULL)
        stream->tail = NULL;
    stream->pending_count--;
    waits_drop(command);
    gwi_work_free(&command->work);
    if (stream->head == NULL) {
        active_remove(stream);
        if (stream->destroyed)
            gwi_stream_free(stream);
    }
    gwi_command_drop(command);
}

void gwi_abandon(gwi_context *context)
{
    uint64_t now = gwi_now_ns();
    gwi_busy_cut(gwi.shared, gwi.shared_slot, context->device->index, now);
    gwi_stream *next = NULL;
    for (gwi_stream *stream = gwi.active; stream != NULL; stream = next) {
        next = stream->active_next;
        if (stream->context != context)
            continue;
        /* Read the count first: finishing the last command may free the stream. */
        unsigned count = stream->pending_count;
        while (count-- > 0 && !stream->head->running)
            gwi_command_finish(stream->head, now);
    }
    pthread_cond_broadcast(&gwi.changed);
}

/* Create, copy and free work and graphs. */

void gwi_work_free(gwi_work *work)
{
    if (work->kind == GWI_WORK_KERNEL)
        free(work->kernel.params);
    else if (work->kind == GWI_WORK_COPY)
        free(work->copy.staged);
    else if (work->kind == GWI_WORK_CHILD && work->child.graph != NULL)
        gwi_graph_free(work->child.graph);
    memset(work, 0, sizeof *work);
}

/* Copy the work of a graph node, with a kernel's parameters. A node has no staged data. Returns false if out of
 * memory. */
bool gwi_work_copy(gwi_work *to, const gwi_work *from)
{
    *to = *from;
    if (from->kind == GWI_WORK_KERNEL && from->kernel.params != NULL) {
        size_t bytes = from->kernel.function->info->param_bytes;
        to->kernel.params = malloc(bytes != 0 ? bytes : 1);
        if (to->kernel.params == NULL)
            return false;
        memcpy(to->kernel.params, from->kernel.params, bytes);
    }
    return true;
}

static void node_free(gwi_node *node)
{
    gwi_object_remove(&node->object);
    gwi_work_free(&node->work);
    free(node->after);
    free(node);
}

void gwi_graph_free(gwi_graph *graph)
{
    gwi_node *next = NULL;
    for (gwi_node *node = graph->first; node != NULL; node = next) {
        next = node->next;
        node_free(node);
    }
    gwi_object_remove(&graph->object);
    free(graph);
}

bool gwi_node_after(gwi_node *node, gwi_node *other)
{
    for (size_t i = 0; i < node->after_count; i++)
        if (node->after[i] == other)
            return true;
    if (!gw_array_more(&node->after, node->after_count, sizeof *node->after))
        return false;
    node->after[node->after_count++] = other;
    return true;
}

/* Add a node to the graph. On success, the node owns what `work` owned. Returns NULL if out of memory. */
gwi_node *gwi_node_add(gwi_graph *graph, const gwi_work *work, gwi_node *const *after, size_t after_count)
{
    gwi_node *node = calloc(1, sizeof *node);
    if (node == NULL)
        return NULL;
    for (size_t i = 0; i < after_count; i++)
        if (!gwi_node_after(node, after[i])) {
            free(node->after);
            free(node);
            return NULL;
        }
    node->graph = graph;
    node->work = *work;
    gwi_object_add(&node->object, GWI_NODE);
    if (graph->last != NULL)
        graph->last->next = node;
    else
        graph->first = node;
    graph->last = node;
    graph->node_count++;
    return node;
}

/* Implements stream capture: work that is submitted to a stream is added to a graph and does not run. */

gwi_stream *gwi_capture_owner(gwi_stream *stream)
{
    return stream->capture != NULL ? stream : stream->capture_owner;
}

static bool tail_set(gwi_stream *stream, gwi_node *node)
{
    if (stream->capture_tail == NULL)
        stream->capture_tail = malloc(sizeof(gwi_node *));
    if (stream->capture_tail == NULL)
        return false;
    stream->capture_tail[0] = node;
    stream->capture_tail_count = 1;
    return true;
}

/* Add `work` to the capture of `stream`. If `wait_for` is a node of another stream's capture, `stream` joins that
 * capture. */
int gwi_capture_add(gwi_stream *stream, const gwi_work *work, gwi_node *wait_for, gwi_node **ret_node)
{
    gwi_stream *owner = gwi_capture_owner(stream);
    if (owner == NULL && wait_for != NULL) {
        for (gw_range *range = gw_ranges_from(&gwi.objects, 0); range != NULL;
             range = gw_ranges_from(&gwi.objects, range->base + 1)) {
            gwi_stream *other = (gwi_stream *)range;
            if (other->object.kind == GWI_STREAM && other->capture == wait_for->graph)
                owner = other;
        }
        if (owner == NULL)
            return CUDA_ERROR_INVALID_VALUE;
        stream->capture_owner = owner;
    }
    if (owner == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (owner->capture_broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    gwi_node *node = gwi_node_add(owner->capture, work, stream->capture_tail, stream->capture_tail_count);
    if (node == NULL || (wait_for != NULL && !gwi_node_after(node, wait_for)) || !tail_set(stream, node))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (ret_node != NULL)
        *ret_node = node;
    return 0;
}

/* Forget the capture that began at `stream`, after the capture was completed or discarded. */
void gwi_capture_forget(gwi_stream *stream)
{
    for (gw_range *range = gw_ranges_from(&gwi.objects, 0); range != NULL;
         range = gw_ranges_from(&gwi.objects, range->base + 1)) {
        gwi_object *object = (gwi_object *)range;
        if (object->kind == GWI_STREAM && ((gwi_stream *)object)->capture_owner == stream) {
            gwi_stream *member = (gwi_stream *)object;
            member->capture_owner = NULL;
            member->capture_tail_count = 0;
        } else if (object->kind == GWI_EVENT && ((gwi_event *)object)->capture_owner == stream) {
            ((gwi_event *)object)->capture_owner = NULL;
            ((gwi_event *)object)->capture_node = NULL;
        }
    }
    stream->capture = NULL;
    stream->capture_broken = false;
    stream->capture_tail_count = 0;
    gwi.capture_count--;
}

void gwi_capture_end(gwi_stream *stream)
{
    if (stream->capture == NULL)
        return;
    gwi_graph *graph = stream->capture;
    gwi_capture_forget(stream);
    gwi_graph_free(graph);
}

int gwi_capture_forbids(void)
{
    bool forbidden = false;
    if (gwi.capture_count == 0 || gwi_self.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return 0;
    for (gw_range *range = gw_ranges_from(&gwi.objects, 0); range != NULL;
         range = gw_ranges_from(&gwi.objects, range->base + 1)) {
        gwi_stream *stream = (gwi_stream *)range;
        if (stream->object.kind != GWI_STREAM || stream->capture == NULL)
            continue;
        bool mine = pthread_equal(stream->capture_thread, pthread_self());
        if (stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
            (stream->capture_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && mine)) {
            stream->capture_broken = true;
            forbidden = true;
        }
    }
    return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : 0;
}
