/* Symbols of an ELF file that is mapped in a process, read as data from that process's memory: no loader is called and
 * no file is opened. The data is not trusted: every walk is bounded, and an address outside the file's own range is
 * treated as not found. Needs only the C library and allocates nothing. Use an image in one thread. Little-endian
 * 64-bit files. */
#ifndef GW_IMAGE_H
#define GW_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copy `bytes` bytes at address `at` of the process. False: not all of them are mapped; `out` may then hold
 * anything. */
typedef bool gw_memory_read(void *user, uint64_t at, void *out, size_t bytes);

enum { GW_IMAGE_DYNAMIC_MAX = 128, GW_IMAGE_HEAD_BYTES = 4096 };

typedef struct gw_image {
    gw_memory_read *read;
    void *user;
    uint64_t base, end; /* start of its first mapping, and end of its last segment */
    uint64_t bias;
    uint64_t symbols, strings, gnu_hash, old_hash, so_name; /* so_name: offset in strings; 0: none */
    uint32_t needed[GW_IMAGE_DYNAMIC_MAX];                  /* offsets in strings */
    uint32_t needed_count;
} gw_image;

/* Working memory while an image is opened. The caller provides it, because stacks may be small. */
typedef struct gw_image_room {
    union {
        Elf64_Ehdr elf;
        uint8_t bytes[GW_IMAGE_HEAD_BYTES];
    } head;
    Elf64_Dyn dynamic[GW_IMAGE_DYNAMIC_MAX];
} gw_image_room;

/* Open the file whose first mapping starts at `base`; `room` is used only during the call. False: no program or library
 * is mapped there, or it has no symbols. */
bool gw_image_open(gw_image *image, gw_memory_read *read, void *user, uint64_t base, gw_image_room *room);
/* Find the address of a function or object defined in the file. False: not found, `*ret_address` may hold anything. */
bool gw_image_find(const gw_image *image, const char *name, uint64_t *ret_address);
/* Return whether the string at offset `at` of the file's strings equals `name`, which must be shorter than 256
 * bytes. */
bool gw_image_text_is(const gw_image *image, uint32_t at, const char *name);

#endif
