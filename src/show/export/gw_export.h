/* Exports a recording for other tools. Each format is a struct of functions and a row in export.c
 * (docs/HOWTO_ADD_EXPORT.md).
 *
 * Items are written one by one, in the reader's order, so long recordings need no more memory. Only the memory that
 * is allocated at a time is computed, by the model. */
#ifndef GW_EXPORT_H
#define GW_EXPORT_H

#include "gw_recording.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stdio.h>

/* Destination of the output, and the source of function names. */
typedef struct gw_export_to {
    FILE *file;              /* borrowed */
    const gw_reader *reader; /* borrowed, for gw_reader_fn_name() */
    bool no_formulas;        /* set by the `begin` function of a format for spreadsheets */
    uint64_t item_count;     /* items written so far */
    void *state;             /* owned by the format, which frees it in `close` */
} gw_export_to;

/* A format. Each function writes to `to->file` and returns GW_OK or GW_NOMEM. `begin` may return GW_UNSUPPORTED, with
 * the reason in `err`: this build lacks a library. The caller detects write errors. */
typedef struct gw_export_format {
    const char *name;                                                        /* the NAME of --to */
    const char *about;                                                       /* one line for the help text */
    gw_status (*begin)(gw_export_to *to, gw_error *err);                     /* writes the header; NULL: no header */
    gw_status (*item)(gw_export_to *to, const gw_item *item, gw_error *err); /* writes one item */
    gw_status (*fault)(gw_export_to *to, const char *reason, gw_error *err); /* reports a damaged block; NULL: damage
                                                                              * is not shown */
    gw_status (*end)(gw_export_to *to, gw_error *err);                       /* writes the trailer; NULL: no trailer */
    void (*close)(gw_export_to *to); /* frees to->state, also after an error; NULL: there is none */
} gw_export_format;

/* Return the format at `index`, in the order of the help text, or NULL after the last one. */
const gw_export_format *gw_export_at(unsigned index);
/* Return the format with this name, or NULL. */
const gw_export_format *gw_export_find(const char *name);

/* Write all remaining items of `reader` to `file`. Damaged blocks are skipped and counted in *ret_faults (may be NULL).
 * Errors:
 * - GW_IO: writing failed
 * - GW_UNSUPPORTED, GW_NOMEM: from the format
 * - otherwise the reader's status */
GW_MUST_CHECK gw_status gw_export_run(const gw_export_format *format, gw_reader *reader, FILE *file,
                                      uint64_t *ret_faults, gw_error *err);

#endif
