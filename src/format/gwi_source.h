/* One file of a recording as items: what gw_reader is made of (a run folder has several files). */
#ifndef GWI_SOURCE_H
#define GWI_SOURCE_H

#include "gwi_block_in.h"
#include "gwi_item_code.h"

typedef struct gwi_mark { /* a DRAINED mark of a SYNC block, with the buffer it is about */
    uint32_t pid;
    uint64_t start_monotonic_ns;
    uint64_t sequence;
    uint32_t bytes;
} gwi_mark;
enum { GWI_MARK_BYTES = 24 };

typedef enum gwi_source_mode { GWI_AT_BLOCK, GWI_IN_EVENTS, GWI_IN_ITEMS } gwi_source_mode;

typedef struct gwi_source {
    gwi_in in;
    gwi_dict dict;
    bool dict_known;
    gwi_source_mode mode;
    gwi_decoder *decoder; /* owned */
    gwi_item_reader items;
    uint64_t t_ns;           /* of the last item */
    uint64_t uncommitted_at; /* buffers' items of blocks from this offset on are passed over */
} gwi_source;

/* Take over `fd`; `path` is borrowed. Also after failure: gwi_source_close(). Finds the dictionary. */
gw_status gwi_source_start(gwi_source *source, int fd, const char *path, gw_error *err);
void gwi_source_close(gwi_source *source);

/* As gw_reader_next(), without TRUNCATED: see `in.truncated` at GW_END. */
gw_status gwi_source_next(gwi_source *source, const gw_item **ret_item, gw_error *err);

/* Hand every mark of the SYNC blocks to `sink`, then begin again, passing over what came from the buffers after the
 * last SYNC block: the buffers still hold that. */
typedef void (*gwi_mark_sink)(void *user, const gwi_mark *mark);
gw_status gwi_source_scan_marks(gwi_source *source, gwi_mark_sink sink, void *user, gw_error *err);

#endif
