/* Check the installed versions for known problems (data/regressions.tsv). Only a row whose conditions are all known to
 * hold is reported, and only as a warning: the program may not use what is broken. */
#include "gw_regressions.h"
#include "gw_text.h"
#include "gwi_doctor.h"

static void collect(const gw_facts *facts, gw_software *software)
{
    static const char prefix[] = "python.package.";
    for (size_t i = 0; i < facts->count; i++) {
        if (gw_begins(facts->item[i].key, prefix))
            gw_software_add_text(software, facts->item[i].key + sizeof prefix - 1, facts->item[i].value);
    }
    gw_software_add_text(software, "cuDNN", gw_facts_get(facts, "python.cudnn"));
    gw_software_add_text(software, "driver", gwi_driver(facts));
    gw_software_add_text(software, "CUDA", gw_facts_get(facts, "python.torch.cuda"));
    gw_software_add_text(software, "capability", gw_facts_get(facts, "card.0.capability"));
    gw_software_add_card(software, gwi_card(facts, 0, "name"));
    if (gwi_card_count(facts) > 0)
        gw_software_add(software, "cards", gw_version_of((unsigned)gwi_card_count(facts), 0, 0));
}

void gwi_check_known(const gw_facts *facts, gw_checkup *checkup)
{
    gw_software software = {0};
    collect(facts, &software);
    for (size_t i = 0; i < gw_data_regressions_count; i++) {
        const gw_regression *row = &gw_data_regressions[i];
        gw_text text = {0};
        if (gw_regression_applies(row, &software) != GW_APPLIES)
            continue;
        gw_regression_say(row, &software, &text);
        gwi_check(checkup, "libraries", "known-problem", GW_CHECK_WARN, row->cure, "%s (%s)", gw_text_str(&text),
                  row->source);
        gw_text_free(&text);
    }
}
