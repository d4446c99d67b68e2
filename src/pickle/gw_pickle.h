/* Python's pickle format, as far as plain data need it: numbers, texts, lists, tuples and dicts.
 *
 * Protocols 2 to 5. What could call, import or build anything (GLOBAL, REDUCE, BUILD, INST, persistent ids, extension
 * codes, ...) is no part of this reader: it stops there with one line that names file, offset and opcode. Nothing of a
 * file is ever executed.
 *
 * A file is read through a small window. So that its values need little memory, each list, tuple and dict is offered to
 * the caller's `fold` when it is complete: a folded container is forgotten but for one number that the caller gave it,
 * and stands for that number wherever the file refers to it again. A container is complete when it was filled for the
 * last time (picklers fill in batches, only the last of which is smaller than 1000), or when it is put into another
 * one; a file that changes it afterwards is refused, which also rules out cycles.
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
    GW_PICKLE_LIST,   /* a list or a tuple; number: which */
    GW_PICKLE_DICT,   /* number: which */
    GW_PICKLE_FOLDED, /* number: what `fold` made of it; tag: what `fold` said it is */
} gw_pickle_type;

typedef struct gw_pickle_value {
    uint8_t type;
    uint32_t tag;
    uint64_t number;
} gw_pickle_value;

typedef struct gw_pickle gw_pickle;

/* `container` (LIST or DICT) is complete. Leave *ret_folded alone to keep it as it is, or set it to a FOLDED value;
 * the container's items are gone then. A status other than GW_OK ends the reading, with `err`. */
typedef gw_status (*gw_pickle_fold)(void *user, gw_pickle *pickle, gw_pickle_value container,
                                    gw_pickle_value *ret_folded, gw_error *err);

/* Texts may be asked for by id before reading begins: `names` get the ids 0, 1, 2, ... */
typedef struct gw_pickle_options {
    const char *const *names;
    size_t name_count;
    gw_pickle_fold fold; /* NULL: nothing is folded */
    void *user;          /* of `fold` */
    uint64_t memory_max; /* bytes this reader may take; 0: 2 GiB */
} gw_pickle_options;

/* Does the file begin as a pickle of protocol 2 to 5 does? False also when it cannot be read. */
bool gw_pickle_is(const char *path);

/* Read `path` to its STOP. GW_OK: *ret_pickle is the caller's, *ret_root the one value of the file. GW_IO; GW_CORRUPT:
 * the file breaks the format, or ends early; GW_UNSUPPORTED: it holds more than plain data, or needs more memory than
 * it may have; GW_NOMEM; or what `fold` said. `err` names file, offset and reason. Unless GW_OK, results are untouched.
 */
GW_MUST_CHECK gw_status gw_pickle_read(const char *path, const gw_pickle_options *options, gw_pickle **ret_pickle,
                                       gw_pickle_value *ret_root, gw_error *err);
void gw_pickle_free(gw_pickle *pickle); /* takes NULL */

/* Items of a list or tuple; pairs of a dict. 0 for everything else. */
size_t gw_pickle_count(const gw_pickle *pickle, gw_pickle_value value);
/* `index` below the count. Of a list: the item; of a dict: the value, and *ret_key (may be NULL) its key. */
gw_pickle_value gw_pickle_at(const gw_pickle *pickle, gw_pickle_value value, size_t index, gw_pickle_value *ret_key);
/* The value under the text with this id; the last one where a file has several. False: none, or no dict. */
bool gw_pickle_get(const gw_pickle *pickle, gw_pickle_value dict, uint32_t text, gw_pickle_value *ret_value);
/* An integer that is not negative under that text. False: none. */
bool gw_pickle_get_number(const gw_pickle *pickle, gw_pickle_value dict, uint32_t text, uint64_t *ret_number);
/* Terminated; may hold any bytes. "" for what is no text. */
const char *gw_pickle_text(const gw_pickle *pickle, gw_pickle_value value, size_t *ret_bytes);

#endif
