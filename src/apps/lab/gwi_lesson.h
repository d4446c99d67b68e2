/* `gpuwhy lab`: lessons (lab_lessons.c), and runs of a program whose verdict is compared with an expected one
 * (lab_run.c). One thread. */
#ifndef GWI_LESSON_H
#define GWI_LESSON_H

#include "gw_status.h"

#include <json-c/json.h>

#include <stdbool.h>
#include <stddef.h>

/* X(name, what a lesson needs, in words) */
#define GWI_LAB_NEEDS(X)                                                                                               \
    X(NOTHING, "nothing: virtual card")                                                                                \
    X(TERMINAL, "a second terminal")                                                                                   \
    X(TORCH, "PyTorch and a GPU")                                                                                      \
    X(JAX, "JAX and a GPU")                                                                                            \
    X(NVCC, "nvcc and a GPU")
typedef enum gwi_lab_needs {
#define GW_X(name, words) GWI_LAB_##name,
    GWI_LAB_NEEDS(GW_X)
#undef GW_X
} gwi_lab_needs;

/* A lesson. All strings are static; words of a command are separated by one blank. */
typedef struct gwi_lesson {
    const char *id, *title;
    const char *cause; /* of the faulty program; NULL: its verdict is "clean" */
    gwi_lab_needs needs;
    const char *by_hand; /* how to run it by hand; NULL: `gpuwhy lab run` runs it, and all that follows is set */
    const char *program; /* in the folder lab of our libraries, beside its source */
    const char *faulty, *repaired;    /* arguments; `repaired` is NULL if the program has no fault */
    const char *card, *repaired_card; /* the virtual card; NULL `repaired_card`: the same */
    const char *memory;               /* the limit that takes the place of `card` on a real GPU; NULL: none */
    bool virtual_only;                /* a real GPU does not show the fault, or not soon */
    const char *options;              /* more options of `gpuwhy run`; NULL: none */
    const char *happens, *believed, *change;
} gwi_lesson;

const gwi_lesson *gwi_lessons(size_t *ret_count);
/* Find a lesson; upper and lower case are equal. NULL: there is none. */
const gwi_lesson *gwi_lesson_find(const char *id);
const char *gwi_lab_needs_text(gwi_lab_needs needs);

/* What `gpuwhy run` shall do. The strings are borrowed. */
typedef struct gwi_lab_run {
    char *const *option; /* options of `gpuwhy run`, ended by NULL */
    char *const *word;   /* the program and its arguments, ended by NULL */
    bool quiet_stdout;   /* the program's output goes to stderr */
    bool in_own_folder;  /* run in an empty folder that is removed afterwards: the program writes files */
} gwi_lab_run;

/* Run a program under `gpuwhy run`, whose recording goes to the usual place. On GW_OK, *ret_verdict is the verdict
 * (docs/json-schema.md), which the caller frees with json_object_put(). NULL: there is none, because the program did
 * not start; *ret_status is then the exit status of `gpuwhy run`, which has printed the reason. If ^C ended the
 * program, it ends this process, too. */
GW_MUST_CHECK gw_status gwi_lab_start(const gwi_lab_run *run, json_object **ret_verdict, int *ret_status,
                                      gw_error *err);

/* What a verdict must be. */
typedef struct gwi_lab_expected {
    const char *cause; /* NULL: clean, and driver calls were observed. A cause that is only advice must be in the
                          verdict's advice. */
    bool established;  /* a supported cause is not enough */
    bool has_leaks;    /* the run with --leaks strict has failed its gate, so it is not clean */
} gwi_lab_expected;
bool gwi_lab_matches(json_object *verdict, const gwi_lab_expected *expected);

/* Print the result on stdout: one line, or JSON (docs/json-schema.md). `lesson` is NULL if there is none. Returns the
 * exit status: 0 if the verdict is the expected one, otherwise 1. */
int gwi_lab_grade(json_object *verdict, const gwi_lab_expected *expected, const gwi_lesson *lesson, bool is_json);

#endif
