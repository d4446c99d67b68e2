/* Writes blocks to a file, always at its end. A block is written completely or not at all. */
#ifndef GWI_BLOCK_OUT_H
#define GWI_BLOCK_OUT_H

#include "gwi_layout.h"

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

#endif
