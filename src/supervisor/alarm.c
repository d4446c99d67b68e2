/* Follows the device memory that the program holds, and raises one alarm about its growth. */
#include "gwi_alarm.h"
#include "gwi_state.h"

#include "gw_fact.h"
#include "gw_say.h"
#include "gw_supervisor.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const uint64_t look_every_ns = 90000000u; /* a drain comes every 100 ms */

/* ---- the option ---- */

static bool parse_threshold(const char *text, gwi_alarm *alarm)
{
    char *end = NULL;
    double percent = strtod(text, &end);
    if (end == text || strcmp(end, "%") != 0)
        return gw_bytes_parse(text, &alarm->bytes) && alarm->bytes > 0;
    alarm->ratio = percent / 100;
    return percent > 0 && percent <= 100;
}

gw_status gwi_alarm_parse(const char *text, gwi_alarm *ret_alarm, gw_error *err)
{
    char threshold[64];
    *ret_alarm = (gwi_alarm){.on = false};
    if (text == NULL)
        return GW_OK;
    const char *colon = strchr(text, ':');
    size_t bytes = colon == NULL ? strlen(text) : (size_t)(colon - text);
    snprintf(threshold, sizeof threshold, "%.*s", (int)(bytes < sizeof threshold ? bytes : 0), text);
    if (!parse_threshold(threshold, ret_alarm))
        return gw_fail(err, GW_USAGE,
                       "--alarm-at %s: expected a share of the card such as 90%%, or a size such as 12GiB", text);
    if (colon != NULL && colon[1] == '\0')
        return gw_fail(err, GW_USAGE, "--alarm-at %s: expected a command after the colon", text);
    ret_alarm->command = colon == NULL ? NULL : colon + 1;
    ret_alarm->on = true;
    return GW_OK;
}

/* ---- a look ---- */

static void see_thread(void *user, const gw_thread_look *look)
{
    gwi_alarm *alarm = user;
    alarm->now_launches += look->launches;
    alarm->now_waits += look->waits;
}

static void see_cache(void *user, const gw_cache_look *look)
{
    gwi_alarm *alarm = user;
    if (look->device >= GWI_HELD_DEVICES_MAX)
        return;
    alarm->device[look->device].reserved_bytes += look->reserved_bytes;
    alarm->device[look->device].allocated_bytes += look->allocated_bytes;
}

/* Count the rounds since the last look: launches that were followed by a wait. When a thread ends, its counts are gone.
 */
static void count_rounds(gwi_alarm *alarm, gw_drain *drain)
{
    alarm->now_launches = alarm->now_waits = 0;
    gw_drain_look(drain, see_thread, alarm);
    uint64_t launches = alarm->now_launches > alarm->launches ? alarm->now_launches - alarm->launches : 0;
    uint64_t waits = alarm->now_waits > alarm->waits ? alarm->now_waits - alarm->waits : 0;
    alarm->rounds += launches < waits ? launches : waits;
    alarm->launches = alarm->now_launches;
    alarm->waits = alarm->now_waits;
}

static int by_value(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

/* Return the bytes that the program cannot give back: live memory without what an allocator only caches. The driver's
 * calls and the allocator's numbers are read one after the other, and an allocator that drops its cache moves many
 * bytes meanwhile. So what is held beyond the allocator is the median of the last looks. */
static uint64_t kept_now(gwi_alarm_device *device, uint64_t live_bytes)
{
    int64_t sorted[GWI_ALARM_OTHERS];
    if (device->reserved_bytes == 0)
        return live_bytes;
    device->other_bytes[device->other_count++ % GWI_ALARM_OTHERS] =
        (int64_t)live_bytes - (int64_t)device->reserved_bytes;
    size_t count = device->other_count < GWI_ALARM_OTHERS ? device->other_count : GWI_ALARM_OTHERS;
    memcpy(sorted, device->other_bytes, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    int64_t other = sorted[(count - 1) / 2];
    return device->allocated_bytes + (other > 0 ? (uint64_t)other : 0);
}

static void add_samples(gwi_alarm *alarm, gw_drain *drain, uint64_t now_ns)
{
    for (size_t i = 0; i < GWI_HELD_DEVICES_MAX; i++)
        alarm->device[i].reserved_bytes = alarm->device[i].allocated_bytes = 0;
    gw_drain_look_caches(drain, see_cache, alarm);
    for (size_t i = 0; i < GWI_HELD_DEVICES_MAX; i++) {
        gwi_alarm_device *device = &alarm->device[i];
        uint64_t bytes = kept_now(device, alarm->held.live_bytes[i]);
        if (bytes == 0 && device->count == 0)
            continue;
        device->count = gwi_forecast_add(device->sample, device->count, GWI_ALARM_SAMPLES_MAX,
                                         (gwi_held_sample){now_ns, alarm->rounds, bytes});
    }
}

/* ---- programs whose cache is not visible ---- */

static bool has_mapped(uint32_t pid, const char *name)
{
    char path[40], line[4096];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL)
        found = strstr(line, name) != NULL;
    if (maps != NULL)
        fclose(maps);
    return found;
}

static void find_pid(void *user, const gw_cache_look *look)
{
    uint32_t *pid = user;
    if (*pid == look->pid)
        *pid = 0;
}

/* Return a process with PyTorch whose allocator is not followed, so that its cache would count as held. 0: none. */
static uint32_t blind_pid(const gw_supervisor *run)
{
    enum { PIDS_MAX = 64 };
    uint32_t pids[PIDS_MAX];
    size_t count = gw_drain_alive(run->record.drain, pids, PIDS_MAX);
    for (size_t i = 0; i < count && i < PIDS_MAX; i++) {
        uint32_t pid = pids[i];
        gw_drain_look_caches(run->record.drain, find_pid, &pid); /* sets it to 0 if the cache is known */
        if (pid != 0 && has_mapped(pid, "libc10_cuda.so"))
            return pid;
    }
    return 0;
}

/* ---- the alarm ---- */

typedef struct alarm_facts {
    unsigned device;
    uint64_t limit_bytes;
    gwi_forecast forecast;
    gw_text lines; /* the lines of the program that grow; empty: not known */
} alarm_facts;

static void record_alarm(gw_supervisor *run, const gw_fact_memory_alarm *fact)
{
    gw_text text = {0};
    gw_fact_memory_alarm_write(fact, &text);
    gwi_record_fact(&run->record, gw_fact_key_text(GW_FACT_MEMORY_ALARM), "%s", gw_text_str(&text));
    gw_text_free(&text);
}

static void give_up(gw_supervisor *run, uint32_t pid)
{
    char why[160];
    snprintf(why, sizeof why, "the memory that PyTorch only caches in pid %" PRIu32 " is not known", pid);
    gw_say("--alarm-at: no alarm: %s", why);
    record_alarm(run, &(gw_fact_memory_alarm){GW_FACT_SET(why, gw_fact_text_of(why))});
    run->alarm.on = false;
}

static void start_command(gw_supervisor *run, const alarm_facts *facts)
{
    char number[5][32];
    snprintf(number[0], sizeof number[0], "%u", facts->device);
    snprintf(number[1], sizeof number[1], "%" PRIu64, facts->forecast.kept_bytes);
    snprintf(number[2], sizeof number[2], "%" PRIu64, facts->limit_bytes);
    snprintf(number[3], sizeof number[3], "%.0f", facts->forecast.bytes_per_minute);
    snprintf(number[4], sizeof number[4], "%.0f", facts->forecast.full_s);
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)run->child);
    const gwi_setting settings[] = {{"GPUWHY_ALARM_PID", pid},
                                    {"GPUWHY_ALARM_GPU", number[0]},
                                    {"GPUWHY_ALARM_HELD_BYTES", number[1]},
                                    {"GPUWHY_ALARM_LIMIT_BYTES", number[2]},
                                    {"GPUWHY_ALARM_BYTES_PER_MINUTE", number[3]},
                                    {"GPUWHY_ALARM_SECONDS_UNTIL_FULL", number[4]},
                                    {"GPUWHY_ALARM_LINES", gw_text_str(&facts->lines)},
                                    {NULL, NULL}};
    run->alarm.command_pid = gwi_command_start(run, run->alarm.command, settings);
}

static void say_alarm(const alarm_facts *facts)
{
    char held[GW_BYTES_TEXT_MAX], limit[GW_BYTES_TEXT_MAX], growth[GW_BYTES_TEXT_MAX];
    gw_say(
        "alarm: the program holds %s of %s on GPU %u, which it cannot give back; it grows by %s a minute and fills the "
        "card in %.0f s%s%s",
        gw_bytes_text(held, facts->forecast.kept_bytes), gw_bytes_text(limit, facts->limit_bytes), facts->device,
        gw_bytes_text(growth, (uint64_t)facts->forecast.bytes_per_minute), facts->forecast.full_s,
        facts->lines.bytes > 0 ? "; it grows at " : "", gw_text_str(&facts->lines));
}

static void raise_alarm(gw_supervisor *run, alarm_facts *facts)
{
    if (run->judges.lines != NULL && run->run_folder[0] != '\0')
        run->judges.lines(run->run_folder, facts->forecast.since_ns, &facts->lines);
    say_alarm(facts);
    record_alarm(run, &(gw_fact_memory_alarm){
                          GW_FACT_SET(device, facts->device),
                          GW_FACT_SET(held_bytes, facts->forecast.kept_bytes),
                          GW_FACT_SET(limit_bytes, facts->limit_bytes),
                          GW_FACT_SET(bytes_per_minute, (uint64_t)facts->forecast.bytes_per_minute),
                          GW_FACT_SET(full_s, (uint64_t)facts->forecast.full_s),
                          .has_lines = facts->lines.bytes > 0,
                          .lines = gw_fact_text_of(gw_text_str(&facts->lines)),
                          GW_FACT_SET(command, run->alarm.command != NULL),
                      });
    if (run->alarm.command != NULL)
        start_command(run, facts);
    run->alarm.on = false;
}

/* Return the memory that the program can use on a device; 0: unknown. */
static uint64_t limit_of(const gw_supervisor *run, unsigned device)
{
    uint64_t total = run->alarm.held.total_bytes[device], guard = run->options.memory_bytes;
    return guard != 0 && (total == 0 || guard < total) ? guard : total;
}

static void judge_device(gw_supervisor *run, unsigned device)
{
    const gwi_alarm *alarm = &run->alarm;
    alarm_facts facts = {.device = device, .limit_bytes = limit_of(run, device)};
    uint64_t threshold = alarm->ratio > 0 ? (uint64_t)(alarm->ratio * (double)facts.limit_bytes) : alarm->bytes;
    if (facts.limit_bytes == 0 || alarm->device[device].count == 0)
        return;
    gwi_forecast_make(alarm->device[device].sample, alarm->device[device].count, facts.limit_bytes, &facts.forecast);
    if (!facts.forecast.grows || facts.forecast.kept_bytes < threshold)
        return;
    uint32_t blind = blind_pid(run);
    if (blind != 0)
        give_up(run, blind);
    else
        raise_alarm(run, &facts);
    gw_text_free(&facts.lines);
}

void gwi_alarm_look(gw_supervisor *run)
{
    gwi_alarm *alarm = &run->alarm;
    uint64_t now_ns = gwi_record_now_ns(&run->record);
    if (alarm->command_pid > 0 && waitpid(alarm->command_pid, NULL, WNOHANG) == alarm->command_pid)
        alarm->command_pid = 0;
    if (!alarm->on || run->record.drain == NULL || now_ns < alarm->looked_at_ns + look_every_ns)
        return;
    alarm->looked_at_ns = now_ns;
    count_rounds(alarm, run->record.drain);
    add_samples(alarm, run->record.drain, now_ns);
    for (unsigned device = 0; device < GWI_HELD_DEVICES_MAX && alarm->on; device++)
        judge_device(run, device);
}

void gwi_alarm_end(gwi_alarm *alarm)
{
    if (alarm->command_pid > 0)
        waitpid(alarm->command_pid, NULL, 0);
    alarm->command_pid = 0;
    gwi_held_free(&alarm->held);
}
