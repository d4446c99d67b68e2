/* Reads the cards of this machine, and the virtual cards of runs, each through a process of its own (gw_room.h). */
#include "gwi_watch.h"

#include "gw_array.h"
#include "gw_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first NVML call initialises the cards, which takes seconds without a daemon. */
enum { FIRST_WAIT_MS = 20000, WAIT_MS = 2000 };
enum { GPU_IS_LOST = 15 }; /* a result of NVML */

static gw_status start(gwi_source *source, gw_error *err)
{
    gw_sense_options options = {.nvml_path = NULL};
    if (source->folder[0] != '\0') {
        options.is_virtual = true;
        options.nvml_path =
            gw_library_find("virtual/nvml/libnvidia-ml.so.1", source->nvml, NULL) == GW_OK ? source->nvml : "";
        source->names[0] = source->environment[0];
        source->names[1] = source->environment[1];
        options.environment = source->names;
    }
    source->is_asked = source->has_read = false;
    return gw_room_open(&options, &source->room, err);
}

static gw_status make(const char *cards, const char *folder, gwi_source **ret_source, gw_error *err)
{
    gwi_source *source = calloc(1, sizeof *source);
    if (source == NULL)
        return gw_fail(err, GW_NOMEM, "the cards");
    snprintf(source->folder, sizeof source->folder, "%s", folder);
    snprintf(source->environment[0], sizeof source->environment[0], "GPUWHY_VIRTUAL=%s", cards);
    snprintf(source->environment[1], sizeof source->environment[1], "GPUWHY_VIRTUAL_DIR=%s", folder);
    source->is_used = true;
    gw_status st = start(source, err);
    if (st == GW_OK)
        *ret_source = source;
    else
        free(source);
    return st;
}

/* If a virtual card is set up for the programs of this shell, it is the card of this machine. */
gw_status gwi_sources_open(gwi_sources *sources, gw_error *err)
{
    const char *cards = getenv("GPUWHY_VIRTUAL"), *folder = getenv("GPUWHY_VIRTUAL_DIR");
    bool is_virtual = folder != NULL && folder[0] != '\0';
    return make(is_virtual && cards != NULL ? cards : "", is_virtual ? folder : "", &sources->source[0], err);
}

int gwi_sources_virtual(gwi_sources *sources, const char *cards, const char *folder)
{
    int hole = -1;
    for (int i = 0; i < GWI_SOURCES_MAX; i++) {
        if (sources->source[i] == NULL) {
            hole = hole < 0 ? i : hole;
        } else if (strcmp(sources->source[i]->folder, folder) == 0) {
            sources->source[i]->is_used = true;
            return i;
        }
    }
    if (hole < 0 || make(cards, folder, &sources->source[hole], NULL) != GW_OK)
        return -1;
    return hole;
}

static void end(gwi_source **source)
{
    if (*source != NULL)
        gw_room_close((*source)->room);
    free(*source);
    *source = NULL;
}

static gw_status add_card(gw_watch_snapshot *snapshot, size_t *room, unsigned source, bool is_virtual, uint32_t index,
                          const gw_room_card *is, gw_error *err)
{
    if (!gw_array_room(&snapshot->card, snapshot->card_count, room, sizeof *snapshot->card))
        return gw_fail(err, GW_NOMEM, "the cards");
    gw_watch_card *card = &snapshot->card[snapshot->card_count++];
    *card = (gw_watch_card){.is = *is, .index = index, .source = source, .is_virtual = is_virtual};
    if (!gw_watch_metric(card, GW_METRIC_CARD_MEMORY_USED, &card->used_bytes))
        card->used_bytes = GW_WATCH_UNKNOWN;
    if (!gw_watch_metric(card, GW_METRIC_CARD_MEMORY_FREE, &card->free_bytes))
        card->free_bytes = GW_WATCH_UNKNOWN;
    if (!gw_watch_metric(card, GW_METRIC_CARD_MEMORY_TOTAL, &card->total_bytes) || card->total_bytes == 0)
        card->total_bytes = GW_WATCH_UNKNOWN;
    /* NVML's result for the card as a whole; a card that was lost before has no other value */
    const gw_sample_value *status = &card->is.value[GW_METRIC_CARD_STATUS];
    if ((status->state == GW_SAMPLE_KNOWN || status->state == GW_SAMPLE_FAILED) && status->value == GPU_IS_LOST)
        card->is.is_lost = true;
    return GW_OK;
}

/* Try again after a while if there was no NVML, because the driver may have been loaded meanwhile, or if its process
 * ended. If NVML hangs, a new process would hang, too, and the old one could not be ended. */
static void restart_later(gwi_source *source, gw_status why)
{
    enum { LOOKS = 15 };
    if (why == GW_IO || ++source->failures % LOOKS != 0)
        return;
    gw_room_close(source->room);
    source->room = NULL;
}

static gw_status read_one(gwi_source *source, unsigned number, gw_watch_snapshot *snapshot, size_t *room, gw_error *err)
{
    const gw_room_card *card = NULL;
    size_t count = 0;
    gw_error why = {.text = ""};
    gw_status st = source->room == NULL ? start(source, &why) : GW_OK;
    if (st == GW_OK)
        st = source->has_read
                 ? gw_room_refresh(source->room, WAIT_MS, &card, &count, &why)
                 : gw_room_read(source->room, source->is_asked ? WAIT_MS : FIRST_WAIT_MS, &card, &count, &why);
    source->is_asked = true;
    source->has_read = st == GW_OK;
    if (st != GW_OK) {
        if (number == 0)
            snprintf(snapshot->no_cards_why, sizeof snapshot->no_cards_why, "%s", why.text);
        restart_later(source, st);
        return st == GW_NOMEM ? gw_fail(err, GW_NOMEM, "the cards") : GW_OK;
    }
    for (size_t i = 0; st == GW_OK && i < count; i++)
        st = add_card(snapshot, room, number, source->folder[0] != '\0', (uint32_t)i, &card[i], err);
    return st;
}

gw_status gwi_sources_read(gwi_sources *sources, gw_watch_snapshot *snapshot, size_t *card_room, gw_error *err)
{
    gw_status st = GW_OK;
    for (unsigned i = 0; st == GW_OK && i < GWI_SOURCES_MAX; i++) {
        if (sources->source[i] == NULL)
            continue;
        if (i > 0 && !sources->source[i]->is_used) {
            end(&sources->source[i]);
            continue;
        }
        st = read_one(sources->source[i], i, snapshot, card_room, err);
        sources->source[i]->is_used = false;
    }
    return st;
}

bool gwi_sources_pids_are_ours(const gwi_sources *sources, unsigned source)
{
    return sources->source[source] != NULL && sources->source[source]->room != NULL &&
           gw_room_pids_are_ours(sources->source[source]->room);
}

void gwi_sources_close(gwi_sources *sources)
{
    for (size_t i = 0; i < GWI_SOURCES_MAX; i++)
        end(&sources->source[i]);
}
