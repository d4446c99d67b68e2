/* Encodes events into blocks of bytes and decodes them ("Events" in docs/recording-format.md).
 *
 * A template contains the values that rarely change: process, thread, function, kind, flags, result, context. A block
 * stores each template once. The other values are stored as differences from the previous event with that template. */
#ifndef GWI_EVENT_CODE_H
#define GWI_EVENT_CODE_H

#include "gwi_layout.h"

typedef struct gwi_encoder gwi_encoder;

gwi_encoder *gwi_encoder_new(void); /* returns NULL if out of memory */
void gwi_encoder_free(gwi_encoder *encoder);
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

#endif
