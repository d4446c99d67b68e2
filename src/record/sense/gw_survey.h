/* Queries NVML once for the facts that `gpuwhy doctor` prints about each card. A fact is a key and a value, such as
 * "nvml.cards=2" or "card.0.name=NVIDIA H200". Values that NVML does not return are left out.
 *
 * NVML is loaded into this process and may block on a failing card. So call this function in a separate process. */
#ifndef GW_SURVEY_H
#define GW_SURVEY_H

#include "gw_status.h"

typedef void gw_survey_fact(void *user, const char *key, const char *value);

/* Call `fact` for every fact. `path` is the path of the NVML library; NULL: search for it. Returns GW_MISSING without
 * NVML, and GW_UNSUPPORTED if NVML does not work here. */
GW_MUST_CHECK gw_status gw_survey_nvml(const char *path, gw_survey_fact *fact, void *user, gw_error *err);

#endif
