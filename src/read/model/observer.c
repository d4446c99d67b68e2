/* Reads the reports about a framework's allocator. gpuwhy's observer inside the framework writes them as events.
 * ALLOCATOR_OOM begins a report, or ALLOCATOR_STATE if nothing failed. Later events of the same process, such as
 * ALLOCATOR_BLOCK, add to the report. */
#include "gw_array.h"
#include "gwi_inner.h"

#include "gw_growth.h"
#include "gw_requests.h"

#include <string.h>

static int report_open(gw_model *model, gwi_process *process, const gw_event *event, bool is_oom)
{
    if (!gwi_room(model, &model->allocator, model->allocator_count, &model->inner->allocator_capacity,
                  sizeof(gw_allocator_report)))
        return -1;
    gw_allocator_report *report = &model->allocator[model->allocator_count];
    *report = (gw_allocator_report){
        .t_ns = event->t_ns, .pid = process->pid, .is_oom = is_oom, .memory_call_count = process->memory_calls.count};
    process->history_count = 0;
    process->history_read_ns = 0;
    return process->allocator_now = (int)model->allocator_count++;
}

/* Convert an age to a time. An age counts back from the start of reading the history, because writing the events may
 * take long. Returns false if the age is unknown, or if the time would be before the start of the run. */
static bool time_of_age(const gwi_process *process, const gw_event *event, uint64_t age_ns, uint64_t *ret_t_ns)
{
    uint64_t told_ns = process->history_read_ns != 0 ? process->history_read_ns : event->t_ns;
    bool known = age_ns != GW_AGE_UNKNOWN && age_ns <= told_ns;
    *ret_t_ns = known ? told_ns - age_ns : 0;
    return known;
}

/* Link the process's last failure to the report, if this failure is a refused allocation less than two seconds before
 * the report. */
static void tie_failure(gw_model *model, const gwi_process *process, int index)
{
    const gw_allocator_report *report = &model->allocator[index];
    if (process->last_failure < 0)
        return;
    gw_failure *failure = &model->failure[process->last_failure];
    if (failure->is_allocation && report->t_ns - failure->t_last_ns < 2000000000u)
        failure->allocator = index;
}

/* Return the thread's last failure, or NULL. Equal failures are one entry, which may be older than others. So if
 * another thread has failed meanwhile, only the newest entries are searched. */
static gw_failure *last_failure_of(gw_model *model, const gwi_process *process, const gw_event *event)
{
    enum { LOOK_BACK = 64 };
    gw_failure *found = process->last_failure < 0 ? NULL : &model->failure[process->last_failure];
    if (found != NULL && found->tid == event->tid)
        return found;
    found = NULL;
    for (size_t i = model->failure_count; i-- > 0 && model->failure_count - i <= LOOK_BACK;) {
        gw_failure *failure = &model->failure[i];
        if (failure->pid == event->pid && failure->tid == event->tid &&
            (found == NULL || failure->t_last_ns > found->t_last_ns))
            found = failure;
    }
    return found;
}

/* Link a report about another library's refused request to this request, which the same thread made just before. */
static void tie_other(gw_model *model, const gwi_process *process, const gw_event *event)
{
    gw_failure *failure = last_failure_of(model, process, event);
    if (failure != NULL && failure->is_allocation && event->t_ns - failure->t_last_ns < 2000000000u)
        failure->allocator = process->allocator_now;
}

static gw_allocator_report *report_now(gw_model *model, gwi_process *process, const gw_event *event)
{
    int index = process->allocator_now;
    if (index < 0)
        index = report_open(model, process, event, false);
    return index < 0 ? NULL : &model->allocator[index];
}

static void block_add(gw_model *model, const gwi_process *process, gw_allocator_report *report, const gw_event *event)
{
    uint64_t t_ns;
    if (event->arg[3] == GW_BLOCK_REST) {
        report->rest_count += event->arg[0];
        report->rest_bytes += event->arg[1];
    }
    if ((event->arg[3] & 0xff) > GW_BLOCK_PENDING || report->live_count >= GWI_GRAVES_MAX)
        return;
    bool aged = time_of_age(process, event, event->arg[2], &t_ns);
    if (!gw_array_more(&report->live, report->live_count, sizeof *report->live)) {
        model->inner->nomem = true;
        return;
    }
    report->live[report->live_count++] = (gw_live){.address = event->arg[0],
                                                   .bytes = event->arg[1],
                                                   .t_ns = t_ns,
                                                   .order = event->arg[3] >> GW_BLOCK_ORDER_SHIFT,
                                                   .site = model->inner->event_site,
                                                   .cls = GW_CLASS_COUNT,
                                                   .device = (uint8_t)report->device,
                                                   .has_time = aged};
}

static void entry_add(gw_model *model, gw_allocator_report *report, const gw_event *event)
{
    enum { ENTRIES_MAX = 1 << 21 };
    bool is_condensed = event->arg[0] == GW_ACTION_LIVE_PEAK || event->arg[0] == GW_ACTION_LIVE_LOW;
    if (report->entry_count >= ENTRIES_MAX || event->arg[0] >= GW_ACTION_COUNT || is_condensed)
        return;
    if (!gw_array_more(&report->entry, report->entry_count, sizeof *report->entry)) {
        model->inner->nomem = true;
        return;
    }
    report->entry[report->entry_count++] = (gw_allocator_entry){
        .action = (uint8_t)event->arg[0], .stream = event->extra, .address = event->arg[1], .bytes = event->arg[2]};
}

/* Add an entry of the allocator's history to its report. GW_ACTION_ALLOC is one allocation. GW_ACTION_LIVE_PEAK and
 * GW_ACTION_LIVE_LOW are the highest and the lowest live bytes within a span of time. */
static void history_add(gw_model *model, gwi_process *process, gw_allocator_report *report, const gw_event *event)
{
    uint64_t t_ns;
    (void)time_of_age(process, event, event->arg[3], &t_ns);
    entry_add(model, report, event);
    if (event->arg[0] == GW_ACTION_ALLOC) {
        report->history_count++;
        if (gwi_room(model, &process->history, process->history_count, &process->history_capacity, sizeof(uint64_t)))
            process->history[process->history_count++] = t_ns;
    } else if (event->arg[0] == GW_ACTION_LIVE_PEAK) {
        if (report->peak_count >= GW_PEAKS_MAX)
            return;
        if (gw_array_more(&report->peak, report->peak_count, sizeof *report->peak))
            report->peak[report->peak_count++] = (gw_peak){.t_ns = t_ns, .bytes = event->arg[2]};
        else
            model->inner->nomem = true;
    } else if (event->arg[0] == GW_ACTION_LIVE_LOW &&
               report->peak_count > 0) { /* belongs to the same time span as the LIVE_PEAK entry before it */
        gw_peak *peak = &report->peak[report->peak_count - 1];
        if (!peak->has_low && event->arg[2] <= peak->bytes) {
            peak->has_low = true;
            peak->low_bytes = event->arg[2];
        }
    }
}

/* Return the full value of a counter. `before` is its previous full value, `now` has its low 32 bits. */
static uint64_t unrolled(uint64_t before, uint32_t now)
{
    return before + (uint32_t)(now - (uint32_t)before);
}

/* Return the number (`order`) of the last request before the block was freed, or 0 if it was not freed. UINT64_MAX: it
 * was freed about 2^32 or more requests later. */
static uint64_t freed_order_of(uint64_t order, uint64_t freed_after)
{
    if (freed_after == 0)
        return 0;
    return freed_after >= UINT32_MAX ? UINT64_MAX : order + freed_after - 1;
}

/* Add the requests in the text of an ALLOCATOR_REQUESTS event to the report. After a gap, the stored requests are
 * dropped, because the new ones show how the run ended. */
static void requests_add(gw_model *model, const gwi_process *process, gw_allocator_report *report,
                         const gw_event *event)
{
    enum { REQUESTS_MAX = 1 << 17 };
    uint64_t first_order = event->arg[0], count = event->arg[1], t_first_ns;
    const char *at = event->text == NULL ? "" : event->text;
    gw_packed_request now = {0};
    if (count == 0 || count > GW_TEXT_BYTES_MAX || !time_of_age(process, event, event->arg[3], &t_first_ns))
        return;
    const gw_allocator_request *last = report->request_count == 0 ? NULL : &report->request[report->request_count - 1];
    if (last != NULL && last->order + 1 != first_order)
        report->request_count = 0;
    if (report->request_count + count > REQUESTS_MAX)
        return;
    if (!gw_array_resize(&report->request, report->request_count + count, sizeof *report->request)) {
        model->inner->nomem = true;
        return;
    }
    gw_allocator_request before =
        report->request_count == 0 ? (gw_allocator_request){0} : report->request[report->request_count - 1];
    for (uint64_t i = 0; i < count && gw_request_read(&at, &now); i++) {
        uint64_t order = first_order + i;
        gw_allocator_request request = {.order = order,
                                        .bytes = now.bytes,
                                        .t_ns = t_first_ns + now.t_us * 1000,
                                        .launches = unrolled(before.launches, now.launches),
                                        .waits = unrolled(before.waits, now.waits),
                                        .site = gw_sites_number(model->sites, event->pid, now.site),
                                        .freed = now.freed_after != 0,
                                        .freed_order = freed_order_of(order, now.freed_after)};
        report->request[report->request_count++] = before = request;
    }
}

static void size_add(gw_allocator_report *report, const gw_event *event)
{
    if (report->size_count < GW_ALLOCATOR_SIZES_MAX)
        report->size[report->size_count++] =
            (gw_allocator_size){event->arg[0], event->arg[1], event->arg[2], event->arg[3]};
}

static void held_add(gw_model *model, const gwi_process *process, gw_allocator_report *report, const gw_event *event)
{
    gw_held held = {.bytes = event->arg[1], .count = event->arg[2], .site = model->inner->event_site};
    if (event->arg[0] == GW_MOMENT_REQUEST) {
        report->wanted_site = held.site;
    } else if (event->arg[0] == GW_MOMENT_PEAK && report->held_count < GW_HELD_MAX) {
        report->held[report->held_count++] = held;
        (void)time_of_age(process, event, event->arg[3], &report->t_held_ns);
    } else if (event->arg[0] == GW_MOMENT_PEAK || event->arg[0] == GW_MOMENT_REST) {
        report->held_rest.bytes += held.bytes;
        report->held_rest.count += held.count;
    }
}

static int by_time(const void *left, const void *right)
{
    const gw_live *a = left, *b = right;
    if (a->has_time != b->has_time)
        return a->has_time ? 1 : -1;
    if (a->t_ns != b->t_ns)
        return a->t_ns < b->t_ns ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

static int by_order(const void *left, const void *right)
{
    const gw_live *a = left, *b = right;
    return a->order != b->order ? (a->order > b->order) - (a->order < b->order) : by_time(left, right);
}

static int by_peak(const void *left, const void *right)
{
    const gw_peak *a = left, *b = right;
    return a->t_ns < b->t_ns ? -1 : a->t_ns > b->t_ns;
}

/* True if nothing was requested or freed between the two reports. */
static bool is_unchanged(const gw_allocator_report *before, const gw_allocator_report *now)
{
    static const gw_allocator_field total[] = {GW_ALLOCATOR_COURSE_REQUESTS, GW_ALLOCATOR_COURSE_FREES,
                                               GW_ALLOCATOR_COURSE_LIVE, GW_ALLOCATOR_COURSE_LIVE_COUNT};
    bool same = before->pid == now->pid && before->device == now->device && before->course_missed == 0 &&
                now->course_missed == 0;
    for (size_t i = 0; same && i < sizeof total / sizeof *total; i++)
        same =
            before->has_field[total[i]] && now->has_field[total[i]] && before->field[total[i]] == now->field[total[i]];
    return same;
}

/* After many refusals in a row, a report has the totals of the course, but not its lists. If nothing changed since the
 * last full report, use the lists of that one. */
static void share_lists(const gw_model *model, const gwi_process *process, gw_allocator_report *report)
{
    const gw_allocator_report *full = process->allocator_full < 0 ? NULL : &model->allocator[process->allocator_full];
    if (full == NULL || !report->has_course || report->request_count > 0 || !is_unchanged(full, report))
        return;
    free(report->live);
    free(report->peak);
    free(report->request);
    free(report->entry);
    report->shares_lists = true;
    report->live = full->live;
    report->live_count = full->live_count;
    report->rest_count = full->rest_count;
    report->rest_bytes = full->rest_bytes;
    report->request = full->request;
    report->request_count = full->request_count;
    memcpy(report->size, full->size, sizeof report->size);
    report->size_count = full->size_count;
    report->history_count = full->history_count;
    report->entry = full->entry;
    report->entry_count = full->entry_count;
    report->peak = full->peak;
    report->peak_count = full->peak_count;
    memcpy(report->held, full->held, sizeof report->held);
    report->held_count = full->held_count;
    report->held_rest = full->held_rest;
    report->t_held_ns = full->t_held_ns;
}

/* Sort the live blocks and the peaks of a complete report, and number the blocks. A block's number is the number of
 * allocations in the history up to the block's time. So a gap between two blocks shows how many others were allocated
 * and freed in between. */
static void settle(const gw_model *model, gwi_process *process)
{
    gw_allocator_report *report = process->allocator_now < 0 ? NULL : &model->allocator[process->allocator_now];
    if (report == NULL || report->settled)
        return;
    report->settled = true;
    if (report->has_course && report->request_count > 0)
        process->allocator_full = process->allocator_now;
    share_lists(model, process, report);
    if (report->live_count > 0)
        qsort(report->live, report->live_count, sizeof *report->live, report->has_course ? by_order : by_time);
    if (report->peak_count > 0)
        qsort(report->peak, report->peak_count, sizeof *report->peak, by_peak);
    if (report->has_course) { /* the hook followed all allocations, and has already numbered the blocks */
        report->order = report->field[GW_ALLOCATOR_COURSE_REQUESTS];
        process->history_count = 0;
        return;
    }
    if (process->history_count > 0)
        qsort(process->history, process->history_count, sizeof *process->history, gw_by_number);
    size_t at = 0;
    uint64_t order = 0;
    for (size_t i = 0; i < report->live_count; i++) {
        while (report->live[i].has_time && at < process->history_count && process->history[at] <= report->live[i].t_ns)
            at++;
        order = at > order ? at : order + 1; /* `at` includes the block's own entry if the history has it */
        report->live[i].order = order;
    }
    report->order = process->history_count > order ? process->history_count : order;
    process->history_count = 0;
}

static void arrays_add(gw_arrays *arrays, const gw_event *event)
{
    if (!arrays->seen || arrays->pid != event->pid)
        return;
    if (event->arg[2] != 0) {
        arrays->rest_bytes += event->arg[0];
        arrays->rest_count += event->arg[1];
    } else if (arrays->kind_count < GW_ARRAY_KINDS_MAX) {
        gw_array_kind *kind = &arrays->kind[arrays->kind_count++];
        *kind = (gw_array_kind){.bytes = event->arg[0], .count = event->arg[1]};
        if (event->text != NULL)
            strncpy(kind->name, event->text, sizeof kind->name - 1);
    }
}

const gw_array_kind *gw_arrays_pile(const gw_arrays *arrays, uint64_t reads)
{
    enum { PILE_MANY = 100, PILE_MIN = 16 };
    const gw_array_kind *most = &arrays->kind[0];
    if (!arrays->seen || arrays->kind_count == 0 || most->count < PILE_MIN || most->bytes == 0)
        return NULL;
    uint64_t in_use = arrays->rest_bytes; /* some allocators do not report bytes in use, so add up the arrays */
    for (size_t i = 0; i < arrays->kind_count; i++)
        in_use += arrays->kind[i].bytes * arrays->kind[i].count;
    in_use = arrays->bytes_in_use > in_use ? arrays->bytes_in_use : in_use;
    if (most->count >= PILE_MANY && most->count >= in_use / most->bytes / 2)
        return most;
    return reads >= most->count / 2 && most->count >= in_use / most->bytes / 3 * 2 ? most : NULL;
}

static void refusal_add(gw_model *model, gwi_process *process, const gw_event *event)
{
    settle(model, process);
    process->allocator_now = -1; /* its lists may be those of another report: add nothing more to it */
    int index = report_open(model, process, event, true);
    if (index < 0)
        return;
    gw_allocator_report *report = &model->allocator[index];
    report->bytes_wanted = event->arg[0];
    report->bytes_total = event->arg[1];
    report->bytes_free = event->arg[2];
    report->has_free = event->arg[1] != 0 || event->arg[2] != 0;
    report->wanted_site = model->inner->event_site;
    report->device = gwi_device_place(event->arg[3]);
    tie_failure(model, process, index);
}

static void state_add(gw_model *model, gwi_process *process, const gw_event *event)
{
    uint64_t field = event->arg[0], value = event->arg[1];
    bool begins = field == GW_ALLOCATOR_WHEN && value != GW_WHEN_OOM;
    if (begins) { /* the allocator itself refused nothing */
        settle(model, process);
        process->allocator_now = -1;
    }
    gw_allocator_report *report = report_now(model, process, event);
    if (report == NULL || field >= GW_ALLOCATOR_FIELD_COUNT)
        return;
    if (begins)
        report->device = gwi_device_place(event->arg[2]);
    if (begins && value == GW_WHEN_OTHER_REFUSED) {
        report->is_other_refused = true;
        tie_other(model, process, event);
    }
    report->has_field[field] = true;
    report->field[field] = value;
    if (field == GW_ALLOCATOR_HISTORY_TOTAL || field == GW_ALLOCATOR_COURSE_REQUESTS)
        process->history_read_ns = event->t_ns;
    if (field == GW_ALLOCATOR_COURSE_REQUESTS)
        report->has_course = true;
    if (field == GW_ALLOCATOR_COURSE_MISSED)
        report->course_missed = value;
}

/* Add an event to the report that is being read. */
static void part_add(gw_model *model, gwi_process *process, const gw_event *event)
{
    gw_allocator_report *report = report_now(model, process, event);
    if (report == NULL)
        return;
    switch ((gw_event_kind)event->kind) {
    case GW_EV_ALLOCATOR_BLOCK:
        block_add(model, process, report, event);
        return;
    case GW_EV_ALLOCATOR_HISTORY:
        history_add(model, process, report, event);
        return;
    case GW_EV_ALLOCATOR_HELD:
        held_add(model, process, report, event);
        return;
    case GW_EV_ALLOCATOR_REQUESTS:
        requests_add(model, process, report, event);
        return;
    default:
        size_add(report, event);
        return;
    }
}

void gwi_observer_event(gw_model *model, gwi_process *process, const gw_event *event)
{
    switch ((gw_event_kind)event->kind) {
    case GW_EV_ALLOCATOR_OOM:
        refusal_add(model, process, event);
        return;
    case GW_EV_ALLOCATOR_STATE:
        state_add(model, process, event);
        return;
    case GW_EV_ALLOCATOR_BLOCK:
    case GW_EV_ALLOCATOR_HISTORY:
    case GW_EV_ALLOCATOR_HELD:
    case GW_EV_ALLOCATOR_REQUESTS:
    case GW_EV_ALLOCATOR_SIZE:
        part_add(model, process, event);
        return;
    case GW_EV_ARRAYS_OOM:
        model->arrays = (gw_arrays){.seen = true,
                                    .t_ns = event->t_ns,
                                    .pid = event->pid,
                                    .bytes_wanted = event->arg[0],
                                    .bytes_in_use = event->arg[1],
                                    .bytes_limit = event->arg[2],
                                    .bytes_peak = event->arg[3]};
        return;
    case GW_EV_ARRAYS:
        arrays_add(&model->arrays, event);
        return;
    default:
        return;
    }
}

/* Decide whether the program recovered from the failure: it launched at least 64 kernels afterwards and waited for the
 * GPU. A later success proves nothing, because a caching allocator retries a failed request itself. */
static void settle_recovery(gw_model *model, gw_allocator_report *report)
{
    enum { LAUNCHES_MANY = 64 };
    uint64_t launches = 0;
    const gw_process *process = gw_model_process(model, report->pid);
    const gw_thread *thread = gw_model_first_thread(model, report->pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread)) {
        for (size_t k = thread->ring_count; k-- > 0 && thread->ring[k].t_ns > report->t_ns;)
            launches += gw_is_any_launch(&thread->ring[k]);
    }
    if (launches >= LAUNCHES_MANY && process != NULL && process->synced_at_ns > report->t_ns)
        report->recovery = GW_RECOVERED_BY_WORK;
}

/* A block without a time is older than the allocator's history. Assume that the history begins in the first span of
 * time, and return the end of this span. */
bool gw_report_undated_before(const gw_allocator_report *report, uint64_t *ret_t_ns)
{
    if (report->peak_count == 0)
        return false;
    *ret_t_ns = report->peak[0].t_ns;
    return true;
}

void gwi_observer_finish(gw_model *model)
{
    for (size_t i = 0; i < model->process_count; i++)
        settle(model, model->inner->process[i]);
    for (size_t i = 0; i < model->allocator_count; i++) {
        if (model->allocator[i].is_oom)
            settle_recovery(model, &model->allocator[i]);
    }
}
