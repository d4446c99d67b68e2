/* A recording judged, and its verdict printed (judge.c). */
#ifndef GWI_JUDGE_H
#define GWI_JUDGE_H

#include "gw_text.h"
#include "gw_verdict.h"

/* Judge the recording at `path`, or the run folder. */
GW_MUST_CHECK gw_status gwi_judge(const char *path, gw_verdict **ret_verdict, gw_error *err);
/* The same for one phase of a program that lives on: gw_model_build_phase(). */
GW_MUST_CHECK gw_status gwi_judge_phase(const char *path, const char *name, const gw_text *traceback,
                                        gw_verdict **ret_verdict, gw_error *err);
/* Print to `fd` with the width and colours it has, or none. */
typedef struct gwi_print {
    bool running;      /* the program is alive */
    bool all;          /* everything, not one screen */
    const char *again; /* as in gw_render_style */
} gwi_print;
void gwi_verdict_print(const gw_verdict *verdict, const gwi_print *how, int fd);
/* The same to stderr, in the middle of a run. The verdict then names `recording`; NULL, it is not kept: all of the
 * verdict is printed. */
void gwi_verdict_print_now(gw_verdict *verdict, const char *recording);
/* Write JSON to `path`, "-" being standard output. */
GW_MUST_CHECK gw_status gwi_verdict_write_json(const gw_verdict *verdict, const char *path, gw_error *err);

#endif
