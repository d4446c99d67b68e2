/* The supervisor's facts (facts.def) as structs, and their text form in the recording.
 *
 * A member is valid if its has_ flag is set. GW_FACT_SET(member, value) in an initialiser sets both. Parsing never
 * fails:
 * - A missing or invalid field leaves the flag unset.
 * - Unknown fields are skipped.
 * - If a name occurs twice, the first valid field is used.
 * Parsed texts point into the input, without a terminating zero. */
#ifndef GW_FACT_H
#define GW_FACT_H

#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_fact_text {
    const char *data; /* NULL: no text */
    size_t bytes;
} gw_fact_text;

typedef uint32_t gw_fact_U32;
typedef uint64_t gw_fact_U64;
typedef uint64_t gw_fact_HEX; /* written in hex: 0x1f */
typedef int32_t gw_fact_I32;
typedef bool gw_fact_FLAG; /* written as 0 or 1; any number but 0 is parsed as true */
typedef struct gw_fact_THREE {
    uint32_t at[3]; /* written with commas: 1,2,3 */
} gw_fact_THREE;

/* The facts that have fields, in the order of facts.def. */
typedef enum gw_fact_kind {
#define GW_FACT(fact, form) GW_FACT_KIND_##fact,
#define GW_NUMBER(fact, type, member, name, unit)
#define GW_TEXT(fact, member, name, bytes_max)
#define GW_FACT_END(fact)
#define GW_KEY(id, key)
#include "facts.def"
    GW_FACT_KIND_COUNT
} gw_fact_kind;

/* Do not call these directly. The functions below check the type of the struct. */
void gw_fact_parse(gw_fact_kind kind, gw_fact_text text, void *ret_fact);
void gw_fact_format(gw_fact_kind kind, const void *fact, gw_text *text);

/* For each fact, define its struct, gw_fact_<fact>_read(), which parses a text, and gw_fact_<fact>_write(), which
 * appends to a text. */
#define GW_FACT(fact, form) typedef struct gw_fact_##fact {
#define GW_NUMBER(fact, type, member, name, unit)                                                                      \
    gw_fact_##type member;                                                                                             \
    bool has_##member;
#define GW_TEXT(fact, member, name, bytes_max)                                                                         \
    gw_fact_text member;                                                                                               \
    bool has_##member;
#define GW_FACT_END(fact)                                                                                              \
    }                                                                                                                  \
    gw_fact_##fact;                                                                                                    \
    static inline void gw_fact_##fact##_read(gw_fact_text text, gw_fact_##fact *ret_fact)                              \
    {                                                                                                                  \
        *ret_fact = (gw_fact_##fact){0};                                                                               \
        gw_fact_parse(GW_FACT_KIND_##fact, text, ret_fact);                                                            \
    }                                                                                                                  \
    static inline void gw_fact_##fact##_write(const gw_fact_##fact *fact, gw_text *text)                               \
    {                                                                                                                  \
        gw_fact_format(GW_FACT_KIND_##fact, fact, text);                                                               \
    }
#define GW_KEY(id, key)
#include "facts.def"

#define GW_FACT_SET(member, value) .has_##member = true, .member = (value)

typedef enum gw_fact_key {
    GW_FACT_OTHER, /* a key that is not in the table */
#define GW_FACT(fact, form)
#define GW_NUMBER(fact, type, member, name, unit)
#define GW_TEXT(fact, member, name, bytes_max)
#define GW_FACT_END(fact)
#define GW_KEY(id, key) GW_FACT_##id,
#include "facts.def"
    GW_FACT_KEY_COUNT
} gw_fact_key;

const char *gw_fact_key_text(gw_fact_key key); /* for example "card.holder"; "" for GW_FACT_OTHER; static */
gw_fact_key gw_fact_key_of(const char *text);  /* GW_FACT_OTHER for unknown keys and NULL */

/* Return a gw_fact_text that borrows a C string. For NULL, `data` is NULL. */
gw_fact_text gw_fact_text_of(const char *string);
/* True if the text equals the string. */
bool gw_fact_text_is(gw_fact_text text, const char *string);
/* Copy the text into `out`, which has `room` bytes. The copy is cut if necessary and always zero-terminated. Returns
 * `out`. */
char *gw_fact_text_copy(char *out, size_t room, gw_fact_text text);
/* Find the line "name=value" in a text of several lines, and return its value. Returns false if there is no such
 * line. */
bool gw_fact_line(const char *text, const char *name, gw_fact_text *ret_value);

#endif
