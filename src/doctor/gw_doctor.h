/* Finds problems of a machine before a program fails: collects facts about the machine and checks them.
 *
 * All facts are collected first, as pairs of key and value: from files below a root folder ("" is this machine), from
 * NVML, and from a Python interpreter. An unknown value has no fact; it does not mean "no" or 0. The checks read only
 * the facts, so that tests can make up a machine, and the facts of a machine can be saved and compared later.
 *
 * Nothing here initialises CUDA, loads the driver or needs root. Use it from one thread. */
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
    gw_fact *item; /* owned; sorted by key once `sorted` is set */
    size_t count, capacity;
    bool failed; /* out of memory: facts are missing */
} gw_facts;

/* Store a fact. A later value replaces an earlier one. Line ends in the value become blanks. */
__attribute__((format(printf, 3, 4))) void gw_facts_set(gw_facts *facts, const char *key, const char *format, ...);
const char *gw_facts_get(const gw_facts *facts, const char *key); /* NULL: unknown */
/* The same with a formatted key. */
__attribute__((format(printf, 2, 3))) const char *gw_facts_getf(const gw_facts *facts, const char *format, ...);
/* Read a fact as a number. Returns false if it is unknown or no number. */
bool gw_facts_number(const gw_facts *facts, const char *key, long long *ret_number);
/* Free all facts. The list is empty afterwards. */
void gw_facts_free(gw_facts *facts);
/* Parse lines "key=value" whose key starts with one of the words of `beginnings` (separated by blanks; NULL: any
 * key). Other lines and invalid keys are skipped. */
void gw_facts_parse(gw_facts *facts, const char *text, const char *beginnings);
/* Write the facts as lines to a file whose first line names the format. GW_IO: `err` has the reason. */
GW_MUST_CHECK gw_status gw_facts_save(const gw_facts *facts, const char *path, gw_error *err);
/* Read a file written by gw_facts_save(). GW_IO; GW_CORRUPT: the file has another format. `err` has the reason. */
GW_MUST_CHECK gw_status gw_facts_load(gw_facts *facts, const char *path, gw_error *err);

/* ---- collecting ---- */

/* Collect all facts from files below `root`. If the root is not "", the answers of NVML and Python are read from its
 * files nvml.answers and python.answers. */
void gw_doctor_look(gw_facts *facts, const char *root);
/* Collect only the facts about cards on the bus and the bridges above them: "pci.*", "iommu.*". */
void gw_doctor_look_bus(gw_facts *facts, const char *root);
/* Query NVML about this machine's cards. If that fails, the fact nvml.why has the reason. */
void gw_doctor_ask_nvml(gw_facts *facts);
/* Run our `script` (python/gpuwhy_doctor.py) in the interpreter whose command is `words`. If it does not answer, the
 * fact python.why has the reason. `root` is prefixed to the paths that it prints. */
void gw_doctor_ask_python(gw_facts *facts, const char *root, char *const *words, const char *script);
/* Store facts about the interpreter's packages. `answers` is the output of python/gpuwhy_doctor.py. */
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
/* The word for a state; static. */
const char *gw_check_state_text(gw_check_state state);

typedef struct gw_check {
    const char *section; /* static: "driver", "cards", "libraries", "python", "host", "environment", "since" */
    const char *id;      /* static, e.g. "driver-module"; the id of a cause if the problem would lead to that verdict */
    gw_check_state state;
    char *text; /* owned: the state found, with numbers */
    char *todo; /* owned; NULL: nothing to do */
} gw_check;
typedef struct gw_checkup {
    gw_check *item; /* owned */
    size_t count, capacity;
    size_t counts[GW_CHECK_STATE_COUNT];
    bool failed; /* out of memory: checks are missing */
} gw_checkup;

/* Run all checks on the facts and append their results. */
void gw_doctor_check(const gw_facts *facts, gw_checkup *checkup);
/* Report the differences from `before`, without values that may change. */
void gw_doctor_compare(const gw_facts *facts, const gw_facts *before, gw_checkup *checkup);
/* Free all results. The list is empty afterwards. */
void gw_checkup_free(gw_checkup *checkup);

#endif
