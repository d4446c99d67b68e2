/* Reads Python's pickle format, limited to plain data: numbers, texts, lists, tuples and dicts.
 *
 * Protocols 2 to 5 are supported. Opcodes that could call, import or build something (GLOBAL, REDUCE, BUILD, INST,
 * persistent ids, extension codes, ...) are not: the reader stops with one line that names file, offset and opcode.
 * Nothing in a file is ever executed.
 *
 * A file is read through a small window. To save memory, each list, tuple and dict is passed to the caller's `fold`
 * when it is complete. `fold` may replace the container by one number. Each later reference to the container in the
 * file then gives that number. A container is complete when its last batch was added (picklers add batches of 1000
 * items, and only the last batch is smaller), or when it is put into another container. A file that changes a complete
 * container is rejected, so there can be no cycles.
 *
 * A reader must be used by one thread only. All values and texts belong to it and live until gw_pickle_free(). */
#ifndef GW_PICKLE_H
#define GW_PICKLE_H

#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gw_pickle_type {
    GW_PICKLE_NONE,
    GW_PICKLE_BOOL,   /* number: 0 or 1 */
    GW_PICKLE_INT,    /* number: two's complement of 64 bits */
    GW_PICKLE_HUGE,   /* an integer that does not fit in 64 bits */
    GW_PICKLE_FLOAT,  /* number: the bits of a double */
    GW_PICKLE_TEXT,   /* number: the text's id; equal texts have equal ids */
    GW_PICKLE_LIST,   /* a list or a tuple; number: its index in the store */
    GW_PICKLE_DICT,   /* number: its index in the store */
    GW_PICKLE_FOLDED, /* number and tag: set by `fold` */
} gw_pickle_type;

typedef struct gw_pickle_value {
    uint8_t type;
    uint32_t tag;
    uint64_t number;
} gw_pickle_value;

typedef struct gw_pickle gw_pickle;

/* Called when `container` (LIST or DICT) is complete. Leave *ret_folded unchanged to keep the container. Set it to a
 * FOLDED value to replace the container, whose items are then freed. To stop the reading, set `err` and return a status
 * other than GW_OK. */
typedef gw_status (*gw_pickle_fold)(void *user, gw_pickle *pickle, gw_pickle_value container,
                                    gw_pickle_value *ret_folded, gw_error *err);

/* Options of the reader. `names` are stored before reading begins and get the ids 0, 1, 2, ..., so that texts can be
 * compared with them by id. */
typedef struct gw_pickle_options {
    const char *const *names;
    size_t name_count;
    gw_pickle_fold fold; /* NULL: fold nothing */
    void *user;          /* passed to `fold` */
    uint64_t memory_max; /* memory limit of the reader in bytes; 0: 2 GiB */
} gw_pickle_options;

/* True if the file starts like a pickle of protocol 2 to 5. False if it does not, or cannot be read. */
bool gw_pickle_is(const char *path);

/* Read `path` up to its STOP opcode. On GW_OK, the caller owns *ret_pickle, and *ret_root is the file's only value.
 *
 * Returns GW_IO if the file cannot be read, GW_CORRUPT if it breaks the format or is cut off, GW_UNSUPPORTED if it
 * contains more than plain data or needs more memory than allowed, GW_NOMEM, or the status of `fold`. `err` then names
 * file, offset and reason, and the results are unchanged. */
GW_MUST_CHECK gw_status gw_pickle_read(const char *path, const gw_pickle_options *options, gw_pickle **ret_pickle,
                                       gw_pickle_value *ret_root, gw_error *err);
void gw_pickle_free(gw_pickle *pickle); /* takes NULL */

/* Return the number of items of a list or tuple, or of pairs of a dict. Returns 0 for all other values. */
size_t gw_pickle_count(const gw_pickle *pickle, gw_pickle_value value);
/* Return an item of a list, or a value of a dict with its key in *ret_key (may be NULL). If `index` is beyond the end,
 * both are NONE. */
gw_pickle_value gw_pickle_at(const gw_pickle *pickle, gw_pickle_value value, size_t index, gw_pickle_value *ret_key);
/* Find the value whose key is the text with this id. If several keys match, the last one counts. Returns false if there
 * is none, or if `dict` is not a dict. */
bool gw_pickle_get(const gw_pickle *pickle, gw_pickle_value dict, uint32_t text, gw_pickle_value *ret_value);
/* Find a non-negative integer whose key is the text with this id. False if there is none. */
bool gw_pickle_get_number(const gw_pickle *pickle, gw_pickle_value dict, uint32_t text, uint64_t *ret_number);
/* Return a text. It is terminated, but may contain any bytes, and *ret_bytes (may be NULL) is its length. Returns "" if
 * the value is not a text. */
const char *gw_pickle_text(const gw_pickle *pickle, gw_pickle_value value, size_t *ret_bytes);

#endif
