/* What will fail on this machine before it does: facts about the machine, and what they mean.
 *
 * Facts are read first, all of them, as keys with values: from files below a root folder ("" is this machine), from
 * NVML, and from a Python interpreter that is asked. What is not known has no fact; that is not "no" and not 0. Checks
 * see facts alone, so that a machine can be made up, saved, and compared with itself.
 *
 * Nothing here starts CUDA, loads the driver, or needs root. One thread. */
#ifndef GW_DOCTOR_H
#define GW_DOCTOR_H

#include "gw_status.h"
#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- facts ---- */

typedef struct gw_fact {
    char *key, *value; /* owned; the key has no blank and no '=' */
} gw_fact;
typedef struct gw_facts {
    gw_fact *item; /* owned; in order of key once sorted */
    size_t count, capacity;
    bool failed; /* no memory */
} gw_facts;

/* The last word counts. Line ends in the value become blanks. */
__attribute__((format(printf, 3, 4))) void gw_facts_set(gw_facts *facts, const char *key, const char *format, ...);
const char *gw_facts_get(const gw_facts *facts, const char *key); /* NULL: not known */
/* The same with a key that is put together. */
__attribute__((format(printf, 2, 3))) const char *gw_facts_getf(const gw_facts *facts, const char *format, ...);
bool gw_facts_number(const gw_facts *facts, const char *key, long long *ret_number);
void gw_facts_free(gw_facts *facts);
/* Lines "key=value" whose key begins with one of the words of `beginnings` (separated by blanks; NULL: any). Others,
 * and keys that are none, are passed over. */
void gw_facts_parse(gw_facts *facts, const char *text, const char *beginnings);
/* A file of the same with a first line that says what it is. GW_IO; GW_CORRUPT: it is something else. */
GW_MUST_CHECK gw_status gw_facts_save(const gw_facts *facts, const char *path, gw_error *err);
GW_MUST_CHECK gw_status gw_facts_load(gw_facts *facts, const char *path, gw_error *err);

/* ---- looking ---- */

/* All that files below `root` say. With a root that is not "", NVML's and Python's answers are read from its files
 * nvml.answers and python.answers. */
void gw_doctor_look(gw_facts *facts, const char *root);
/* Of that only the cards on the bus and what stands between them: "pci.*", "iommu.*". */
void gw_doctor_look_bus(gw_facts *facts, const char *root);
/* What NVML says of this machine's cards; where it cannot be asked, the fact nvml.why says why. */
void gw_doctor_ask_nvml(gw_facts *facts);
/* Asks `words`, the command of an interpreter, by running our `script` in it: python/gpuwhy_doctor.py. Where it does
 * not answer, the fact python.why says why. `root` stands before the paths that it names. */
void gw_doctor_ask_python(gw_facts *facts, const char *root, char *const *words, const char *script);
/* What the interpreter's own packages are: `answers` is what python/gpuwhy_doctor.py printed. */
void gw_doctor_take_python(gw_facts *facts, const char *root, const char *answers);

/* ---- checking ---- */

/* X(name, word): in rising order of trouble */
#define GW_CHECK_STATES(X)                                                                                             \
    X(PASS, "pass")                                                                                                    \
    X(UNKNOWN, "unknown")                                                                                              \
    X(WARN, "warn")                                                                                                    \
    X(FAIL, "fail")
typedef enum gw_check_state {
#define GW_X(name, word) GW_CHECK_##name,
    GW_CHECK_STATES(GW_X)
#undef GW_X
        GW_CHECK_STATE_COUNT
} gw_check_state;
const char *gw_check_state_text(gw_check_state state);

typedef struct gw_check {
    const char *section; /* static: "driver", "cards", "libraries", "python", "host", "environment", "since" */
    const char *id;      /* static: "driver-module"; a cause's id where that is what would come of it */
    gw_check_state state;
    char *text; /* owned: what is so, with the numbers */
    char *todo; /* owned; NULL: nothing to do */
} gw_check;
typedef struct gw_checkup {
    gw_check *item; /* owned */
    size_t count, capacity;
    size_t counts[GW_CHECK_STATE_COUNT];
    bool failed; /* no memory */
} gw_checkup;

void gw_doctor_check(const gw_facts *facts, gw_checkup *checkup);
/* What differs from `before`, of what should not. */
void gw_doctor_compare(const gw_facts *facts, const gw_facts *before, gw_checkup *checkup);
void gw_checkup_free(gw_checkup *checkup);

#endif
