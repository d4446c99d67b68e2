/* What NVML says of every card right now, once, as keys and values: for `gpuwhy doctor`.
 *
 * "nvml.cards=2", "nvml.driver=580.159.04", "card.0.name=NVIDIA H200", "card.0.pci=...", "card.0.capability=9.0",
 * "card.0.remap_pending=0". What NVML does not answer has no key; what it refuses to tell is no zero. Loads the library
 * into this process and may wait for a card that is dying: call it in a process of its own. */
#ifndef GW_SURVEY_H
#define GW_SURVEY_H

#include "gw_status.h"

typedef void gw_survey_fact(void *user, const char *key, const char *value);

/* `path` NULL: what the loader finds. GW_MISSING, GW_UNSUPPORTED: there is no NVML, or it does not work here. */
GW_MUST_CHECK gw_status gw_survey_nvml(const char *path, gw_survey_fact *fact, void *user, gw_error *err);

#endif
