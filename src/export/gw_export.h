/* A recording for other tools: one format, one struct of functions, one row in export.c. docs/HOWTO_ADD_EXPORT.md says
 * how to add one.
 *
 * Every item is handed out as the reader gives it, in its order; nothing is computed. Items are streamed: a recording
 * of any length takes the same memory. */
#ifndef GW_EXPORT_H
#define GW_EXPORT_H

#include "gw_recording.h"
#include "gw_status.h"

#include <stdio.h>

/* Where the output goes, and what names the numbers. */
typedef struct gw_export_to {
    FILE *file;              /* borrowed */
    const gw_reader *reader; /* borrowed: gw_reader_fn_name() */
    uint64_t item_count;     /* items written so far */
} gw_export_to;

/* Each function writes to `to->file` and returns GW_OK, GW_NOMEM, or GW_UNSUPPORTED where this build lacks what the
 * format needs (`begin` only; `err` says what). Faults of writing are noticed by the caller. */
typedef struct gw_export_format {
    const char *name;                                                        /* as in --to NAME */
    const char *about;                                                       /* one line for the help */
    gw_status (*begin)(gw_export_to *to, gw_error *err);                     /* NULL: nothing comes first */
    gw_status (*item)(gw_export_to *to, const gw_item *item, gw_error *err); /* one item */
    gw_status (*fault)(gw_export_to *to, const char *reason, gw_error *err); /* NULL: damage is not shown */
    gw_status (*end)(gw_export_to *to, gw_error *err);                       /* NULL: nothing comes last */
} gw_export_format;

/* The formats, in the order of the help; NULL behind the last. */
const gw_export_format *gw_export_at(unsigned index);
/* NULL: no such format. */
const gw_export_format *gw_export_find(const char *name);

/* Write all that `reader` still holds to `file`. Damaged blocks are passed over, and `*ret_faults` counts them (NULL:
 * not asked). GW_OK; GW_IO: writing failed; GW_UNSUPPORTED, GW_NOMEM; what the reader answers else. */
GW_MUST_CHECK gw_status gw_export_run(const gw_export_format *format, gw_reader *reader, FILE *file,
                                      uint64_t *ret_faults, gw_error *err);

#endif
