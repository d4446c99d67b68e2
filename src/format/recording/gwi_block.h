/* Reads and writes the blocks of a file.
 *
 * A file that is read may be damaged anywhere. If it shrinks, pread() only reports its end, while a mapping would kill
 * the process with SIGBUS. Blocks are written at the end of a file, completely or not at all. */
#ifndef GWI_BLOCK_H
#define GWI_BLOCK_H

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
    bool head_damaged;     /* the file header is damaged */
    bool head_told;        /* the caller knows that */
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

typedef struct gwi_out {
    int fd;           /* owned */
    const char *path; /* borrowed, for error texts */
    uint64_t end;     /* offset of the next block */
    uint64_t room_until;
    uint32_t sequence;
    uint8_t *stored; /* owned: header and stored bytes of the current block */
    uint32_t stored_capacity;
    void *packer; /* owned: ZSTD_CCtx; NULL: this build has no zstd */
} gwi_out;

/* Take ownership of `fd` (an empty file) and write the file header. Returns GW_OK, GW_IO or GW_NOMEM. Call
 * gwi_out_close() even after a failure. */
gw_status gwi_out_start(gwi_out *out, int fd, const char *path, uint64_t created_realtime_ns, gw_error *err);
void gwi_out_close(gwi_out *out);

/* Write one block of at most GWI_BLOCK_RAW_MAX bytes. The block is compressed if that makes it smaller. */
gw_status gwi_out_block(gwi_out *out, gwi_block_type type, const uint8_t *raw, uint32_t raw_bytes, gw_error *err);

/* Append a block that was read from another file. Its stored bytes are copied unchanged. */
gw_status gwi_out_copy(gwi_out *out, const gwi_block_head *head, const uint8_t *stored, gw_error *err);

/* ---- compaction ----
 *
 * Makes a recording smaller, but keeps the events that show which objects are alive.
 *
 * A new file is written beside the old one and renamed over it. The newer half is copied unchanged. Of the older half,
 * these items are kept:
 * - facts
 * - failures (the first 64 of each function and result in a process)
 * - events that create or destroy an object, unless the older half has both
 * - other events whose kind is marked KEEP in gw_event.h
 * - the first and the last whole sample of each source and device
 * - the last state of each thread
 * - the last 256 KiB of stderr */
typedef struct gwi_compacted {
    uint64_t events_dropped; /* number of events dropped by this compaction, not in total */
    uint64_t alive_dropped;  /* dropped events that a model needs; above 0 only if bytes_max is too small */
} gwi_compacted;

/* Compact the recording at `path`. On GW_OK, `ret_out` is the new file, open for appending. On failure, the old file is
 * unchanged and `ret_out` needs no cleanup. */
gw_status gwi_compact(const char *path, uint64_t bytes_max, gwi_out *ret_out, gwi_compacted *ret_done, gw_error *err);

#endif
