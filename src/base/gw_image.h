/* Symbols of an ELF file that is mapped in a process, read from that process's memory as data: no loader is asked and
 * no file opened. Nothing that is read is trusted: every walk is bounded, and what lies outside the file's own span is
 * not found. The C library alone, no allocation; one image, one thread. Little-endian 64-bit files. */
#ifndef GW_IMAGE_H
#define GW_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copy `bytes` from `at` of the process. False: not all of it is there; then `out` may hold anything. */
typedef bool gw_memory_read(void *user, uint64_t at, void *out, size_t bytes);

enum { GW_IMAGE_DYNAMIC_MAX = 128, GW_IMAGE_HEAD_BYTES = 4096 };

typedef struct gw_image {
    gw_memory_read *read;
    void *user;
    uint64_t base, end; /* its first mapping, and beyond its last segment */
    uint64_t bias;
    uint64_t symbols, strings, gnu_hash, old_hash, so_name; /* so_name: offset in strings; 0: none */
    uint32_t needed[GW_IMAGE_DYNAMIC_MAX];                  /* offsets in strings */
    uint32_t needed_count;
} gw_image;

/* Room to work in while an image is opened: the caller's, because stacks may be small. */
typedef struct gw_image_room {
    union {
        Elf64_Ehdr elf;
        uint8_t bytes[GW_IMAGE_HEAD_BYTES];
    } head;
    Elf64_Dyn dynamic[GW_IMAGE_DYNAMIC_MAX];
} gw_image_room;

/* The file whose first mapping begins at `base`. False: no program or library is mapped there, or it has no names. */
bool gw_image_open(gw_image *image, gw_memory_read *read, void *user, uint64_t base, gw_image_room *room);
/* The address of a function or object that is defined there. False: not found, `*ret_address` may be anything. */
bool gw_image_find(const gw_image *image, const char *name, uint64_t *ret_address);
/* Whether the text at that offset of the file's strings is `name`, of less than 256 bytes. */
bool gw_image_text_is(const gw_image *image, uint32_t at, const char *name);

#endif
