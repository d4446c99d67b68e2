/* Why a recording has no end (cut.c). */
#ifndef GWI_CUT_H
#define GWI_CUT_H

#include "gwi_cause.h"

typedef enum gwi_cut {
    GWI_CUT_NONE,      /* the recording has an end */
    GWI_CUT_UNKNOWN,   /* gpuwhy was killed, or the machine stopped */
    GWI_CUT_KILLED,    /* gpuwhy was killed: the machine has run since then */
    GWI_CUT_STOPPED,   /* the machine stopped: it started again soon after the last record */
    GWI_CUT_RESTARTED, /* as UNKNOWN; the machine was started again later */
    GWI_CUT_COUNT
} gwi_cut;

gwi_cut gwi_cut_of(const gwi_case *c);
/* Return a static text such as "gpuwhy was killed", or NULL for GWI_CUT_NONE. */
const char *gwi_cut_text(gwi_cut cut);
/* Report why the recording has no end, and the last state of the machine. Call it only if it has none. */
void gwi_say_cut(const gwi_case *c, gwi_finding *finding);

#endif
