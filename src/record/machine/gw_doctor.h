/* Find problems of a machine before a program fails: collect facts about the machine and check them.
 *
 * The facts are pairs of key and value. They come from files below a root folder ("" for this machine), from NVML and
 * from a Python interpreter. A missing fact is unknown, not "no" or 0. The checks read only the facts. So tests can
 * invent a machine, and a real machine's facts can be saved and compared later.
 *
 * Nothing here initialises CUDA, loads the driver or needs root. Call these functions from one thread only. */
#ifndef GW_DOCTOR_H
#define GW_DOCTOR_H

#include "gw_status.h"
#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- facts ---- */

typedef struct gw_fact {
    char *key, *value; /* owned; the key has no space and no '=' */
} gw_fact;
typedef struct gw_facts {
    gw_fact *item; /* owned; sorted by key if `sorted` is set */
    size_t count, capacity;
    bool failed; /* out of memory: some facts are missing */
} gw_facts;

/* Store a fact. It replaces an earlier fact with the same key. Control characters in the value become spaces. */
__attribute__((format(printf, 3, 4))) void gw_facts_set(gw_facts *facts, const char *key, const char *format, ...);
const char *gw_facts_get(const gw_facts *facts, const char *key); /* NULL: unknown */
/* Like gw_facts_get(), with a formatted key. */
__attribute__((format(printf, 2, 3))) const char *gw_facts_getf(const gw_facts *facts, const char *format, ...);
/* Read a fact as a number. Returns false if the fact is unknown or is not a number. */
bool gw_facts_number(const gw_facts *facts, const char *key, long long *ret_number);
/* Free all facts, and make the list empty. */
void gw_facts_free(gw_facts *facts);
/* Store each line of the form "key=value" as a fact. `beginnings` lists the allowed beginnings of keys, separated
 * by spaces; NULL allows any key. Other lines and invalid keys are skipped. */
void gw_facts_parse(gw_facts *facts, const char *text, const char *beginnings);
/* Append the facts as a file has them: a first line that names the format, then one fact per line. */
void gw_facts_add_text(const gw_facts *facts, gw_text *text);
/* Read a file with such a text. Returns GW_IO if it cannot be read, GW_CORRUPT if it has another format,
 * or GW_NOMEM. */
GW_MUST_CHECK gw_status gw_facts_load(gw_facts *facts, const char *path, gw_error *err);

/* ---- collecting ---- */

/* Collect all facts from files below `root`. If it is not "", nvml.answers and python.answers there replace NVML
 * and Python. */
void gw_doctor_look(gw_facts *facts, const char *root);
/* Collect only the facts "pci.*" and "iommu.*", about the cards on the bus and the bridges above them. */
void gw_doctor_look_bus(gw_facts *facts, const char *root);
/* Query NVML about this machine's cards. If the query fails, the fact nvml.why has the reason. */
void gw_doctor_ask_nvml(gw_facts *facts);
/* Run our `script` (python/gpuwhy_doctor.py) with the interpreter command `words`, and store the facts that it
 * prints. Printed paths are read below `root`. If the interpreter does not answer, the fact python.why has the
 * reason. */
void gw_doctor_ask_python(gw_facts *facts, const char *root, char *const *words, const char *script);
/* Store the facts about the interpreter's packages from `answers`, the output of python/gpuwhy_doctor.py. */
void gw_doctor_take_python(gw_facts *facts, const char *root, const char *answers);

/* ---- checking ---- */

/* X(name, word), from harmless to severe */
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
/* Return the word for a state. Static. */
const char *gw_check_state_text(gw_check_state state);

typedef struct gw_check {
    const char *section; /* static: "driver", "cards", "libraries", "python", "host", "environment", "since" */
    const char *id;      /* static, such as "driver-module"; the id of a cause if the problem would lead to a verdict */
    gw_check_state state;
    char *text; /* owned: the result of the check, with numbers */
    char *todo; /* owned: advice to the user; NULL: nothing to do */
} gw_check;
typedef struct gw_checkup {
    gw_check *item; /* owned */
    size_t count, capacity;
    size_t counts[GW_CHECK_STATE_COUNT];
    bool failed; /* out of memory: some results are missing */
} gw_checkup;

/* Run all checks on the facts, and append the results to `checkup`. */
void gw_doctor_check(const gw_facts *facts, gw_checkup *checkup);
/* Append the differences between `before` and `facts`. Values that change by themselves are ignored. */
void gw_doctor_compare(const gw_facts *facts, const gw_facts *before, gw_checkup *checkup);
/* Free all results, and make the list empty. */
void gw_checkup_free(gw_checkup *checkup);

#endif
