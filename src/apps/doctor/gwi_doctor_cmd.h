/* The output of `gpuwhy doctor` for programs. */
#ifndef GWI_DOCTOR_CMD_H
#define GWI_DOCTOR_CMD_H

#include "gwi_output.h"

#include "gw_doctor.h"

/* Write the checks and the facts to standard output as JSON (docs/json-schema.md). */
GW_MUST_CHECK gw_status gwi_doctor_write_json(const gw_checkup *checkup, const gw_facts *facts, gw_error *err);

/* Write the checks to the output as JUnit XML: a check that fails is a failure, one that is unknown is skipped. Returns
 * like gwi_output_write(). */
GW_MUST_CHECK gw_status gwi_doctor_write_junit(const gw_checkup *checkup, const gwi_output *output, gw_error *err);

#endif
