/* Judges a recording and prints the verdict (judge.c). */
#ifndef GWI_JUDGE_H
#define GWI_JUDGE_H

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

#endif
