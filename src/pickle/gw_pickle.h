/* Python's pickle format, limited to plain data: numbers, texts, lists, tuples and dicts.
 *
 * Protocols 2 to 5. Opcodes that could call, import or build something (GLOBAL, REDUCE, BUILD, INST, persistent ids,
 * extension codes, ...) are not supported: the reader stops with one line that names file, offset and opcode. Nothing
 * in a file is ever executed.
 *
 * A file is read through a small window. To save memory, each list, tuple and dict is passed to the caller's `fold`
 * when it is complete. A folded container is replaced by one number that the caller chose, also wherever the file
 * refers to it again. A container is complete when it was filled for the last time (picklers fill in batches, of which
 * only the last one is smaller than 1000), or when it is put into another container. A file that changes it afterwards
 * is refused, which also rules out cycles.
 *
 * One reader, one thread. All values and texts belong to the reader and live until gw_pickle_free(). */
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
    GW_PICKLE_HUGE,   /* an integer that does not fit 64 bits */
    GW_PICKLE_FLOAT,  /* number: the bits of a double */
    GW_PICKLE_TEXT,   /* number: id; equal texts have equal ids */
    GW_PICKLE_LIST,   /* a list or a tuple; number: its index */
    GW_PICKLE_DICT,   /* number: its index */
    GW_PICKLE_FOLDED, /* number and tag: set by `fold` */
} gw_pickle_type;

typedef struct gw_pickle_value {
    uint8_t type;
    uint32_t tag;
    uint64_t number;
} gw_pickle_value;

typedef struct gw_pickle gw_pickle;

/* Called when `container` (LIST or DICT) is complete. Leave *ret_folded unchanged to keep the container, or set it to a
 * FOLDED value; its items are then freed. A status other than GW_OK stops the reading; write `err` in that case. */
typedef gw_status (*gw_pickle_fold)(void *user, gw_pickle *pickle, gw_pickle_value container,
                                    gw_pickle_value *ret_folded, gw_error *err);

/* Options of the reader. `names` are entered before reading begins and get the ids 0, 1, 2, ..., so that texts can be
 * compared by id. */
typedef struct gw_pickle_options {
    const char *const *names;
    size_t name_count;
    gw_pickle_fold fold; /* NULL: fold nothing */
    void *user;          /* passed to `fold` */
    uint64_t memory_max; /* limit of the reader's memory in bytes; 0: 2 GiB */
} gw_pickle_options;

/* Return whether the file starts like a pickle of protocol 2 to 5. False also if it cannot be read. */
bool gw_pickle_is(const char *path);

/* Read `path` up to its STOP. GW_OK: *ret_pickle is the caller's, *ret_root is the one value of the file. GW_IO;
 * GW_CORRUPT: the file breaks the format, or is cut off; GW_UNSUPPORTED: it contains more than plain data, or needs
 * more memory than allowed; GW_NOMEM; or the status of `fold`. `err` names file, offset and reason. Unless GW_OK, the
 * results are unchanged. */
GW_MUST_CHECK gw_status gw_pickle_read(const char *path, const gw_pickle_options *options, gw_pickle **ret_pickle,
                                       gw_pickle_value *ret_root, gw_error *err);
void gw_pickle_free(gw_pickle *pickle); /* takes NULL */

/* Number of items of a list or tuple, or of pairs of a dict. 0 for all other values. */
size_t gw_pickle_count(const gw_pickle *pickle, gw_pickle_value value);
/* Return the item of a list, or the value of a dict and its key in *ret_key (may be NULL). For an `index` beyond the
 * end both are NONE. */
gw_pickle_value gw_pickle_at(const gw_pickle *pickle, gw_pickle_value value, size_t index, gw_pickle_value *ret_key);
/* Find the value under the text with this id; the last one if a file has several. False: none, or not a dict. */
bool gw_pickle_get(const gw_pickle *pickle, gw_pickle_value dict, uint32_t text, gw_pickle_value *ret_value);
/* Find a non-negative integer under the text with this id. False: none. */
bool gw_pickle_get_number(const gw_pickle *pickle, gw_pickle_value dict, uint32_t text, uint64_t *ret_number);
/* Return a text, terminated; it may contain any bytes, and *ret_bytes (may be NULL) is its length. "" if the value is
 * not a text. */
const char *gw_pickle_text(const gw_pickle *pickle, gw_pickle_value value, size_t *ret_bytes);

#endif
