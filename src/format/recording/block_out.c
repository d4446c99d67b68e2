/* Packs blocks, adds their heads and checksums, and appends them to the file. */
#define _GNU_SOURCE
#include "gwi_block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

enum {
    /* An event takes 10.9 bytes in the file at level -1, and 9.5 at level 1. Events are already stored as differences.
     * Level 1 makes reading a fifth slower. */
    PACK_LEVEL_EVENTS = -1,
    PACK_LEVEL = 3,
    PACK_BYTES_MIN = 128, /* smaller blocks are stored as they are, because packing does not shrink them */
    /* Disk space reserved in advance, so that the final blocks fit on a full disk. */
    ROOM_BYTES = 64 << 10
};

static gw_status write_all(gwi_out *out, const void *data, size_t bytes, gw_error *err)
{
    const uint8_t *p = data;
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pwrite(out->fd, p + done, bytes - done, (off_t)(out->end + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int reason = n < 0 ? errno : ENOSPC;
            /* Remove the incomplete block, because a reader would report it as damage. */
            if (done > 0 && ftruncate(out->fd, (off_t)out->end) != 0)
                return gw_fail(err, GW_IO, "%s: write at offset %llu: %s; the incomplete block could not be removed",
                               out->path, (unsigned long long)out->end, strerror(reason));
            return gw_fail(err, GW_IO, "%s: write at offset %llu: %s", out->path, (unsigned long long)out->end,
                           strerror(reason));
        }
        done += (size_t)n;
    }
    out->end += bytes;
    return GW_OK;
}

/* Reserve disk space for `bytes` more bytes and for the final blocks. Returns 0, also if the file system cannot reserve
 * space; ENOSPC or EDQUOT if there is none. */
static int take_room(gwi_out *out, size_t bytes)
{
    if (out->end + bytes + ROOM_BYTES / 2 <= out->room_until)
        return 0;
    if (fallocate(out->fd, FALLOC_FL_KEEP_SIZE, (off_t)out->end, (off_t)(bytes + ROOM_BYTES)) != 0)
        return errno == ENOSPC || errno == EDQUOT ? errno : 0;
    out->room_until = out->end + bytes + ROOM_BYTES;
    return 0;
}

/* True for blocks that may use the space reserved for the final blocks. These blocks are small, and are more important
 * than further events. */
static bool may_use_room(unsigned type)
{
    return type == GWI_BLOCK_DICT || type == GWI_BLOCK_FACTS || type == GWI_BLOCK_SYNC || type == GWI_BLOCK_END;
}

gw_status gwi_out_start(gwi_out *out, int fd, const char *path, uint64_t created_realtime_ns, gw_error *err)
{
    *out = (gwi_out){.fd = fd, .path = path};
    out->stored_capacity = GWI_BLOCK_HEAD_BYTES + GWI_BLOCK_RAW_MAX;
    out->stored = malloc(out->stored_capacity);
    if (out->stored == NULL)
        return gw_fail(err, GW_NOMEM, "%s: no memory for a block", path);
    out->packer = ZSTD_createCCtx();
    gwi_file_head head = {.version = GWI_FILE_VERSION, .created_realtime_ns = created_realtime_ns};
    memcpy(head.magic, GW_RECORDING_MAGIC, sizeof head.magic);
    head.head_crc = gwi_crc32c(0, &head, sizeof head - 4);
    /* Write the header before reserving space, which may take long. Without a header, the file would not be recognised
     * as a recording if the supervisor died. */
    gw_status st = write_all(out, &head, sizeof head, err);
    if (st == GW_OK)
        (void)take_room(out, 0);
    return st;
}

void gwi_out_close(gwi_out *out)
{
    ZSTD_freeCCtx(out->packer);
    out->packer = NULL;
    free(out->stored);
    out->stored = NULL;
    if (out->fd >= 0)
        close(out->fd);
    out->fd = -1;
}

/* Compress a block into `stored`, behind the space for its head. Returns the compressed size, or 0 if the block would
 * not become smaller. */
static uint32_t pack(gwi_out *out, gwi_block_type type, const uint8_t *raw, uint32_t raw_bytes)
{
    bool events = type == GWI_BLOCK_EVENTS || type == GWI_BLOCK_CARRY;
    int level = events ? PACK_LEVEL_EVENTS : PACK_LEVEL;
    if (out->packer != NULL && raw_bytes >= PACK_BYTES_MIN) {
        size_t bytes =
            ZSTD_compressCCtx(out->packer, out->stored + GWI_BLOCK_HEAD_BYTES, raw_bytes - 1, raw, raw_bytes, level);
        if (!ZSTD_isError(bytes))
            return (uint32_t)bytes;
    }
    return 0;
}

/* Complete the block's head and write it to the file, followed by the block's contents from `stored`. */
static gw_status write_stored(gwi_out *out, gwi_block_head head, gw_error *err)
{
    uint8_t *stored = out->stored + GWI_BLOCK_HEAD_BYTES;
    head.marker = GWI_BLOCK_MARKER;
    head.sequence = out->sequence;
    head.stored_crc = gwi_crc32c(0, stored, head.stored_bytes);
    head.head_crc = gwi_crc32c(0, &head, sizeof head - 4);
    memcpy(out->stored, &head, sizeof head);
    size_t bytes = GWI_BLOCK_HEAD_BYTES + head.stored_bytes;
    int why = take_room(out, bytes);
    if (why != 0 && !may_use_room(head.type))
        return gw_fail(err, GW_IO, "%s: write at offset %llu: %s", out->path, (unsigned long long)out->end,
                       strerror(why));
    gw_status st = write_all(out, out->stored, bytes, err);
    if (st != GW_OK)
        return st;
    out->sequence++;
    return GW_OK;
}

gw_status gwi_out_block(gwi_out *out, gwi_block_type type, const uint8_t *raw, uint32_t raw_bytes, gw_error *err)
{
    if (raw_bytes > GWI_BLOCK_RAW_MAX)
        return gw_fail(err, GW_USAGE, "%s: a block of %u bytes is too large", out->path, raw_bytes);
    gwi_block_head head = {.type = (uint8_t)type, .codec = GWI_CODEC_ZSTD, .raw_bytes = raw_bytes};
    head.stored_bytes = pack(out, type, raw, raw_bytes);
    if (head.stored_bytes == 0) {
        head.codec = GWI_CODEC_NONE;
        head.stored_bytes = raw_bytes;
        if (raw_bytes > 0)
            memcpy(out->stored + GWI_BLOCK_HEAD_BYTES, raw, raw_bytes);
    }
    return write_stored(out, head, err);
}

gw_status gwi_out_copy(gwi_out *out, const gwi_block_head *head, const uint8_t *stored, gw_error *err)
{
    if (head->stored_bytes > GWI_BLOCK_RAW_MAX)
        return gw_fail(err, GW_USAGE, "%s: a block of %u bytes is too large", out->path, head->stored_bytes);
    memcpy(out->stored + GWI_BLOCK_HEAD_BYTES, stored, head->stored_bytes);
    return write_stored(out, *head, err);
}
