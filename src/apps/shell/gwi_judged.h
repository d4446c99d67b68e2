/* Judges a file that the user named, as `gpuwhy explain` and `gpuwhy report` do: a recording, even one that is still
 * being written, a run folder, or a memory snapshot of PyTorch (judged.c). */
#ifndef GWI_JUDGED_H
#define GWI_JUDGED_H

#include "gw_model.h"
#include "gw_place.h"
#include "gw_text.h"
#include "gw_verdict.h"

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
