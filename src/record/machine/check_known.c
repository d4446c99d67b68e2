/* Check the installed versions for known problems (data/regressions.tsv). Only a row whose conditions are all known to
 * hold counts. It is a warning if this machine or its packages make it probable that a program meets the problem. The
 * others, which concern only programs that use one operation or setting, are counted in one line. */
#include "gw_regressions.h"
#include "gw_text.h"
#include "gwi_doctor.h"

#include <string.h>

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

static bool is_about_machine(const gw_regression *row)
{
    return row->card != NULL ||
           (row->needs != NULL && (strstr(row->needs, "capability") != NULL || strstr(row->needs, "driver") != NULL));
}

/* True if most programs that use the library here meet the problem. Two packages that do not fit together fail in every
 * program that imports both. */
static bool is_probable(const gw_regression *row, const gw_software *software)
{
    bool is_unconditional = row->seen == NULL && row->kernel == NULL;
    bool is_misfit = row->effect == GW_HARM_ERROR && row->needs != NULL;
    return is_unconditional || is_misfit || is_about_machine(row) || gw_regression_is_likely(row, software);
}

static void warn(const gw_regression *row, const gw_software *software, gw_checkup *checkup)
{
    gw_text text = {0};
    gw_regression_say(row, software, &text);
    gwi_check(checkup, "libraries", "known-problem", GW_CHECK_WARN, row->cure, "%s (%s)", gw_text_str(&text),
              row->source);
    gw_text_free(&text);
}

static void add_library(const gw_regression *row, gw_text *list)
{
    const char *text = gw_text_str(list);
    if (strstr(text, row->library) == NULL)
        gw_text_addf(list, "%s%s", text[0] == '\0' ? "" : ", ", row->library);
}

void gwi_check_known(const gw_facts *facts, gw_checkup *checkup)
{
    gw_software software = {0};
    gw_text others = {0};
    size_t other_count = 0;
    collect(facts, &software);
    for (size_t i = 0; i < gw_data_regressions_count; i++) {
        const gw_regression *row = &gw_data_regressions[i];
        if (gw_regression_applies(row, &software) != GW_APPLIES)
            continue;
        if (is_probable(row, &software)) {
            warn(row, &software, checkup);
            continue;
        }
        add_library(row, &others);
        other_count++;
    }
    const char *list = gw_text_str(&others), *one = other_count == 1 ? "" : "s";
    if (other_count > 0)
        gwi_check(checkup, "libraries", "known-problem-of-some", GW_CHECK_PASS, NULL,
                  "%zu known problem%s of these versions: only for some programs (%s): gpuwhy causes --regressions %s",
                  other_count, one, list, strchr(list, ',') == NULL ? list : "LIBRARY");
    gw_text_free(&others);
}
