/* Implements stream capture: work that is submitted to a stream is added to a graph and does not run. */
#include <stdlib.h>

#include "gwi_virt.h"

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
