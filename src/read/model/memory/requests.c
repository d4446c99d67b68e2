/* Stores the newest requests for device memory of each process: size, call site, work between requests, and when the
 * blocks were freed. The requests are in a ring, so a long run needs no more memory. */
#include "gwi_inner.h"

#include <string.h>

enum { ROOM_MIN = 256 };

/* Double the size of the ring. A request is stored at index `order` modulo the size, so copy each one to its new
 * index. */
GWI_RARE bool gwi_requests_grow(gw_model *model, gwi_requests *list, uint64_t order)
{
    gwi_requests wider = {.room = list->room == 0 ? ROOM_MIN : list->room * 2, .oldest = list->oldest};
    wider.item = gwi_big_alloc(wider.room * sizeof *wider.item);
    wider.end = gwi_big_alloc(wider.room * sizeof *wider.end);
    if (wider.item == NULL || wider.end == NULL) {
        gwi_requests_free(&wider);
        model->inner->nomem = true;
        return false;
    }
    if (list->room == 0)
        wider.oldest = order;
    for (uint64_t i = wider.oldest; i < order; i++) {
        wider.item[i & (wider.room - 1)] = list->item[i & (list->room - 1)];
        wider.end[i & (wider.room - 1)] = list->end[i & (list->room - 1)];
    }
    gwi_requests_free(list);
    *list = wider;
    return true;
}

uint32_t gwi_requests_turns(const gwi_process *process, uint64_t order)
{
    enum { LOOKED_AT_MAX = 1024, TURNS_MAX = 16 };
    const gwi_requests *list = &process->requests;
    uint32_t turns = 0;
    if (list->room == 0)
        return 0;
    order = order < list->oldest ? list->oldest : order;
    uint64_t last = list->newest < order + LOOKED_AT_MAX ? list->newest : order + LOOKED_AT_MAX;
    for (uint64_t frees = UINT64_MAX; order <= last && turns < TURNS_MAX; order++) {
        const gwi_request *request = &list->item[order & (list->room - 1)];
        turns += request->frees > frees;
        frees = request->frees;
    }
    return turns;
}

void gwi_requests_free(gwi_requests *list)
{
    free(list->item);
    free(list->end);
}

/* ---- work of other threads ---- */

static int by_time(const void *left, const void *right)
{
    const gw_ring_call *const *a = left, *const *b = right;
    return (*a)->t_ns < (*b)->t_ns ? -1 : (*a)->t_ns > (*b)->t_ns;
}

/* Count the work in the rings of all threads up to the time of each request. This is for programs whose requesting
 * threads do no work themselves. Old work that is no longer in the rings is not counted. */
static void work_from_rings(const gw_model *model, uint32_t pid, gw_request *request, size_t count)
{
    size_t room = 0, calls = 0, at = 0;
    const gw_thread *first = gw_model_first_thread(model, pid);
    for (const gw_thread *thread = first; thread != NULL; thread = gw_model_next_thread(model, thread))
        room += thread->ring_count;
    const gw_ring_call **call = room == 0 ? NULL : malloc(room * sizeof(const gw_ring_call *));
    for (const gw_thread *thread = first; call != NULL && thread != NULL; thread = gw_model_next_thread(model, thread))
        for (size_t k = 0; k < thread->ring_count; k++)
            call[calls++] = &thread->ring[k];
    if (calls > 0)
        qsort(call, calls, sizeof(const gw_ring_call *), by_time);
    gw_request sum = {0};
    for (size_t i = 0; calls > 0 && i < count; i++) {
        for (; at < calls && call[at]->t_ns <= request[i].t_ns; at++) {
            sum.launches += gw_is_any_launch(call[at]) && !call[at]->captured;
            sum.copies += call[at]->is_copy;
            sum.reads += call[at]->is_copy && strstr(call[at]->fn_name, "toH") != NULL;
            sum.waits += call[at]->is_sync || call[at]->is_query;
        }
        request[i].launches = sum.launches;
        request[i].copies = sum.copies;
        request[i].reads = sum.reads;
        request[i].waits = sum.waits;
    }
    free(call);
}

void gwi_requests_work(const gw_model *model, uint32_t pid, gw_request *request, size_t count)
{
    const gw_process *facts = gw_model_process(model, pid);
    if (facts != NULL && model->inner->process[facts - model->process]->launches == 0)
        work_from_rings(model, pid, request, count);
}

gw_request *gwi_requests_list(const gw_model *model, uint32_t pid, const gw_snapshot *snapshot, size_t *ret_count,
                              bool *ret_work_known)
{
    const gw_process *facts = gw_model_process(model, pid);
    const gwi_process *process = facts == NULL ? NULL : model->inner->process[facts - model->process];
    const gwi_requests *list = process == NULL ? NULL : &process->requests;
    if (list == NULL || list->room == 0 || snapshot == NULL || snapshot->order < list->oldest)
        return NULL;
    uint64_t last = snapshot->order < list->newest ? snapshot->order : list->newest;
    gw_request *copy = malloc((last - list->oldest + 2) * sizeof *copy); /* with room for the refused request */
    size_t count = 0;
    for (uint64_t order = list->oldest; copy != NULL && order <= last; order++) {
        const gwi_request *from = &list->item[order & (list->room - 1)];
        if (from->device != snapshot->device)
            continue;
        const gw_group *group = &model->group[from->group];
        const gwi_request_end *end = &list->end[order & (list->room - 1)];
        uint32_t frees_between = (uint32_t)(snapshot->frees - from->frees);
        bool alive = end->lifetime_plus_1 == 0 || end->frees - (uint32_t)from->frees > frees_between;
        copy[count++] = (gw_request){.t_ns = from->t_ns,
                                     .bytes = from->bytes,
                                     .live_bytes = from->live_bytes,
                                     .launches = from->launches,
                                     .frees = from->frees,
                                     .copies = from->copies,
                                     .reads = from->reads,
                                     .waits = from->waits,
                                     .order = order,
                                     .lifetime = alive ? GW_ALIVE : end->lifetime_plus_1 - 1,
                                     .site = group->site,
                                     .group = group->kin,
                                     .thread = from->thread};
    }
    *ret_count = count;
    *ret_work_known = process->work_known || gw_model_meta(model, GW_META_WORK) != NULL;
    return copy;
}

/* ---- requests in the report of a framework's allocator ---- */

static int by_bytes(const void *left, const void *right)
{
    const gw_request *const *a = left, *const *b = right;
    return (*a)->bytes < (*b)->bytes ? -1 : (*a)->bytes > (*b)->bytes;
}

/* Give all requests of one size the same group number, which replaces the unknown call site. Returns false if there is
 * no memory. */
static bool group_by_size(gw_request *list, size_t count)
{
    gw_request **ordered = malloc(count * sizeof(gw_request *));
    uint32_t group = 0;
    for (size_t i = 0; ordered != NULL && i < count; i++)
        ordered[i] = &list[i];
    if (ordered != NULL)
        qsort(ordered, count, sizeof(gw_request *), by_bytes);
    for (size_t i = 0; ordered != NULL && i < count; i++) {
        group += i == 0 || ordered[i]->bytes != ordered[i - 1]->bytes;
        ordered[i]->group = group;
    }
    free(ordered);
    return group > 0;
}

/* Compute the live bytes and the number of frees before each request, starting from the live bytes at the end. Blocks
 * allocated before the first request and freed later are unknown. Until their free, the result is too low. Returns
 * false if there is no memory. */
static bool add_books(gw_request *list, size_t count, uint64_t live_bytes_now)
{
    uint64_t *ended = calloc(count + 1, sizeof *ended), *ends = calloc(count + 1, sizeof *ends), alive = 0, frees = 0;
    bool good = ended != NULL && ends != NULL;
    for (size_t i = 0; good && i < count; i++) {
        size_t at = list[i].lifetime == GW_ALIVE || list[i].lifetime >= count - i ? count : i + 1 + list[i].lifetime;
        alive += list[i].lifetime == GW_ALIVE ? list[i].bytes : 0;
        ended[at < count ? at : count] += list[i].lifetime == GW_ALIVE ? 0 : list[i].bytes;
        ends[at < count ? at : count] += list[i].lifetime != GW_ALIVE;
    }
    uint64_t live = live_bytes_now > alive ? live_bytes_now - alive : 0;
    for (size_t i = 0; good && i < count; i++) {
        live -= ended[i] < live ? ended[i] : live;
        list[i].live_bytes = live;
        list[i].frees = frees += ends[i];
        live += list[i].bytes;
    }
    free(ended);
    free(ends);
    return good;
}

gw_request *gwi_requests_of_report(const gw_allocator_report *report, size_t *ret_count)
{
    size_t count = report->request_count;
    gw_request *list = count == 0 ? NULL : malloc((count + 1) * sizeof *list); /* with room for the refused request */
    for (size_t i = 0; list != NULL && i < count; i++) {
        const gw_allocator_request *from = &report->request[i];
        bool ended = from->freed && from->freed_order >= from->order;
        list[i] = (gw_request){.t_ns = from->t_ns,
                               .bytes = from->bytes,
                               .launches = from->launches,
                               .waits = from->waits,
                               .order = from->order,
                               .lifetime = ended ? from->freed_order - from->order : GW_ALIVE,
                               .site = from->site};
    }
    if (list == NULL || !group_by_size(list, count) || !add_books(list, count, report->field[GW_ALLOCATOR_ALLOCATED])) {
        free(list);
        return NULL;
    }
    *ret_count = count;
    return list;
}
