/* The JSON output of `gpuwhy doctor`. */
#ifndef GWI_DOCTOR_CMD_H
#define GWI_DOCTOR_CMD_H

#include "gw_doctor.h"

/* Write the checks and the facts to standard output as JSON (docs/json-schema.md). */
GW_MUST_CHECK gw_status gwi_doctor_write_json(const gw_checkup *checkup, const gw_facts *facts, gw_error *err);

#endif
