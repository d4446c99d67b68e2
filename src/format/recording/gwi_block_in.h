/* Reads blocks from a file that may be damaged anywhere. If the file shrinks, pread() only reports its end, while a
 * mapping would kill the process with SIGBUS. */
#ifndef GWI_BLOCK_IN_H
#define GWI_BLOCK_IN_H

#include "gwi_layout.h"

typedef struct gwi_in {
    int fd;           /* owned */
    const char *path; /* borrowed, for error texts */
    uint64_t file_bytes;
    uint64_t created_realtime_ns;
    uint64_t offset;       /* where the search for the next block starts */
    uint64_t block_offset; /* offset of the current block */
    gwi_block_head head;   /* header of the current block */
    uint32_t sequence;     /* expected sequence number of the next block */
    bool sequence_known;   /* false after damage: then any sequence number is accepted */
    bool head_damaged;     /* the file header is damaged, and this was not reported to the caller yet */
    bool ended;            /* the END block was read */
    bool truncated;        /* the file ends without an END block */
    uint64_t wasted_bytes; /* bytes read for blocks whose checksum was wrong; limits gwi_in_find() in a hostile file */
    uint8_t *stored;       /* owned: the stored bytes of the current block */
    size_t stored_capacity;
    uint8_t *raw; /* owned: the unpacked block, followed by GWI_SLACK_BYTES of zeros */
    size_t raw_capacity;
    void *unpacker; /* owned: ZSTD_DCtx */
} gwi_in;

/* Open a recording for reading and take ownership of `fd`. Returns GW_OK, GW_IO, GW_CORRUPT (not a recording) or
 * GW_VERSION. Call gwi_in_close() even after a failure. */
gw_status gwi_in_start(gwi_in *in, int fd, const char *path, gw_error *err);
void gwi_in_close(gwi_in *in);
/* Move back to the first block, so that gwi_in_find() starts there again. */
void gwi_in_rewind(gwi_in *in);

/* Find the next good block and read its stored bytes. Returns GW_OK, GW_END (see `truncated`), GW_IO or GW_NOMEM.
 * GW_CORRUPT: damage was skipped, at the offset in `err`; call again to continue. */
gw_status gwi_in_find(gwi_in *in, gw_error *err);
/* Unpack the current block into `raw`. Returns GW_OK, GW_CORRUPT, GW_UNSUPPORTED or GW_NOMEM. */
gw_status gwi_in_unpack(gwi_in *in, gw_error *err);

#endif
