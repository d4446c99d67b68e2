/* Judges a recording and prints the verdict (judge.c). */
#ifndef GWI_JUDGE_H
#define GWI_JUDGE_H

#include "gw_text.h"
#include "gw_verdict.h"

/* Judge the recording or the run folder at `path`. */
GW_MUST_CHECK gw_status gwi_judge(const char *path, gw_verdict **ret_verdict, gw_error *err);
/* The same for one phase of a program that continues to run: gw_model_build_phase(). */
GW_MUST_CHECK gw_status gwi_judge_phase(const char *path, const char *name, const gw_text *traceback,
                                        gw_verdict **ret_verdict, gw_error *err);
/* How to print: to `fd`, with the width and colours of that terminal, if it is one. */
typedef struct gwi_print {
    bool running;      /* the program is alive */
    bool all;          /* print everything, not only one screen */
    const char *again; /* as in gw_render_style */
} gwi_print;
void gwi_verdict_print(const gw_verdict *verdict, const gwi_print *how, int fd);
/* Print to stderr during a run. The verdict then names `recording`. NULL: the recording is not kept, and the whole
 * verdict is printed. */
void gwi_verdict_print_now(gw_verdict *verdict, const char *recording);
/* Write JSON to `path`; "-" is standard output. */
GW_MUST_CHECK gw_status gwi_verdict_write_json(const gw_verdict *verdict, const char *path, gw_error *err);

#endif
