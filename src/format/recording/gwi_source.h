/* Reads the items of one file. A gw_reader has one or two sources, because the items of a run folder come from two
 * files. */
#ifndef GWI_SOURCE_H
#define GWI_SOURCE_H

#include "gwi_block.h"
#include "gwi_code.h"

/* A mark in a SYNC block. The first `bytes` bytes of the chunk with this sequence number, in this process's buffer, are
 * in the recording. */
typedef struct gwi_mark { /* as it lies in the file */
    uint32_t pid, bytes;
    uint64_t start_monotonic_ns, sequence;
} gwi_mark;
_Static_assert(sizeof(gwi_mark) == 24, "as in the document");

typedef enum gwi_source_mode { GWI_AT_BLOCK, GWI_IN_EVENTS, GWI_IN_ITEMS } gwi_source_mode;

typedef struct gwi_source {
    gwi_in in;
    gwi_dict dict;
    bool dict_known;
    gwi_source_mode mode;
    gwi_decoder *decoder; /* owned; NULL: only pairs are read, without the dictionary */
    gwi_item_reader items;
    uint64_t t_ns;                                                       /* time of the last item */
    void (*report)(void *user, uint64_t done_bytes, uint64_t all_bytes); /* called at each block; NULL: no one asked */
    void *report_user;
    uint64_t uncommitted_at; /* file offset; from here on, blocks with items from the buffers are skipped */
} gwi_source;

/* Take ownership of `fd`, borrow `path`, and read the dictionary. Even after a failure, the caller must call
 * gwi_source_close(). */
gw_status gwi_source_start(gwi_source *source, int fd, const char *path, gw_error *err);
/* The same, but only for the pairs (META, SUPERVISOR). It does not read the dictionary, so events are GW_CORRUPT, and
 * the numbers of COUNTERS items are missing. */
gw_status gwi_source_start_pairs(gwi_source *source, int fd, const char *path, gw_error *err);
void gwi_source_close(gwi_source *source);

/* Return the next item, like gw_reader_next(), but never a TRUNCATED item. After GW_END, `in.truncated` is true if the
 * end of the file is missing. */
gw_status gwi_source_next(gwi_source *source, const gw_item **ret_item, gw_error *err);

/* Pass every mark of the SYNC blocks to `sink`, then return to the first block. After this, gwi_source_next() skips
 * items from the buffers that follow the last SYNC block: the buffers still contain them. */
typedef void (*gwi_mark_sink)(void *user, const gwi_mark *mark);
gw_status gwi_source_scan_marks(gwi_source *source, gwi_mark_sink sink, void *user, gw_error *err);

#endif
