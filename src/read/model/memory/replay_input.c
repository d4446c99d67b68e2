/* From a report about PyTorch's allocator to the input of a replay.
 *
 * The requests come from the course: PyTorch's allocations as the hook followed them. It has the size of each block
 * (not of the request), and between which requests the block was freed, but no address and no stream. The calls to the
 * driver are those whose call site is in PyTorch's allocator (libc10_cuda.so): the CUDA libraries request memory of
 * their own. Without a course, PyTorch's memory history is used (replay_history.c). */
#include "gw_array.h"
#include "gwi_inner.h"
#include "gwi_replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

static gw_status no_memory(gw_error *err)
{
    return gw_fail(err, GW_NOMEM, "no memory for the replay");
}

/* ---- calls to the driver ---- */

typedef enum owner { OWNER_NOT_ASKED, OWNER_UNKNOWN, OWNER_TORCH, OWNER_OTHER } owner;

static bool is_between(const char *module)
{
    static const char *const names[] = {"libcuda.so", "libcudart", "libgpuwhy"};
    const char *name = gw_path_last(module);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (gw_begins(name, names[i]))
            return true;
    return false;
}

/* Decide by the innermost file that is not the driver, the runtime or ours. */
static owner owner_of_site(const gw_model *model, uint32_t site)
{
    const gw_stack *stack = gw_sites_stack(model->sites, site);
    for (size_t i = 0; stack != NULL && i < stack->count; i++) {
        const gw_frame *frame = &stack->frame[i];
        if (frame->python || frame->module == NULL || is_between(frame->module))
            continue;
        return gw_begins(gw_path_last(frame->module), "libc10_cuda") ? OWNER_TORCH : OWNER_OTHER;
    }
    return OWNER_UNKNOWN;
}

bool gwi_replay_is_torchs(const gw_model *model, uint32_t site)
{
    return site != 0 && owner_of_site(model, site) == OWNER_TORCH;
}

static gw_replay_step step_of(const gwi_memory_call_made *call)
{
    gw_replay_step step = {.address = call->address, .bytes = call->bytes, .t_ns = call->t_ns};
    switch ((gw_event_kind)call->kind) {
    case GW_EV_ALLOC:
        step.kind = call->is_refused ? GW_REPLAY_TAKE_REFUSED : GW_REPLAY_TAKE;
        break;
    case GW_EV_FREE:
        step.kind = GW_REPLAY_GIVE;
        break;
    case GW_EV_VMM_CREATE:
        step.kind = call->is_refused ? GW_REPLAY_CREATE_REFUSED : GW_REPLAY_CREATE;
        break;
    case GW_EV_VMM_RESERVE:
        step.kind = GW_REPLAY_RESERVE;
        break;
    default:
        step.kind = GW_REPLAY_UNMAP;
        break;
    }
    return step;
}

static gw_status add_steps(const gw_model *model, const gw_allocator_report *report, gw_replay_input *input,
                           gw_error *err)
{
    const gw_process *facts = gw_model_process(model, report->pid);
    const gwi_memory_calls *calls = facts == NULL ? NULL : &model->inner->process[facts - model->process]->memory_calls;
    unsigned char *known = calloc((size_t)gw_sites_count(model->sites) + 1, 1);
    size_t end = calls == NULL || calls->count < report->memory_call_count ? 0 : report->memory_call_count;
    gw_status st = known == NULL ? no_memory(err) : GW_OK;
    if (st == GW_OK && (end == 0 || calls->is_cut))
        st = gw_fail(err, GW_MISSING, "the recording does not have all calls to the driver");
    for (size_t i = 0; st == GW_OK && i < end; i++) {
        const gwi_memory_call_made *call = &calls->call[i];
        if (call->device != report->device)
            continue;
        if (known[call->site] == OWNER_NOT_ASKED)
            known[call->site] = (unsigned char)owner_of_site(model, call->site);
        bool may_be_torch = call->kind != GW_EV_ALLOC || call->bytes % (2 * MIB) == 0;
        if (known[call->site] == OWNER_UNKNOWN && may_be_torch)
            st = gw_fail(err, GW_MISSING,
                         "the recording has no call sites, which would show which calls to the driver "
                         "are PyTorch's");
        gw_replay_step step = step_of(call);
        if (st == GW_OK && known[call->site] == OWNER_TORCH && !gwi_replay_step_add(input, &step))
            st = no_memory(err);
    }
    free(known);
    return st;
}

/* ---- events ---- */

/* The reports of refused requests before this report, and the blocks that were freed after each request. */
typedef struct builder {
    const gw_model *model;
    const gw_allocator_report *report;
    gw_replay_input *input;
    uint32_t *first_free, *next_free; /* owned; index + 1 of a block; 0: none. first_free by order */
    size_t next_report;               /* index in model->allocator of the next refusal to look at */
} builder;

static size_t report_index(const builder *b)
{
    return (size_t)(b->report - b->model->allocator);
}

/* PyTorch tells its observers the size of the segment that it wanted. The hook's own report has the block's size. */
static gw_replay_event refusal_of(const gw_allocator_report *report)
{
    uint64_t wanted = report->bytes_wanted;
    gw_replay_event event = {.kind = GW_REPLAY_REFUSED, .bytes = wanted, .least = wanted, .t_ns = report->t_ns};
    bool is_segment = report->bytes_total != 0 && wanted % (2 * MIB) == 0;
    if (is_segment && wanted == 2 * MIB)
        event.bytes = MIB, event.least = 512;
    else if (is_segment)
        event.least = wanted == 20 * MIB ? MIB + 512 : wanted - 2 * MIB + 512;
    return event;
}

/* True if the block was still live when the earlier request was refused. */
static bool was_live_at(const gw_allocator_report *refusal, uint64_t order)
{
    if (refusal->request_count == 0 || order < refusal->request[0].order)
        return false;
    uint64_t index = order - refusal->request[0].order;
    return index < refusal->request_count && !refusal->request[index].freed;
}

static bool add_free(builder *b, uint32_t block)
{
    return gwi_replay_event_add(b->input, &(gw_replay_event){.kind = GW_REPLAY_FREE, .block = block});
}

/* Add the frees after request `order`: those that an earlier refused request did not see yet only if `refusal` is
 * NULL. */
static bool add_frees(builder *b, uint64_t order, const gw_allocator_report *refusal)
{
    bool good = true;
    for (uint32_t *at = &b->first_free[order]; good && *at != 0;) {
        uint32_t block = *at - 1;
        if (refusal != NULL && was_live_at(refusal, (uint64_t)block + 1)) {
            at = &b->next_free[block];
            continue;
        }
        *at = b->next_free[block];
        good = add_free(b, block);
    }
    return good;
}

static bool is_earlier_refusal(const builder *b, const gw_allocator_report *other)
{
    return other->is_oom && other->pid == b->report->pid && other->device == b->report->device;
}

/* Number of requests before a refused one. Later reports of a process that is refused often have no course, only a
 * time. */
static uint64_t order_of_refusal(const builder *b, const gw_allocator_report *refusal)
{
    uint64_t order = refusal->has_course ? refusal->field[GW_ALLOCATOR_COURSE_REQUESTS] : 0;
    if (refusal->has_course)
        return order;
    while (order < b->report->request_count && b->report->request[order].t_ns <= refusal->t_ns)
        order++;
    return order;
}

/* Add what happened between request `order` and the next one. */
static bool add_between(builder *b, uint64_t order)
{
    bool good = true;
    for (; good && b->next_report < report_index(b); b->next_report++) {
        const gw_allocator_report *other = &b->model->allocator[b->next_report];
        if (!is_earlier_refusal(b, other))
            continue;
        if (order_of_refusal(b, other) > order)
            break;
        gw_replay_event event = refusal_of(other);
        good = add_frees(b, order, other) && gwi_replay_event_add(b->input, &event);
    }
    return good && add_frees(b, order, NULL);
}

static void list_frees(builder *b)
{
    for (size_t i = b->report->request_count; i-- > 0;) {
        const gw_allocator_request *request = &b->report->request[i];
        if (!request->freed || request->freed_order < request->order || request->freed_order > b->report->request_count)
            continue;
        b->next_free[i] = b->first_free[request->freed_order];
        b->first_free[request->freed_order] = (uint32_t)i + 1;
    }
}

static bool add_events(builder *b)
{
    const gw_allocator_report *report = b->report;
    bool good = add_between(b, 0);
    for (size_t i = 0; good && i < report->request_count; i++) {
        const gw_allocator_request *request = &report->request[i];
        good = gwi_replay_event_add(b->input, &(gw_replay_event){.kind = GW_REPLAY_REQUEST,
                                                                 .block = (uint32_t)i,
                                                                 .bytes = request->bytes,
                                                                 .least = request->bytes,
                                                                 .t_ns = request->t_ns}) &&
               add_between(b, request->order);
    }
    gw_replay_event event = refusal_of(report);
    return good && (!report->is_oom || gwi_replay_event_add(b->input, &event));
}

/* Blocks that are live in the report have an address. */
static void add_addresses(const gw_allocator_report *report, gw_replay_input *input)
{
    uint64_t *address = calloc(report->request_count + 1, sizeof *address);
    for (size_t i = 0; address != NULL && i < report->live_count; i++)
        if (report->live[i].order > 0 && report->live[i].order <= report->request_count)
            address[report->live[i].order - 1] = report->live[i].address;
    for (size_t i = 0; address != NULL && i < input->event_count; i++)
        if (input->event[i].kind == GW_REPLAY_REQUEST)
            input->event[i].address = address[input->event[i].block];
    free(address); /* without memory, fewer addresses are compared */
}

static gw_status check_course(const gw_allocator_report *report, gw_error *err)
{
    uint64_t all = report->field[GW_ALLOCATOR_COURSE_REQUESTS];
    if (report->course_missed != 0)
        return gw_fail(err, GW_MISSING, "%" PRIu64 " of PyTorch's allocations and frees were not followed",
                       report->course_missed);
    if (report->request_count == 0 || report->request[0].order != 1 || report->request_count != all)
        return gw_fail(err, GW_MISSING, "the recording has only the last %zu of PyTorch's %" PRIu64 " allocations",
                       report->request_count, all);
    return GW_OK;
}

static gw_status from_course(const gw_model *model, const gw_allocator_report *report, gw_replay_input *input,
                             gw_error *err)
{
    size_t count = report->request_count;
    builder b = {.model = model, .report = report, .input = input};
    gw_status st = check_course(report, err);
    if (st != GW_OK)
        return st;
    b.first_free = calloc(count + 1, sizeof *b.first_free);
    b.next_free = calloc(count + 1, sizeof *b.next_free);
    input->block_count = (uint32_t)count;
    input->steps_have_refusals = true;
    if (b.first_free != NULL && b.next_free != NULL)
        list_frees(&b);
    if (b.first_free == NULL || b.next_free == NULL || !add_events(&b))
        st = no_memory(err);
    free(b.first_free);
    free(b.next_free);
    if (st != GW_OK)
        return st;
    add_addresses(report, input);
    return add_steps(model, report, input, err);
}

/* ---- the rest of the input ---- */

static gw_status read_settings(const gw_model *model, const gw_allocator_report *report, gw_replay_settings *settings,
                               gw_error *err)
{
    const char *text = gw_model_meta(model, "env.PYTORCH_CUDA_ALLOC_CONF");
    if (text == NULL)
        text = gw_model_meta(model, "env.PYTORCH_ALLOC_CONF");
    *settings = gw_replay_settings_default();
    gw_status st = text == NULL ? GW_OK : gw_replay_settings_read(settings, text, err);
    if (st == GW_USAGE)
        return gw_fail(err, GW_MISSING, "its allocator settings cannot be read: %s", text);
    if (report != NULL && report->has_field[GW_ALLOCATOR_EXPANDABLE])
        settings->is_expandable = report->field[GW_ALLOCATOR_EXPANDABLE] != 0;
    if (report != NULL && report->has_field[GW_ALLOCATOR_LIMIT])
        settings->limit_bytes = report->field[GW_ALLOCATOR_LIMIT];
    return st;
}

/* The memory that was free after the refusal, as the driver reported it. */
static bool free_after(const gw_model *model, const gw_allocator_report *report, uint64_t *ret_bytes)
{
    enum { NEAR_NS = 2000000000 };
    if (report->has_free)
        *ret_bytes = report->bytes_free;
    for (size_t i = model->info_count; !report->has_free && i-- > 0;) {
        const gw_memory_info *info = &model->info[i];
        uint64_t apart_ns = info->t_ns > report->t_ns ? info->t_ns - report->t_ns : report->t_ns - info->t_ns;
        if (info->pid != report->pid || info->device != report->device || apart_ns > NEAR_NS)
            continue;
        *ret_bytes = info->bytes_free;
        return true;
    }
    return report->has_free;
}

static void add_room(const gw_model *model, const gw_allocator_report *report, gw_replay_input *input)
{
    uint64_t free_bytes;
    if (!gw_model_device_limit(model, report->device, &input->card_bytes))
        input->card_bytes = report->has_field[GW_ALLOCATOR_LIMIT] ? 0 : report->bytes_total;
    if (!report->has_field[GW_ALLOCATOR_RESERVED])
        return;
    input->reserved_bytes = report->field[GW_ALLOCATOR_RESERVED];
    if (report->is_oom && free_after(model, report, &free_bytes))
        input->room_bytes = input->reserved_bytes + free_bytes;
}

/* Graphs have pools of their own, which recordings do not show. */
static bool has_private_pools(const gw_model *model, const gw_allocator_report *report)
{
    const gw_process *facts = gw_model_process(model, report->pid);
    bool captured = facts != NULL && facts->usage[report->device].class_made[GW_CLASS_GRAPH] > 0;
    return captured || gw_model_meta(model, GW_META_PRIVATE_POOLS) != NULL;
}

gw_status gw_model_replay_input(const gw_model *model, const gw_allocator_report *report, gw_replay_input *ret_input,
                                gw_error *err)
{
    gw_replay_input input = {0};
    gw_status st = read_settings(model, report, &input.settings, err);
    if (st == GW_OK && report == NULL)
        st = gw_fail(err, GW_MISSING, "the recording has nothing about PyTorch's allocator");
    if (st == GW_OK && has_private_pools(model, report))
        st =
            gw_fail(err, GW_MISSING,
                    "the program has memory pools of its own, as CUDA graphs do, and the recording does not show which "
                    "blocks are in them");
    if (st == GW_OK && report->has_course && report->request_count > 0)
        st = from_course(model, report, &input, err);
    else if (st == GW_OK)
        st = gwi_replay_from_history(report, gw_model_meta(model, GW_META_SNAPSHOT) != NULL, &input, err);
    if (st != GW_OK) {
        gw_replay_input_free(&input);
        return st;
    }
    add_room(model, report, &input);
    *ret_input = input;
    return GW_OK;
}

const gw_allocator_report *gw_model_replay_report(const gw_model *model)
{
    const gw_allocator_report *found = NULL;
    for (size_t i = 0; i < model->allocator_count; i++) {
        const gw_allocator_report *report = &model->allocator[i];
        bool has_events = report->request_count > 0 || report->entry_count > 0;
        bool is_better = found == NULL || report->is_oom >= found->is_oom;
        if (has_events && is_better)
            found = report;
    }
    if (found == NULL && model->allocator_count > 0)
        found = &model->allocator[model->allocator_count - 1];
    return found;
}

size_t *gw_model_replay_phases(const gw_model *model, const gw_allocator_report *report, const gw_replay_input *input,
                               size_t *ret_count)
{
    size_t *list = NULL, count = 0, at = 0;
    bool is_first = true;
    for (size_t i = 0; i < model->phase_count; i++) {
        const gw_phase *phase = &model->phase[i];
        if (phase->pid != report->pid || phase->name == NULL)
            continue;
        while (at < input->event_count &&
               (input->event[at].kind != GW_REPLAY_REQUEST || input->event[at].t_ns < phase->t_ns))
            at++;
        bool is_inside = !is_first && at > 0 && at < input->event_count && (count == 0 || list[count - 1] != at);
        is_first = false;
        if (is_inside && gw_array_more(&list, count, sizeof *list))
            list[count++] = at;
    }
    *ret_count = count;
    return list;
}
