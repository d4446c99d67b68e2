/* Find symbols of an ELF file that is mapped in a process, by reading only the memory of that process.
 *
 * The data is not trusted: every loop is bounded, and a search that leads outside the file's own addresses finds
 * nothing. Supports little-endian 64-bit files. Needs only the C library and allocates nothing. Only one thread may use
 * an image at a time. */
#ifndef GW_IMAGE_H
#define GW_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copy `bytes` bytes from address `at` of the process to `out`. Returns false if some of them are not mapped. `out` is
 * then undefined. */
typedef bool gw_memory_read(void *user, uint64_t at, void *out, size_t bytes);

enum { GW_IMAGE_DYNAMIC_MAX = 128, GW_IMAGE_HEAD_BYTES = 4096 };

typedef struct gw_image {
    gw_memory_read *read;
    void *user;
    uint64_t base, end; /* in the process: start of the first mapping, and end of the last segment */
    uint64_t bias;
    /* addresses of the tables in the process; 0: no such table. so_name: offset in `strings` of DT_SONAME; 0: none */
    uint64_t symbols, strings, gnu_hash, old_hash, so_name;
    uint32_t needed[GW_IMAGE_DYNAMIC_MAX]; /* offsets in `strings` of the names of needed libraries (DT_NEEDED) */
    uint32_t needed_count;
} gw_image;

/* Working memory of gw_image_open(). The caller provides it, because stacks may be small. */
typedef struct gw_image_room {
    union {
        Elf64_Ehdr elf;
        uint8_t bytes[GW_IMAGE_HEAD_BYTES];
    } head;
    Elf64_Dyn dynamic[GW_IMAGE_DYNAMIC_MAX];
} gw_image_room;

/* Open the file whose first mapping starts at `base`. `room` is used only during the call. Returns false if no file
 * with symbols is mapped there. */
bool gw_image_open(gw_image *image, gw_memory_read *read, void *user, uint64_t base, gw_image_room *room);
/* Find the address of a function or object that the file defines. Returns false if it is not found; *ret_address is
 * then undefined. */
bool gw_image_find(const gw_image *image, const char *name, uint64_t *ret_address);
/* True if the string at offset `at` of the file's string table equals `name`, which must be shorter than 256 bytes. */
bool gw_image_text_is(const gw_image *image, uint32_t at, const char *name);

#endif
