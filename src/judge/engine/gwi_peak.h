/* What the recording of a run lacks, and the peak of its device memory (peak.c). */
#ifndef GWI_PEAK_H
#define GWI_PEAK_H

#include "gw_model_facts.h"
#include "gw_verdict.h"

/* Set verdict->incomplete. The verdict's coverage must be final. Returns false if memory runs out. */
bool gwi_fill_incomplete(const gw_model *model, gw_verdict *verdict);

/* Set verdict->peak, after verdict->incomplete. The verdict's coverage and rehearsal must be final. */
void gwi_fill_peak(const gw_model *model, gw_verdict *verdict);

#endif
