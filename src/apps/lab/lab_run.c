/* Runs a program for `gpuwhy lab`, and compares its verdict with the expected one. */
#include "gwi_config_cmd.h"
#include "gwi_lesson.h"
#include "gwi_options.h"
#include "gwi_temporary.h"

#include "gw_exit.h"
#include "gw_json.h"
#include "gw_place.h"
#include "gw_say.h"
#include "gw_text.h"
#include "gw_verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- the run ---- */

static size_t count_of(char *const *words)
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    return count;
}

/* Change to another folder. *ret_back is a descriptor of the present one. */
static gw_status enter(const char *folder, int *ret_back, gw_error *err)
{
    *ret_back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*ret_back >= 0 && chdir(folder) == 0)
        return GW_OK;
    int why = errno;
    if (*ret_back >= 0)
        close(*ret_back);
    return gw_fail(err, GW_IO, "change to folder %s: %s", folder, strerror(why));
}

static void leave(int back)
{
    if (fchdir(back) != 0)
        gw_say("lab: return to the folder before: %s", strerror(errno));
    close(back);
}

/* Start `argv` with the standard actions of these signals, and wait for its end. */
static gw_status spawn(char *const *argv, const gwi_lab_run *run, const char *folder, const sigset_t *standard,
                       int *ret_status, gw_error *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    pid_t pid = 0;
    int back = -1;
    if (run->in_own_folder && enter(folder, &back, err) != GW_OK)
        return GW_IO;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    if (run->quiet_stdout)
        posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&how, standard);
    int failed = posix_spawn(&pid, "/proc/self/exe", &files, &how, argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    if (run->in_own_folder)
        leave(back);
    if (failed != 0)
        return gw_fail(err, GW_IO, "start gpuwhy: %s", strerror(failed));
    while (waitpid(pid, ret_status, 0) < 0)
        if (errno != EINTR)
            return gw_fail(err, GW_IO, "wait for gpuwhy: %s", strerror(errno));
    return GW_OK;
}

static volatile sig_atomic_t seen; /* the last signal of the keyboard */

static void note(int number)
{
    seen = number;
}

/* Like spawn(), but ^C ends only the program, so that its verdict is still printed. */
static gw_status spawn_and_wait(char *const *argv, const gwi_lab_run *run, const char *folder, int *ret_status,
                                gw_error *err)
{
    static const int keys[] = {SIGINT, SIGQUIT};
    enum { KEY_COUNT = sizeof keys / sizeof keys[0] };
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART}, child = {.sa_handler = SIG_DFL};
    struct sigaction old[KEY_COUNT], old_child;
    sigset_t standard;
    sigemptyset(&standard);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        sigaction(keys[i], NULL, &old[i]);
        if (old[i].sa_handler == SIG_IGN)
            continue;
        sigaction(keys[i], &action, NULL);
        sigaddset(&standard, keys[i]);
    }
    sigaction(SIGCHLD, &child, &old_child); /* with an inherited SIG_IGN we would get no exit status */
    gw_status st = spawn(argv, run, folder, &standard, ret_status, err);
    sigaction(SIGCHLD, &old_child, NULL);
    for (size_t i = 0; i < KEY_COUNT; i++)
        sigaction(keys[i], &old[i], NULL);
    return st;
}

static gw_status run_in(const char *folder, const char *json, const gwi_lab_run *run, int *ret_status, gw_error *err)
{
    /* a verdict must not depend on the user's configuration */
    const char *const first[] = {"gpuwhy",
                                 "run",
                                 "--end-with-parent",
                                 "--memory=0",
                                 "--hang-after=auto",
                                 "--record-limit=" GW_STANDARD_RECORD_LIMIT},
                      *last[GWI_FOLDER_WORDS + 3];
    size_t last_count = gwi_add_folder(last);
    last[last_count++] = "--json";
    last[last_count++] = json;
    last[last_count++] = "--";
    enum { FIRST = sizeof first / sizeof first[0] };
    size_t options = count_of(run->option), words = count_of(run->word), at = 0;
    char **argv = calloc(FIRST + last_count + options + words + 1, sizeof *argv);
    if (argv == NULL)
        return gw_fail(err, GW_NOMEM, "start %s", run->word[0]);
    for (size_t i = 0; i < FIRST; i++)
        argv[at++] = (char *)(uintptr_t)first[i]; /* posix_spawn() changes no argument */
    memcpy(argv + at, run->option, options * sizeof *argv);
    at += options;
    for (size_t i = 0; i < last_count; i++)
        argv[at++] = (char *)(uintptr_t)last[i];
    memcpy(argv + at, run->word, words * sizeof *argv);
    gw_status st = spawn_and_wait(argv, run, folder, ret_status, err);
    free(argv);
    return st;
}

/* If ^C or ^\ has ended the program, end in the same way, as `gpuwhy run` does: a shell then ends its loop, too. */
static void end_as(int status)
{
    if (seen == 0 || !WIFSIGNALED(status) || WTERMSIG(status) != seen)
        return;
    signal(seen, SIG_DFL);
    raise(seen);
}

gw_status gwi_lab_start(const gwi_lab_run *run, json_object **ret_verdict, int *ret_status, gw_error *err)
{
    gwi_temporary folder; /* for the verdict, and for the files of a lesson */
    gw_path json;
    int status = 0;
    gw_status st = gwi_config_needs_on(err);
    if (st == GW_OK)
        st = gwi_temporary_make("lab", &folder, err);
    if (st != GW_OK)
        return st;
    fflush(NULL);
    st = gw_path_format(json, err, "%s/verdict.json", folder.path);
    if (st == GW_OK)
        st = run_in(folder.path, json, run, &status, err);
    if (st == GW_OK) {
        *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : GW_EXIT_UNDETERMINED;
        *ret_verdict = json_object_from_file(json);
    }
    gwi_temporary_remove(&folder);
    end_as(status);
    return st;
}

/* ---- the comparison ---- */

static bool is_advised(json_object *verdict, const char *cause)
{
    json_object *advice = gw_json_member(verdict, "advice");
    size_t count = json_object_is_type(advice, json_type_array) ? json_object_array_length(advice) : 0;
    for (size_t i = 0; i < count; i++) {
        const char *line = json_object_get_string(json_object_array_get_idx(advice, i));
        if (line != NULL && gw_begins(line, cause) && line[strlen(cause)] == ':')
            return true;
    }
    return false;
}

/* False if no driver call of the run was recorded. */
static bool was_observed(json_object *verdict)
{
    return json_object_get_int64(gw_json_member(gw_json_member(verdict, "coverage"), "processes")) > 0;
}

bool gwi_lab_matches(json_object *verdict, const gwi_lab_expected *expected)
{
    const char *status = gw_json_member_text(verdict, "status"), *cause = gw_json_member_text(verdict, "cause");
    const char *certainty = gw_json_member_text(verdict, "certainty");
    if (expected->cause == NULL)
        return status != NULL && strcmp(status, "clean") == 0 && !expected->has_leaks;
    const gw_cause_info *info = gw_cause_find(expected->cause);
    if (info != NULL && info->is_advice && is_advised(verdict, expected->cause))
        return true;
    if (cause == NULL || certainty == NULL || strcmp(cause, expected->cause) != 0)
        return false;
    return strcmp(certainty, "established") == 0 || (!expected->established && strcmp(certainty, "supported") == 0);
}

static void print_line(json_object *verdict, const gwi_lab_expected *expected, bool passed)
{
    const char *cause = gw_json_member_text(verdict, "cause"), *certainty = gw_json_member_text(verdict, "certainty");
    const char *status = gw_json_member_text(verdict, "status");
    gw_text found = {0};
    if (cause != NULL)
        gw_text_addf(&found, "%s (%s)", cause, certainty == NULL ? "certainty unknown" : certainty);
    else
        gw_text_add_str(&found, status == NULL ? "no status" : status);
    if (!was_observed(verdict))
        gw_text_add_str(&found, ", but no CUDA driver call was observed");
    if (expected->has_leaks)
        gw_text_add_str(&found, ", but with leaks, or it is not known what was freed");
    if (expected->cause != NULL && cause == NULL && is_advised(verdict, expected->cause))
        gw_text_addf(&found, ", with the advice %s", expected->cause);
    gw_print("%s: expected %s%s, found %s\n", passed ? "passed" : "failed",
             expected->cause == NULL ? "clean" : expected->cause, expected->established ? " (established)" : "",
             gw_text_str(&found));
    gw_text_free(&found);
}

static void print_json(json_object *verdict, const gwi_lab_expected *expected, const gwi_lesson *lesson, bool passed)
{
    static const char *const copied[] = {"status", "cause", "certainty", "headline"};
    json_object *root = json_object_new_object(), *found = json_object_new_object(), *wanted = json_object_new_object();
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++)
        json_object_object_add(found, copied[i], gw_json_string(gw_json_member_text(verdict, copied[i])));
    json_object_object_add(found, "observed", json_object_new_boolean(was_observed(verdict)));
    json_object *bytes = gw_json_member(gw_json_member(verdict, "unfreed"), "bytes");
    json_object_object_add(found, "unfreed_bytes", json_object_get(bytes));
    json_object_object_add(wanted, "cause", gw_json_string(expected->cause));
    json_object_object_add(
        wanted, "certainty",
        expected->cause == NULL ? NULL : gw_json_string(expected->established ? "established" : "supported"));
    json_object_object_add(root, "schema", json_object_new_int(1));
    json_object_object_add(root, "kind", json_object_new_string("lab"));
    json_object_object_add(root, "lesson", gw_json_string(lesson == NULL ? NULL : lesson->id));
    json_object_object_add(root, "passed", json_object_new_boolean(passed));
    json_object_object_add(root, "expected", wanted);
    json_object_object_add(root, "found", found);
    json_object_object_add(root, "recording", gw_json_string(gw_json_member_text(verdict, "recording")));
    gw_print("%s\n", json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(root);
}

int gwi_lab_grade(json_object *verdict, const gwi_lab_expected *expected, const gwi_lesson *lesson, bool is_json)
{
    bool passed = gwi_lab_matches(verdict, expected);
    if (is_json)
        print_json(verdict, expected, lesson, passed);
    else
        print_line(verdict, expected, passed);
    return passed ? GW_EXIT_OK : GW_EXIT_UNDETERMINED;
}
