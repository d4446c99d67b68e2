/* The peak of a run's device memory (peak.c). */
#ifndef GWI_PEAK_H
#define GWI_PEAK_H

#include "gw_model_facts.h"
#include "gw_verdict.h"

/* Set verdict->peak. The verdict's coverage and rehearsal must be final. */
void gwi_fill_peak(const gw_model *model, gw_verdict *verdict);

#endif
