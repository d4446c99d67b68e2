/* If this machine has several cards, records what connects them (fact "pci.peers"). */
#include "gwi_run.h"

#include "gw_doctor.h"
#include "gw_fact.h"

void gwi_record_bus(gwi_record *record)
{
    long long cards = 0, switches = 0;
    gw_facts facts = {0};
    gw_doctor_look_bus(&facts, "");
    const char *iommu = gw_facts_get(&facts, "iommu.cards"), *redirect = gw_facts_get(&facts, "pci.acs.redirect");
    if (!facts.failed && gw_facts_number(&facts, "pci.cards", &cards) && cards > 1) {
        (void)gw_facts_number(&facts, "pci.nvswitches", &switches);
        gw_text text = {0};
        const gw_fact_peers peers = {GW_FACT_SET(cards, (uint32_t)cards), GW_FACT_SET(nvswitches, (uint32_t)switches),
                                     GW_FACT_SET(iommu, gw_fact_text_of(iommu != NULL ? iommu : "?")),
                                     GW_FACT_SET(acs, gw_fact_text_of(redirect != NULL ? redirect : "?"))};
        gw_fact_peers_write(&peers, &text);
        gwi_record_fact(record, gw_fact_key_text(GW_FACT_PCI_PEERS), "%s", gw_text_str(&text));
        gw_text_free(&text);
    }
    gw_facts_free(&facts);
}
