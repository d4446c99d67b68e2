/* Collects samples into series, and merges events:
 * - An Xid from both NVML and the kernel log becomes one event.
 * - Equal events within a short time become one event with a count.
 * At the end, marks the events of the run's own processes and cards. */
#include "gwi_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NVML and the kernel log may report one event at times this far apart, because their clocks may differ. */
static const uint64_t same_event_ns = 2000000000u;
static const uint64_t burst_ns = 1000000000u;

/* All series of values that one source reports about one card, one process or the machine. */
typedef struct group {
    uint8_t source;
    uint32_t device, pid;
    uint64_t t_last_ns;
    int32_t series[GW_METRIC_COUNT]; /* index + 1 in gw_machine.series of each metric's series; 0: none yet */
} group;

typedef struct gwi_machine {
    group *group;          /* owned */
    gwi_table group_table; /* finds a group by the hash of its source, device and pid */
    size_t group_count, group_capacity, series_capacity, event_capacity;
} gwi_machine;

static gwi_machine *inner_of(gw_model *model)
{
    if (model->machine.inner == NULL) {
        model->machine.inner = calloc(1, sizeof *model->machine.inner);
        if (model->machine.inner == NULL)
            model->inner->nomem = true;
    }
    return model->machine.inner;
}

/* ---- samples ---- */

typedef struct group_key {
    const group *group;
    const gw_item *item;
} group_key;

static bool group_is(const void *context, uint32_t index)
{
    const group_key *key = context;
    const group *g = &key->group[index];
    return g->source == key->item->sample.source && g->device == key->item->sample.device && g->pid == key->item->pid;
}

static group *group_of(gw_model *model, gwi_machine *inner, const gw_item *item)
{
    uint32_t hash = gwi_hash((uint64_t)item->sample.device << 40 ^ (uint64_t)item->pid << 8 ^ item->sample.source);
    group_key key = {inner->group, item};
    gwi_spot spot = gwi_table_find(&inner->group_table, hash, group_is, &key);
    if (spot.bucket != NULL)
        return &inner->group[gwi_spot_value(spot)];
    if (!gwi_room(model, &inner->group, inner->group_count, &inner->group_capacity, sizeof *inner->group))
        return NULL;
    if (!gwi_table_add(&inner->group_table, hash, (uint32_t)inner->group_count)) {
        model->inner->nomem = true;
        return NULL;
    }
    group *g = &inner->group[inner->group_count++];
    memset(g, 0, sizeof *g);
    g->source = item->sample.source;
    g->device = item->sample.device;
    g->pid = item->pid;
    g->t_last_ns = item->t_ns;
    return g;
}

/* Extend the series of a group to the time of its new sample. A value that the sample does not contain is unchanged. */
static void pass_time(gw_model *model, group *g, uint64_t now_ns)
{
    uint64_t passed = now_ns > g->t_last_ns ? now_ns - g->t_last_ns : 0;
    for (size_t i = 0; i < GW_METRIC_COUNT; i++) {
        if (g->series[i] == 0)
            continue;
        gw_series *s = &model->machine.series[g->series[i] - 1];
        if (s->last_state != GW_SAMPLE_KNOWN)
            continue;
        for (unsigned bit = 0; gw_metric_find(s->metric)->kind == GW_METRIC_BITS && bit < GW_MACHINE_BITS; bit++)
            s->bit_ns[bit] += (s->last >> bit & 1) != 0 ? passed : 0;
        s->t_last_ns = now_ns > s->t_last_ns ? now_ns : s->t_last_ns;
    }
    g->t_last_ns = now_ns > g->t_last_ns ? now_ns : g->t_last_ns;
}

static gw_series *series_of(gw_model *model, gwi_machine *inner, group *g, uint16_t metric)
{
    gw_machine *machine = &model->machine;
    if (g->series[metric] != 0)
        return &machine->series[g->series[metric] - 1];
    if (!gwi_room(model, &machine->series, machine->series_count, &inner->series_capacity, sizeof *machine->series))
        return NULL;
    gw_series *s = &machine->series[machine->series_count++];
    *s = (gw_series){.metric = metric, .source = g->source, .device = g->device, .pid = g->pid};
    s->state = s->last_state = GW_SAMPLE_NOT_YET;
    g->series[metric] = (int32_t)machine->series_count;
    return s;
}

static void take_value(gw_series *s, uint64_t t_ns, uint64_t before_ns, const gw_sample_value *value)
{
    s->last_state = value->state;
    if (value->state != GW_SAMPLE_KNOWN) {
        if (s->state != GW_SAMPLE_KNOWN)
            s->state = value->state;
        s->reason = value->value;
        return;
    }
    bool is_first = s->state != GW_SAMPLE_KNOWN;
    s->state = GW_SAMPLE_KNOWN;
    if (is_first) {
        s->first = s->last = s->min = s->max = value->value;
        s->t_first_ns = s->t_min_ns = s->t_max_ns = t_ns;
    }
    if (value->value > s->last) {
        s->rise += value->value - s->last;
        s->t_rise_ns = t_ns;
        s->t_rise_after_ns = before_ns;
    }
    if (value->value < s->min) {
        s->min = value->value;
        s->t_min_ns = t_ns;
    }
    if (value->value > s->max) {
        s->max = value->value;
        s->t_max_ns = t_ns;
    }
    s->last = value->value;
    s->t_last_ns = t_ns;
}

void gwi_machine_sample(gw_model *model, const gw_item *item)
{
    gwi_machine *inner = inner_of(model);
    group *g = inner == NULL ? NULL : group_of(model, inner, item);
    if (g == NULL)
        return;
    uint64_t before_ns = g->t_last_ns;
    pass_time(model, g, item->t_ns);
    for (uint32_t i = 0; i < item->sample.count; i++) {
        const gw_sample_value *value = &item->sample.value[i];
        gw_series *s = value->metric < GW_METRIC_COUNT ? series_of(model, inner, g, value->metric) : NULL;
        if (s != NULL)
            take_value(s, item->t_ns, before_ns, value);
    }
}

/* ---- events ---- */

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Return the bit for an item's source in gw_machine_event.sources. Only three bits of the source are used: a damaged
 * recording may have any number. */
static uint8_t source_bit(const gw_item *item)
{
    return (uint8_t)(1u << (item->machine.source & 7));
}

/* True if the item reports this event again: from the same source within a second, or, for an Xid, from another source
 * within two seconds. */
static bool is_same(const gw_machine_event *event, const gw_item *item)
{
    bool told_twice = event->kind == GW_MACHINE_XID && (event->sources & source_bit(item)) == 0;
    if (event->kind != item->machine.kind || event->code != item->machine.code ||
        distance(item->t_ns, event->t_last_ns) > (told_twice ? same_event_ns : burst_ns))
        return false;
    if (!told_twice)
        return event->device == item->machine.device && event->pid == item->pid &&
               strcmp(event->text, item->machine.text) == 0;
    bool one_card =
        event->device == item->machine.device || event->device == GW_NO_DEVICE || item->machine.device == GW_NO_DEVICE;
    return one_card && (event->pid == item->pid || event->pid == 0 || item->pid == 0);
}

static void merge(gw_model *model, gw_machine_event *event, const gw_item *item)
{
    bool told_twice = (event->sources & source_bit(item)) == 0;
    event->sources |= source_bit(item);
    event->t_ns = item->t_ns < event->t_ns ? item->t_ns : event->t_ns;
    event->t_last_ns = item->t_ns > event->t_last_ns ? item->t_ns : event->t_last_ns;
    if (!told_twice) {
        event->count += item->machine.count;
        return;
    }
    event->pid = event->pid == 0 ? item->pid : event->pid;
    event->device = event->device == GW_NO_DEVICE ? item->machine.device : event->device;
    event->value = event->value == 0 ? item->machine.value : event->value;
    if (event->text[0] == '\0' && item->machine.text[0] != '\0') {
        char *text = gwi_copy_text(model, item->machine.text);
        event->text = text == NULL ? event->text : text;
    }
}

void gwi_machine_event(gw_model *model, const gw_item *item)
{
    gwi_machine *inner = inner_of(model);
    gw_machine *machine = &model->machine;
    if (inner == NULL)
        return;
    for (size_t i = machine->event_count; i-- > 0 && machine->event_count - i <= 64;) {
        if (is_same(&machine->event[i], item)) {
            merge(model, &machine->event[i], item);
            return;
        }
    }
    if (machine->event_count == GW_MACHINE_EVENTS_MAX) {
        machine->events_dropped++;
        return;
    }
    if (!gwi_room(model, &machine->event, machine->event_count, &inner->event_capacity, sizeof *machine->event))
        return;
    char *text = gwi_copy_text(model, item->machine.text == NULL ? "" : item->machine.text);
    if (text == NULL)
        return;
    gw_machine_event *event = &machine->event[machine->event_count++];
    *event = (gw_machine_event){.t_ns = item->t_ns,
                                .t_last_ns = item->t_ns,
                                .kind = item->machine.kind < GW_MACHINE_EVENT_COUNT ? item->machine.kind
                                                                                    : GW_MACHINE_EVENT_COUNT,
                                .sources = source_bit(item),
                                .pid = item->pid,
                                .device = item->machine.device,
                                .code = item->machine.code,
                                .value = item->machine.value,
                                .count = item->machine.count == 0 ? 1 : item->machine.count,
                                .text = text};
}

/* ---- cards ---- */

/* Parse a PCI address such as "00000000:18:00.0" at the start of a text. False if there is none. */
static bool read_place(const char *text, uint32_t *ret_domain, uint32_t *ret_bus, uint32_t *ret_slot)
{
    return sscanf(text, "%x:%x:%x", ret_domain, ret_bus, ret_slot) == 3;
}

void gwi_card_fact(gw_model *model, const gw_item *item)
{
    gw_machine *machine = &model->machine;
    gw_machine_card card = {.device = -1};
    gw_fact_card said;
    char place[32];
    gw_fact_card_read(gw_fact_text_of(item->pair.value), &said);
    if (!said.has_index || machine->card_count == GW_MACHINE_CARDS_MAX)
        return;
    card.index = said.index;
    card.has_pci = read_place(gw_fact_text_copy(place, sizeof place, said.pci), &card.domain, &card.bus, &card.slot);
    gw_fact_text_copy(card.name, sizeof card.name, said.name);
    for (size_t i = 0; i < machine->card_count; i++)
        if (machine->card[i].index == card.index)
            return;
    machine->card[machine->card_count++] = card;
}

void gwi_holder_fact(gw_model *model, const gw_pair *fact)
{
    gw_machine *machine = &model->machine;
    if (fact == NULL || !gwi_room(model, &machine->holder, machine->holder_count, &model->inner->holder_capacity,
                                  sizeof *machine->holder))
        return;
    gw_holder *holder = &machine->holder[machine->holder_count++];
    *holder = (gw_holder){.what = fact->what, .t_ns = fact->t_ns, .text = fact->value};
    gw_fact_holder_read(gw_fact_text_of(fact->value), &holder->fact);
}

void gwi_peers_fact(gw_model *model, const gw_pair *fact)
{
    if (fact == NULL || model->machine.has_peers)
        return;
    model->machine.has_peers = true;
    gw_fact_peers_read(gw_fact_text_of(fact->value), &model->machine.peers);
}

enum { PCI_BUS = 33, PCI_DEVICE = 34, PCI_DOMAIN = 50 }; /* numbers of these device attributes in the driver API */

static bool is_at(const gw_device *device, const gw_machine_card *card)
{
    return card->has_pci && device->has_attribute[PCI_BUS] && device->has_attribute[PCI_DEVICE] &&
           device->attribute[PCI_BUS] == card->bus && device->attribute[PCI_DEVICE] == card->slot &&
           (!device->has_attribute[PCI_DOMAIN] || device->attribute[PCI_DOMAIN] == card->domain);
}

static void match_cards(gw_model *model)
{
    gw_machine *machine = &model->machine;
    size_t known = 0;
    int only = -1;
    for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++) {
        if (!model->device[device].known)
            continue;
        known++;
        only = device;
        for (size_t i = 0; i < machine->card_count; i++)
            if (is_at(&model->device[device], &machine->card[i]))
                machine->card[i].device = device;
    }
    bool has_place = only >= 0 && model->device[only].has_attribute[PCI_BUS];
    if (machine->card_count == 1 && known == 1 && (!has_place || !machine->card[0].has_pci))
        machine->card[0].device = only; /* the only card must be the only device */
}

static uint32_t card_in_text(const gw_machine *machine, const char *text)
{
    const char *pci = strstr(text, "PCI:");
    uint32_t domain, bus, slot;
    if (pci == NULL || !read_place(pci + strlen("PCI:"), &domain, &bus, &slot))
        return GW_NO_DEVICE;
    for (size_t i = 0; i < machine->card_count; i++) {
        const gw_machine_card *card = &machine->card[i];
        if (card->has_pci && card->domain == domain && card->bus == bus && card->slot == slot)
            return card->index;
    }
    return GW_NO_DEVICE;
}

static bool is_used(const gw_model *model, int device)
{
    for (size_t i = 0; i < model->process_count && device >= 0; i++)
        if (model->process[i].usage[device].used)
            return true;
    return false;
}

/* True if this run used devices and the card of each of them is known. Then the other cards do not concern the run. */
static bool is_all_matched(const gw_model *model)
{
    bool any = false;
    for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++) {
        if (!is_used(model, device))
            continue;
        any = true;
        if (gw_machine_card_of(model, device) == GW_NO_DEVICE)
            return false;
    }
    return any;
}

static void decide_whose(const gw_model *model, gw_machine_event *event)
{
    if (event->pid != 0) {
        event->is_ours = gw_model_process(model, event->pid) != NULL;
        event->may_be_ours = event->is_ours;
        return;
    }
    if (event->device == GW_NO_DEVICE) {
        bool elsewhere = strstr(event->text, "PCI:") != NULL && model->machine.card_count > 0;
        event->may_be_ours = !elsewhere && !model->is_virtual;
        return;
    }
    int device = gw_machine_device_of(model, event->device);
    event->is_ours = is_used(model, device);
    event->may_be_ours = event->is_ours || (device < 0 && !is_all_matched(model));
}

static int by_time(const void *left, const void *right)
{
    const gw_machine_event *a = left, *b = right;
    return a->t_ns < b->t_ns ? -1 : a->t_ns > b->t_ns;
}

void gwi_machine_finish(gw_model *model)
{
    gw_machine *machine = &model->machine;
    match_cards(model);
    for (size_t i = 0; i < machine->event_count; i++) {
        gw_machine_event *event = &machine->event[i];
        if (event->device == GW_NO_DEVICE)
            event->device = card_in_text(machine, event->text);
        decide_whose(model, event);
    }
    if (machine->event_count > 1)
        qsort(machine->event, machine->event_count, sizeof *machine->event, by_time);
}

void gwi_machine_free(gw_model *model)
{
    gw_machine *machine = &model->machine;
    free(machine->event);
    free(machine->holder);
    free(machine->series);
    if (machine->inner != NULL) {
        free(machine->inner->group);
        gwi_table_free(&machine->inner->group_table);
    }
    free(machine->inner);
}

/* ---- looking up ---- */

const gw_series *gw_machine_known(const gw_model *model, gw_metric metric, uint32_t device, uint32_t pid)
{
    for (size_t i = 0; i < model->machine.series_count; i++) {
        const gw_series *s = &model->machine.series[i];
        if (s->metric == metric && s->device == device && s->pid == pid)
            return s->state == GW_SAMPLE_KNOWN ? s : NULL;
    }
    return NULL;
}

uint32_t gw_machine_card_of(const gw_model *model, int device)
{
    for (size_t i = 0; i < model->machine.card_count; i++)
        if (device >= 0 && model->machine.card[i].device == device)
            return model->machine.card[i].index;
    return GW_NO_DEVICE;
}

int gw_machine_device_of(const gw_model *model, uint32_t card)
{
    for (size_t i = 0; i < model->machine.card_count; i++)
        if (model->machine.card[i].index == card)
            return model->machine.card[i].device;
    return -1;
}

const gw_machine_event *gw_machine_event_next(const gw_model *model, const gw_machine_event *from,
                                              gw_machine_event_kind kind, bool may_be)
{
    size_t at = from == NULL ? 0 : (size_t)(from - model->machine.event) + 1;
    for (; at < model->machine.event_count; at++) {
        const gw_machine_event *event = &model->machine.event[at];
        if (event->kind == kind && (event->is_ours || (may_be && event->may_be_ours)))
            return event;
    }
    return NULL;
}
