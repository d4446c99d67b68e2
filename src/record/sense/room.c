/* Reads the free memory of the cards from a sampler process (gwi_sampler.h). */
#include "gw_room.h"
#include "gwi_host.h"
#include "gwi_sampler.h"

#include "gw_clock.h"
#include "gw_fact.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct gw_room {
    gwi_sampler sampler;
    uint64_t asked, done;            /* numbers of the last request, and of the last one that was answered */
    char none[GWI_SAMPLER_TEXT_MAX]; /* why there is no NVML; "" if there is one */
    gw_room_card card[GW_ROOM_CARDS_MAX];
    size_t count;
    bool pids_are_ours;
};

gw_status gw_room_open(const gw_sense_options *options, gw_room **ret_room, gw_error *err)
{
    gw_room *room = calloc(1, sizeof *room);
    if (room == NULL)
        return gw_fail(err, GW_NOMEM, "the free memory of the cards");
    room->pids_are_ours = options->is_virtual || gwi_host_counts_pids(options->root == NULL ? "" : options->root);
    gw_status st = gwi_sampler_start(&room->sampler, options, err);
    if (st == GW_OK)
        *ret_room = room;
    else
        free(room);
    return st;
}

void gw_room_close(gw_room *room)
{
    if (room == NULL)
        return;
    (void)gwi_sampler_stop(&room->sampler);
    free(room);
}

bool gw_room_pids_are_ours(const gw_room *room)
{
    return room->pids_are_ours;
}

/* Return the card with NVML's index, or NULL if the index is too large. */
static gw_room_card *card_at(gw_room *room, uint32_t index)
{
    if (index >= GW_ROOM_CARDS_MAX)
        return NULL;
    for (; room->count <= index; room->count++)
        for (unsigned metric = 0; metric < GW_METRIC_COUNT; metric++)
            room->card[room->count].value[metric] = (gw_sample_value){(uint16_t)metric, GW_SAMPLE_NOT_YET, 0};
    return &room->card[index];
}

static void take_sample(gw_room *room, const gwi_message *message)
{
    gw_room_card *card = message->source == GW_SOURCE_NVML ? card_at(room, message->card) : NULL;
    for (uint32_t i = 0; card != NULL && i < message->count; i++) {
        const gw_sample_value *value = &message->sample[i];
        if (value->metric < GW_METRIC_COUNT)
            card->value[value->metric] = *value;
        if (value->metric == GW_METRIC_CARD_MEMORY_TOTAL && value->state == GW_SAMPLE_KNOWN)
            card->total_bytes = value->value;
        if (value->metric != GW_METRIC_CARD_MEMORY_FREE)
            continue;
        card->is_known = value->state == GW_SAMPLE_KNOWN;
        card->free_bytes = value->value;
    }
}

static void take_holders(gw_room *room, const gwi_message *message)
{
    gw_room_card *card = card_at(room, message->card);
    if (card == NULL)
        return;
    card->holder_count = 0;
    card->holders_known = message->whole;
    card->busy_since_us = message->value;
    for (uint32_t i = 0; i < message->count && card->holder_count < GW_ROOM_HOLDERS_MAX; i++)
        card->holder[card->holder_count++] = (gw_room_holder){.pid = message->holder[i].pid,
                                                              .bytes = message->holder[i].bytes,
                                                              .busy_at_us = message->holder[i].busy_at_us};
}

static void take_event(gw_room *room, const gwi_message *message)
{
    gw_room_card *card = card_at(room, message->card);
    if (card == NULL)
        return;
    card->is_lost = card->is_lost || message->event_kind == GW_MACHINE_CARD_LOST;
    if (message->event_kind != GW_MACHINE_XID)
        return;
    card->xid_count++;
    card->xid_last = message->code;
}

static void take_fact(gw_room *room, gwi_message *message)
{
    gw_fact_card fact;
    message->text[sizeof message->text - 1] = '\0';
    char *value = strchr(message->text, '=');
    if (value == NULL)
        return;
    *value++ = '\0';
    if (strcmp(message->text, "nvml.none") == 0)
        strcpy(room->none, value); /* fits: it is the end of a text of the same size */
    if (gw_fact_key_of(message->text) != GW_FACT_NVML_CARD)
        return;
    gw_fact_card_read(gw_fact_text_of(value), &fact);
    gw_room_card *card = fact.has_index ? card_at(room, fact.index) : NULL;
    if (card != NULL && fact.has_uuid)
        gw_fact_text_copy(card->uuid, sizeof card->uuid, fact.uuid);
    if (card != NULL && fact.has_name)
        gw_fact_text_copy(card->name, sizeof card->name, fact.name);
    if (card != NULL && fact.has_pci)
        gw_fact_text_copy(card->pci, sizeof card->pci, fact.pci);
}

/* Read the messages that have arrived. Returns false if the process has ended. */
static bool take_messages(gw_room *room)
{
    gwi_message message;
    int got;
    while ((got = gwi_sampler_next(&room->sampler, &message)) > 0) {
        if (message.kind == GWI_MESSAGE_SAMPLE)
            take_sample(room, &message);
        else if (message.kind == GWI_MESSAGE_HOLDERS)
            take_holders(room, &message);
        else if (message.kind == GWI_MESSAGE_EVENT)
            take_event(room, &message);
        else if (message.kind == GWI_MESSAGE_FACT)
            take_fact(room, &message);
        else if (message.kind == GWI_MESSAGE_DONE)
            room->done = message.code;
    }
    return got == 0;
}

static gw_status ask(gw_room *room, bool is_light, unsigned wait_ms, const gw_room_card **ret_card, size_t *ret_count,
                     gw_error *err)
{
    uint64_t until_ns = gw_monotonic_ns() + (uint64_t)wait_ms * 1000000;
    const gwi_request request = {.number = ++room->asked, .holders = true, .is_light = is_light};
    bool alive = gwi_sampler_ask(&room->sampler, &request);
    while (alive && room->done < room->asked) {
        uint64_t now = gw_monotonic_ns();
        struct pollfd waited = {.fd = room->sampler.fd, .events = POLLIN};
        if (now >= until_ns)
            return gw_fail(err, GW_IO, "NVML does not respond");
        poll(&waited, 1, (int)((until_ns - now) / 1000000) + 1);
        alive = take_messages(room);
    }
    if (!alive)
        return gw_fail(err, GW_END, "the process that calls NVML ended");
    if (room->none[0] != '\0')
        return gw_fail(err, GW_MISSING, "%s", room->none);
    if (room->count == 0)
        return gw_fail(err, GW_MISSING, "NVML reports no card");
    *ret_card = room->card;
    *ret_count = room->count;
    return GW_OK;
}

gw_status gw_room_read(gw_room *room, unsigned wait_ms, const gw_room_card **ret_card, size_t *ret_count, gw_error *err)
{
    return ask(room, false, wait_ms, ret_card, ret_count, err);
}

gw_status gw_room_refresh(gw_room *room, unsigned wait_ms, const gw_room_card **ret_card, size_t *ret_count,
                          gw_error *err)
{
    return ask(room, true, wait_ms, ret_card, ret_count, err);
}
