/* Perfetto's packets: descriptors of tracks, interned names, events.
 *
 * One packet has at most one event. A name is written once, in the packet that first uses it, and is a number from then
 * on. Memory grows with the tracks and the names, which are both limited. */
#include "gw_text.h"
#include "gwi_perfetto.h"

#include "gw_array.h"
#include "gw_hash.h"
#include "gw_metrics.h"
#include "gwi_curve.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Protobuf's wire format. */

enum { TYPE_VARINT = 0, TYPE_BYTES = 2, TYPE_BITS = 3, VARINT_BYTES_MAX = 10, STRING_BYTES_MAX = 4096 };

void gwi_wire_varint(gw_text *message, uint64_t value)
{
    char bytes[VARINT_BYTES_MAX];
    size_t count = 0;
    do {
        unsigned low = value & 0x7f;
        value >>= 7;
        bytes[count++] = (char)(low | (value != 0 ? 0x80u : 0));
    } while (value != 0);
    gw_text_add(message, bytes, count);
}

static void add_tag(gw_text *message, unsigned field, unsigned type)
{
    gwi_wire_varint(message, (uint64_t)field << TYPE_BITS | type);
}

void gwi_wire_number(gw_text *message, unsigned field, uint64_t value)
{
    add_tag(message, field, TYPE_VARINT);
    gwi_wire_varint(message, value);
}

void gwi_wire_head(gw_text *message, unsigned field, size_t count)
{
    add_tag(message, field, TYPE_BYTES);
    gwi_wire_varint(message, count);
}

void gwi_wire_bytes(gw_text *message, unsigned field, const char *bytes, size_t count)
{
    gwi_wire_head(message, field, count);
    gw_text_add(message, bytes, count);
}

void gwi_wire_string(gw_text *message, unsigned field, const char *string)
{
    gw_text part = {0}, clean = {0};
    gw_text_add(&part, string, strnlen(string, STRING_BYTES_MAX));
    gw_add_utf8(&clean, gw_text_str(&part));
    gwi_wire_bytes(message, field, gw_text_str(&clean), clean.bytes);
    message->failed = message->failed || part.failed || clean.failed;
    gw_text_free(&part);
    gw_text_free(&clean);
}

void gwi_wire_message(gw_text *message, unsigned field, gw_text *inner)
{
    gwi_wire_bytes(message, field, gw_text_str(inner), inner->bytes);
    message->failed = message->failed || inner->failed;
    gw_text_clear(inner);
}

enum { SEQUENCE_ID = 1, TRACKS_MAX = 1 << 16 };

/* ---- packets ---- */

static void end_packet(gwi_trace *trace)
{
    gw_text *head = &trace->part;
    unsigned flags = PF_SEQ_NEEDS_INCREMENTAL_STATE | (trace->has_begun ? 0 : PF_SEQ_INCREMENTAL_STATE_CLEARED);
    gwi_wire_number(&trace->packet, PF_PACKET_SEQUENCE_ID, SEQUENCE_ID);
    gwi_wire_number(&trace->packet, PF_PACKET_SEQUENCE_FLAGS, flags);
    gw_text_clear(head);
    gwi_wire_head(head, PF_TRACE_PACKET, trace->packet.bytes);
    trace->failed = trace->failed || trace->packet.failed || head->failed;
    if (!trace->failed) {
        fwrite(gw_text_str(head), 1, head->bytes, trace->file);
        fwrite(gw_text_str(&trace->packet), 1, trace->packet.bytes, trace->file);
    }
    trace->has_begun = true;
    gw_text_clear(&trace->packet);
    gw_text_clear(head);
}

static uint64_t clamped(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : value;
}

/* ---- names ---- */

static void names_free(gwi_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->item[i]);
    free(names->item);
    free(names->place);
}

/* Return the place of the name in the hash table, or the free place where it belongs. */
static size_t place_of(const gwi_names *names, const char *name)
{
    size_t at = (size_t)gw_hash_bytes(GW_HASH_START, name, strlen(name)) & (names->places - 1);
    while (names->place[at] != 0 && strcmp(names->item[names->place[at] - 1], name) != 0)
        at = (at + 1) & (names->places - 1);
    return at;
}

/* Return the number of a name, or 0 if it cannot be interned. *ret_is_new: it was not known. */
static uint32_t number_of(gwi_names *names, const char *name, bool *ret_is_new)
{
    *ret_is_new = false;
    if (names->place == NULL) {
        names->place = calloc(GWI_NAMES_MAX * 2, sizeof *names->place);
        names->places = names->place == NULL ? 0 : GWI_NAMES_MAX * 2;
    }
    if (names->place == NULL)
        return 0;
    size_t at = place_of(names, name);
    if (names->place[at] != 0)
        return names->place[at];
    if (names->count == GWI_NAMES_MAX || !gw_array_room(&names->item, names->count, &names->capacity, sizeof(char *)) ||
        (names->item[names->count] = strdup(name)) == NULL)
        return 0;
    *ret_is_new = true;
    return names->place[at] = (uint32_t)++names->count;
}

/* Return the number of a name, and add it to the packet's interned data when it is first used. `field` is
 * PF_INTERNED_CATEGORIES or the like. 0: there are too many names. */
static uint32_t intern(gwi_trace *trace, unsigned field, const char *name)
{
    bool is_new;
    uint32_t number = number_of(&trace->names[field - PF_INTERNED_CATEGORIES], name, &is_new);
    if (is_new) {
        gwi_wire_number(&trace->inner, PF_INTERNED_IID, number);
        gwi_wire_string(&trace->inner, PF_INTERNED_NAME, name);
        gwi_wire_message(&trace->interned, field, &trace->inner);
    }
    return number;
}

/* ---- tracks ---- */

static uint64_t uuid_of(gwi_track_kind kind, uint64_t a, uint64_t b)
{
    uint64_t words[] = {(uint64_t)kind, a, b}, hash = gw_hash_bytes(GW_HASH_START, words, sizeof words);
    return hash == 0 ? 1 : hash; /* 0 is Perfetto's track for everything without one */
}

static void put_track(gwi_trace *trace, gwi_track_kind kind, uint64_t a, uint64_t b, const char *name)
{
    char text[96];
    gw_text *track = &trace->part, *inner = &trace->inner;
    gw_text_clear(track);
    gwi_wire_number(track, PF_TRACK_UUID, uuid_of(kind, a, b));
    uint64_t parent = kind == GWI_TRACK_THREAD || kind == GWI_TRACK_STREAM || kind == GWI_TRACK_PHASES ||
                              (kind == GWI_TRACK_MEMORY && a != 0)
                          ? uuid_of(GWI_TRACK_PROCESS, a, 0)
                          : 0;
    if (parent != 0)
        gwi_wire_number(track, PF_TRACK_PARENT_UUID, parent);
    switch (kind) {
    case GWI_TRACK_PROCESS:
        gwi_wire_number(inner, PF_PROCESS_PID, (uint64_t)(int64_t)(int32_t)a);
        gwi_wire_string(inner, PF_PROCESS_NAME, name == NULL ? "process" : name);
        gwi_wire_message(track, PF_TRACK_PROCESS, inner);
        break;
    case GWI_TRACK_THREAD:
        gwi_wire_number(inner, PF_THREAD_PID, (uint64_t)(int64_t)(int32_t)a);
        gwi_wire_number(inner, PF_THREAD_TID, (uint64_t)(int64_t)(int32_t)b);
        if (name != NULL)
            gwi_wire_string(inner, PF_THREAD_NAME, name);
        gwi_wire_message(track, PF_TRACK_THREAD, inner);
        break;
    case GWI_TRACK_STREAM:
        if (b <= 2)
            snprintf(text, sizeof text, "%s", b == 2 ? "default stream of each thread" : "default stream");
        else
            snprintf(text, sizeof text, "stream 0x%" PRIx64, b);
        gwi_wire_string(track, PF_TRACK_NAME, text);
        break;
    case GWI_TRACK_MEMORY:
        snprintf(text, sizeof text, "%s %" PRIu64 ": %s", a == 0 ? "card" : "GPU", b >> 8,
                 gwi_curve_words((gwi_curve_what)(b & 0xff)));
        gwi_wire_string(track, PF_TRACK_NAME, text);
        gwi_wire_number(inner, PF_COUNTER_UNIT, PF_UNIT_SIZE_BYTES);
        gwi_wire_message(track, PF_TRACK_COUNTER, inner);
        break;
    case GWI_TRACK_METRIC:
        snprintf(text, sizeof text, "card %" PRIu64 ": %s", a, gw_metric_find((unsigned)b)->name);
        gwi_wire_string(track, PF_TRACK_NAME, text);
        gwi_wire_string(inner, PF_COUNTER_UNIT_NAME, gw_metric_find((unsigned)b)->unit);
        gwi_wire_message(track, PF_TRACK_COUNTER, inner);
        break;
    default:
        gwi_wire_string(track, PF_TRACK_NAME, name == NULL ? "phases" : name);
        break;
    }
    gwi_wire_message(&trace->packet, PF_PACKET_TRACK_DESCRIPTOR, track);
    end_packet(trace);
}

static gwi_track *find_track(gwi_trace *trace, uint64_t uuid)
{
    size_t at = (size_t)gw_hash_mix(0, uuid) & (trace->track_places - 1);
    while (trace->track[at].uuid != 0 && trace->track[at].uuid != uuid)
        at = (at + 1) & (trace->track_places - 1);
    return &trace->track[at];
}

/* Double the table. False: no memory. */
static bool grow_tracks(gwi_trace *trace)
{
    gwi_track *old = trace->track;
    size_t old_places = trace->track_places, places = old_places == 0 ? 64 : old_places * 2;
    gwi_track *fresh = calloc(places, sizeof *fresh);
    if (fresh == NULL)
        return false;
    trace->track = fresh;
    trace->track_places = places;
    for (size_t i = 0; i < old_places; i++)
        if (old[i].uuid != 0)
            *find_track(trace, old[i].uuid) = old[i];
    free(old);
    return true;
}

gwi_track *gwi_trace_track(gwi_trace *trace, gwi_track_kind kind, uint64_t a, uint64_t b, const char *name)
{
    static gwi_track none = {.uuid = 1}; /* only without memory, when nothing is written any more */
    if (trace->track_count * 2 >= trace->track_places && !grow_tracks(trace)) {
        trace->failed = true;
        return &none;
    }
    gwi_track *track = find_track(trace, uuid_of(kind, a, b));
    if (track->uuid == 0 && trace->track_count >= TRACKS_MAX && kind != GWI_TRACK_OTHERS)
        return gwi_trace_track(trace, GWI_TRACK_OTHERS, 0, 0, "other tracks");
    if (track->uuid == 0) {
        *track = (gwi_track){.uuid = uuid_of(kind, a, b), .is_named = name != NULL};
        trace->track_count++;
        put_track(trace, kind, a, b, name);
    } else if (name != NULL && !track->is_named) { /* a second descriptor adds the name */
        track->is_named = true;
        put_track(trace, kind, a, b, name);
    }
    return track;
}

void gwi_trace_free(gwi_trace *trace)
{
    for (size_t i = 0; i < sizeof trace->names / sizeof trace->names[0]; i++)
        names_free(&trace->names[i]);
    free(trace->track);
    gw_text_free(&trace->packet);
    gw_text_free(&trace->event);
    gw_text_free(&trace->interned);
    gw_text_free(&trace->part);
    gw_text_free(&trace->inner);
}

/* ---- events ---- */

static void begin_event(gwi_trace *trace, const gwi_track *track, unsigned type)
{
    gwi_wire_number(&trace->event, PF_EVENT_TYPE, type);
    gwi_wire_number(&trace->event, PF_EVENT_TRACK_UUID, track->uuid);
}

void gwi_trace_begin(gwi_trace *trace, const gwi_track *track, unsigned type, const char *name, const char *category)
{
    begin_event(trace, track, type);
    uint32_t number = name == NULL ? 0 : intern(trace, PF_INTERNED_EVENT_NAMES, name);
    if (number != 0)
        gwi_wire_number(&trace->event, PF_EVENT_NAME_IID, number);
    else if (name != NULL)
        gwi_wire_string(&trace->event, PF_EVENT_NAME, name);
    number = category == NULL ? 0 : intern(trace, PF_INTERNED_CATEGORIES, category);
    if (number != 0)
        gwi_wire_number(&trace->event, PF_EVENT_CATEGORY_IIDS, number);
}

void gwi_trace_begin_named(gwi_trace *trace, const gwi_track *track, unsigned type, const char *name)
{
    begin_event(trace, track, type);
    gwi_wire_string(&trace->event, PF_EVENT_NAME, name);
}

/* Begin an annotation in trace->part. */
static void begin_note(gwi_trace *trace, const char *name)
{
    uint32_t number = intern(trace, PF_INTERNED_NOTE_NAMES, name);
    gw_text_clear(&trace->part);
    if (number != 0)
        gwi_wire_number(&trace->part, PF_NOTE_NAME_IID, number);
    else
        gwi_wire_string(&trace->part, PF_NOTE_NAME, name);
}

void gwi_trace_note_number(gwi_trace *trace, const char *name, uint64_t value)
{
    begin_note(trace, name);
    gwi_wire_number(&trace->part, PF_NOTE_UINT, value);
    gwi_wire_message(&trace->event, PF_EVENT_DEBUG_ANNOTATIONS, &trace->part);
}

void gwi_trace_note_address(gwi_trace *trace, const char *name, uint64_t value)
{
    begin_note(trace, name);
    gwi_wire_number(&trace->part, PF_NOTE_POINTER, value);
    gwi_wire_message(&trace->event, PF_EVENT_DEBUG_ANNOTATIONS, &trace->part);
}

void gwi_trace_note_text(gwi_trace *trace, const char *name, const char *text)
{
    begin_note(trace, name);
    gwi_wire_string(&trace->part, PF_NOTE_STRING, text);
    gwi_wire_message(&trace->event, PF_EVENT_DEBUG_ANNOTATIONS, &trace->part);
}

void gwi_trace_end(gwi_trace *trace, uint64_t t_ns)
{
    gwi_wire_number(&trace->packet, PF_PACKET_TIMESTAMP, clamped(t_ns));
    if (trace->interned.bytes > 0)
        gwi_wire_message(&trace->packet, PF_PACKET_INTERNED_DATA, &trace->interned);
    gwi_wire_message(&trace->packet, PF_PACKET_TRACK_EVENT, &trace->event);
    end_packet(trace);
}

void gwi_trace_count(gwi_trace *trace, const gwi_track *track, uint64_t t_ns, uint64_t value)
{
    begin_event(trace, track, PF_TYPE_COUNTER);
    gwi_wire_number(&trace->event, PF_EVENT_COUNTER_VALUE, clamped(value));
    gwi_trace_end(trace, t_ns);
}
