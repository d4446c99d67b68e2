/* Reads the facts about every card that `gpuwhy doctor` prints. Each fact is a pair of key and value, read from NVML
 * once.
 *
 * Examples: "nvml.cards=2", "nvml.driver=580.159.04", "card.0.name=NVIDIA H200", "card.0.pci=...",
 * "card.0.capability=9.0", "card.0.remap_pending=0". If NVML does not return a value, there is no fact for it. NVML is
 * loaded into this process and may block on a failing card, so call this in a process of its own. */
#ifndef GW_SURVEY_H
#define GW_SURVEY_H

#include "gw_status.h"

typedef void gw_survey_fact(void *user, const char *key, const char *value);

/* Call `fact` for every fact. `path` is the NVML library; NULL: search for it. Returns GW_MISSING if there is no NVML,
 * GW_UNSUPPORTED if NVML does not work on this machine. */
GW_MUST_CHECK gw_status gw_survey_nvml(const char *path, gw_survey_fact *fact, void *user, gw_error *err);

#endif
