/* Raises one alarm when the memory that the program keeps grows and will fill the card. */
#include "gw_exit.h"
#include "gwi_state.h"

#include "gw_fact.h"
#include "gw_say.h"
#include "gw_supervisor.h"
#include "gw_text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts a command of the user beside the program, for --on-failure and --alarm-at. */

pid_t gwi_command_start(const gw_supervisor *run, const char *command, const gwi_setting *settings)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    gwi_signals_restore(&run->signals);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is only for the program's output */
    for (const gwi_setting *setting = settings; setting->name != NULL; setting++)
        setenv(setting->name, setting->value, 1);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(GW_EXIT_NOT_FOUND);
}

/* ---- the option ---- */

gw_status gwi_alarm_parse(const char *text, gwi_alarm *ret_alarm, gw_error *err)
{
    char threshold[64];
    *ret_alarm = (gwi_alarm){.on = false};
    if (text == NULL)
        return GW_OK;
    const char *colon = strchr(text, ':');
    size_t bytes = colon == NULL ? strlen(text) : (size_t)(colon - text);
    snprintf(threshold, sizeof threshold, "%.*s", (int)(bytes < sizeof threshold ? bytes : 0), text);
    if (!gw_threshold_parse(threshold, &ret_alarm->ratio, &ret_alarm->bytes))
        return gw_fail(err, GW_USAGE,
                       "--alarm-at %s: expected a share of the card such as 90%%, or a size such as 12GiB", text);
    if (colon != NULL && colon[1] == '\0')
        return gw_fail(err, GW_USAGE, "--alarm-at %s: expected a command after the colon", text);
    ret_alarm->command = colon == NULL ? NULL : colon + 1;
    ret_alarm->on = true;
    return GW_OK;
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

static void judge_device(gw_supervisor *run, unsigned device)
{
    const gwi_alarm *alarm = &run->alarm;
    alarm_facts facts = {.device = device, .limit_bytes = gwi_memory_limit(&run->memory, device)};
    uint64_t threshold = alarm->ratio > 0 ? (uint64_t)(alarm->ratio * (double)facts.limit_bytes) : alarm->bytes;
    if (!gwi_memory_forecast(&run->memory, device, &facts.forecast))
        return;
    if (!facts.forecast.grows || facts.forecast.kept_bytes < threshold)
        return;
    uint32_t blind = gwi_memory_blind_pid(run->record.drain);
    if (blind != 0)
        give_up(run, blind);
    else
        raise_alarm(run, &facts);
    gw_text_free(&facts.lines);
}

void gwi_alarm_look(gw_supervisor *run)
{
    gwi_alarm *alarm = &run->alarm;
    if (alarm->command_pid > 0 && waitpid(alarm->command_pid, NULL, WNOHANG) == alarm->command_pid)
        alarm->command_pid = 0;
    for (unsigned device = 0; device < GWI_HELD_DEVICES_MAX && alarm->on; device++)
        judge_device(run, device);
}

void gwi_alarm_end(gwi_alarm *alarm)
{
    if (alarm->command_pid > 0)
        waitpid(alarm->command_pid, NULL, 0);
    alarm->command_pid = 0;
}
