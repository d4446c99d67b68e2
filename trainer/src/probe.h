/* Look at the structure of an image file without decoding it: JPEG and PNG.
 *
 * The size and the kind of colours are read, and whether the file is complete: all segments or chunks lie inside it,
 * and it has its end mark. Only a few bytes of the file are read. Damage inside the compressed data is found when it is
 * decoded. Any thread may call these functions. */
#ifndef TRAINER_PROBE_H
#define TRAINER_PROBE_H

#include "file.h"

enum image_kind { IMAGE_JPEG, IMAGE_PNG };

/* What training changes or ignores in an image. */
enum trait {
    TRAIT_GREY,        /* one channel of light */
    TRAIT_CMYK,        /* four channels of ink: converted to red, green and blue */
    TRAIT_PALETTE,     /* converted to red, green and blue */
    TRAIT_16_BIT,      /* reduced to 8 bits */
    TRAIT_ALPHA,       /* transparency: ignored */
    TRAIT_ORIENTATION, /* an EXIF orientation other than upright: ignored */
    TRAIT_COUNT
};

struct probe {
    enum image_kind kind;
    size_t width, height; /* at least 1; at most PROBE_PIXELS_MAX together */
    unsigned traits;      /* 1 << enum trait */
};
enum { PROBE_PIXELS_MAX = 1 << 27 };

/* An open file, or bytes in memory. */
struct probe_file {
    const char *name;    /* borrowed; for messages */
    uint64_t bytes;      /* size of the file */
    int fd;              /* used if `data` is NULL */
    int *ret_error;      /* set by probe_image() itself: where errno of a failed read goes */
    const uint8_t *data; /* borrowed; the bytes, or NULL */
    /* borrowed; with `fd`: the first bytes of the file, which are then not read again; NULL: none */
    const uint8_t *head;
    size_t head_bytes;
};

/* On failure, `reason` names the file, the byte and the problem. is_damage is set unless the file could not be read. */
bool probe_image(const struct probe_file *file, struct probe *ret, struct reason *reason);
bool probe_path(const char *path, struct probe *ret, struct reason *reason);

#endif
