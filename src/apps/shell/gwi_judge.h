/* Judges a recording and prints the verdict (judge.c). */
#ifndef GWI_JUDGE_H
#define GWI_JUDGE_H

#include "gw_model.h"
#include "gw_place.h"
#include "gwi_output.h"

#include "gw_text.h"
#include "gw_verdict.h"

/* Judge the recording or the run folder at `path`. */
GW_MUST_CHECK gw_status gwi_judge(const char *path, gw_verdict **ret_verdict, gw_error *err);
/* Like gwi_judge(), with a progress bar if it takes long (gwi_progress.h). Not while a program uses the terminal. */
GW_MUST_CHECK gw_status gwi_judge_shown(const char *path, gw_verdict **ret_verdict, gw_error *err);
/* Like gwi_judge_shown(), but also return the model, which the caller frees. */
GW_MUST_CHECK gw_status gwi_judge_model(const char *path, gw_model **ret_model, gw_verdict **ret_verdict,
                                        gw_error *err);
/* Like gwi_judge(), but do not search this machine's files for the names of call sites that the recording lacks. Only
 * the place in the verdict, and some of its sentences, need them. */
GW_MUST_CHECK gw_status gwi_judge_quickly(const char *path, gw_verdict **ret_verdict, gw_error *err);
/* Judge one phase of a program that is still running; see gw_model_build_phase(). */
GW_MUST_CHECK gw_status gwi_judge_phase(const char *path, const char *name, const gw_text *traceback,
                                        gw_verdict **ret_verdict, gw_error *err);
/* Options of gwi_verdict_print(). If its output `fd` is a terminal, the text fits the terminal's width and may be in
 * colour. */
typedef struct gwi_print {
    bool running;      /* the program is still running */
    bool all;          /* print everything, not only one screen */
    const char *again; /* the command that prints everything; see gw_render_style */
} gwi_print;
void gwi_verdict_print(const gw_verdict *verdict, const gwi_print *how, int fd);
/* Print the answer of a rehearsal to `fd`. */
void gwi_rehearsal_print(const gw_verdict *verdict, int fd);
/* Print the verdict to stderr while the program runs, with `recording` as the recording's path. NULL: the recording
 * will not be kept, so the verdict is printed in full. */
void gwi_verdict_print_now(gw_verdict *verdict, const char *recording);
/* Write JSON to the output. NULL: print it. */
GW_MUST_CHECK gw_status gwi_verdict_write_json(const gw_verdict *verdict, const gwi_output *output, gw_error *err);

/* If a file that is not a recording (`st` is GW_CORRUPT) is text, replace the reason: only `gpuwhy explain` reads logs.
 * Returns `st`. */
GW_MUST_CHECK gw_status gwi_refuse_text(const char *path, gw_status st, gw_error *err);

/* Judges a file that the user named, as `gpuwhy explain` and `gpuwhy report` do: a recording, even one that is still
 * being written, a run folder, or a memory snapshot of PyTorch (judge.c). */

/* The run folders of this machine that belong to a recording, for a command that judges many recordings. */
typedef struct gwi_run_list {
    struct gwi_run {
        char *recording, *folder; /* owned */
        bool running;             /* the supervisor of the run is still running */
    } * run;                      /* owned */
    size_t count;
} gwi_run_list;

/* List the run folders of this user. Returns GW_OK or GW_NOMEM; call gwi_run_list_free() after either. */
GW_MUST_CHECK gw_status gwi_run_list_read(gwi_run_list *ret_list, gw_error *err);
void gwi_run_list_free(gwi_run_list *list);

typedef struct gwi_judge_how {
    bool no_history;          /* do not compare the run with the last good run */
    bool is_quick;            /* see gwi_judge_quickly(); no model, and no progress bar */
    const char *cell;         /* judge only this phase; NULL: the whole run */
    const gwi_run_list *runs; /* where to look for the recording's run folder; NULL: on the machine */
    const gw_text *traceback; /* only with `cell`; see gw_model_end_phase() */
} gwi_judge_how;

typedef struct gwi_judged {
    gw_verdict *verdict; /* owned; has the path of the recording */
    gw_model *model;     /* owned; NULL if only one phase was judged, or is_quick */
    gw_path path;        /* what was read: the recording, or its run folder */
    bool running;        /* the program is still running */
} gwi_judged;

/* Judge the file. Unless GW_OK, `err` has the reason and *ret_judged is empty. */
GW_MUST_CHECK gw_status gwi_judge_file(const char *file, const gwi_judge_how *how, gwi_judged *ret_judged,
                                       gw_error *err);
void gwi_judged_free(gwi_judged *judged);

#endif
