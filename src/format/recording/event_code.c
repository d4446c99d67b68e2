/* Encodes and decodes blocks of events. The fields that are equal in many events (process, function, kind, ...) are
 * stored once, as a template. */
#include "gwi_code.h"

#include <stdlib.h>

enum { HASH_SLOTS = 4 * GWI_TEMPLATES_MAX };

typedef struct template_key {
    uint32_t pid, tid;
    uint16_t fn;
    uint8_t kind, flags;
    uint16_t result;
    uint64_t context;
} template_key;

typedef struct encoder_template {
    template_key key;
    uint64_t arg[4];
    uint32_t site, extra;
} encoder_template;

struct gwi_encoder {
    uint32_t used_bytes;
    uint32_t event_count;
    uint32_t template_count;
    uint32_t last; /* index of the template of the previous event */
    uint64_t t_ns;
    uint16_t hash[HASH_SLOTS]; /* 1 + index of a template; 0: empty */
    encoder_template template[GWI_TEMPLATES_MAX];
    uint8_t data[GWI_BLOCK_RAW_MAX];
};

gwi_encoder *gwi_encoder_new(void)
{
    gwi_encoder *encoder = malloc(sizeof *encoder);
    if (encoder != NULL)
        gwi_encoder_reset(encoder);
    return encoder;
}

void gwi_encoder_reset(gwi_encoder *encoder)
{
    encoder->used_bytes = 0;
    encoder->event_count = 0;
    encoder->template_count = 0;
    encoder->last = 0;
    memset(encoder->hash, 0, sizeof encoder->hash);
}

const uint8_t *gwi_encoder_data(const gwi_encoder *encoder, uint32_t *ret_bytes, uint32_t *ret_count)
{
    *ret_bytes = encoder->used_bytes;
    *ret_count = encoder->event_count;
    return encoder->data;
}

static bool key_equal(const template_key *a, const template_key *b)
{
    return a->pid == b->pid && a->tid == b->tid && a->fn == b->fn && a->kind == b->kind && a->flags == b->flags &&
           a->result == b->result && a->context == b->context;
}

static uint32_t key_hash(const template_key *key)
{
    uint64_t h = ((uint64_t)key->pid << 32 | key->tid) * 0x9e3779b97f4a7c15u;
    h ^= ((uint64_t)key->fn << 32 | (uint32_t)key->kind << 24 | (uint32_t)key->flags << 16 | key->result);
    h *= 0xff51afd7ed558ccdu;
    h ^= key->context + (h >> 29);
    h *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 40) % HASH_SLOTS;
}

static void put(gwi_encoder *encoder, const void *data, size_t bytes)
{
    memcpy(encoder->data + encoder->used_bytes, data, bytes);
    encoder->used_bytes += (uint32_t)bytes;
}

static void define_template(gwi_encoder *encoder, uint32_t slot, const template_key *key)
{
    encoder_template *template = &encoder->template[encoder->template_count];
    memset(template, 0, sizeof *template);
    template->key = *key;
    encoder->last = encoder->template_count++;
    encoder->hash[slot] = (uint16_t)encoder->template_count;
    uint8_t new = GWI_TEMPLATE_NEW;
    put(encoder, &new, 1);
    put(encoder, &key->pid, 4);
    put(encoder, &key->tid, 4);
    put(encoder, &key->fn, 2);
    put(encoder, &key->kind, 1);
    put(encoder, &key->flags, 1);
    put(encoder, &key->result, 2);
    put(encoder, &key->context, 8);
}

static void name_template(gwi_encoder *encoder, uint32_t index)
{
    uint8_t narrow = (uint8_t)index, wide_mark = GWI_TEMPLATE_WIDE;
    uint16_t wide = (uint16_t)index;
    encoder->last = index;
    if (index < GWI_TEMPLATE_WIDE) {
        put(encoder, &narrow, 1);
    } else {
        put(encoder, &wide_mark, 1);
        put(encoder, &wide, 2);
    }
}

/* Write the number of the event's template, and define the template if it is new. Returns false if the table of
 * templates is full. */
static bool put_template(gwi_encoder *encoder, const gw_event *event)
{
    template_key key = {event->pid, event->tid, event->fn, event->kind, event->flags, event->result, event->context};
    if (encoder->template_count > 0 && key_equal(&encoder->template[encoder->last].key, &key)) {
        name_template(encoder, encoder->last);
        return true;
    }
    uint32_t slot = key_hash(&key);
    for (; encoder->hash[slot] != 0; slot = (slot + 1) % HASH_SLOTS) {
        uint32_t index = encoder->hash[slot] - 1u;
        if (key_equal(&encoder->template[index].key, &key)) {
            name_template(encoder, index);
            return true;
        }
    }
    if (encoder->template_count == GWI_TEMPLATES_MAX)
        return false;
    define_template(encoder, slot, &key);
    return true;
}

bool gwi_encoder_add(gwi_encoder *encoder, const gw_event *event)
{
    uint32_t text_bytes = event->text == NULL ? 0 : event->text_bytes;
    if (text_bytes > UINT16_MAX)
        text_bytes = UINT16_MAX;
    if (encoder->event_count > 0 && encoder->used_bytes + GWI_EVENT_BYTES_MAX + text_bytes > GWI_BLOCK_RAW_GOAL)
        return false;
    if (encoder->event_count == 0) {
        encoder->t_ns = event->t_ns;
        put(encoder, &encoder->t_ns, 8);
    }
    if (!put_template(encoder, event))
        return false;
    encoder_template *template = &encoder->template[encoder->last];
    uint64_t value[5] = {event->t_ns - encoder->t_ns};
    uint32_t control = gwi_length_of(value[0]);
    for (unsigned i = 0; i < 4; i++) {
        value[i + 1] = gwi_zigzag(event->arg[i] - template->arg[i]);
        control |= gwi_length_of(value[i + 1]) << (4 * (i + 1));
        template->arg[i] = event->arg[i];
    }
    control |= event->took_us != 0 ? GWI_CONTROL_TOOK : 0;
    control |= event->site != template->site ? GWI_CONTROL_SITE : 0;
    control |= event->extra != template->extra ? GWI_CONTROL_EXTRA : 0;
    control |= event->text != NULL ? GWI_CONTROL_TEXT : 0;
    put(encoder, &control, 3);
    for (unsigned i = 0; i < 5; i++)
        put(encoder, &value[i], (control >> (4 * i)) & 15);
    if (control & GWI_CONTROL_TOOK)
        put(encoder, &event->took_us, 2);
    if (control & GWI_CONTROL_SITE)
        put(encoder, &event->site, 4);
    if (control & GWI_CONTROL_EXTRA)
        put(encoder, &event->extra, 4);
    if (control & GWI_CONTROL_TEXT) {
        put(encoder, &text_bytes, 2);
        put(encoder, event->text, text_bytes);
        put(encoder, "", 1);
    }
    template->site = event->site;
    template->extra = event->extra;
    encoder->t_ns = event->t_ns;
    encoder->event_count++;
    return true;
}

bool gwi_decoder_start(gwi_decoder *decoder, const gwi_dict *dict, const uint8_t *raw, uint32_t raw_bytes)
{
    if (raw_bytes < 8)
        return false;
    decoder->dict = dict;
    decoder->at = raw + 8;
    decoder->end = raw + raw_bytes;
    decoder->defined = 0;
    decoder->item = (gw_item){.kind = GW_ITEM_EVENT};
    memcpy(&decoder->t_ns, raw, 8);
    return true;
}

/* Read the definition of a template. Returns false if the definition is invalid. */
static bool define(gwi_decoder *decoder, const uint8_t **at)
{
    if (decoder->defined == GWI_TEMPLATES_MAX)
        return false;
    gwi_template *template = &decoder->template[decoder->defined];
    memset(template, 0, sizeof *template);
    template->pid = (uint32_t)gwi_take(at, 4);
    template->tid = (uint32_t)gwi_take(at, 4);
    template->fn = (uint16_t)gwi_take(at, 2);
    uint8_t kind = (uint8_t)gwi_take(at, 1);
    template->flags = (uint8_t)gwi_take(at, 1);
    template->result = (uint16_t)gwi_take(at, 2);
    template->context = gwi_take(at, 8);
    if (kind >= decoder->dict->kind_count)
        return false;
    if (template->fn >= decoder->dict->fn_count && template->fn != GWI_FN_UNKNOWN)
        return false;
    template->kind = decoder->dict->kind[kind];
    decoder->defined++;
    return true;
}

gwi_place gwi_decoder_find(gwi_decoder *decoder, const uint8_t *at, unsigned mark)
{
    unsigned index = GWI_TEMPLATES_MAX;
    if (mark != GWI_TEMPLATE_NEW)
        index = (unsigned)gwi_take(&at, 2);
    else if (define(decoder, &at))
        index = decoder->defined - 1;
    return (gwi_place){at, index};
}

const uint8_t *gwi_decoder_text(const gwi_decoder *decoder, gw_event *event, const uint8_t *at)
{
    if (at > decoder->end || decoder->end - at < 3)
        return NULL;
    uint32_t bytes = (uint32_t)gwi_take(&at, 2);
    if ((size_t)(decoder->end - at) < bytes + 1u || at[bytes] != 0)
        return NULL;
    event->text = (const char *)at;
    event->text_bytes = bytes;
    return at + bytes + 1u;
}
