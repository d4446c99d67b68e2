/* Read files and standard input, and decompress gzip, xz and zstd. */
#include "gw_own.h"
#include "gwi_logs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if GW_HAVE_ZLIB
#include <zlib.h>
#endif
#if GW_HAVE_LZMA
#include <lzma.h>
#endif
#include <zstd.h>

enum { INPUT_BYTES = 256 << 10, MAGIC_BYTES = 6 };

typedef enum codec { CODEC_NONE, CODEC_GZIP, CODEC_XZ, CODEC_ZSTD } codec;

struct gwi_log_source {
    int fd;
    bool is_stdin;
    bool ended; /* the end of the file was reached */
    codec codec;
    bool inside; /* a compressed stream has begun and not ended yet */
    unsigned char *input;
    size_t input_bytes, input_at;
#if GW_HAVE_ZLIB
    z_stream gzip;
#endif
#if GW_HAVE_LZMA
    lzma_stream xz;
#endif
    ZSTD_DStream *zstd;
};

/* Skip most of a hole, which reads as zeros: a file that was truncated while a program went on writing to it begins
 * with one, of any size. The rest still shows that there are zeros. */
static void skip_hole(int fd)
{
    enum { SKIPPED_MIN = 1 << 20, KEPT = 64 << 10 };
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (at < 0)
        return;
    off_t data = lseek(fd, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO)
        data = lseek(fd, 0, SEEK_END);
    (void)lseek(fd, data - at >= SKIPPED_MIN ? data - KEPT : at, SEEK_SET);
}

static gw_status read_some(gwi_log_source *source, void *bytes, size_t room, size_t *ret_count, gw_error *err)
{
    ssize_t got;
    do
        got = read(source->fd, bytes, room);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return gw_fail(err, GW_IO, "read: %s", strerror(errno));
    *ret_count = (size_t)got;
    return GW_OK;
}

static gw_status fill(gwi_log_source *source, gw_error *err)
{
    gw_status st = read_some(source, source->input, INPUT_BYTES, &source->input_bytes, err);
    if (st != GW_OK)
        return st;
    source->ended = source->input_bytes == 0;
    source->input_at = 0;
    return GW_OK;
}

/* Read until there are enough bytes for every magic number, because a single read from a pipe may return fewer. */
static gw_status fill_first(gwi_log_source *source, gw_error *err)
{
    size_t got = 1;
    gw_status st = GW_OK;
    while (st == GW_OK && got > 0 && source->input_bytes < MAGIC_BYTES) {
        st = read_some(source, source->input + source->input_bytes, INPUT_BYTES - source->input_bytes, &got, err);
        source->input_bytes += st == GW_OK ? got : 0;
    }
    return st;
}

static codec codec_of(const unsigned char *bytes, size_t count)
{
    static const struct {
        codec codec;
        size_t count;
        unsigned char bytes[MAGIC_BYTES];
    } magics[] = {{CODEC_GZIP, 2, {0x1f, 0x8b}},
                  {CODEC_XZ, 6, {0xfd, '7', 'z', 'X', 'Z', 0}},
                  {CODEC_ZSTD, 4, {0x28, 0xb5, 0x2f, 0xfd}}};
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        if (count >= magics[i].count && memcmp(bytes, magics[i].bytes, magics[i].count) == 0)
            return magics[i].codec;
    }
    return CODEC_NONE;
}

static gw_status start_codec(gwi_log_source *source, gw_error *err)
{
    switch (source->codec) {
    case CODEC_NONE:
        return GW_OK;
    case CODEC_GZIP:
#if GW_HAVE_ZLIB
        if (inflateInit2(&source->gzip, 15 + 16) == Z_OK)
            return GW_OK;
        return gw_fail(err, GW_NOMEM, "start gzip");
#else
        return gw_fail(err, GW_UNSUPPORTED, "compressed by gzip, and this build lacks zlib");
#endif
    case CODEC_XZ:
#if GW_HAVE_LZMA
        if (lzma_stream_decoder(&source->xz, 512U << 20, LZMA_CONCATENATED) == LZMA_OK)
            return GW_OK;
        return gw_fail(err, GW_NOMEM, "start xz");
#else
        return gw_fail(err, GW_UNSUPPORTED, "compressed by xz, and this build lacks liblzma");
#endif
    case CODEC_ZSTD:
        source->zstd = ZSTD_createDStream();
        return source->zstd != NULL ? GW_OK : gw_fail(err, GW_NOMEM, "start zstd");
    }
    return gw_fail(err, GW_UNSUPPORTED, "unknown compression");
}

/* True if the file's name is that of a recording or a pickle. The contents are not enough: a pickle in the oldest
 * protocol looks like text. */
static bool has_name_of_another(const char *path)
{
    static const char *const suffixes[] = {".gpuwhy", ".pickle", ".pkl"};
    size_t bytes = strlen(path);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        size_t suffix = strlen(suffixes[i]);
        if (bytes >= suffix && strcmp(path + bytes - suffix, suffixes[i]) == 0)
            return true;
    }
    return false;
}

bool gw_log_is_text(const char *path)
{
    enum { LOOK_BYTES = 4096, ZEROS_MAX = 1 << 16 };
    char start[LOOK_BYTES];
    struct stat info;
    if (strcmp(path, "-") == 0)
        return true;
    if (has_name_of_another(path) || stat(path, &info) != 0 || S_ISDIR(info.st_mode))
        return false;
    if (S_ISFIFO(info.st_mode)) /* do not open a FIFO here: closing it again may kill the writer */
        return true;
    int fd;
    if (gw_plain_open(path, true, &fd, NULL) != GW_OK)
        return false;
    ssize_t got;
    size_t zeros = 0;
    do { /* a text may begin with a block of zeros (plain.c) */
        skip_hole(fd);
        got = read(fd, start, sizeof start);
        zeros++;
    } while (got > 0 && zeros < ZEROS_MAX && gwi_are_zeros(start, (size_t)got));
    close(fd);
    return got > 0 &&
           (codec_of((unsigned char *)start, (size_t)got) != CODEC_NONE || !gwi_is_binary(start, (size_t)got));
}

/* Open a plain file or a FIFO. Opening a FIFO waits for its writer. */
static gw_status open_named(const char *path, int *ret_fd, gw_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return gw_fail(err, GW_IO, "%s", strerror(errno));
    if (!S_ISFIFO(info.st_mode))
        return gw_plain_open(path, true, ret_fd, err);
    *ret_fd = open(path, O_RDONLY | O_CLOEXEC);
    return *ret_fd < 0 ? gw_fail(err, GW_IO, "%s", strerror(errno)) : GW_OK;
}

gw_status gwi_log_source_open(const char *path, int fd, gwi_log_source **ret_source, gw_error *err)
{
    gwi_log_source *source = calloc(1, sizeof *source);
    gw_status st = GW_OK;
    if (source == NULL || (source->input = malloc(INPUT_BYTES)) == NULL) {
        free(source);
        if (fd >= 0)
            close(fd);
        return gw_fail(err, GW_NOMEM, "%s: no memory", path);
    }
    source->is_stdin = fd < 0 && strcmp(path, "-") == 0;
    source->fd = source->is_stdin ? STDIN_FILENO : fd;
    if (source->fd < 0)
        st = open_named(path, &source->fd, err);
    if (st == GW_OK)
        st = fill_first(source, err);
    if (st == GW_OK) {
        source->codec = codec_of(source->input, source->input_bytes);
        source->inside = source->codec != CODEC_NONE;
        st = start_codec(source, err);
    }
    if (st != GW_OK) {
        gw_wrap(err, "%s", path);
        gwi_log_source_close(source);
        return st;
    }
    *ret_source = source;
    return GW_OK;
}

#if GW_HAVE_ZLIB
static gw_status read_gzip(gwi_log_source *source, char *bytes, size_t room, size_t *ret_count, gw_error *err)
{
    z_stream *z = &source->gzip;
    z->next_in = source->input + source->input_at;
    z->avail_in = (uInt)(source->input_bytes - source->input_at);
    z->next_out = (Bytef *)bytes;
    z->avail_out = (uInt)room;
    if (!source->inside) { /* the file may contain several gzip streams */
        source->inside = true;
        if (inflateReset(z) != Z_OK)
            return gw_fail(err, GW_CORRUPT, "gzip: cannot continue");
    }
    int done = inflate(z, Z_NO_FLUSH);
    source->input_at = source->input_bytes - z->avail_in;
    *ret_count = room - z->avail_out;
    if (done == Z_STREAM_END)
        source->inside = false;
    else if (done != Z_OK && done != Z_BUF_ERROR)
        return gw_fail(err, GW_CORRUPT, "damaged gzip data: %s", z->msg != NULL ? z->msg : "no reason given");
    return GW_OK;
}
#endif

#if GW_HAVE_LZMA
static gw_status read_xz(gwi_log_source *source, char *bytes, size_t room, size_t *ret_count, gw_error *err)
{
    lzma_stream *xz = &source->xz;
    xz->next_in = source->input + source->input_at;
    xz->avail_in = source->input_bytes - source->input_at;
    xz->next_out = (uint8_t *)bytes;
    xz->avail_out = room;
    lzma_ret done = lzma_code(xz, source->ended ? LZMA_FINISH : LZMA_RUN);
    source->input_at = source->input_bytes - xz->avail_in;
    *ret_count = room - xz->avail_out;
    if (done == LZMA_STREAM_END)
        source->inside = false;
    else if (done != LZMA_OK && done != LZMA_BUF_ERROR)
        return gw_fail(err, GW_CORRUPT, "damaged xz data (liblzma's status %d)", (int)done);
    return GW_OK;
}
#endif

static gw_status read_zstd(gwi_log_source *source, char *bytes, size_t room, size_t *ret_count, gw_error *err)
{
    ZSTD_inBuffer in = {source->input, source->input_bytes, source->input_at};
    ZSTD_outBuffer out = {bytes, room, 0};
    size_t left = ZSTD_decompressStream(source->zstd, &out, &in);
    source->input_at = in.pos;
    *ret_count = out.pos;
    if (ZSTD_isError(left))
        return gw_fail(err, GW_CORRUPT, "damaged zstd data: %s", ZSTD_getErrorName(left));
    source->inside = left != 0;
    return GW_OK;
}

static gw_status decompress(gwi_log_source *source, char *bytes, size_t room, size_t *ret_count, gw_error *err)
{
    switch (source->codec) {
#if GW_HAVE_ZLIB
    case CODEC_GZIP:
        return read_gzip(source, bytes, room, ret_count, err);
#endif
#if GW_HAVE_LZMA
    case CODEC_XZ:
        return read_xz(source, bytes, room, ret_count, err);
#endif
    case CODEC_ZSTD:
        return read_zstd(source, bytes, room, ret_count, err);
    default:
        break;
    }
    (void)err; /* copying cannot fail */
    size_t count = source->input_bytes - source->input_at;
    count = count < room ? count : room;
    memcpy(bytes, source->input + source->input_at, count);
    source->input_at += count;
    *ret_count = count;
    return GW_OK;
}

gw_status gwi_log_source_read(gwi_log_source *source, char *bytes, size_t room, size_t *ret_count, gw_error *err)
{
    if (source->codec == CODEC_NONE && source->input_at == source->input_bytes) { /* read directly, without a copy */
        skip_hole(source->fd);
        gw_status st = read_some(source, bytes, room, ret_count, err);
        return st == GW_OK && *ret_count == 0 ? GW_END : st;
    }
    for (;;) {
        *ret_count = 0;
        if (source->input_at == source->input_bytes && !source->ended) {
            gw_status st = fill(source, err);
            if (st != GW_OK)
                return st;
        }
        bool starved = source->input_at == source->input_bytes;
        if (starved && (source->codec == CODEC_NONE || !source->inside))
            return GW_END;
        gw_status st = decompress(source, bytes, room, ret_count, err);
        if (st != GW_OK || *ret_count > 0)
            return st;
        if (starved && source->ended)
            return source->inside ? gw_fail(err, GW_CORRUPT, "the compressed data end early") : GW_END;
    }
}

void gwi_log_source_close(gwi_log_source *source)
{
    if (source == NULL)
        return;
#if GW_HAVE_ZLIB
    if (source->codec == CODEC_GZIP)
        inflateEnd(&source->gzip);
#endif
#if GW_HAVE_LZMA
    if (source->codec == CODEC_XZ)
        lzma_end(&source->xz);
#endif
    ZSTD_freeDStream(source->zstd);
    if (source->fd >= 0 && !source->is_stdin)
        close(source->fd);
    free(source->input);
    free(source);
}

const char *gw_logs_gzip_version(void)
{
#if GW_HAVE_ZLIB
    return zlibVersion();
#else
    return NULL;
#endif
}

const char *gw_logs_xz_version(void)
{
#if GW_HAVE_LZMA
    return lzma_version_string();
#else
    return NULL;
#endif
}
