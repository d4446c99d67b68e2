/* Collects the state of the run and writes it to the run folder. */
#include "gwi_state.h"

#include "gw_api.h"
#include "gw_mask.h"
#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>

static const uint64_t write_every_ns = 1000000000u;

static void add_command(gw_live *live, char *const *argv)
{
    gw_text text = {0};
    for (int i = 0; argv[i] != NULL && text.bytes < sizeof live->command; i++) {
        gw_text_add_str(&text, i == 0 ? "" : " ");
        gw_mask_argument(&text, argv, i);
    }
    snprintf(live->command, sizeof live->command, "%s", gw_text_str(&text));
    gw_text_free(&text);
}

static void add_device(gw_live_device *to, const gwi_memory *memory, unsigned device)
{
    const gwi_held_pci *pci = &memory->held.pci[device];
    const gwi_memory_device *of = &memory->device[device];
    gwi_forecast forecast = {.grows = false};
    *to = (gw_live_device){.live_bytes = memory->held.live_bytes[device],
                           .reserved_bytes = of->reserved_bytes,
                           .allocated_bytes = of->allocated_bytes,
                           .kept_bytes = memory->held.live_bytes[device],
                           .total_bytes = memory->held.total_bytes[device],
                           .limit_bytes = gwi_memory_limit(memory, device),
                           .pci_bus = pci->part[0],
                           .pci_device = pci->part[1],
                           .pci_domain = pci->part[2],
                           .is_mixed = pci->is_mixed,
                           .has_pci = pci->known[0] && !pci->is_mixed};
    if (of->count > 0)
        to->kept_bytes = of->sample[of->count - 1].bytes;
    if (!gwi_memory_forecast(memory, device, &forecast) || !forecast.grows)
        return;
    to->grows = true;
    to->bytes_per_minute = (uint64_t)forecast.bytes_per_minute;
    to->full_s = forecast.full_s < 1e9 ? (uint64_t)forecast.full_s : UINT64_C(1000000000);
}

static void add_failure(gw_live *live, const gwi_record *record)
{
    live->failure_count = record->failure_count;
    if (record->failure_count == 0)
        return;
    live->failed_ns = record->t0_monotonic_ns + record->failed_at_ns;
    live->failed_pid = record->failed_pid;
    live->failed_result = record->failed_result;
    if (record->failed_fn < GW_FN_COUNT)
        snprintf(live->failed_call, sizeof live->failed_call, "%s", gw_api_fns[record->failed_fn].symbol);
}

static void add_cache(void *user, const gw_cache_look *look)
{
    gw_live *live = user;
    for (uint32_t i = 0; i < live->pid_count; i++)
        if (live->pid[i] == look->pid)
            live->has_cache[i] = 1;
}

static void collect(gw_supervisor *run, gw_live *live)
{
    const gwi_record *record = &run->record;
    live->started_ns = record->t0_monotonic_ns;
    live->supervisor_pid = (uint32_t)getpid();
    live->command_pid = (uint32_t)run->child;
    live->process_count = record->processes;
    size_t alive = gw_drain_alive(record->drain, live->pid, GW_LIVE_PIDS_MAX);
    live->pid_count = alive < GW_LIVE_PIDS_MAX ? (uint32_t)alive : GW_LIVE_PIDS_MAX;
    live->worked_ns = run->memory.worked_at_ns == 0 ? 0 : record->t0_monotonic_ns + run->memory.worked_at_ns;
    gw_drain_look_caches(record->drain, add_cache, live);
    live->is_rehearsal = run->options.rehearse;
    live->is_incomplete = run->memory.held.failed;
    if (run->doors.is_virtual) {
        snprintf(live->virtual_cards, sizeof live->virtual_cards, "%s", run->doors.virtual_specification);
        snprintf(live->virtual_folder, sizeof live->virtual_folder, "%s", run->doors.virtual_folder);
    }
    snprintf(live->recording, sizeof live->recording, "%s", record->path);
    add_command(live, run->argv);
    add_failure(live, record);
    for (unsigned i = 0; i < GW_LIVE_DEVICES_MAX && i < GWI_HELD_DEVICES_MAX; i++)
        add_device(&live->device[i], &run->memory, i);
}

void gwi_live_look(gw_supervisor *run)
{
    gwi_live *state = &run->live;
    uint64_t now_ns = gwi_record_now_ns(&run->record);
    if (run->record.drain == NULL || run->run_folder[0] == '\0' ||
        (state->written_at_ns != 0 && now_ns < state->written_at_ns + write_every_ns))
        return;
    state->written_at_ns = now_ns;
    gw_live *live = calloc(1, sizeof *live);
    if (live == NULL)
        return;
    collect(run, live);
    live->written_ns = run->record.t0_monotonic_ns + now_ns;
    /* If the file system is full, the state becomes old and the next attempt may succeed. */
    (void)!gw_live_write(run->run_folder, live, NULL);
    free(live);
}
