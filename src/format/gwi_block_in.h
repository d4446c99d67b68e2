/* Reading blocks from a file that may be damaged anywhere. Everything is copied in with pread: a file that shrinks
 * while it is read ends early, where a mapping would kill the process. */
#ifndef GWI_BLOCK_IN_H
#define GWI_BLOCK_IN_H

#include "gwi_layout.h"

typedef struct gwi_in {
    int fd;           /* owned */
    const char *path; /* borrowed: for messages */
    uint64_t file_bytes;
    uint64_t created_realtime_ns;
    uint64_t offset;       /* where the next block is looked for */
    uint64_t block_offset; /* of the block found */
    gwi_block_head head;   /* of the block found */
    uint32_t sequence;     /* of the next block */
    bool sequence_known;   /* false after damage */
    bool head_damaged;     /* the file header, not yet reported */
    bool ended;            /* the END block was seen */
    bool truncated;        /* the file ended without it */
    uint64_t wasted_bytes; /* looked at in vain, see gwi_in_find() */
    uint8_t *stored;       /* owned */
    uint32_t stored_capacity;
    uint8_t *raw; /* owned: the block unpacked, GWI_SLACK_BYTES of zeros behind it */
    uint32_t raw_capacity;
    void *unpacker; /* owned: ZSTD_DCtx */
} gwi_in;

/* Take over `fd`. GW_OK, GW_IO, GW_CORRUPT (not a recording), GW_VERSION; gwi_in_close() also after failure. */
gw_status gwi_in_start(gwi_in *in, int fd, const char *path, gw_error *err);
void gwi_in_close(gwi_in *in);
/* Begin again with the first block. */
void gwi_in_rewind(gwi_in *in);

/* Find the next good block and read its stored bytes. GW_OK; GW_END (`truncated` says how); GW_CORRUPT: something at a
 * named offset was passed over, call again; GW_IO, GW_NOMEM. */
gw_status gwi_in_find(gwi_in *in, gw_error *err);
/* Unpack the block found, into `raw`. GW_OK, GW_CORRUPT, GW_UNSUPPORTED, GW_NOMEM. */
gw_status gwi_in_unpack(gwi_in *in, gw_error *err);

#endif
