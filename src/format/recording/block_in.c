/* Finds and checks blocks in a file that may be damaged, and unpacks them. */
#define _GNU_SOURCE
#include "gw_array.h"
#include "gwi_block.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

/* A fuzzer cannot guess checksums, so the fuzzer's build ignores them. */
#ifdef GW_FUZZ_IGNORE_CRC
enum { CRC_MATTERS = 0 };
#else
enum { CRC_MATTERS = 1 };
#endif

static gw_status fail_at(const gwi_in *in, uint64_t offset, gw_status status, const char *reason, gw_error *err)
{
    return gw_fail(err, status, "%s: offset %llu: %s", in->path, (unsigned long long)offset, reason);
}

/* Read up to `bytes` bytes at `offset`. *ret_got is smaller than `bytes` if the file ends before them. */
static gw_status read_at(const gwi_in *in, uint64_t offset, void *to, size_t bytes, size_t *ret_got, gw_error *err)
{
    size_t got = 0;
    while (got < bytes) {
        ssize_t n = pread(in->fd, (uint8_t *)to + got, bytes - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_at(in, offset, GW_IO, strerror(errno), err);
        if (n == 0)
            break;
        got += (size_t)n;
    }
    *ret_got = got;
    return GW_OK;
}

static bool head_valid(const gwi_block_head *head)
{
    if (head->marker != GWI_BLOCK_MARKER)
        return false;
    if (CRC_MATTERS && head->head_crc != gwi_crc32c(0, head, sizeof *head - 4))
        return false;
    return head->raw_bytes <= GWI_BLOCK_RAW_MAX && head->stored_bytes <= head->raw_bytes;
}

static bool block_starts_at(const gwi_in *in, uint64_t offset)
{
    gwi_block_head head;
    size_t got = 0;
    return read_at(in, offset, &head, sizeof head, &got, NULL) == GW_OK && got == sizeof head && head_valid(&head);
}

/* Check the file header. A damaged header is not fatal, because each block has its own head. */
static gw_status check_file_head(gwi_in *in, gw_error *err)
{
    gwi_file_head head;
    size_t got = 0;
    gw_status st = read_at(in, 0, &head, sizeof head, &got, err);
    if (st != GW_OK)
        return st;
    if (got < sizeof head)
        return fail_at(in, 0, GW_CORRUPT, got == 0 ? "the file is empty" : "too short to be a recording", err);
    bool magic = memcmp(head.magic, GW_RECORDING_MAGIC, sizeof head.magic) == 0;
    bool crc = !CRC_MATTERS || head.head_crc == gwi_crc32c(0, &head, sizeof head - 4);
    if (magic && crc) {
        if (head.version > GWI_FILE_VERSION)
            return gw_fail(err, GW_VERSION, "%s: offset 8: format version %u; this build reads up to %u", in->path,
                           head.version, (unsigned)GWI_FILE_VERSION);
        in->created_realtime_ns = head.created_realtime_ns;
        return GW_OK;
    }
    if (!magic && !block_starts_at(in, GWI_FILE_HEAD_BYTES))
        return fail_at(in, 0, GW_CORRUPT, "not a gpuwhy recording", err);
    in->head_damaged = true;
    return GW_OK;
}

gw_status gwi_in_start(gwi_in *in, int fd, const char *path, gw_error *err)
{
    *in = (gwi_in){.fd = fd, .path = path};
    struct stat info;
    if (fstat(fd, &info) != 0)
        return gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return gw_fail(err, GW_IO, "%s: not a regular file", path);
    in->file_bytes = (uint64_t)info.st_size;
    gwi_in_rewind(in);
    return check_file_head(in, err);
}

void gwi_in_rewind(gwi_in *in)
{
    in->offset = GWI_FILE_HEAD_BYTES;
    in->sequence = 0;
    in->sequence_known = true;
    in->head_told = in->ended = in->truncated = false;
    in->wasted_bytes = 0;
}

void gwi_in_close(gwi_in *in)
{
    ZSTD_freeDCtx(in->unpacker);
    in->unpacker = NULL;
    free(in->stored);
    free(in->raw);
    in->stored = in->raw = NULL;
    if (in->fd >= 0)
        close(in->fd);
    in->fd = -1;
}

/* Find the next block head at or after `from`. Returns the end of the file if there is none. */
static uint64_t find_marker(gwi_in *in, uint64_t from)
{
    /* Start with a small window, because the next head is usually near and the search is frequent. */
    enum { WINDOW = 64 << 10, FIRST_WINDOW = 1 << 10 };
    static const uint32_t marker = GWI_BLOCK_MARKER;
    uint8_t *window = malloc(WINDOW);
    size_t window_bytes = FIRST_WINDOW;
    uint64_t found = in->file_bytes;
    while (window != NULL && from < in->file_bytes) {
        size_t got = 0;
        if (read_at(in, from, window, window_bytes, &got, NULL) != GW_OK || got < GWI_BLOCK_HEAD_BYTES)
            break;
        size_t last = got - GWI_BLOCK_HEAD_BYTES; /* the last position in the window at which a complete head fits */
        for (size_t i = 0; i <= last; i++) {
            const uint8_t *hit = memmem(window + i, last - i + 4, &marker, 4);
            if (hit == NULL)
                break;
            i = (size_t)(hit - window);
            gwi_block_head head;
            memcpy(&head, hit, sizeof head);
            if (head_valid(&head)) {
                found = from + i;
                goto out;
            }
        }
        from += last + 1;
        window_bytes = WINDOW;
    }
out:
    free(window);
    return found;
}

typedef enum verdict { GOOD, CUT, HEAD_BAD, BODY_BAD } verdict;

/* Check the block at the current offset, and read it if it is complete. */
static gw_status look(gwi_in *in, verdict *ret_verdict, gw_error *err)
{
    size_t got = 0;
    gw_status st = read_at(in, in->offset, &in->head, sizeof in->head, &got, err);
    if (st != GW_OK)
        return st;
    uint32_t marker = GWI_BLOCK_MARKER;
    if (got < sizeof in->head) {
        *ret_verdict = memcmp(&in->head, &marker, got < 4 ? got : 4) == 0 ? CUT : HEAD_BAD;
        return GW_OK;
    }
    if (!head_valid(&in->head)) {
        *ret_verdict = HEAD_BAD;
        return GW_OK;
    }
    uint64_t body = in->offset + GWI_BLOCK_HEAD_BYTES;
    if (in->head.stored_bytes > in->file_bytes - body) {
        *ret_verdict = CUT;
        return GW_OK;
    }
    if (!gw_array_reach(&in->stored, (size_t)in->head.stored_bytes + 1, &in->stored_capacity, 1))
        return fail_at(in, in->offset, GW_NOMEM, "no memory for the block", err);
    st = read_at(in, body, in->stored, in->head.stored_bytes, &got, err);
    if (st != GW_OK)
        return st;
    if (got < in->head.stored_bytes)
        *ret_verdict = CUT;
    else if (CRC_MATTERS && gwi_crc32c(0, in->stored, got) != in->head.stored_crc)
        *ret_verdict = BODY_BAD;
    else
        *ret_verdict = GOOD;
    return GW_OK;
}

/* Return the offset where reading continues after damage. If only a block's body is bad, its head still shows where the
 * next block begins. If the head is bad, or no block is there, search for the next head.
 * In a file of nested heads, this reads the same bytes again and again. So after 16 times the file's size in bad
 * bodies, skip them without a search. */
static uint64_t go_on_at(gwi_in *in, verdict why)
{
    if (why == HEAD_BAD)
        return find_marker(in, in->offset + 1);
    uint64_t body = in->offset + GWI_BLOCK_HEAD_BYTES;
    if (why == BODY_BAD) {
        uint64_t next = body + in->head.stored_bytes;
        in->wasted_bytes += in->head.stored_bytes;
        if (next == in->file_bytes || block_starts_at(in, next) || in->wasted_bytes / 16 > in->file_bytes)
            return next;
    }
    return find_marker(in, body);
}

static gw_status pass_over(gwi_in *in, verdict why, gw_error *err)
{
    uint64_t offset = in->offset;
    uint64_t next = go_on_at(in, why);
    in->offset = next;
    in->sequence_known = false;
    if (why == CUT && next >= in->file_bytes) {
        in->truncated = true;
        return GW_END;
    }
    const char *what = why == HEAD_BAD ? "expected a block" : "damaged block";
    if (next >= in->file_bytes)
        return gw_fail(err, GW_CORRUPT, "%s: offset %llu: %s; nothing readable follows", in->path,
                       (unsigned long long)offset, what);
    return gw_fail(err, GW_CORRUPT, "%s: offset %llu: %s; reading continues at offset %llu", in->path,
                   (unsigned long long)offset, what, (unsigned long long)next);
}

gw_status gwi_in_find(gwi_in *in, gw_error *err)
{
    if (in->head_damaged && !in->head_told) {
        in->head_told = true;
        return fail_at(in, 0, GW_CORRUPT, "damaged file header", err);
    }
    if (in->offset >= in->file_bytes) {
        in->truncated = !in->ended;
        return GW_END;
    }
    if (in->ended) {
        uint64_t offset = in->offset;
        in->offset = in->file_bytes;
        return fail_at(in, offset, GW_CORRUPT, "extra bytes after the END block", err);
    }
    verdict seen = GOOD;
    gw_status st = look(in, &seen, err);
    if (st != GW_OK)
        return st;
    if (seen != GOOD)
        return pass_over(in, seen, err);
    if (in->sequence_known && in->head.sequence != in->sequence) {
        in->sequence_known = false; /* report the gap once: the next call reads the block */
        return gw_fail(err, GW_CORRUPT, "%s: offset %llu: found block %u, expected block %u", in->path,
                       (unsigned long long)in->offset, in->head.sequence, in->sequence);
    }
    in->sequence = in->head.sequence + 1;
    in->sequence_known = true;
    in->block_offset = in->offset;
    in->offset += GWI_BLOCK_HEAD_BYTES + in->head.stored_bytes;
    in->ended = in->head.type == GWI_BLOCK_END;
    return GW_OK;
}

gw_status gwi_in_unpack(gwi_in *in, gw_error *err)
{
    uint32_t raw_bytes = in->head.raw_bytes;
    if (!gw_array_reach(&in->raw, raw_bytes + GWI_SLACK_BYTES, &in->raw_capacity, 1))
        return fail_at(in, in->block_offset, GW_NOMEM, "no memory for the block", err);
    memset(in->raw + raw_bytes, 0, GWI_SLACK_BYTES);
    if (in->head.codec == GWI_CODEC_NONE && in->head.stored_bytes == raw_bytes) {
        if (raw_bytes > 0)
            memcpy(in->raw, in->stored, raw_bytes);
        return GW_OK;
    }
    if (in->head.codec == GWI_CODEC_ZSTD) {
        if (in->unpacker == NULL)
            in->unpacker = ZSTD_createDCtx();
        if (in->unpacker == NULL)
            return fail_at(in, in->block_offset, GW_NOMEM, "no memory to unpack the block", err);
        size_t got = ZSTD_decompressDCtx(in->unpacker, in->raw, raw_bytes, in->stored, in->head.stored_bytes);
        if (ZSTD_isError(got) || got != raw_bytes)
            return fail_at(in, in->block_offset, GW_CORRUPT, "the block cannot be unpacked", err);
        return GW_OK;
    }
    if (in->head.codec == GWI_CODEC_NONE)
        return fail_at(in, in->block_offset, GW_CORRUPT, "an uncompressed block with two different lengths", err);
    return gw_fail(err, GW_UNSUPPORTED, "%s: offset %llu: compressed with codec %u, which this build lacks", in->path,
                   (unsigned long long)in->block_offset, in->head.codec);
}
