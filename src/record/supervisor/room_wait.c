/* Waits for free memory on the cards. */
#include "gwi_room_wait.h"
#include "gwi_state.h"

#include "gw_clock.h"
#include "gw_fact.h"
#include "gw_process.h"
#include "gw_say.h"
#include "gw_supervisor.h"
#include "gw_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_WAIT_MS = 20000 }; /* the first NVML call initialises the cards, which takes seconds without a daemon */
/* Read the cards at this interval, which grows to LOOK_LATER_MS after a while. */
enum { LOOK_SOON_MS = 100, LOOK_LATER_MS = 1000, SOON_COUNT = 20 };

/* ---- the option ---- */

static bool parse_time(const char *text, uint64_t *ret_ns)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}};
    char *end = NULL;
    double number = strtod(text, &end), seconds_max = 1e7;
    if (!isdigit((unsigned char)text[0]))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) != 0 || !(number * units[i].seconds <= seconds_max))
            continue;
        *ret_ns = (uint64_t)(number * units[i].seconds * 1e9);
        return *ret_ns > 0;
    }
    return false;
}

gw_status gwi_room_wanted_parse(const char *text, gwi_room_wanted *ret_wanted, gw_error *err)
{
    char size[64];
    *ret_wanted = (gwi_room_wanted){.device = -1};
    if (text == NULL)
        return GW_OK;
    const char *colon = strchr(text, ':');
    size_t bytes = colon == NULL ? strlen(text) : (size_t)(colon - text);
    if (bytes >= sizeof size)
        bytes = 0;
    memcpy(size, text, bytes);
    size[bytes] = '\0';
    if (!gw_bytes_parse(size, &ret_wanted->bytes) || ret_wanted->bytes == 0)
        return gw_fail(err, GW_USAGE, "--wait-memory %s: expected a size such as 12GiB, or 12GiB:90s", text);
    if (colon != NULL && !parse_time(colon + 1, &ret_wanted->timeout_ns))
        return gw_fail(err, GW_USAGE, "--wait-memory %s: expected a time after the colon, such as 90s, 10m or 2h",
                       text);
    return GW_OK;
}

/* ---- the cards that the program sees ---- */

/* Return the index of the card that an entry of CUDA_VISIBLE_DEVICES names, or `count` if it names none. */
static size_t find_card(const char *entry, size_t bytes, const gw_room_card *card, size_t count)
{
    char *end = NULL;
    if (bytes > 4 && strncmp(entry, "GPU-", 4) == 0) {
        for (size_t i = 0; i < count; i++)
            if (strncmp(card[i].uuid, entry, bytes) == 0) /* the beginning of a UUID is enough */
                return i;
        return count;
    }
    unsigned long index = strtoul(entry, &end, 10);
    return bytes > 0 && isdigit((unsigned char)entry[0]) && end == entry + bytes && index < count ? index : count;
}

gw_status gwi_room_choose(const char *visible, int device, const gw_room_card *card, size_t count, bool *ret_chosen,
                          gw_error *err)
{
    bool any = false;
    int number = 0; /* CUDA's number of the next card */
    const char *at = visible == NULL ? "" : visible;
    for (size_t i = 0; i < count; i++) {
        ret_chosen[i] = visible == NULL && (device < 0 || (size_t)device == i);
        any = any || ret_chosen[i];
    }
    while (*at != '\0') {
        at += strspn(at, " \t");
        size_t bytes = strcspn(at, ", \t");
        if (bytes > 3 && strncmp(at, "MIG", 3) == 0)
            return gw_fail(err, GW_UNSUPPORTED, "CUDA_VISIBLE_DEVICES names a part of a card (MIG)");
        size_t index = find_card(at, bytes, card, count);
        if (index == count)
            break;
        ret_chosen[index] = ret_chosen[index] || device < 0 || device == number;
        any = any || ret_chosen[index];
        number++;
        at += bytes;
        at += strspn(at, " \t");
        at += *at == ',';
    }
    return any ? GW_OK : gw_fail(err, GW_MISSING, "the program sees no card");
}

/* ---- one look ---- */

typedef struct look {
    bool known, enough;
    uint64_t free_bytes; /* of the chosen card with the least free memory */
    char cards[200];     /* indices of the chosen cards, separated by blanks */
    char why[512];       /* if not `known` */
} look;

static void unknown(look *it, const char *why)
{
    it->known = false;
    snprintf(it->why, sizeof it->why, "%s", why);
}

static void judge_cards(look *it, const gw_room_card *card, size_t count, const bool *chosen, uint64_t wanted_bytes)
{
    size_t used = 0;
    it->free_bytes = UINT64_MAX;
    it->known = true;
    for (size_t i = 0; i < count && it->known; i++) {
        if (!chosen[i])
            continue;
        if (used + 8 < sizeof it->cards)
            used += (size_t)snprintf(it->cards + used, sizeof it->cards - used, used == 0 ? "%zu" : " %zu", i);
        if (!card[i].is_known)
            unknown(it, "NVML does not report the free memory of a card");
        else if (card[i].total_bytes < wanted_bytes && card[i].total_bytes > 0)
            unknown(it, "a card has less memory in total");
        it->free_bytes = card[i].free_bytes < it->free_bytes ? card[i].free_bytes : it->free_bytes;
    }
    it->enough = it->known && it->free_bytes >= wanted_bytes;
}

/* Append who holds the memory of the chosen cards: "pid 71 (python serve.py): 3.00 GiB". */
static void add_holders(gw_text *text, const gw_room *room, const gw_room_card *card, size_t count, const bool *chosen)
{
    enum { SHOWN_MAX = 4 };
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; chosen[i] && k < card[i].holder_count && shown < SHOWN_MAX; k++, shown++) {
            const gw_room_holder *holder = &card[i].holder[k];
            gw_text command = {0};
            char bytes[GW_BYTES_TEXT_MAX] = "an unknown amount";
            if (gw_room_pids_are_ours(room))
                gw_process_command_add(&command, (int)holder->pid);
            if (holder->bytes != UINT64_MAX)
                gw_bytes_text(bytes, holder->bytes);
            gw_text_addf(text, "%spid %" PRIu32 "%s%s%s: %s", shown == 0 ? "" : ", ", holder->pid,
                         command.bytes > 0 ? " (" : "", gw_text_str(&command), command.bytes > 0 ? ")" : "", bytes);
            gw_text_free(&command);
        }
    }
}

static void look_at_cards(gw_room *room, const gwi_room_wanted *wanted, look *ret_look, gw_text *holders)
{
    const gw_room_card *card = NULL;
    size_t count = 0;
    bool chosen[GW_ROOM_CARDS_MAX] = {false};
    gw_error err;
    *ret_look = (look){0};
    gw_status st = gw_room_read(room, READ_WAIT_MS, &card, &count, &err);
    if (st == GW_OK)
        st = gwi_room_choose(getenv("CUDA_VISIBLE_DEVICES"), wanted->device, card, count, chosen, &err);
    if (st != GW_OK) {
        unknown(ret_look, err.text);
        return;
    }
    judge_cards(ret_look, card, count, chosen, wanted->bytes);
    gw_text_clear(holders);
    add_holders(holders, room, card, count, chosen);
}

/* ---- the wait ---- */

typedef struct waiting {
    gw_supervisor *run;
    const gwi_room_wanted *wanted;
    uint64_t began_ns;
    look last;
    gw_text holders;
    bool is_told;
} waiting;

static uint64_t waited_ns(const waiting *w)
{
    return gw_monotonic_ns() - w->began_ns;
}

static void tell_once(waiting *w)
{
    char wanted[GW_BYTES_TEXT_MAX], is_free[GW_BYTES_TEXT_MAX];
    if (w->is_told)
        return;
    w->is_told = true;
    gw_say("waiting for %s of free memory on GPU %s: %s is free; held by %s", gw_bytes_text(wanted, w->wanted->bytes),
           w->last.cards, gw_bytes_text(is_free, w->last.free_bytes),
           w->holders.bytes > 0 ? gw_text_str(&w->holders) : "processes that NVML does not list");
}

/* Wait for the next look. Returns true if a signal or the end of the parent asked us to end. */
static bool is_stopped_during_pause(waiting *w, unsigned looks)
{
    struct pollfd waited = {.fd = w->run->signals.fd, .events = POLLIN};
    poll(&waited, 1, looks < SOON_COUNT ? LOOK_SOON_MS : LOOK_LATER_MS);
    return gwi_is_asked_to_end(w->run);
}

static gw_wait_end wait_with(waiting *w, gw_room *room)
{
    gw_text newer = {0};
    gw_wait_end end = GW_WAIT_UNKNOWN;
    for (unsigned looks = 0;; looks++) {
        look_at_cards(room, w->wanted, &w->last, looks == 0 ? &w->holders : &newer);
        if (!w->last.known || w->last.enough) {
            end = w->last.known ? GW_WAIT_FREE : GW_WAIT_UNKNOWN;
            break;
        }
        tell_once(w);
        if (w->wanted->timeout_ns != 0 && waited_ns(w) >= w->wanted->timeout_ns) {
            end = GW_WAIT_TIMEOUT;
            break;
        }
        if (is_stopped_during_pause(w, looks)) {
            end = GW_WAIT_STOPPED;
            break;
        }
    }
    gw_text_free(&newer);
    return end;
}

static void record_wait(const waiting *w, gw_wait_end end)
{
    static const char *const texts[] = {"free", "timeout", "interrupted", "unknown"};
    gw_text text = {0};
    const gw_fact_memory_wait fact = {
        GW_FACT_SET(bytes, w->wanted->bytes),
        GW_FACT_SET(waited_ms, waited_ns(w) / 1000000),
        .has_free_bytes = w->last.known,
        .free_bytes = w->last.free_bytes,
        GW_FACT_SET(end, gw_fact_text_of(texts[end])),
        .has_why = end == GW_WAIT_UNKNOWN,
        .why = gw_fact_text_of(w->last.why),
        .has_cards = w->last.known,
        .cards = gw_fact_text_of(w->last.cards),
        .has_held = w->is_told && w->holders.bytes > 0,
        .held = gw_fact_text_of(gw_text_str(&w->holders)),
    };
    gw_fact_memory_wait_write(&fact, &text);
    gwi_record_fact(&w->run->record, gw_fact_key_text(GW_FACT_MEMORY_WAIT), "%s", gw_text_str(&text));
    gw_text_free(&text);
}

static void tell_end(const waiting *w, gw_wait_end end)
{
    char wanted[GW_BYTES_TEXT_MAX], is_free[GW_BYTES_TEXT_MAX];
    double seconds = (double)waited_ns(w) / 1e9;
    gw_bytes_text(wanted, w->wanted->bytes);
    gw_bytes_text(is_free, w->last.free_bytes);
    if (end == GW_WAIT_UNKNOWN)
        gw_say("cannot wait for %s of free memory: %s", wanted, w->last.why);
    else if (end == GW_WAIT_TIMEOUT)
        gw_say("after %.1f s, only %s is free on GPU %s", seconds, is_free, w->last.cards);
    else if (end == GW_WAIT_FREE && w->is_told)
        gw_say("%s is free on GPU %s after %.1f s", is_free, w->last.cards, seconds);
}

gw_wait_end gwi_room_wait(gw_supervisor *run, const gwi_room_wanted *wanted)
{
    waiting w = {.run = run, .wanted = wanted, .began_ns = gw_monotonic_ns()};
    gw_sense_options how = {.command = 0};
    gwi_senses *names = calloc(1, sizeof *names); /* the strings of `how` */
    gw_room *room = NULL;
    gw_error err;
    gw_wait_end end = GW_WAIT_UNKNOWN;
    if (names != NULL)
        gwi_senses_choose(names, &run->doors, &how);
    gw_status st = names == NULL ? gw_fail(&err, GW_NOMEM, "out of memory") : gw_room_open(&how, &room, &err);
    if (st == GW_OK)
        end = wait_with(&w, room);
    else
        unknown(&w.last, err.text);
    tell_end(&w, end);
    record_wait(&w, end);
    gw_room_close(room);
    gw_text_free(&w.holders);
    free(names);
    return end == GW_WAIT_FREE && !w.is_told ? GW_WAIT_WAS_FREE : end;
}
