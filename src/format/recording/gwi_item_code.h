/* Encodes and decodes items other than events. An item is a u8 code, a u32 length and a payload, whose format depends
 * on the code. A string is a u32 length and the bytes. A NUL follows, so that a reader need not copy the string. */
#ifndef GWI_ITEM_CODE_H
#define GWI_ITEM_CODE_H

#include "gwi_event_code.h"

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
