/* Collects what changed over time, while a second model of the recording is built. Groups have the same index in both
 * models, so the holders that the first one named are valid here.
 *
 * So memory over time needs no list of all events. Samples and ends of processes stand in the recording when the
 * supervisor wrote them, which may be before earlier events; they are applied in the order of their times. */
#include "gwi_collect.h"

#include "gw_array.h"
#include "gwi_escape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each pid has a linked list of its groups. A group joins its list with its first live bytes, and stays there until the
 * process ends, so a list is never longer than the number of changes since the last end of a process with that pid. */

/* The end of a list. No group has this index. */
static const uint32_t list_end = UINT32_MAX;

static int compare_pids(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Return the index of a pid, or pid_count if it has no group. */
static size_t find_pid(const gwi_alive *alive, uint32_t pid)
{
    const uint32_t *found = bsearch(&pid, alive->pid, alive->pid_count, sizeof *alive->pid, compare_pids);
    return found == NULL ? alive->pid_count : (size_t)(found - alive->pid);
}

static void list_pids(const gw_model *model, gwi_alive *alive)
{
    size_t kept = 0;
    for (size_t i = 0; i < model->group_count; i++)
        alive->pid[i] = model->group[i].pid;
    qsort(alive->pid, model->group_count, sizeof *alive->pid, compare_pids);
    for (size_t i = 0; i < model->group_count; i++)
        if (kept == 0 || alive->pid[kept - 1] != alive->pid[i])
            alive->pid[kept++] = alive->pid[i];
    alive->pid_count = kept;
    for (size_t i = 0; i < kept; i++)
        alive->first[i] = list_end;
    for (size_t i = 0; i < model->group_count; i++)
        alive->slot[i] = (uint32_t)find_pid(alive, model->group[i].pid);
}

bool gwi_alive_start(const gw_model *model, gwi_alive *ret_alive)
{
    size_t count = model->group_count;
    gwi_alive alive = {.bytes = calloc(count + 1, sizeof *alive.bytes),
                       .next = calloc(count + 1, sizeof *alive.next),
                       .slot = calloc(count + 1, sizeof *alive.slot),
                       .pid = calloc(count + 1, sizeof *alive.pid),
                       .first = calloc(count + 1, sizeof *alive.first),
                       .group_count = count};
    bool good =
        alive.bytes != NULL && alive.next != NULL && alive.slot != NULL && alive.pid != NULL && alive.first != NULL;
    if (good)
        list_pids(model, &alive);
    else
        gwi_alive_free(&alive);
    *ret_alive = alive;
    return good;
}

void gwi_alive_free(gwi_alive *alive)
{
    free(alive->bytes);
    free(alive->next);
    free(alive->slot);
    free(alive->pid);
    free(alive->first);
    *alive = (gwi_alive){0};
}

void gwi_alive_change(gwi_alive *alive, uint32_t group, uint64_t bytes, bool made)
{
    if (group >= alive->group_count)
        return;
    uint64_t *now = &alive->bytes[group];
    *now = made ? gwi_sum(*now, bytes) : *now > bytes ? *now - bytes : 0;
    if (group == 0 || alive->next[group] != 0) /* group 0 belongs to all processes */
        return;
    uint32_t *first = &alive->first[alive->slot[group]];
    alive->next[group] = *first;
    *first = group;
}

uint32_t gwi_alive_take(gwi_alive *alive, uint32_t pid, uint64_t *ret_bytes)
{
    size_t at = find_pid(alive, pid);
    uint32_t group = at == alive->pid_count ? list_end : alive->first[at];
    if (group == list_end)
        return 0;
    alive->steps++;
    alive->first[at] = alive->next[group];
    alive->next[group] = 0;
    *ret_bytes = alive->bytes[group];
    alive->bytes[group] = 0;
    return group;
}

enum { BUCKETS = 400, BUCKETS_MIN = 40 };

typedef struct device_now {
    uint64_t value[GWI_MEMORY_COLUMNS];
    uint64_t peak_pid_bytes; /* live bytes of the process whose peak is sought */
} device_now;

/* What happened at a time, but may be read before or after the memory changes of that time. */
typedef enum later_kind { LATER_INFO, LATER_USED, LATER_EXIT } later_kind;
typedef struct later {
    uint64_t t_ns;
    later_kind kind;
    uint32_t number; /* device; for LATER_EXIT: pid */
    uint64_t bytes;  /* LATER_INFO: memory outside the ledger; LATER_USED: memory in use on the device */
} later;

/* A list of these, sorted by time. */
typedef struct later_list {
    later *item;                /* owned */
    size_t count, capacity, at; /* `at`: the first that was not applied yet */
    size_t moves_max;           /* a new item is moved past at most so many */
} later_list;

typedef struct collector {
    const gw_model *first; /* the model of the first reading */
    const gwi_holders *holders;
    gwi_course *course;
    gwi_alive alive;
    device_now device[GW_MODEL_DEVICE_PLACES];
    uint64_t card_value[GW_MACHINE_CARDS_MAX][GWI_HEALTH_COUNT];
    later_list infos; /* what the driver reported; known before the second reading; the model limits their number */
    later_list items; /* from the items that were read so far */
    bool nomem;
} collector;

/* ---- memory ---- */

static void add_row(collector *c, unsigned device, uint64_t t_ns)
{
    gwi_thin_add(&c->course->device[device].table, t_ns, c->device[device].value);
}

/* Subtract what is live. Sums of hostile sizes may be wrong, but they never wrap below 0. */
static uint64_t less(uint64_t value, uint64_t bytes)
{
    return value > bytes ? value - bytes : 0;
}

static void set_outside(collector *c, unsigned device, uint64_t t_ns, uint64_t bytes)
{
    c->device[device].value[GWI_OUTSIDE] = bytes;
    c->course->device[device].has_changes = true;
    add_row(c, device, t_ns);
}

/* The memory of a process ends with it. */
static void process_ended(collector *c, uint64_t t_ns, uint32_t pid)
{
    bool changed[GW_MODEL_DEVICE_PLACES] = {false};
    uint64_t bytes;
    for (uint32_t i; (i = gwi_alive_take(&c->alive, pid, &bytes)) != 0;) {
        unsigned device = c->first->group[i].device;
        if (bytes == 0 || device >= GW_MODEL_DEVICE_PLACES)
            continue;
        uint64_t *value = c->device[device].value;
        uint8_t column = gwi_holder_column(c->holders, i);
        value[column] = less(value[column], bytes);
        value[GWI_TOTAL] = less(value[GWI_TOTAL], bytes);
        changed[device] = true;
    }
    for (unsigned device = 0; device < GW_MODEL_DEVICE_PLACES; device++) {
        if (changed[device])
            add_row(c, device, t_ns);
        if (c->course->device[device].peak_pid == pid)
            c->device[device].peak_pid_bytes = 0;
    }
}

/* Make room by forgetting the items that were applied, if they are at least half of a full list. */
static void forget_applied(later_list *list)
{
    if (list->count < list->capacity || list->at < list->count - list->at || list->at == 0)
        return;
    memmove(list->item, list->item + list->at, (list->count - list->at) * sizeof *list->item);
    list->count -= list->at;
    list->at = 0;
}

/* Add to a list that is sorted by time. New items are seldom earlier than those in the list. An item that
 * is earlier than very many is applied late, because sorting times that always go back would take too long. */
static void push(collector *c, later_list *list, const later *one)
{
    forget_applied(list);
    if (!gw_array_room(&list->item, list->count, &list->capacity, sizeof *list->item)) {
        c->nomem = true;
        return;
    }
    size_t at = list->count++, stop = at > list->moves_max ? at - list->moves_max : 0;
    for (; at > list->at && at > stop && list->item[at - 1].t_ns > one->t_ns; at--)
        list->item[at] = list->item[at - 1];
    list->item[at] = *one;
}

static void apply(collector *c, const later *one)
{
    if (one->kind == LATER_EXIT)
        process_ended(c, one->t_ns, one->number);
    else
        set_outside(c, one->number, one->t_ns,
                    one->kind == LATER_INFO ? one->bytes : less(one->bytes, c->device[one->number].value[GWI_TOTAL]));
}

/* Apply everything up to t_ns. */
static void apply_until(collector *c, uint64_t t_ns)
{
    for (;;) {
        later_list *infos = &c->infos, *items = &c->items, *next = infos;
        bool has_info = infos->at < infos->count, has_item = items->at < items->count;
        if (has_item && (!has_info || items->item[items->at].t_ns < infos->item[infos->at].t_ns))
            next = items;
        else if (!has_info)
            return;
        if (next->item[next->at].t_ns > t_ns)
            return;
        apply(c, &next->item[next->at++]);
    }
}

/* List what the driver reported about its free memory. A report right after a failed call gets the time of the call.
 * With a limit set by gpuwhy, the driver's numbers are about the limit, not about the card. */
static void list_infos(collector *c)
{
    const gw_model *model = c->first;
    for (size_t i = 0; i < model->info_count; i++) {
        const gw_memory_info *info = &model->info[i];
        if (info->device < 0 || info->device >= GW_MODEL_DEVICES_MAX || info->bytes_free > info->bytes_total ||
            model->device[info->device].has_limit)
            continue;
        push(c, &c->infos,
             &(later){info->t_ns, LATER_INFO, (uint32_t)info->device,
                      less(info->bytes_total - info->bytes_free, info->ledger_bytes)});
    }
    for (size_t i = 0; i < model->failure_count; i++) {
        const gw_failure *failure = &model->failure[i];
        if (!failure->has_info || failure->info.device < 0 || failure->info.device >= GW_MODEL_DEVICES_MAX ||
            failure->info.bytes_free > failure->info.bytes_total || model->device[failure->info.device].has_limit)
            continue;
        push(c, &c->infos,
             &(later){failure->t_ns, LATER_INFO, (uint32_t)failure->info.device,
                      less(failure->info.bytes_total - failure->info.bytes_free, failure->info.ledger_bytes)});
    }
}

static void capture_peak(collector *c, const gw_model *model, const gw_memory_change *change)
{
    gwi_device_course *device = &c->course->device[change->device];
    if (change->pid != device->peak_pid)
        return;
    uint64_t *now = &c->device[change->device].peak_pid_bytes;
    *now = change->made ? *now + change->bytes : *now - change->bytes; /* as in the model, modulo 2^64 */
    if (!change->made || device->peak != NULL || *now != device->peak_bytes)
        return;
    device->t_peak_ns = change->t_ns;
    device->peak = gw_model_live_now(model, change->pid, change->device, &device->peak_count);
    for (size_t i = 0; i < device->peak_count; i++) { /* sites with the same lines were merged in the first model */
        uint32_t group = device->peak[i].group;
        if (group < c->first->group_count && c->first->group[group].kin < c->first->group_count)
            device->peak[i].site = c->first->group[c->first->group[group].kin].site;
    }
}

static void on_memory(void *user, const gw_model *model, const gw_memory_change *change)
{
    collector *c = user;
    if (change->device >= GW_MODEL_DEVICE_PLACES)
        return;
    apply_until(c, change->t_ns);
    uint64_t *value = c->device[change->device].value, bytes = change->bytes;
    uint8_t column = gwi_holder_column(c->holders, change->group);
    value[column] = change->made ? gwi_sum(value[column], bytes) : less(value[column], bytes);
    value[GWI_TOTAL] = change->made ? gwi_sum(value[GWI_TOTAL], bytes) : less(value[GWI_TOTAL], bytes);
    gwi_alive_change(&c->alive, change->group, bytes, change->made);
    c->course->device[change->device].has_changes = true;
    add_row(c, change->device, change->t_ns);
    capture_peak(c, model, change);
}

/* ---- cards ---- */

/* Return the column of a metric, GWI_HEALTH_COUNT if it has none. */
static unsigned column_of(unsigned metric)
{
    static const uint16_t metrics[] = {
#define GW_X(metric, text, unit, divisor) GW_METRIC_##metric,
        GWI_HEALTH(GW_X)
#undef GW_X
    };
    unsigned column = 0;
    while (column < GWI_HEALTH_COUNT && metrics[column] != metric)
        column++;
    return column;
}

/* Begin a span of reduced clocks. Of very many spans, only the first are stored. */
static void begin_span(collector *c, gwi_card_course *card, uint64_t t_ns)
{
    if (card->throttle_count >= GWI_THROTTLES_MAX) {
        card->throttles_dropped++;
        return;
    }
    if (!gw_array_room(&card->throttle, card->throttle_count, &card->throttle_capacity, sizeof *card->throttle)) {
        c->nomem = true;
        return;
    }
    card->throttle[card->throttle_count++] = (gwi_throttle){t_ns, t_ns, card->reasons};
    card->is_throttled = true;
}

/* The reasons at the last sample lasted until t_ns. From then on, they are `reasons`; 0: none, or not known. */
static void set_reasons(collector *c, gwi_card_course *card, uint64_t t_ns, uint64_t reasons)
{
    gwi_throttle *last = card->is_throttled ? &card->throttle[card->throttle_count - 1] : NULL;
    if (last != NULL && t_ns > last->to_ns)
        last->to_ns = t_ns;
    if (card->reasons == reasons)
        return;
    card->reasons = reasons;
    card->is_throttled = false;
    if (reasons != 0)
        begin_span(c, card, t_ns);
}

static void card_memory(collector *c, uint32_t card, uint64_t t_ns, uint64_t used_bytes)
{
    int device = gw_machine_device_of(c->first, card);
    if (device >= 0 && device < GW_MODEL_DEVICE_PLACES)
        push(c, &c->items, &(later){t_ns, LATER_USED, (uint32_t)device, used_bytes});
}

static void on_sample(collector *c, const gw_item *item)
{
    uint32_t index = item->sample.device;
    if (item->sample.source != GW_SOURCE_NVML || index >= GW_MACHINE_CARDS_MAX || item->pid != 0)
        return;
    gwi_card_course *card = &c->course->card[index];
    bool has_values = false;
    uint64_t reasons = card->reasons; /* a value that the sample does not contain is unchanged */
    for (uint32_t i = 0; i < item->sample.count; i++) {
        const gw_sample_value *value = &item->sample.value[i];
        unsigned column = column_of(value->metric);
        bool known = value->state == GW_SAMPLE_KNOWN;
        if (column < GWI_HEALTH_COUNT) {
            c->card_value[index][column] = known ? value->value : GWI_UNKNOWN;
            has_values = true;
        }
        if (value->metric == GW_METRIC_CARD_CLOCK_REASONS)
            reasons = known ? value->value & GWI_THROTTLE_REASONS : 0;
        if (known && value->metric == GW_METRIC_CARD_MEMORY_USED)
            card_memory(c, index, item->t_ns, value->value);
    }
    set_reasons(c, card, item->t_ns, reasons);
    card->has_values = card->has_values || has_values;
    if (has_values)
        gwi_thin_add(&card->table, item->t_ns, c->card_value[index]);
}

static void on_item(void *user, const gw_model *model, const gw_item *item)
{
    collector *c = user;
    (void)model;
    if (item->kind == GW_ITEM_EXIT)
        push(c, &c->items, &(later){item->t_ns, LATER_EXIT, item->exit.pid, 0});
    else if (item->kind == GW_ITEM_SAMPLE)
        on_sample(c, item);
}

/* ---- the whole ---- */

/* Find the process with the highest peak on a device. */
static void seek_peak(const gw_model *model, unsigned device, gwi_device_course *course)
{
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_usage *usage = &model->process[i].usage[device];
        if (usage->peak_bytes <= course->peak_bytes)
            continue;
        course->peak_bytes = usage->peak_bytes;
        course->t_peak_ns = usage->t_peak_ns;
        course->peak_pid = model->process[i].pid;
    }
}

unsigned gwi_buckets(unsigned chart_count)
{
    unsigned buckets = BUCKETS / (chart_count == 0 ? 1 : chart_count);
    return buckets < BUCKETS_MIN ? BUCKETS_MIN : buckets;
}

static void start(collector *c, unsigned chart_count)
{
    unsigned buckets = gwi_buckets(chart_count);
    for (unsigned device = 0; device < GW_MODEL_DEVICE_PLACES; device++) {
        gwi_thin_start(&c->course->device[device].table, GWI_MEMORY_COLUMNS, c->first->t_end_ns, buckets);
        c->device[device].value[GWI_OUTSIDE] = GWI_UNKNOWN;
        seek_peak(c->first, device, &c->course->device[device]);
    }
    for (unsigned card = 0; card < GW_MACHINE_CARDS_MAX; card++) {
        gwi_thin_start(&c->course->card[card].table, GWI_HEALTH_COUNT, c->first->t_end_ns, buckets);
        for (unsigned i = 0; i < GWI_HEALTH_COUNT; i++)
            c->card_value[card][i] = GWI_UNKNOWN;
    }
}

static bool finish(collector *c)
{
    bool good = !c->nomem;
    apply_until(c, UINT64_MAX);
    for (unsigned device = 0; device < GW_MODEL_DEVICE_PLACES; device++) {
        gwi_device_course *course = &c->course->device[device];
        if (course->has_changes && c->first->t_end_ns > 0)
            add_row(c, device, c->first->t_end_ns);
        gwi_thin_finish(&course->table);
        good = good && !course->table.failed;
    }
    for (unsigned card = 0; card < GW_MACHINE_CARDS_MAX; card++) {
        gwi_thin_finish(&c->course->card[card].table);
        good = good && !c->course->card[card].table.failed;
    }
    return good;
}

gw_status gwi_course_read(const char *path, const gw_model *model, const gwi_holders *holders, unsigned chart_count,
                          gwi_course *ret_course, gw_error *err)
{
    gw_reader *reader = NULL;
    gw_model *second = NULL;
    gw_error local = {""};
    *ret_course = (gwi_course){0};
    collector *c = calloc(1, sizeof *c);
    gw_status st =
        c == NULL || !gwi_alive_start(model, &c->alive) ? gw_fail(&local, GW_NOMEM, "the memory over time") : GW_OK;
    if (st == GW_OK) {
        c->first = model;
        c->holders = holders;
        c->course = ret_course;
        c->infos.moves_max = SIZE_MAX;
        c->items.moves_max = 256;
        start(c, chart_count);
        list_infos(c);
        st = gw_reader_open(path, &reader, &local);
    }
    if (st == GW_OK)
        st = gw_model_build_followed(reader, &(gw_model_follower){on_memory, on_item, c}, &second, &local);
    ret_course->was_read = st == GW_OK;
    if (c != NULL && c->course != NULL && !finish(c))
        st = gw_fail(&local, GW_NOMEM, "the memory over time");
    gw_model_free(second);
    gw_reader_close(reader);
    if (c != NULL) {
        ret_course->exit_steps = c->alive.steps;
        gwi_alive_free(&c->alive);
        free(c->infos.item);
        free(c->items.item);
    }
    free(c);
    if (st != GW_OK)
        snprintf(ret_course->reason, sizeof ret_course->reason, "%.255s", local.text);
    return st == GW_NOMEM ? gw_fail(err, st, "%s", local.text) : GW_OK;
}

void gwi_course_free(gwi_course *course)
{
    for (unsigned device = 0; device < GW_MODEL_DEVICE_PLACES; device++) {
        gwi_thin_free(&course->device[device].table);
        free(course->device[device].peak);
    }
    for (unsigned card = 0; card < GW_MACHINE_CARDS_MAX; card++) {
        gwi_thin_free(&course->card[card].table);
        free(course->card[card].throttle);
    }
    *course = (gwi_course){0};
}
