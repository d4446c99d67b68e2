/* One block of events as bytes. The encoder and the decoder walk through the same templates: what rarely changes
 * (process, thread, function, kind, flags, result, context) is written once a block, what changes as a difference to
 * the event before of the same template. See "Events" in docs/recording-format.md. */
#ifndef GWI_EVENT_CODE_H
#define GWI_EVENT_CODE_H

#include "gwi_layout.h"

typedef struct gwi_encoder gwi_encoder;

gwi_encoder *gwi_encoder_new(void); /* NULL: no memory */
void gwi_encoder_free(gwi_encoder *encoder);
/* Add one event; `fn` and `kind` are numbers of the recording's dictionary. False: the block is full, take it first. */
bool gwi_encoder_add(gwi_encoder *encoder, const gw_event *event);
/* The block so far. Borrowed until the next add; reset begins the next block. */
const uint8_t *gwi_encoder_data(const gwi_encoder *encoder, uint32_t *ret_bytes, uint32_t *ret_count);
void gwi_encoder_reset(gwi_encoder *encoder);

/* What the numbers in the file mean for this build. */
typedef struct gwi_dict {
    uint8_t kind[256]; /* file's number -> gw_event_kind */
    uint32_t kind_count;
    uint8_t counter[256]; /* file's number -> gw_counter; GW_COUNT_COUNT: unknown to this build */
    uint32_t counter_count;
    uint32_t fn_count;
    const char **fn_name; /* owned array of strings in `text` */
    char *text;           /* owned */
} gwi_dict;

/* What events of one sort have in common, and what the last of them had that the next one is a difference to. The first
 * part lies as in a gw_event and is copied at one stroke; the last member of it is 0. */
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
    const uint8_t *at, *end; /* borrowed: the unpacked block, GWI_SLACK_BYTES of zeros behind it */
    const gwi_dict *dict;    /* borrowed */
    uint64_t t_ns;           /* of the last event */
    uint32_t defined;
    gw_item item; /* what gwi_decoder_next() hands out */
    gwi_template template[GWI_TEMPLATES_MAX];
} gwi_decoder;

/* False: too short to be a block of events. */
bool gwi_decoder_start(gwi_decoder *decoder, const gwi_dict *dict, const uint8_t *raw, uint32_t raw_bytes);

#endif
