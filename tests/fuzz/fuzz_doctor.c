/* Fuzz the parser of facts about a machine, which come from a Python interpreter or a saved file, and the checks that
 * use these facts. */
#include "gw_doctor.h"
#include "inputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = fuzz_text(data, bytes);
    gw_facts facts = {0}, none = {0};
    gw_checkup checkup = {0};
    gw_facts_parse(&facts, text, NULL);
    gw_doctor_check(&facts, &checkup);
    gw_doctor_compare(&facts, &none, &checkup);
    gw_doctor_compare(&none, &facts, &checkup);
    gw_checkup_free(&checkup);
    gw_facts_free(&facts);
    free(text);
    return 0;
}
