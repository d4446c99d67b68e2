/* Walks through the segments of a JPEG file (ITU-T T.81) or the chunks of a PNG file (www.w3.org/TR/png): see probe.h.
 */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAIL_BYTES = 64 << 10, EXIF_BYTES = 1024, HEAD_BYTES = 4096, UPRIGHT = 1 };

/* Copy `count` bytes at offset `at`. Returns false if the file does not have them or cannot be read. */
static bool peek(const struct probe_file *file, uint64_t at, void *out, size_t count)
{
    if (at > file->bytes || count > file->bytes - at)
        return false;
    if (file->data != NULL) {
        memcpy(out, file->data + at, count);
        return true;
    }
    if (at + count <= file->head_bytes) {
        memcpy(out, file->head + at, count);
        return true;
    }
    for (size_t done = 0; done < count;) {
        ssize_t got = pread(file->fd, (uint8_t *)out + done, count - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && file->ret_error != NULL)
            *file->ret_error = errno;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool truncated(const struct probe_file *file, uint64_t at, struct reason *reason)
{
    return because(reason, "%s: truncated: byte %" PRIu64 " of %" PRIu64 " is missing", file->name, at, file->bytes);
}

static bool set_size(const struct probe_file *file, uint64_t at, size_t width, size_t height, struct probe *probe,
                     struct reason *reason)
{
    if (width == 0 || height == 0)
        return because(reason, "%s: byte %" PRIu64 ": an image of %zux%zu", file->name, at, width, height);
    if (width > PROBE_PIXELS_MAX || height > PROBE_PIXELS_MAX / width)
        return because(reason, "%s: byte %" PRIu64 ": an image of %zux%zu has more than %d pixels", file->name, at,
                       width, height, PROBE_PIXELS_MAX);
    probe->width = width;
    probe->height = height;
    return true;
}

/* ---- EXIF: a small TIFF file inside ---- */

static uint32_t tiff_number(const uint8_t *at, size_t bytes, bool is_big)
{
    uint32_t number = 0;
    for (size_t i = 0; i < bytes; i++)
        number = number << 8 | at[is_big ? i : bytes - 1 - i];
    return number;
}

/* Return the orientation, 1 to 8, of the first directory. Return UPRIGHT if there is none or the data is not
 * understood. */
static uint32_t orientation_of(const uint8_t *tiff, size_t bytes)
{
    enum { TAG_ORIENTATION = 0x112, ENTRY_BYTES = 12 };
    if (bytes < 8 || (memcmp(tiff, "II*\0", 4) != 0 && memcmp(tiff, "MM\0*", 4) != 0))
        return UPRIGHT;
    bool is_big = tiff[0] == 'M';
    size_t at = tiff_number(tiff + 4, 4, is_big);
    if (at > bytes - 2)
        return UPRIGHT;
    size_t count = tiff_number(tiff + at, 2, is_big);
    for (at += 2; count > 0 && at + ENTRY_BYTES <= bytes; count--, at += ENTRY_BYTES)
        if (tiff_number(tiff + at, 2, is_big) == TAG_ORIENTATION)
            return tiff_number(tiff + at + 8, 2, is_big);
    return UPRIGHT;
}

static void note_exif(const struct probe_file *file, uint64_t at, size_t bytes, struct probe *probe)
{
    uint8_t tiff[EXIF_BYTES];
    size_t count = bytes < sizeof tiff ? bytes : sizeof tiff;
    if (peek(file, at, tiff, count) && orientation_of(tiff, count) != UPRIGHT)
        probe->traits |= 1u << TRAIT_ORIENTATION;
}

/* ---- JPEG ---- */

static bool is_frame(uint8_t marker)
{
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/* Read the frame header at `at`, after its marker. */
static bool jpeg_frame(const struct probe_file *file, uint64_t at, struct probe *probe, struct reason *reason)
{
    uint8_t head[8];
    if (!peek(file, at, head, sizeof head))
        return truncated(file, file->bytes, reason);
    if (head[2] != 8)
        return because(reason, "%s: byte %" PRIu64 ": %d bits in a JPEG file; only 8 are supported", file->name, at + 2,
                       head[2]);
    if (head[7] != 1 && head[7] != 3 && head[7] != 4)
        return because(reason, "%s: byte %" PRIu64 ": %d channels in a JPEG file; 1, 3 or 4 are supported", file->name,
                       at + 7, head[7]);
    if (head[7] != 3)
        probe->traits |= 1u << (head[7] == 1 ? TRAIT_GREY : TRAIT_CMYK);
    return set_size(file, at + 3, (size_t)head[5] << 8 | head[6], (size_t)head[3] << 8 | head[4], probe, reason);
}

/* Look for the mark of the end after the compressed data began at `begin`. Other programs may have added something
 * after it. */
static bool jpeg_end(const struct probe_file *file, uint64_t begin, struct reason *reason)
{
    uint8_t part[4096];
    uint64_t least = file->bytes - begin > TAIL_BYTES ? file->bytes - TAIL_BYTES : begin, end = file->bytes;
    while (end >= least + 2) {
        size_t count = end - least < sizeof part ? (size_t)(end - least) : sizeof part;
        if (!peek(file, end - count, part, count))
            break;
        for (size_t i = 0; i + 1 < count; i++)
            if (part[i] == 0xFF && part[i + 1] == 0xD9)
                return true;
        end -= count - 1; /* the mark may lie across the border */
    }
    return because(reason, "%s: truncated: the mark of the end is missing in %" PRIu64 " bytes", file->name,
                   file->bytes);
}

static bool probe_jpeg(const struct probe_file *file, struct probe *probe, struct reason *reason)
{
    uint64_t at = 2;
    bool has_frame = false;
    for (;;) {
        uint8_t head[10];
        if (!peek(file, at, head, 2))
            return truncated(file, file->bytes, reason);
        if (head[0] != 0xFF)
            return because(reason, "%s: byte %" PRIu64 ": a marker of a JPEG segment is missing", file->name, at);
        uint8_t marker = head[1];
        if (marker == 0xFF) { /* padding */
            at++;
            continue;
        }
        at += 2;
        if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7)) /* these have no length */
            continue;
        if (marker == 0xD9)
            return because(reason, "%s: byte %" PRIu64 ": the JPEG file ends before an image", file->name, at - 2);
        if (!peek(file, at, head, 2))
            return truncated(file, file->bytes, reason);
        size_t bytes = (size_t)head[0] << 8 | head[1];
        if (bytes < 2)
            return because(reason, "%s: byte %" PRIu64 ": a segment of %zu bytes", file->name, at, bytes);
        if (bytes > file->bytes - at)
            return truncated(file, file->bytes, reason);
        if (marker == 0xE1 && bytes >= 8 && peek(file, at + 2, head, 6) && memcmp(head, "Exif\0\0", 6) == 0)
            note_exif(file, at + 8, bytes - 8, probe);
        if (is_frame(marker) && !jpeg_frame(file, at, probe, reason))
            return false;
        has_frame = has_frame || is_frame(marker);
        at += bytes;
        if (marker == 0xDA)
            return has_frame ? jpeg_end(file, at, reason)
                             : because(reason, "%s: byte %" PRIu64 ": a JPEG file without a frame", file->name, at);
    }
}

/* ---- PNG ---- */

static bool png_head(const struct probe_file *file, struct probe *probe, struct reason *reason)
{
    enum { COLOUR = 2, PALETTE = 1, ALPHA = 4 };
    uint8_t head[13];
    if (!peek(file, 16, head, sizeof head))
        return truncated(file, file->bytes, reason);
    if (head[8] == 16)
        probe->traits |= 1u << TRAIT_16_BIT;
    if ((head[9] & COLOUR) == 0)
        probe->traits |= 1u << TRAIT_GREY;
    if ((head[9] & PALETTE) != 0)
        probe->traits |= 1u << TRAIT_PALETTE;
    if ((head[9] & ALPHA) != 0)
        probe->traits |= 1u << TRAIT_ALPHA;
    return set_size(file, 16, big_u32(head), big_u32(head + 4), probe, reason);
}

static bool probe_png(const struct probe_file *file, struct probe *probe, struct reason *reason)
{
    enum { CHUNK_BYTES = 12 }; /* length, type and checksum */
    bool has_data = false;
    for (uint64_t at = 8;;) {
        uint8_t head[8];
        if (!peek(file, at, head, sizeof head))
            return truncated(file, file->bytes, reason);
        uint64_t bytes = big_u32(head);
        const uint8_t *type = head + 4;
        if (bytes > file->bytes - at || bytes + CHUNK_BYTES > file->bytes - at)
            return truncated(file, file->bytes, reason);
        if (at == 8 && (memcmp(type, "IHDR", 4) != 0 || bytes != 13))
            return because(reason, "%s: byte 8: a PNG file without a header", file->name);
        if (at == 8 && !png_head(file, probe, reason))
            return false;
        if (memcmp(type, "tRNS", 4) == 0)
            probe->traits |= 1u << TRAIT_ALPHA;
        if (memcmp(type, "eXIf", 4) == 0)
            note_exif(file, at + 8, (size_t)bytes, probe);
        has_data = has_data || memcmp(type, "IDAT", 4) == 0;
        if (memcmp(type, "IEND", 4) == 0)
            return has_data ||
                   because(reason, "%s: byte %" PRIu64 ": the PNG file ends before an image", file->name, at);
        at += bytes + CHUNK_BYTES;
    }
}

/* ---- any ---- */

static bool probe_any(const struct probe_file *file, struct probe *ret, struct reason *reason)
{
    static const uint8_t png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    uint8_t head[8];
    struct probe probe = {.kind = IMAGE_JPEG};
    if (file->bytes == 0)
        return because(reason, "%s: empty", file->name);
    if (peek(file, 0, head, sizeof head) && memcmp(head, png, sizeof png) == 0)
        probe.kind = IMAGE_PNG;
    else if (!peek(file, 0, head, 3) || head[0] != 0xFF || head[1] != 0xD8 || head[2] != 0xFF)
        return because(reason, "%s: byte 0: neither JPEG nor PNG", file->name);
    if (!(probe.kind == IMAGE_PNG ? probe_png(file, &probe, reason) : probe_jpeg(file, &probe, reason)))
        return false;
    *ret = probe;
    return true;
}

bool probe_image(const struct probe_file *file, struct probe *ret, struct reason *reason)
{
    int error = 0;
    struct probe_file watched = *file;
    watched.ret_error = &error;
    if (probe_any(&watched, ret, reason))
        return true;
    if (error != 0)
        return because(reason, "%s: %s", file->name, strerror(error));
    reason->is_damage = true;
    return false;
}

bool probe_path(const char *path, struct probe *ret, struct reason *reason)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint8_t head[HEAD_BYTES]; /* most files need no other read except for their end */
    struct stat about;
    if (fd < 0)
        return because(reason, "%s: %s", path, strerror(errno));
    bool is_read = fstat(fd, &about) == 0 || because(reason, "%s: %s", path, strerror(errno));
    if (is_read && !S_ISREG(about.st_mode))
        is_read = because(reason, "%s: not a regular file", path);
    if (is_read) {
        struct probe_file file = {.name = path, .bytes = (uint64_t)about.st_size, .fd = fd};
        size_t count = file.bytes < sizeof head ? (size_t)file.bytes : sizeof head;
        if (peek(&file, 0, head, count)) {
            file.head = head;
            file.head_bytes = count;
        }
        is_read = probe_image(&file, ret, reason);
    }
    close(fd);
    return is_read;
}
