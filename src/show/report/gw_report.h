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
/* Free the texts, which are then empty. */
void gw_report_assets_free(gw_report_assets *assets);

/* A recording. Everything is borrowed. */
typedef struct gw_report_run {
    const char *name;          /* the path that the user named */
    const char *path;          /* recording or run folder, which is read a second time; NULL: a memory snapshot */
    const gw_model *model;     /* finished, with named sites; its lists of live blocks may be built */
    const gw_verdict *verdict; /* on this recording alone */
    bool running;              /* the program is still running */
} gw_report_run;

/* A page that is being written. Begin it, add every recording, and finish it. It keeps nothing of a recording but the
 * text of its chapter, so the models of many recordings need not be in memory at the same time. */
typedef struct gw_report gw_report;

/* Begin a page about `run_count` recordings, at least 1. Returns GW_OK, or GW_NOMEM with *ret_report NULL. */
GW_MUST_CHECK gw_status gw_report_begin(size_t run_count, gw_report **ret_report, gw_error *err);
/* Write the chapter of the next recording. After that, the model can be freed. Returns GW_OK or GW_NOMEM. */
GW_MUST_CHECK gw_status gw_report_add(gw_report *report, const gw_report_run *run, gw_error *err);
/* Append the page to `page`. `whole` is the verdict on all recordings together, NULL if there is none. `apart_reason`
 * says why there is none; NULL: there is one, or only one recording. Returns GW_OK, or GW_NOMEM with the page
 * incomplete. */
GW_MUST_CHECK gw_status gw_report_finish(const gw_report *report, const gw_verdict *whole, const char *apart_reason,
                                         const gw_report_assets *assets, gw_text *page, gw_error *err);
void gw_report_free(gw_report *report); /* NULL is ignored */

#endif
