/* Samples the device memory that a running program keeps. */
#include "gw_api.h"
#include "gw_mask.h"
#include "gw_text.h"
#include "gwi_state.h"

#include "gw_frameworks.h"
#include "gw_recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t look_every_ns = 90000000u; /* a drain comes every 100 ms */

static void see_thread(void *user, const gw_thread_look *look)
{
    gwi_memory *memory = user;
    memory->now_launches += look->launches;
    memory->now_waits += look->waits;
}

static void see_cache(void *user, const gw_cache_look *look)
{
    gwi_memory *memory = user;
    if (look->device >= GWI_HELD_DEVICES_MAX)
        return;
    memory->device[look->device].reserved_bytes += look->reserved_bytes;
    memory->device[look->device].allocated_bytes += look->allocated_bytes;
}

/* Count the rounds since the last look: launches that were followed by a wait. When a thread ends, its counts are gone.
 */
static void count_rounds(gwi_memory *memory, gw_drain *drain, uint64_t now_ns)
{
    memory->now_launches = memory->now_waits = 0;
    gw_drain_look(drain, see_thread, memory);
    uint64_t launches = memory->now_launches > memory->launches ? memory->now_launches - memory->launches : 0;
    uint64_t waits = memory->now_waits > memory->waits ? memory->now_waits - memory->waits : 0;
    memory->rounds += launches < waits ? launches : waits;
    if (launches > 0 || waits > 0)
        memory->worked_at_ns = now_ns;
    memory->launches = memory->now_launches;
    memory->waits = memory->now_waits;
}

static int by_value(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

/* Return the bytes that the program cannot give back: live memory without what an allocator only caches. The driver's
 * calls and the allocator's numbers are read one after the other, and an allocator that drops its cache moves many
 * bytes meanwhile. So what is held beyond the allocator is the median of the last looks. */
static uint64_t kept_now(gwi_memory_device *device, uint64_t live_bytes)
{
    int64_t sorted[GWI_MEMORY_OTHERS];
    if (device->reserved_bytes == 0)
        return live_bytes;
    device->other_bytes[device->other_count++ % GWI_MEMORY_OTHERS] =
        (int64_t)live_bytes - (int64_t)device->reserved_bytes;
    size_t count = device->other_count < GWI_MEMORY_OTHERS ? device->other_count : GWI_MEMORY_OTHERS;
    memcpy(sorted, device->other_bytes, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    int64_t other = sorted[(count - 1) / 2];
    return device->allocated_bytes + (other > 0 ? (uint64_t)other : 0);
}

static void add_samples(gwi_memory *memory, gw_drain *drain, uint64_t now_ns)
{
    for (size_t i = 0; i < GWI_HELD_DEVICES_MAX; i++)
        memory->device[i].reserved_bytes = memory->device[i].allocated_bytes = 0;
    gw_drain_look_caches(drain, see_cache, memory);
    for (size_t i = 0; i < GWI_HELD_DEVICES_MAX; i++) {
        gwi_memory_device *device = &memory->device[i];
        uint64_t bytes = kept_now(device, memory->held.live_bytes[i]);
        if (bytes == 0 && device->count == 0)
            continue;
        device->count = gwi_forecast_add(device->sample, device->count, GWI_MEMORY_SAMPLES_MAX,
                                         (gwi_held_sample){now_ns, memory->rounds, bytes});
    }
}

void gwi_memory_look(gwi_memory *memory, gw_drain *drain, uint64_t now_ns)
{
    if (drain == NULL || now_ns < memory->looked_at_ns + look_every_ns)
        return;
    memory->looked_at_ns = now_ns;
    count_rounds(memory, drain, now_ns);
    add_samples(memory, drain, now_ns);
}

uint64_t gwi_memory_limit(const gwi_memory *memory, unsigned device)
{
    uint64_t total = memory->held.total_bytes[device], guard = memory->limit_bytes;
    return guard != 0 && (total == 0 || guard < total) ? guard : total;
}

bool gwi_memory_forecast(const gwi_memory *memory, unsigned device, gwi_forecast *ret_forecast)
{
    const gwi_memory_device *of = &memory->device[device];
    uint64_t limit_bytes = gwi_memory_limit(memory, device);
    if (limit_bytes == 0 || of->count == 0)
        return false;
    gwi_forecast_make(of->sample, of->count, limit_bytes, ret_forecast);
    return true;
}

/* ---- programs whose cache is not visible ---- */

static void find_pid(void *user, const gw_cache_look *look)
{
    uint32_t *pid = user;
    if (*pid == look->pid)
        *pid = 0;
}

/* True if PyTorch's allocator is followed in this process, so that its cache is known. */
static bool has_cache(const gw_drain *drain, uint32_t pid)
{
    gw_drain_look_caches(drain, find_pid, &pid);
    return pid == 0;
}

uint32_t gwi_memory_blind_pid(gw_drain *drain)
{
    enum { PIDS_MAX = 64 };
    uint32_t pids[PIDS_MAX];
    size_t count = gw_drain_alive(drain, pids, PIDS_MAX);
    for (size_t i = 0; i < count && i < PIDS_MAX; i++) {
        unsigned found;
        if (!has_cache(drain, pids[i]) && gw_frameworks_find(pids[i], &found) && (found & GW_FRAMEWORK_TORCH) != 0)
            return pids[i];
    }
    return 0;
}

/* Collects the state of the run and writes it to the run folder. */

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
