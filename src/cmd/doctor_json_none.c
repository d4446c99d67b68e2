#include "gwi_doctor_cmd.h"

gw_status gwi_doctor_write_json(const gw_checkup *checkup, const gw_facts *facts, gw_error *err)
{
    (void)checkup;
    (void)facts;
    return gw_fail(err, GW_UNSUPPORTED, "--json: this build lacks JSON (json-c was not there when it was built)");
}
