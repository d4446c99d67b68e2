/* One file of a recording as a sequence of items. gw_reader consists of these, because a run folder has several
 * files. */
#ifndef GWI_SOURCE_H
#define GWI_SOURCE_H

#include "gwi_block_in.h"
#include "gwi_item_code.h"

typedef struct gwi_mark { /* a DRAINED mark of a SYNC block, with its buffer */
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
    uint64_t t_ns;           /* time of the last item */
    uint64_t uncommitted_at; /* items from buffers in blocks from this offset on are skipped */
} gwi_source;

/* Take ownership of `fd`; `path` is borrowed. Finds the dictionary. Call gwi_source_close() also after a failure. */
gw_status gwi_source_start(gwi_source *source, int fd, const char *path, gw_error *err);
void gwi_source_close(gwi_source *source);

/* Like gw_reader_next(), but without TRUNCATED: check `in.truncated` after GW_END. */
gw_status gwi_source_next(gwi_source *source, const gw_item **ret_item, gw_error *err);

/* Pass every mark of the SYNC blocks to `sink` and rewind. From then on, items that came from the buffers after the
 * last SYNC block are skipped, because the buffers still hold them. */
typedef void (*gwi_mark_sink)(void *user, const gwi_mark *mark);
gw_status gwi_source_scan_marks(gwi_source *source, gwi_mark_sink sink, void *user, gw_error *err);

#endif
