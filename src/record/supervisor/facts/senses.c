/* Starts the sampling of the machine and its cards (gw_sense.h), and records the results. */
#include "gw_doctor.h"
#include "gw_fact.h"
#include "gw_sites.h"
#include "gwi_run.h"

#include "gw_sense.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

/* Maximum time to wait for the cards' last values at the end of a run. Reading takes a few ms, but NVML may hang or the
 * machine may be busy. */
enum { LAST_WAIT_MS = 2000 };
static const uint64_t worth_a_last_look_ns = 1000000000u;

static void put_item(void *user, const gw_item *item)
{
    gwi_record_put(user, item);
}

static gw_sense_sink sink_of(gwi_record *record)
{
    return (gw_sense_sink){.user = record, .item = put_item, .holder = gwi_holder_record};
}

static gw_sense_now now_of(const gwi_senses *senses, const gwi_record *record)
{
    size_t most = sizeof record->pids / sizeof record->pids[0];
    return (gw_sense_now){.pid = record->pids,
                          .pid_count = record->processes < most ? record->processes : most,
                          .failure_at_ns = record->failed_at_ns,
                          .out_of_memory_at_ns = record->out_of_memory_at_ns,
                          .holders_known = senses->nvml[0] != '\0'};
}

void gwi_senses_choose(gwi_senses *senses, const gwi_doors *doors, gw_sense_options *options)
{
    if (!doors->is_virtual)
        return;
    options->is_virtual = true;
    options->nvml_path =
        gw_library_find("virtual/nvml/libnvidia-ml.so.1", senses->nvml, NULL) == GW_OK ? senses->nvml : "";
    snprintf(senses->specification, sizeof senses->specification, "GPUWHY_VIRTUAL=%s", doors->virtual_specification);
    snprintf(senses->folder, sizeof senses->folder, "GPUWHY_VIRTUAL_DIR=%s", doors->virtual_folder);
    senses->environment[0] = senses->specification;
    senses->environment[1] = senses->folder;
    options->environment = senses->environment;
}

void gwi_senses_begin(gwi_senses *senses, gwi_record *record, const gw_run_options *options, const gwi_doors *doors,
                      pid_t command)
{
    gw_sense_options how = {.t0_monotonic_ns = record->t0_monotonic_ns, .command = command};
    gw_error err;
    if (options->no_sense || record->writer == NULL)
        return;
    gwi_senses_choose(senses, doors, &how);
    if (gw_sense_open(&how, &senses->sense, &err) != GW_OK)
        gwi_record_fact(record, "sense.none", "%s", err.text);
}

void gwi_senses_look(gwi_senses *senses, gwi_record *record)
{
    if (senses->sense == NULL)
        return;
    const gw_sense_now now = now_of(senses, record);
    const gw_sense_sink sink = sink_of(record);
    gw_sense_look(senses->sense, &now, &sink);
}

/* Skip the last sample for a short program that used no GPU and succeeded: the sample would explain nothing. */
void gwi_senses_last(gwi_senses *senses, gwi_record *record, int status)
{
    bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (senses->sense != NULL &&
        (!ended_well || record->processes > 0 || gwi_record_now_ns(record) > worth_a_last_look_ns)) {
        const gw_sense_now now = now_of(senses, record);
        const gw_sense_sink sink = sink_of(record);
        gw_sense_last(senses->sense, &now, &sink, LAST_WAIT_MS);
    }
    gw_sense_close(senses->sense);
    senses->sense = NULL;
}

/* If this machine has several cards, records what connects them (fact "pci.peers"). */

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

/* Resolves the addresses of call sites to names, and identifies the source files, while these files still exist. */

static void record_source(void *user, const char *file, const char *sha256)
{
    gwi_record_fact(user, gw_fact_key_text(GW_FACT_SOURCE), "sha256=%s path=%s", sha256, file);
}

void gwi_record_names(gwi_record *record)
{
    gw_error err;
    size_t count, named = 0;
    if (record->writer == NULL || record->sites == NULL || gw_sites_count(record->sites) == 0)
        return;
    uint64_t begun_ns = gwi_record_now_ns(record);
    if (gw_sites_resolve(record->sites, GW_NAMES_SOFT_MS, GW_NAMES_HARD_MS, &err) != GW_OK)
        gwi_record_fact(record, "names.failed", "%s", err.text);
    const gw_symbol *symbols = gw_sites_symbols(record->sites, &count);
    uint64_t took_ns = gwi_record_now_ns(record) - begun_ns;
    for (size_t i = 0; i < count; i++) {
        gw_item item = {.kind = GW_ITEM_SYMBOL, .t_ns = begun_ns + took_ns};
        item.symbol.path = symbols[i].path;
        item.symbol.build_id = symbols[i].build_id;
        item.symbol.address = symbols[i].address;
        item.symbol.state = symbols[i].state;
        item.symbol.frame = symbols[i].frame;
        item.symbol.count = symbols[i].count;
        gwi_record_put(record, &item);
        named += symbols[i].count > 0;
    }
    gwi_record_fact(record, "names", "%" PRIu32 " call sites, %zu addresses, %zu of them named, in %.1f ms",
                    gw_sites_count(record->sites), count, named, (double)took_ns / 1e6);
    gw_sites_sources(record->sites, record_source, record);
}
