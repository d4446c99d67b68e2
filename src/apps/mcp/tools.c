/* The tools of `gpuwhy mcp`. Each one calls what the command of its name calls. */
#include "gw_logs.h"
#include "gw_own.h"
#include "gw_place.h"
#include "gw_render.h"
#include "gwi_cmd.h"
#include "gwi_judge.h"
#include "gwi_mcp.h"
#include "gwi_runs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- verdicts ---- */

static gw_status parse(const gw_text *text, gwi_mcp_found *ret_found, gw_error *err)
{
    ret_found->data = json_tokener_parse(gw_text_str(text));
    return ret_found->data == NULL ? gw_fail(err, GW_NOMEM, "out of memory") : GW_OK;
}

static gw_status show(const gw_verdict *verdict, bool running, gwi_mcp_found *ret_found, gw_error *err)
{
    enum { WIDTH = 1000 }; /* a secret that is broken into two lines would not be masked */
    gw_text json = {0};
    gw_render_text(verdict, &(gw_render_style){.width = WIDTH, .running = running, .all = true}, &ret_found->text);
    gw_status st = gw_render_json(verdict, &json, err);
    if (st == GW_OK)
        st = parse(&json, ret_found, err);
    gw_text_free(&json);
    return st;
}

/* Find a recording in the state folder by its name, with or without its ending. */
static gw_status find_named(const char *name, gw_path ret_path, gw_error *err)
{
    static const char ending[] = ".gpuwhy";
    gw_path folder;
    struct stat info;
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
        return gw_fail(err, GW_USAGE, "run: not the name of a recording; history lists the recordings");
    gw_status st = gw_state_path(folder, err);
    if (st == GW_OK)
        st = gw_path_format(ret_path, err, "%s/%s%s", folder, name, gw_ends_with(name, ending) ? "" : ending);
    if (st != GW_OK)
        return st;
    if (lstat(ret_path, &info) != 0 || !S_ISREG(info.st_mode) ||
        (info.st_uid != geteuid() && !gw_own_is_root(info.st_uid)))
        return gw_fail(err, GW_MISSING, "run: there is no recording %s of this user; history lists the recordings",
                       name);
    return GW_OK;
}

/* Return GW_MISSING if there is no state folder. What reads it would make it. */
static gw_status check_state(gw_error *err)
{
    gw_path folder;
    gw_status st = gw_state_path(folder, err);
    if (st == GW_OK && access(folder, F_OK) != 0)
        st = gw_fail(err, GW_MISSING, "nothing has been recorded yet; to record: gpuwhy run -- program");
    return st;
}

static gw_status find_handle(const char *value, gw_path ret_path, gw_error *err)
{
    char *word = (char *)(uintptr_t)value;
    gw_status st = gwi_handles_resolve(&word, 1, err);
    if (st != GW_OK)
        return st;
    st = gw_path_format(ret_path, err, "%s", word);
    free(word); /* a new text, in the place of the handle */
    return st;
}

static gw_status find_recording(const char *value, gw_path ret_path, gw_error *err)
{
    gw_status st = check_state(err);
    if (st != GW_OK)
        return st;
    if (value != NULL && value[0] == '@')
        return find_handle(value, ret_path, err);
    return value == NULL ? gw_last_recording(ret_path, err) : find_named(value, ret_path, err);
}

static gw_status explain_run(int logs, const char *value, gwi_mcp_found *ret_found, gw_error *err)
{
    static gw_path path;
    gwi_judged judged;
    (void)logs;
    gw_status st = find_recording(value, path, err);
    if (st != GW_OK)
        return st;
    st = gwi_judge_file(path, &(gwi_judge_how){0}, &judged, err);
    if (st == GW_OK)
        st = show(judged.verdict, judged.running, ret_found, err);
    gwi_judged_free(&judged);
    return st;
}

static gw_status explain_log(int logs, const char *value, gwi_mcp_found *ret_found, gw_error *err)
{
    enum { BYTES_MAX = 256 << 20 };
    gw_log *log = NULL;
    gw_verdict *verdict = NULL;
    int fd;
    if (logs < 0)
        return gw_fail(err, GW_USAGE, "no folder of logs was named: gpuwhy mcp --logs FOLDER");
    gw_status st = gw_below_open(logs, value, &fd, err);
    if (st != GW_OK) {
        gw_wrap(err, "%s", value);
        return st;
    }
    st = gw_log_read_open(fd, value, BYTES_MAX, &log, err);
    if (st == GW_OK)
        st = gw_judge_log(log, &verdict, err);
    if (st == GW_OK)
        st = show(verdict, false, ret_found, err);
    gw_verdict_free(verdict);
    gw_log_free(log);
    return st;
}

/* ---- what commands print ---- */

static void read_whole(int file, gw_text *text)
{
    char part[4096];
    ssize_t bytes;
    for (off_t at = 0; (bytes = pread(file, part, sizeof part, at)) > 0; at += bytes)
        gw_text_add(text, part, (size_t)bytes);
}

/* Standard output or standard error, replaced by a file in memory. */
typedef struct diversion {
    int fd, file, before;
} diversion;

static bool divert(int fd, diversion *ret)
{
    *ret = (diversion){fd, memfd_create("gpuwhy-text", MFD_CLOEXEC), dup(fd)};
    return ret->file >= 0 && ret->before >= 0 && dup2(ret->file, fd) >= 0;
}

static void restore(diversion *it, gw_text *text)
{
    if (it->before >= 0)
        dup2(it->before, it->fd);
    if (it->file >= 0)
        read_whole(it->file, text);
    close(it->before);
    close(it->file);
}

typedef int command_function(int argc, char **argv);

/* Run a command in this process. `words` ends with NULL. Append what it prints to `text`. After a usage
 * error, `err` has the line on standard error. */
static gw_status run_command(command_function *command, const char *const *words, gw_text *text, gw_error *err)
{
    enum { WORDS_MAX = 6 };
    char *argv[WORDS_MAX + 1] = {NULL};
    int count = 0, status = GW_EXIT_USAGE;
    gw_text reason = {0};
    diversion out, errors;
    for (; words[count] != NULL; count++)
        argv[count] = (char *)(uintptr_t)words[count]; /* commands move words, but do not write into them */
    fflush(stdout);
    bool is_diverted = divert(STDOUT_FILENO, &out), both = divert(STDERR_FILENO, &errors) && is_diverted;
    if (both)
        status = command(count, argv);
    fflush(stdout);
    restore(&errors, &reason);
    restore(&out, text);
    gw_status st = GW_OK;
    if (!both || text->failed)
        st = gw_fail(err, GW_NOMEM, "out of memory");
    else if (status == GW_EXIT_USAGE)
        st = gw_fail(err, GW_USAGE, "%.*s", (int)strcspn(gw_text_str(&reason), "\n"), gw_text_str(&reason));
    gw_text_free(&reason);
    return st;
}

/* Run a command twice: for people and, with --json, for programs. `word` is a word that is not an option; NULL: none.
 */
static gw_status run_both(command_function *command, const char *name, const char *word, gwi_mcp_found *ret_found,
                          gw_error *err)
{
    gw_text json = {0};
    const char *dashes = word == NULL ? NULL : "--";
    gw_status st = run_command(command, (const char *const[]){name, dashes, word, NULL}, &ret_found->text, err);
    if (st == GW_OK)
        st = run_command(command, (const char *const[]){name, "--json", dashes, word, NULL}, &json, err);
    if (st == GW_OK)
        st = parse(&json, ret_found, err);
    gw_text_free(&json);
    return st;
}

static gw_status history(int logs, const char *value, gwi_mcp_found *ret_found, gw_error *err)
{
    (void)logs;
    gw_status st = check_state(err);
    return st == GW_OK ? run_both(gwi_cmd_history, "history", value, ret_found, err) : st;
}

static gw_status doctor(int logs, const char *value, gwi_mcp_found *ret_found, gw_error *err)
{
    (void)logs;
    (void)value;
    return run_both(gwi_cmd_doctor, "doctor", NULL, ret_found, err);
}

/* ---- causes ---- */

static json_object *of_cause(const gw_cause_info *cause, bool in_full)
{
    json_object *object = json_object_new_object(), *fixes = json_object_new_array();
    json_object_object_add(object, "id", gw_json_string(cause->id));
    json_object_object_add(object, "summary", gw_json_string(cause->summary));
    if (!in_full) {
        json_object_put(fixes);
        return object;
    }
    for (const char *line = cause->fixes; *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        json_object_array_add(fixes, json_object_new_string_len(line, (int)bytes));
        line += bytes + (line[bytes] != '\0');
    }
    json_object_object_add(object, "proof", gw_json_string(cause->proof));
    json_object_object_add(object, "fixes", fixes);
    return object;
}

static gw_status causes(int logs, const char *value, gwi_mcp_found *ret_found, gw_error *err)
{
    size_t count = 0;
    const gw_cause_info *all = gw_causes(&count), *one = value == NULL ? NULL : gw_cause_find(value);
    const char *similar = value == NULL ? NULL : gw_suggest_name(value);
    (void)logs;
    if (value != NULL && one == NULL)
        return gw_fail(err, GW_MISSING, "unknown cause%s%s; without id, causes lists all",
                       similar == NULL ? "" : "; did you mean ", similar == NULL ? "" : similar);
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < count; i++)
        if (one == NULL || one == &all[i])
            json_object_array_add(list, of_cause(&all[i], one != NULL));
    ret_found->is_ours = true;
    ret_found->data = json_object_new_object();
    json_object_object_add(ret_found->data, "causes", list);
    return run_command(gwi_cmd_causes, (const char *const[]){"causes", value, NULL}, &ret_found->text, err);
}

const gwi_mcp_tool gwi_mcp_tools[] = {
    {.name = "explain_run",
     .title = "Explain a recorded run",
     .about = "Says why a program that was started with `gpuwhy run` failed: cause, certainty, evidence, place in the "
              "code, what to do. Without `run`, explains the last one, even while it is running.",
     .parameter = "run",
     .parameter_about =
         "a run of history, such as @3 (@1 is the newest), or the name of a recording in gpuwhy's folder",
     .call = explain_run},
    {.name = "explain_log",
     .title = "Explain a text log",
     .about = "Says why a program failed, from its text log (also .gz, .xz, .zst and .ipynb; the first 256 MiB). A log "
              "proves less than a recording.",
     .parameter = "file",
     .parameter_about = "the path of the log, relative to the folder of logs; no .. and no links",
     .is_required = true,
     .needs_logs = true,
     .call = explain_log},
    {.name = "history",
     .title = "List past runs",
     .about =
         "Lists the last 20 recorded runs with their verdicts. With `words`, those whose command contains them, and "
         "what the failed runs of the newest one's command have in common.",
     .parameter = "words",
     .parameter_about = "a part of the command line, such as train.py",
     .call = history},
    {.name = "doctor",
     .title = "Check this machine",
     .about = "Checks driver, cards, libraries and limits of this machine for problems that make GPU programs fail.",
     .call = doctor},
    {.name = "causes",
     .title = "Look up causes",
     .about = "Lists the causes that gpuwhy can find. With `id`, says what proves this cause and what to do.",
     .parameter = "id",
     .parameter_about = "the id of a cause, such as gpu-oom-leak",
     .call = causes},
};
const size_t gwi_mcp_tool_count = sizeof gwi_mcp_tools / sizeof gwi_mcp_tools[0];
