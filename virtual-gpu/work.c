/* Create, copy and free work and graphs. */
#include <stdlib.h>
#include <string.h>

#include "gw_array.h"
#include "gwi_virt.h"

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
