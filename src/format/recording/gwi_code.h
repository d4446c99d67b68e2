/* Encodes events and other items into blocks of bytes, and decodes them ("Events" in docs/recording-format.md).
 *
 * A template contains the values that rarely change: process, thread, function, kind, flags, result, context. A block
 * stores each template once. The other values are stored as differences from the previous event with that template. */
#ifndef GWI_CODE_H
#define GWI_CODE_H

#include "gwi_layout.h"

typedef struct gwi_encoder gwi_encoder;

gwi_encoder *gwi_encoder_new(void); /* free() it; returns NULL if out of memory */
/* Add one event. `fn` and `kind` are numbers from the recording's dictionary. Returns false if the block is full: write
 * it, reset the encoder and add the event again. */
bool gwi_encoder_add(gwi_encoder *encoder, const gw_event *event);
/* Return the bytes of the current block. They are valid until the next call of gwi_encoder_add(). gwi_encoder_reset()
 * begins the next block. */
const uint8_t *gwi_encoder_data(const gwi_encoder *encoder, uint32_t *ret_bytes, uint32_t *ret_count);
void gwi_encoder_reset(gwi_encoder *encoder);

/* Maps the numbers in the file to the numbers of this build. */
typedef struct gwi_dict {
    uint8_t kind[256]; /* number in the file -> gw_event_kind; GW_EV_CALL: unknown to this build */
    uint32_t kind_count;
    uint8_t counter[256]; /* number in the file -> gw_counter; GW_COUNT_COUNT: unknown to this build */
    uint32_t counter_count;
    uint32_t fn_count;
    const char **fn_name; /* owned array of pointers into `text` */
    char *text;           /* owned */
} gwi_dict;

/* A template: the values that several events share, and the other values of the last event with it. The first members,
 * up to took_us (always 0), have the same layout as in gw_event and are copied with one memcpy(). */
typedef struct gwi_template {
    uint32_t pid, tid;
    uint16_t fn;
    uint8_t kind, flags;
    uint16_t result, took_us;
    uint32_t site, extra;
    uint64_t context;
    uint64_t arg[4];
} gwi_template;
enum { GWI_TEMPLATE_COPY_BYTES = 16 };
_Static_assert(offsetof(gwi_template, site) == GWI_TEMPLATE_COPY_BYTES &&
                   offsetof(gw_event, site) - offsetof(gw_event, pid) == GWI_TEMPLATE_COPY_BYTES &&
                   offsetof(gw_event, result) - offsetof(gw_event, pid) == offsetof(gwi_template, result),
               "a template begins as what an event has behind its time");

typedef struct gwi_decoder {
    const uint8_t *at, *end; /* borrowed: the unpacked block, followed by GWI_SLACK_BYTES of zeros */
    const gwi_dict *dict;    /* borrowed */
    uint64_t t_ns;           /* time of the last event */
    uint32_t defined;
    gw_item item; /* the result of gwi_decoder_next() */
    gwi_template template[GWI_TEMPLATES_MAX];
} gwi_decoder;

/* Start decoding a block. Returns false if there are too few bytes for a block of events. */
bool gwi_decoder_start(gwi_decoder *decoder, const gwi_dict *dict, const uint8_t *raw, uint32_t raw_bytes);

/* ---- decoding, inline in the loop over a recording ---- */

static inline uint64_t gwi_take(const uint8_t **at, unsigned bytes)
{
    uint64_t word;
    memcpy(&word, *at, 8);
    *at += bytes;
    return word & gwi_length_mask[bytes];
}

/* The next two functions handle rare cases and are not inline. They pass the position in the block by value, so that
 * the caller can keep it in a register. */

/* Find the template of an event whose first byte, `mark`, is not the index of a template. `at` points to the next byte.
 * If the template is not defined, the index is at least decoder->defined. */
typedef struct gwi_place {
    const uint8_t *at;
    unsigned index;
} gwi_place;
gwi_place gwi_decoder_find(gwi_decoder *decoder, const uint8_t *at, unsigned mark);
/* Read the text of an event. Returns the position after the text, or NULL if the text does not end within the block. */
const uint8_t *gwi_decoder_text(const gwi_decoder *decoder, gw_event *event, const uint8_t *at);

static inline void gwi_take_arg(gwi_template *template, gw_event *event, unsigned i, const uint8_t **at,
                                uint32_t control)
{
    template->arg[i] += gwi_unzigzag(gwi_take(at, (control >> (4 * (i + 1))) & 15));
    event->arg[i] = template->arg[i];
}

/* Decode the whole next event. Returns GW_OK, GW_END, or GW_CORRUPT if the event is invalid. GW_CORRUPT is permanent.
 * Up to GWI_EVENT_BYTES_MAX bytes are read before the end is checked, so reads may reach into the zeros after the
 * block. */
static inline gw_status gwi_decoder_event(gwi_decoder *decoder, gw_event *event)
{
    const uint8_t *at = decoder->at;
    if (at >= decoder->end)
        return GW_END;
    unsigned index = (unsigned)gwi_take(&at, 1);
    if (__builtin_expect(index >= GWI_TEMPLATE_WIDE, 0)) {
        gwi_place place = gwi_decoder_find(decoder, at, index);
        at = place.at;
        index = place.index;
    }
    if (__builtin_expect(index >= decoder->defined, 0))
        return GW_CORRUPT;
    gwi_template *template = &decoder->template[index];
    uint32_t control = (uint32_t)gwi_take(&at, 3);
    uint32_t high = control & GWI_CONTROL_LENGTHS_HIGH;
    if (__builtin_expect((control & ((high >> 1) | (high >> 2) | (high >> 3))) != 0, 0))
        return GW_CORRUPT; /* a length above 8 */
    uint64_t t_ns = decoder->t_ns + gwi_take(&at, control & 15);
    event->t_ns = t_ns;
    memcpy(&event->pid, template, GWI_TEMPLATE_COPY_BYTES);
    event->context = template->context;
    event->text = NULL;
    event->text_bytes = 0;
    gwi_take_arg(template, event, 0, &at, control);
    gwi_take_arg(template, event, 1, &at, control);
    if ((control & GWI_CONTROL_LENGTHS_LATTER) != 0) { /* rare: in most events the last two arguments are unchanged */
        gwi_take_arg(template, event, 2, &at, control);
        gwi_take_arg(template, event, 3, &at, control);
    } else {
        event->arg[2] = template->arg[2];
        event->arg[3] = template->arg[3];
    }
    /* No branch here, because a processor cannot predict which events have a duration. */
    event->took_us = (uint16_t)gwi_take(&at, (control & GWI_CONTROL_TOOK) / (GWI_CONTROL_TOOK / 2));
    if (control & (GWI_CONTROL_SITE | GWI_CONTROL_EXTRA | GWI_CONTROL_TEXT)) {
        if (control & GWI_CONTROL_SITE)
            template->site = (uint32_t)gwi_take(&at, 4);
        if (control & GWI_CONTROL_EXTRA)
            template->extra = (uint32_t)gwi_take(&at, 4);
        if ((control & GWI_CONTROL_TEXT) && (at = gwi_decoder_text(decoder, event, at)) == NULL)
            return GW_CORRUPT;
    }
    event->site = template->site;
    event->extra = template->extra;
    if (__builtin_expect(at > decoder->end, 0))
        return GW_CORRUPT;
    decoder->t_ns = t_ns;
    decoder->at = at;
    return GW_OK;
}

/* Decode the next event and return it as an item. The item is valid until the next call. */
static inline gw_status gwi_decoder_next(gwi_decoder *decoder, const gw_item **ret_item)
{
    gw_item *item = &decoder->item;
    gw_status st = gwi_decoder_event(decoder, &item->event);
    if (st != GW_OK)
        return st;
    item->t_ns = item->event.t_ns;
    item->pid = item->event.pid;
    item->tid = item->event.tid;
    *ret_item = item;
    return GW_OK;
}

/* ---- items other than events ----
 *
 * An item is a u8 code, a u32 length and a payload, whose format depends on the code. A string is a u32 length and the
 * bytes. A NUL follows, so that a reader need not copy the string. */

typedef struct gwi_bytes { /* a byte array that grows as items are appended */
    uint8_t *data;         /* owned */
    uint32_t used_bytes;
    size_t capacity;
} gwi_bytes;

void gwi_bytes_free(gwi_bytes *bytes);

/* Return the type of block that stores items of this kind; 0 if there is none. */
gwi_block_type gwi_item_block(gw_item_kind kind);

/* Append the item. Strings longer than 64 KiB and stderr longer than 256 KiB are truncated. On GW_NOMEM and
 * GW_USAGE, nothing is appended. */
gw_status gwi_item_encode(gwi_bytes *bytes, const gw_item *item);

typedef struct gwi_item_reader {
    const uint8_t *at, *end; /* borrowed */
    const gwi_dict *dict;    /* borrowed */
    gw_item item;
    uint64_t counter[GW_COUNT_COUNT];
    gw_hot_call *call; /* owned, freed by gwi_item_reader_free() */
    size_t call_capacity;
    gw_symbol_frame frame[GW_SYMBOL_FRAMES_MAX];
    gw_sample_value sample[GW_METRIC_COUNT];
} gwi_item_reader;

void gwi_item_reader_start(gwi_item_reader *reader, const gwi_dict *dict, const uint8_t *raw, uint32_t raw_bytes);
void gwi_item_reader_free(gwi_item_reader *reader);
/* Return the next item. Items with a code that this build does not know are skipped. Returns GW_OK, GW_END, GW_CORRUPT
 * or GW_NOMEM. */
gw_status gwi_item_reader_next(gwi_item_reader *reader, const gw_item **ret_item);

/* Encode the dictionary: the names of kinds and counters in this build, and the given names of functions. */
gw_status gwi_dict_encode(gwi_bytes *bytes, const char *const *fn_names, uint32_t fn_count);
/* Decode a dictionary. On GW_OK, the caller must free it with gwi_dict_free(). Otherwise returns GW_CORRUPT or
 * GW_NOMEM. */
gw_status gwi_dict_decode(const uint8_t *raw, uint32_t raw_bytes, gwi_dict *ret_dict);
void gwi_dict_free(gwi_dict *dict);

#endif
