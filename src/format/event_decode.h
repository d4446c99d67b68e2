/* Reading events one by one, in the header so that a loop over a recording pays for no calls: see event_code.h. */
#ifndef GWI_EVENT_DECODE_H
#define GWI_EVENT_DECODE_H

#include "event_code.h"

static inline uint64_t gwi_take(const uint8_t **at, unsigned bytes)
{
    uint64_t word;
    memcpy(&word, *at, 8);
    *at += bytes;
    return word & gwi_length_mask[bytes];
}

/* A definition: fills the next template. NULL: it makes no sense. */
gw_item *gwi_decoder_define(gwi_decoder *decoder, const uint8_t **at);
/* The text of an event, `*at` not behind the end. False: it does not end in the block. */
bool gwi_decoder_text(gwi_decoder *decoder, gw_event *event, const uint8_t **at);

static inline gw_item *gwi_decoder_find(gwi_decoder *decoder, const uint8_t **at)
{
    unsigned index = (unsigned)gwi_take(at, 1);
    if (__builtin_expect(index >= GWI_TEMPLATE_WIDE, 0)) {
        if (index == GWI_TEMPLATE_NEW)
            return gwi_decoder_define(decoder, at);
        index = (unsigned)gwi_take(at, 2);
    }
    return index < decoder->defined ? &decoder->template[index] : NULL;
}

/* GW_OK: *ret_item is the decoder's until the next call; GW_END; GW_CORRUPT.
 *
 * At most GWI_EVENT_BYTES_MAX bytes are looked at before the end is checked: the slack behind the block covers them. */
static inline gw_status gwi_decoder_next(gwi_decoder *decoder, const gw_item **ret_item)
{
    const uint8_t *at = decoder->at;
    if (at >= decoder->end)
        return GW_END;
    gw_item *item = gwi_decoder_find(decoder, &at);
    if (__builtin_expect(item == NULL, 0))
        return GW_CORRUPT;
    gw_event *event = &item->event;
    uint32_t control = (uint32_t)gwi_take(&at, 3);
    uint32_t high = control & GWI_CONTROL_LENGTHS_HIGH;
    if (__builtin_expect((control & ((high >> 1) | (high >> 2) | (high >> 3))) != 0, 0))
        return GW_CORRUPT; /* a length above 8 */
    decoder->t_ns += gwi_take(&at, control & 15);
    item->t_ns = event->t_ns = decoder->t_ns;
    for (unsigned i = 0; i < 4; i++)
        event->arg[i] += gwi_unzigzag(gwi_take(&at, (control >> (4 * (i + 1))) & 15));
    event->took_us = 0;
    event->text = NULL;
    event->text_bytes = 0;
    if (control & GWI_CONTROL_TOOK)
        event->took_us = (uint16_t)gwi_take(&at, 2);
    if (control & (GWI_CONTROL_SITE | GWI_CONTROL_EXTRA | GWI_CONTROL_TEXT)) {
        if (control & GWI_CONTROL_SITE)
            event->site = (uint32_t)gwi_take(&at, 4);
        if (control & GWI_CONTROL_EXTRA)
            event->extra = (uint32_t)gwi_take(&at, 4);
        if ((control & GWI_CONTROL_TEXT) && (at > decoder->end || !gwi_decoder_text(decoder, event, &at)))
            return GW_CORRUPT;
    }
    if (__builtin_expect(at > decoder->end, 0))
        return GW_CORRUPT;
    decoder->at = at;
    *ret_item = item;
    return GW_OK;
}

#endif
