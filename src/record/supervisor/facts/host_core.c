/* Reads the core dump of a process that died, to find the address of the fault. The dump must be a regular file. gpuwhy
 * does not request dumps: the user's settings (ulimit -c, core_pattern) decide. */
#include "gwi_run.h"

#include "gw_clock.h"
#include "gw_fact.h"
#include "gw_hostcore.h"
#include "gw_process.h"
#include "gw_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENTRIES_MAX = 1 << 16, CORES_MAX = 16 };
/* A file's time stamp may be up to this much earlier than the real time, because the kernel uses the time of its last
 * clock tick. */
static const uint64_t stamp_slack_ns = 20000000u;

typedef struct search {
    gwi_record *record;
    pid_t command;
    gw_path folder;
    char pattern[2 * NAME_MAX + 8]; /* for fnmatch() */
    uint64_t since_realtime_ns;
    size_t found;
} search;

static bool read_setting(const char *name, char *out, size_t bytes_max)
{
    if (gw_read_small(out, bytes_max, NULL, "/proc/sys/kernel/%s", name) <= 0)
        return false;
    out[strcspn(out, "\n")] = '\0';
    return out[0] != '\0';
}

/* Convert the file name in core_pattern, with %p, %e and so on, to a pattern for fnmatch(). With `with_pid`, the kernel
 * appends a dot and the pid to a name without %p. Returns false if the pattern is too long. */
static bool as_fnmatch(const char *name, bool with_pid, char *out, size_t bytes_max)
{
    size_t used = 0;
    bool names_pid = false;
    for (const char *at = name; *at != '\0'; at++) {
        bool is_sign = *at == '%' && at[1] != '\0';
        if (used + 5 > bytes_max)
            return false;
        if (is_sign && at[1] != '%') {
            names_pid = names_pid || at[1] == 'p';
            out[used++] = '*';
        } else {
            if (strchr("*?[]\\", *at) != NULL)
                out[used++] = '\\';
            out[used++] = *at;
        }
        at += is_sign;
    }
    snprintf(out + used, bytes_max - used, "%s", with_pid && !names_pid ? ".*" : "");
    return true;
}

/* Find the folder of this run's core dumps, and the pattern of their names. Returns NULL on success, otherwise the
 * reason (static string). */
static const char *find_place(search *it)
{
    char setting[512], uses_pid[8] = "0";
    if (!read_setting("core_pattern", setting, sizeof setting))
        return "core_pattern cannot be read";
    if (setting[0] == '|' || setting[0] == '@')
        return "the kernel passes core dumps to a program (core_pattern)";
    (void)read_setting("core_uses_pid", uses_pid, sizeof uses_pid);
    char *slash = strrchr(setting, '/'), *name = slash == NULL ? setting : slash + 1;
    if (slash != NULL)
        *slash = '\0';
    if (slash != NULL && strchr(setting, '%') != NULL)
        return "the folder in core_pattern differs for each process";
    gw_path here;
    bool is_absolute = slash != NULL && (setting[0] == '/' || slash == setting);
    if (!is_absolute && getcwd(here, sizeof here) == NULL)
        return "the working folder no longer exists";
    gw_status st = is_absolute ? gw_path_format(it->folder, NULL, "%s/", setting)
                               : gw_path_format(it->folder, NULL, "%s/%s", here, slash == NULL ? "" : setting);
    if (st != GW_OK || !as_fnmatch(name, uses_pid[0] == '1', it->pattern, sizeof it->pattern))
        return "core_pattern is too long";
    return NULL;
}

static void put(search *it, const char *path, uint64_t t_ns, const gw_hostcore *core)
{
    gw_text text = {0};
    const gw_fact_core fact = {
        GW_FACT_SET(path, gw_fact_text_of(strchr(path, '\n') == NULL ? path : "?")),
        GW_FACT_SET(signal, core->signal),
        GW_FACT_SET(tid, core->tid),
        .has_code = core->has_code,
        .code = core->code,
        .has_address = core->has_code,
        .address = core->address,
        .has_file = core->has_files,
        .file = gw_fact_text_of(strchr(core->file, '\n') == NULL ? core->file : "?"),
        .has_instruction = core->has_registers,
        .instruction = core->instruction,
    };
    gw_fact_core_write(&fact, &text);
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = t_ns, .pid = core->pid};
    item.pair.key = gw_fact_key_text(GW_FACT_HOST_CORE);
    item.pair.value = gw_text_str(&text);
    if (!text.failed)
        gwi_record_put(it->record, &item);
    gw_text_free(&text);
}

/* Read the file if it was written since the start of the run and is a core dump of one of our processes. */
static void look_at_file(search *it, const char *name)
{
    gw_path path;
    struct stat facts;
    gw_hostcore core;
    int fd = gw_path_format(path, NULL, "%s/%s", it->folder, name) == GW_OK
                 ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
                 : -1;
    if (fd >= 0 && fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode)) {
        uint64_t written_ns = (uint64_t)facts.st_mtim.tv_sec * 1000000000u + (uint64_t)facts.st_mtim.tv_nsec;
        uint64_t since_ns = it->since_realtime_ns;
        if (written_ns + stamp_slack_ns >= since_ns && gw_hostcore_read(fd, path, &core, NULL) == GW_OK &&
            (core.pid == (uint32_t)it->command || gwi_record_has_process(it->record, core.pid))) {
            put(it, path, written_ns > since_ns ? written_ns - since_ns : 0, &core);
            it->found++;
        }
    }
    if (fd >= 0)
        close(fd);
}

static void look_in_folder(search *it)
{
    if (strpbrk(it->pattern, "*\\") == NULL) {
        look_at_file(it, it->pattern);
        return;
    }
    DIR *entries = opendir(it->folder);
    struct dirent *entry;
    for (int i = 0; entries != NULL && i < ENTRIES_MAX && it->found < CORES_MAX && (entry = readdir(entries)) != NULL;
         i++)
        if (fnmatch(it->pattern, entry->d_name, FNM_PERIOD) == 0)
            look_at_file(it, entry->d_name);
    if (entries != NULL)
        closedir(entries);
}

void gwi_host_cores_take(gwi_record *record, pid_t command, int status)
{
    search it = {.record = record, .command = command};
    bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ended_well || (WIFSIGNALED(status) && !WCOREDUMP(status)))
        return;
    it.since_realtime_ns = gw_realtime_ns() - gwi_record_now_ns(record);
    const char *why = find_place(&it);
    if (why == NULL)
        look_in_folder(&it);
    else if (WIFSIGNALED(status))
        gwi_record_fact(record, "host.core.none", "%s", why);
}
