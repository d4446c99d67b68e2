/* Writes one HTML page about one recording or several: the verdict, the memory over time, maps of the memory, tables of
 * what the recording knows, and what is not known.
 *
 * The page needs no network and no other file: the chart library dygraphs, the page's own script and its style are
 * copied into it. It judges nothing: all statements about causes come from the verdicts. Use it from one thread. */
#ifndef GW_REPORT_H
#define GW_REPORT_H

#include "gw_model.h"
#include "gw_status.h"
#include "gw_text.h"
#include "gw_verdict.h"

#include <stdbool.h>
#include <stddef.h>

/* The version of dygraphs that the page was written for. */
#define GW_REPORT_DYGRAPHS "2.2.1"

/* The files that are copied into the page. */
typedef struct gw_report_assets {
    gw_text chart_script, chart_style; /* dygraphs, minified */
    gw_text script, style;             /* the page's own */
} gw_report_assets;

/* Read the files from `folder`. Returns GW_OK; GW_MISSING if a file is missing; GW_VERSION if dygraphs has another
 * version; GW_IO; GW_NOMEM. `err` then has the reason, and *ret_assets is empty. */
GW_MUST_CHECK gw_status gw_report_assets_read(const char *folder, gw_report_assets *ret_assets, gw_error *err);
void gw_report_assets_free(gw_report_assets *assets);

/* A recording. Everything is borrowed. */
typedef struct gw_report_run {
    const char *name;          /* the path that the user named */
    const char *path;          /* recording or run folder, which is read a second time; NULL: a memory snapshot */
    const gw_model *model;     /* finished, with named sites; its lists of live blocks may be built */
    const gw_verdict *verdict; /* on this recording alone */
    bool running;              /* the program is still running */
} gw_report_run;

/* What the page is about. */
typedef struct gw_report {
    const gw_report_run *run;
    size_t run_count;         /* at least 1 */
    const gw_verdict *whole;  /* the verdict on all recordings together; NULL: there is none */
    const char *apart_reason; /* why there is no verdict on all recordings together; NULL: there is, or one recording */
} gw_report;

/* Append the page to `page`. Returns GW_OK, or GW_NOMEM with the page incomplete. */
GW_MUST_CHECK gw_status gw_report_write(const gw_report *report, const gw_report_assets *assets, gw_text *page,
                                        gw_error *err);

#endif
