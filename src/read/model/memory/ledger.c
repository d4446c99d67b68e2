/* The ledger: the objects that successful calls created and ended. Each space has a table that finds its objects by
 * address or handle. Special rules:
 * - A VMM block lives until all its handles are released and all its mappings are removed.
 * - The end of a context (destroy, last release, reset) ends its objects, but not pools, VMM handles and graphs.
 * - Memory opened from another process has zero bytes here. */
#include "gw_names.h"
#include "gwi_find.h"

#include <string.h>

static void forget_context(gwi_process *process)
{
    process->context_last = 0;
    process->context_last_device = 0;
}

/* ---- contexts ---- */

static bool dies_with_context(const gwi_object *object)
{
    if (object->space == GWI_SPACE_HANDLE)
        return false; /* a VMM block may be host or imported memory, and its mappings may keep it alive */
    switch (object->cls) {
    case GW_CLASS_FUNCTION:
        return object->kind != GW_OWNER_LIBRARY; /* a library's kernel belongs to no context */
    case GW_CLASS_MAPPING:
    case GW_CLASS_CONTEXT:
    case GW_CLASS_MEMORY_POOL:
    case GW_CLASS_GRAPH:
    case GW_CLASS_POOL:
    case GW_CLASS_REGISTERED:
    case GW_CLASS_LIBRARY:
    case GW_CLASS_RESERVATION:
        return false;
    default:
        return true;
    }
}

static uint32_t site_of(const gw_model *model, const gwi_object *object)
{
    if (object->cls == GW_CLASS_FUNCTION)
        return object->site;
    return object->cls == GW_CLASS_MAPPING ? 0 : model->group[object->group].site;
}

static void note_context(const gw_model *model, const gwi_process *process, gw_teardown *teardown)
{
    uint32_t index;
    if (!gwi_object_find(process, GWI_SPACE_CONTEXT, teardown->context, &index))
        return;
    teardown->t_made_ns = process->object[index].t_ns;
    teardown->made_site = site_of(model, &process->object[index]);
}

/* Record the end of `context`, and end the objects in it. A reset of the device also ends the blocks in its default
 * pool. */
static void bury(gw_model *model, gwi_process *process, const gw_event *event, gw_teardown_kind kind, int device,
                 uint64_t context)
{
    gw_process *facts = &model->process[process->index];
    enum { NAMED_MAX = 32 };
    int before = facts->end_snapshot;
    uint64_t bytes = facts->usage[device].live_bytes;
    if (bytes > 0 && (before < 0 || bytes >= model->snapshot[before].usage.live_bytes)) {
        gwi_snapshot_release(model, before, true);
        facts->end_snapshot = gwi_snapshot_take(model, process, device, event->t_ns, GW_SNAPSHOT_TEARDOWN);
    }
    if (!gwi_room(model, &model->teardown, model->teardown_count, &model->inner->teardown_capacity,
                  sizeof(gw_teardown)))
        return;
    gw_teardown *teardown = &model->teardown[model->teardown_count++];
    *teardown = (gw_teardown){.kind = kind,
                              .t_ns = event->t_ns,
                              .pid = process->pid,
                              .tid = event->tid,
                              .site = model->inner->event_site,
                              .device = device,
                              .context = context};
    note_context(model, process, teardown);
    process->named_left = NAMED_MAX;
    process->t_teardown_ns = event->t_ns;
    size_t capacity = 0;
    for (uint32_t i = 0; i < process->object_count; i++) {
        gwi_object *object = &process->object[i];
        bool pool = kind == GW_TEARDOWN_RESET && object->cls == GW_CLASS_POOL && object->device == device;
        if (!gwi_is_alive(object) || (object->context != context && !pool) || (!dies_with_context(object) && !pool))
            continue;
        teardown->count[object->cls]++;
        teardown->bytes += gwi_is_memory(object->cls) ? object->bytes : 0;
        if (teardown->buried_count < GW_BURIED_MAX &&
            gwi_room(model, &teardown->buried, teardown->buried_count, &capacity, sizeof(gw_buried)))
            teardown->buried[teardown->buried_count++] =
                (gw_buried){object->key, object->bytes, object->t_ns, site_of(model, object), object->cls};
        uint32_t index;
        /* the function's handle is invalid now, but its name is still needed for earlier launches */
        if (object->cls == GW_CLASS_FUNCTION)
            continue;
        if (gwi_object_take(process, object->space, object->key, &index)) {
            model->group[object->group].buried_count++;
            gwi_group_kept(model, object);
            gwi_object_drop(model, process, index);
        }
    }
    if (process->context_last == context)
        forget_context(process);
}

static void context_create(gw_model *model, gwi_process *process, const gw_event *event)
{
    uint64_t context = event->arg[0];
    int device = gwi_device_place(event->arg[2]);
    uint64_t kind = event->arg[3];
    gw_process *facts = &model->process[process->index];
    if (kind == GW_CONTEXT_PRIMARY && device != GW_MODEL_DEVICE_BEYOND) {
        facts->primary_retains[device]++;
        process->primary[device] = context;
        uint32_t index;
        if (gwi_object_find(process, GWI_SPACE_CONTEXT, context, &index) &&
            process->object[index].kind == GW_CONTEXT_PRIMARY) {
            facts->usage[device].used = true;
            return;
        }
    }
    forget_context(process);
    gwi_object *object = gwi_object_add(model, process, event, GWI_SPACE_CONTEXT, GW_CLASS_CONTEXT, context, 0, device);
    if (object == NULL)
        return;
    facts->usage[device].used = true;
    object->kind = (uint8_t)kind;
    object->context = context;
    object->owner = kind == GW_CONTEXT_FROM_GREEN ? event->arg[1] : 0;
}

static void context_destroy(gw_model *model, gwi_process *process, const gw_event *event)
{
    uint32_t index;
    if (!gwi_object_find(process, GWI_SPACE_CONTEXT, event->arg[0], &index))
        return;
    int device = process->object[index].device;
    /* A green context borrows the primary context's memory, so the end of a green context frees nothing. */
    if (process->object[index].kind != GW_CONTEXT_GREEN)
        bury(model, process, event, GW_TEARDOWN_DESTROY, device, event->arg[0]);
    gwi_object_end(model, process, GWI_SPACE_CONTEXT, event->arg[0]);
}

static void primary_end(gw_model *model, gwi_process *process, const gw_event *event, gw_teardown_kind kind)
{
    int device = gwi_device_place(event->arg[2]);
    gw_process *facts = &model->process[process->index];
    uint64_t *retains = &facts->primary_retains[device];
    uint64_t context = process->primary[device];
    if (kind == GW_TEARDOWN_RELEASE) {
        if (*retains > 0)
            --*retains;
        if (*retains > 0)
            return;
    }
    if (context == 0)
        return;
    bury(model, process, event, kind, device, context);
    gwi_object_end(model, process, GWI_SPACE_CONTEXT, context);
    process->primary[device] = 0;
    /* A reset does not change the retain count: each retain still needs a release. */
}

/* ---- memory ---- */

static void pin(gw_process *facts, uint64_t bytes)
{
    facts->pinned_bytes += bytes;
    if (facts->pinned_bytes > facts->pinned_bytes_peak)
        facts->pinned_bytes_peak = facts->pinned_bytes;
}

static void host_add(gw_model *model, gwi_process *process, const gw_event *event, gw_class cls)
{
    gwi_object *object = gwi_object_add(model, process, event, GWI_SPACE_HOST, cls, event->arg[0], event->arg[1],
                                        gwi_device_of(process, event->context));
    gw_process *facts = &model->process[process->index];
    if (object != NULL)
        pin(facts, event->arg[1]);
}

static void vmm_drop_if_unused(gw_model *model, gwi_process *process, uint32_t index)
{
    gwi_object *object = &process->object[index];
    if (gwi_is_alive(object) && object->refs == 0 && object->maps == 0)
        gwi_object_drop(model, process, index);
}

/* Remove the handle from the table at once, because its number may be reused while mappings keep the memory alive. */
static void vmm_handle_end(gw_model *model, gwi_process *process, uint64_t handle)
{
    uint32_t index;
    if (gwi_object_take(process, GWI_SPACE_HANDLE, handle, &index)) {
        process->object[index].refs = 0;
        vmm_drop_if_unused(model, process, index);
    }
}

static void vmm_create(gw_model *model, gwi_process *process, const gw_event *event)
{
    bool imported = event->kind == GW_EV_VMM_IMPORT;
    /* Location type 1 is a device. Other types are host memory. */
    bool on_host = !imported && event->arg[3] > 1;
    gw_class cls = GW_CLASS_VMM;
    if (imported)
        cls = GW_CLASS_IMPORT;
    else if (on_host)
        cls = GW_CLASS_HOST;
    int device = imported ? gwi_device_of(process, event->context) : gwi_device_place(event->arg[2]);
    uint64_t bytes = imported ? 0 : event->arg[1];
    /* in case the release of an earlier handle with the same number was not recorded */
    vmm_handle_end(model, process, event->arg[0]);
    const gwi_object *object =
        gwi_object_add(model, process, event, GWI_SPACE_HANDLE, cls, event->arg[0], bytes, device);
    if (on_host && object != NULL)
        pin(&model->process[process->index], bytes);
}

static void vmm_release(gw_model *model, gwi_process *process, const gw_event *event)
{
    uint64_t handle = event->arg[0];
    uint32_t index;
    if (!gwi_object_find(process, GWI_SPACE_HANDLE, handle, &index)) {
        model->process[process->index].unknown_frees++;
        return;
    }
    if (--process->object[index].refs == 0)
        vmm_handle_end(model, process, handle);
}

static void vmm_retain(gwi_process *process, const gw_event *event)
{
    uint32_t index;
    if (gwi_object_find(process, GWI_SPACE_HANDLE, event->arg[0], &index)) {
        process->object[index].refs++;
        return;
    }
    /* The handle is new: the program had released the block's last handle, and now requested another one by the block's
     * address. */
    if (event->arg[1] == 0 || !gwi_object_find(process, GWI_SPACE_MAPPING, event->arg[1], &index))
        return;
    uint32_t block = (uint32_t)process->object[index].owner;
    if (process->object[block].refs > 0) /* the block still has another handle, and the ledger stores only one */
        return;
    if (gwi_table_add(&process->table[GWI_SPACE_HANDLE], gwi_hash(event->arg[0]), block)) {
        process->object[block].refs = 1;
        process->object[block].key = event->arg[0];
    }
}

static void vmm_unmap(gw_model *model, gwi_process *process, uint64_t address, uint64_t bytes)
{
    uint64_t end = address + bytes;
    while (address < end) {
        uint32_t index;
        if (!gwi_object_take(process, GWI_SPACE_MAPPING, address, &index))
            return;
        uint64_t mapped = process->object[index].bytes;
        uint32_t block = (uint32_t)process->object[index].owner;
        gwi_object_drop(model, process, index);
        if (process->object[block].maps > 0)
            process->object[block].maps--;
        vmm_drop_if_unused(model, process, block);
        if (mapped == 0)
            return;
        address += mapped;
    }
}

static void vmm_unmap_range(gw_model *model, gwi_process *process, const gw_event *event)
{
    vmm_unmap(model, process, event->arg[0], event->arg[1]);
}

static void vmm_map(gw_model *model, gwi_process *process, const gw_event *event)
{
    uint32_t block;
    /* in case the unmap of an earlier mapping at this address was not recorded */
    vmm_unmap(model, process, event->arg[0], 1);
    if (!gwi_object_find(process, GWI_SPACE_HANDLE, event->arg[3], &block))
        return;
    gwi_object *object = gwi_object_add(model, process, event, GWI_SPACE_MAPPING, GW_CLASS_MAPPING, event->arg[0],
                                        event->arg[1], process->object[block].device);
    if (object == NULL)
        return;
    object->owner = block;
    process->object[block].maps++;
}

/* Memory of another process can be opened several times, always at the same address, and must be closed as many
 * times. */
static void import_open(gw_model *model, gwi_process *process, const gw_event *event)
{
    uint32_t index;
    if (event->kind == GW_EV_IPC_OPEN && gwi_object_find(process, GWI_SPACE_MEMORY, event->arg[0], &index) &&
        process->object[index].cls == GW_CLASS_IMPORT) {
        process->object[index].refs++;
        return;
    }
    gwi_object_add(model, process, event, GWI_SPACE_MEMORY, GW_CLASS_IMPORT, event->arg[0], 0,
                   gwi_device_of(process, event->context));
}

static void import_close(gw_model *model, gwi_process *process, const gw_event *event)
{
    uint32_t index;
    if (!gwi_object_find(process, GWI_SPACE_MEMORY, event->arg[0], &index))
        return;
    if (process->object[index].cls == GW_CLASS_IMPORT && process->object[index].refs > 1)
        process->object[index].refs--;
    else
        gwi_object_end(model, process, GWI_SPACE_MEMORY, event->arg[0]);
}

/* ---- code and graphs ---- */

static void function_add(gw_model *model, gwi_process *process, const gw_event *event)
{
    if (event->arg[2] == GW_OWNER_GLOBAL)
        return;
    gwi_object *object = gwi_object_add(model, process, event, GWI_SPACE_FUNCTION, GW_CLASS_FUNCTION, event->arg[0], 0,
                                        gwi_device_of(process, event->context));
    if (object == NULL)
        return;
    object->owner = event->arg[1];
    object->kind = (uint8_t)event->arg[2];
    object->site = model->inner->event_site;
    uint32_t kernel;
    if (event->text != NULL && event->text_bytes > 0) {
        if (gwi_copy_bytes(model, event->text, event->text_bytes) != NULL)
            object->name = (uint32_t)model->inner->texts.count;
    } else if (event->arg[2] == GW_OWNER_KERNEL &&
               gwi_object_find(process, GWI_SPACE_FUNCTION, event->arg[1], &kernel)) {
        object->name = process->object[kernel].name;
    }
}

static void node_add(gw_model *model, gwi_process *process, const gw_event *event)
{
    enum { NODE_KERNEL = 0 }; /* the driver's number for this node type */
    if (event->arg[2] != NODE_KERNEL)
        return;
    if (gwi_room(model, &process->node, process->node_count, &process->node_capacity, sizeof(gwi_node)))
        process->node[process->node_count++] = (gwi_node){event->arg[1], event->arg[3]};
}

static void nodes_forget(gwi_process *process, uint64_t graph)
{
    size_t kept = 0;
    for (size_t i = 0; i < process->node_count; i++) {
        if (process->node[i].graph != graph)
            process->node[kept++] = process->node[i];
    }
    process->node_count = kept;
}

static bool exec_of_graph_alive(const gwi_process *process, uint64_t graph)
{
    for (uint32_t i = 0; i < process->object_count; i++) {
        const gwi_object *object = &process->object[i];
        if (gwi_is_alive(object) && object->cls == GW_CLASS_GRAPH_EXEC && object->owner == graph)
            return true;
    }
    return false;
}

static gw_usage *usage_of_call(gw_model *model, gwi_process *process, const gw_event *event)
{
    int device = gwi_device_of(process, event->context);
    return &model->process[process->index].usage[device < 0 ? 0 : gwi_device_place((uint64_t)device)];
}

static void capture_begin(gw_model *model, gwi_process *process, const gw_event *event)
{
    if (!gwi_room(model, &process->capture, process->capture_count, &process->capture_capacity, sizeof(gwi_capture)))
        return;
    process->capture[process->capture_count++] =
        (gwi_capture){event->tid, true, event->arg[3], event->t_ns, UINT64_MAX};
    process->captures_open++;
    usage_of_call(model, process, event)->graphs_captured++;
}

static void capture_end(gwi_process *process, const gw_event *event)
{
    for (size_t i = process->capture_count; i-- > 0;) {
        gwi_capture *capture = &process->capture[i];
        if (capture->open && capture->stream == event->arg[3]) {
            capture->open = false;
            capture->t_end_ns = event->t_ns;
            process->captures_open--;
            return;
        }
    }
}

static bool captured_now(const gwi_process *process, const gw_event *event)
{
    if (process->captures_open == 0 || (event->flags & GW_EVF_CAPTURING) == 0)
        return false;
    return gwi_was_captured(process, event->tid, event->t_ns);
}

static void stream_add(gw_model *model, gwi_process *process, const gw_event *event)
{
    enum { NON_BLOCKING = 1 };
    gwi_object *stream = gwi_object_add(model, process, event, GWI_SPACE_STREAM, GW_CLASS_STREAM, event->arg[0], 0,
                                        gwi_device_of(process, event->context));
    if (stream != NULL)
        stream->kind = event->arg[1] & NON_BLOCKING;
}

static void host_make(gw_model *model, gwi_process *process, const gw_event *event)
{
    host_add(model, process, event, event->kind == GW_EV_HOST_REGISTER ? GW_CLASS_REGISTERED : GW_CLASS_HOST);
}

static void host_end(gw_model *model, gwi_process *process, const gw_event *event)
{
    if (event->arg[0] != 0 && !gwi_object_end(model, process, GWI_SPACE_HOST, event->arg[0]))
        model->process[process->index].unknown_frees++;
}

static void graph_end(gw_model *model, gwi_process *process, const gw_event *event)
{
    gwi_object_end(model, process, GWI_SPACE_GRAPH, event->arg[0]);
    /* an executable graph may outlive its graph, and the names of its kernels are found through the nodes */
    if (!exec_of_graph_alive(process, event->arg[0]))
        nodes_forget(process, event->arg[0]);
}

static void exec_add(gw_model *model, gwi_process *process, const gw_event *event)
{
    gwi_object *exec = gwi_object_add(model, process, event, GWI_SPACE_EXEC, GW_CLASS_GRAPH_EXEC, event->arg[0], 0,
                                      gwi_device_of(process, event->context));
    if (exec != NULL)
        exec->owner = event->arg[1];
}

static void pool_set(gwi_process *process, const gw_event *event)
{
    enum { RELEASE_THRESHOLD = 4 };
    const uint64_t *arg = event->arg;
    if (arg[1] == RELEASE_THRESHOLD && (arg[2] != 0 || process->threshold_pool == arg[0])) {
        process->threshold_pool = arg[0];
        process->threshold_bytes = arg[2];
    }
}

/* ---- effects of calls ---- */

typedef void effect(gw_model *model, gwi_process *process, const gw_event *event);

/* How to handle one kind of object. Defaults:
 * - `make` is NULL: add an object of this space and class, with arg[1] bytes if `has_bytes`.
 * - `end` is NULL: end the object with the key arg[0]. */
typedef struct thing_rule {
    gwi_space space;
    gw_class cls;
    bool has_bytes;
    effect *make, *end;
} thing_rule;

/* gwi_objects_apply() and apply_async() handle device and managed memory. No event ends a function, because its name is
 * needed after its module was unloaded. */
static const thing_rule things[GW_THING_COUNT] = {
    [GW_THING_CONTEXT] = {.make = context_create, .end = context_destroy},
    [GW_THING_HOST_MEMORY] = {.make = host_make, .end = host_end},
    [GW_THING_HOST_REGISTRATION] = {.make = host_make, .end = host_end},
    [GW_THING_POOL] = {GWI_SPACE_POOL, GW_CLASS_MEMORY_POOL, false, NULL, NULL},
    [GW_THING_VMM_MEMORY] = {.make = vmm_create, .end = vmm_release},
    [GW_THING_MAPPING] = {.make = vmm_map, .end = vmm_unmap_range},
    [GW_THING_RESERVATION] = {GWI_SPACE_RESERVATION, GW_CLASS_RESERVATION, true, NULL, NULL},
    [GW_THING_IMPORTED_MEMORY] = {.make = import_open, .end = import_close},
    [GW_THING_EXTERNAL] = {GWI_SPACE_EXTERNAL, GW_CLASS_EXTERNAL, true, NULL, NULL},
    [GW_THING_MODULE] = {GWI_SPACE_MODULE, GW_CLASS_MODULE, false, NULL, NULL},
    [GW_THING_LIBRARY] = {GWI_SPACE_MODULE, GW_CLASS_LIBRARY, false, NULL, NULL},
    [GW_THING_FUNCTION] = {.make = function_add},
    [GW_THING_STREAM] = {GWI_SPACE_STREAM, GW_CLASS_STREAM, false, stream_add, NULL},
    [GW_THING_EVENT] = {GWI_SPACE_EVENT, GW_CLASS_EVENT, false, NULL, NULL},
    [GW_THING_GRAPH] = {GWI_SPACE_GRAPH, GW_CLASS_GRAPH, false, NULL, graph_end},
    [GW_THING_GRAPH_NODE] = {.make = node_add},
    [GW_THING_GRAPH_EXEC] = {GWI_SPACE_EXEC, GW_CLASS_GRAPH_EXEC, false, exec_add, NULL},
};

static void make(gw_model *model, gwi_process *process, const gw_event *event, const thing_rule *rule)
{
    if (rule->make != NULL)
        rule->make(model, process, event);
    else
        gwi_object_add(model, process, event, rule->space, rule->cls, event->arg[0],
                       rule->has_bytes ? event->arg[1] : 0, gwi_device_of(process, event->context));
}

static void end(gw_model *model, gwi_process *process, const gw_event *event, const thing_rule *rule)
{
    if (rule->end != NULL)
        rule->end(model, process, event);
    else
        gwi_object_end(model, process, rule->space, event->arg[0]);
}

static void apply_effect(gw_model *model, gwi_process *process, const gw_event *event)
{
    const gw_kind_traits *kind = gw_event_kind_traits(event->kind);
    const thing_rule *rule = &things[kind->thing];
    switch (kind->effect) {
    case GW_EFFECT_MAKES:
    case GW_EFFECT_TAKES:
        make(model, process, event, rule);
        break;
    case GW_EFFECT_ENDS:
        end(model, process, event, rule);
        break;
    case GW_EFFECT_ENDS_PRIMARY:
        primary_end(model, process, event, event->kind == GW_EV_CTX_RESET ? GW_TEARDOWN_RESET : GW_TEARDOWN_RELEASE);
        break;
    case GW_EFFECT_NONE:
        break;
    }
}

static void count_captured(gw_model *model, gwi_process *process, const gw_event *event)
{
    gw_usage *usage = usage_of_call(model, process, event);
    bool is_alloc = event->kind == GW_EV_ALLOC_ASYNC;
    if (is_alloc) {
        usage->captured_bytes += event->arg[1];
        usage->captured_count++;
    } else if (usage->captured_count > 0) {
        usage->captured_bytes -= usage->captured_bytes / usage->captured_count;
        usage->captured_count--;
    }
}

/* A captured call becomes part of a graph, so it does not allocate or free anything now. */
static void apply_async(gw_model *model, gwi_process *process, const gw_event *event)
{
    if (captured_now(process, event))
        count_captured(model, process, event);
    else if (event->kind == GW_EV_ALLOC_ASYNC)
        gwi_memory_add(model, process, event, GW_CLASS_POOL);
    else
        gwi_memory_free(model, process, event);
}

/* Some calls need more than a rule in `things`. The end of a capture adds no graph to the ledger. */
void gwi_ledger_apply(gw_model *model, gwi_process *process, const gw_event *event)
{
    switch ((gw_event_kind)event->kind) {
    case GW_EV_ALLOC_ASYNC:
    case GW_EV_FREE_ASYNC:
        apply_async(model, process, event);
        break;
    case GW_EV_VMM_RETAIN:
        vmm_retain(process, event);
        break;
    case GW_EV_CAPTURE_BEGIN:
        capture_begin(model, process, event);
        break;
    case GW_EV_CAPTURE_END:
        capture_end(process, event);
        break;
    case GW_EV_POOL_SET:
        pool_set(process, event);
        break;
    default:
        apply_effect(model, process, event);
        break;
    }
}
