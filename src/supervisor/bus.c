/* What stands between the cards of this machine, for a run on several of them. */
#include "gwi_run.h"

#include "gw_doctor.h"

void gwi_record_bus(gwi_record *record)
{
    long long cards = 0, switches = 0;
    gw_facts facts = {0};
    gw_doctor_look_bus(&facts, "");
    const char *iommu = gw_facts_get(&facts, "iommu.cards"), *redirect = gw_facts_get(&facts, "pci.acs.redirect");
    if (!facts.failed && gw_facts_number(&facts, "pci.cards", &cards) && cards > 1) {
        (void)gw_facts_number(&facts, "pci.nvswitches", &switches);
        gwi_record_fact(record, "pci.peers", "cards=%lld nvswitches=%lld iommu=%.31s acs=%.512s", cards, switches,
                        iommu != NULL ? iommu : "?", redirect != NULL ? redirect : "?");
    }
    gw_facts_free(&facts);
}
