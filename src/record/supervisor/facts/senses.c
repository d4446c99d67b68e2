/* Starts the sampling of the machine and its cards (gw_sense.h), and records the results. */
#include "gwi_run.h"

#include "gw_sense.h"

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
