/* Reads Python's pickle format (protocols 2 to 5), limited to plain data: numbers, texts, lists, tuples and dicts.
 *
 * Nothing in a file is ever executed. At an opcode that could call, import or build something (GLOBAL, REDUCE, BUILD,
 * ...), reading stops with an error that names it.
 *
 * A file is read in small pieces. To save memory, each complete container (list, tuple or dict) is passed to the
 * caller's `fold`. `fold` may replace it by one number, which all later references return. A container is complete
 * when:
 * - its last batch was added (picklers add 1000 items at a time, and only the last batch is smaller), or
 * - it is put into another container.
 *
 * A file that changes a complete container is rejected, so there can be no cycles.
 *
 * The reader is C, not Python's Unpickler with restrictions, so that `gpuwhy explain` reads a snapshot where it was
 * copied to: a laptop, or a node without Python. Also, an Unpickler builds every object of the file, while `fold` here
 * keeps a snapshot of some hundred megabytes small. The part that it would replace is pickle.c and store.c; the records
 * of a snapshot and their meaning (src/read/snapshots) are needed in both cases.
 *
 * Use a gw_pickle from one thread only. It owns all values and texts until gw_pickle_free(). */
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
    GW_PICKLE_HUGE,   /* an integer that does not fit in 64 bits; number: 0 */
    GW_PICKLE_FLOAT,  /* number: the bits of a double */
    GW_PICKLE_TEXT,   /* number: the text's id; equal texts have equal ids */
    GW_PICKLE_LIST,   /* a list or a tuple; number: index of the container in the gw_pickle */
    GW_PICKLE_DICT,   /* number: index of the container in the gw_pickle */
    GW_PICKLE_FOLDED, /* number and tag: set by `fold` */
} gw_pickle_type;

typedef struct gw_pickle_value {
    uint8_t type;
    uint32_t tag;
    uint64_t number;
} gw_pickle_value;

typedef struct gw_pickle gw_pickle;

/* Called when `container` (LIST or DICT) is complete.
 * - To keep the container, leave *ret_folded unchanged.
 * - To replace it, set *ret_folded to a FOLDED value. The container's items are freed after the call.
 * - To stop reading, set `err` and return a status other than GW_OK. */
typedef gw_status (*gw_pickle_fold)(void *user, gw_pickle *pickle, gw_pickle_value container,
                                    gw_pickle_value *ret_folded, gw_error *err);

/* Options of the reader. `names` get the text ids 0, 1, 2 and so on. So the caller can compare texts of the file with
 * these names by id. */
typedef struct gw_pickle_options {
    const char *const *names;
    size_t name_count;
    gw_pickle_fold fold; /* NULL: fold nothing */
    void *user;          /* passed to `fold` */
    uint64_t memory_max; /* memory limit of the reader in bytes; 0: 2 GiB */
} gw_pickle_options;

/* True if the file starts like a pickle of protocol 2 to 5. False if it does not, or if it cannot be read. */
bool gw_pickle_is(const char *path);

/* Read the file `path` up to its STOP opcode. On GW_OK, the caller owns *ret_pickle, and *ret_root is the file's only
 * value. Otherwise, both are unchanged, and `err` names file, offset and reason:
 * - GW_IO: the file cannot be read
 * - GW_CORRUPT: it is damaged or cut off
 * - GW_UNSUPPORTED: it is more than plain data, or needs too much memory
 * - GW_NOMEM, or the status that `fold` returned */
GW_MUST_CHECK gw_status gw_pickle_read(const char *path, const gw_pickle_options *options, gw_pickle **ret_pickle,
                                       gw_pickle_value *ret_root, gw_error *err);
/* Make a pickle without values, to which texts can be added. Errors: GW_NOMEM. */
GW_MUST_CHECK gw_status gw_pickle_new(const gw_pickle_options *options, gw_pickle **ret_pickle, gw_error *err);
/* Read JSON as the pickle of the same data would be read: objects are dicts, and arrays are lists. If the file has
 * several values, one after the other, *ret_root is the list of them. A file may have 64 MiB. The results are those of
 * gw_pickle_read(). */
GW_MUST_CHECK gw_status gw_pickle_read_json(const char *path, const gw_pickle_options *options, gw_pickle **ret_pickle,
                                            gw_pickle_value *ret_root, gw_error *err);
void gw_pickle_free(gw_pickle *pickle); /* takes NULL */

/* Return the number of items of a list or tuple, or the number of pairs of a dict. Returns 0 for all other values. */
size_t gw_pickle_count(const gw_pickle *pickle, gw_pickle_value value);
/* Return an item of a list or tuple, or a value of a dict, by its index. *ret_key (may be NULL) is the key of the
 * dict's pair. Beyond the end, value and key are NONE. */
gw_pickle_value gw_pickle_at(const gw_pickle *pickle, gw_pickle_value value, size_t index, gw_pickle_value *ret_key);
/* Find the value in `dict` whose key is the text with the id `text`. If several keys match, the last one wins. Returns
 * false if no key matches, or if `dict` is not a dict. */
bool gw_pickle_get(const gw_pickle *pickle, gw_pickle_value dict, uint32_t text, gw_pickle_value *ret_value);
/* Find a non-negative integer in `dict` whose key is the text with the id `text`. Returns false if there is none. */
bool gw_pickle_get_number(const gw_pickle *pickle, gw_pickle_value dict, uint32_t text, uint64_t *ret_number);
/* Return the bytes of a text, followed by a NUL, or "" if the value is not a text. The text may contain more NULs.
 * *ret_bytes (may be NULL) is its length without the final NUL. */
const char *gw_pickle_text(const gw_pickle *pickle, gw_pickle_value value, size_t *ret_bytes);
/* Add a text of any bytes. *ret_id is its id, which is that of an equal text if there is one. So `fold` can store equal
 * records only once. Texts that gw_pickle_text() returned may move. */
GW_MUST_CHECK gw_status gw_pickle_add_text(gw_pickle *pickle, const void *data, uint32_t bytes, uint32_t *ret_id,
                                           gw_error *err);

#endif
