/* `gpuwhy run`: runs a program under the supervisor, judges the recording and prints the verdict. */
#include "gwi_attempts.h"
#include "gwi_blame.h"
#include "gwi_cmd.h"
#include "gwi_growing.h"
#include "gwi_judge.h"
#include "gwi_options.h"
#include "gwi_past.h"

#include "gw_inject.h"
#include "gw_say.h"
#include "gw_supervisor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The options. Each row sets one field of gw_run_options, so a new option needs a new field there. */
#define RUN_OPTIONS(X)                                                                                                 \
    X(STRING, const char *, gpu, "--gpu", "real|virtual:CARD[,..]", "real",                                            \
      "the GPU to use, such as virtual:h200 or virtual:2xh200,memory=16GiB,fault=..")                                  \
    X(BYTES, uint64_t, memory_bytes, "--memory", "SIZE", NULL, "limit the GPU memory that the program sees")           \
    X(FLAG, bool, memory_shared, "--memory-shared", NULL, NULL,                                                        \
      "let all processes of the run share the limit of --memory")                                                      \
    X(STRING, const char *, inject, "--inject", "PLAN", NULL,                                                          \
      "let GPU calls fail on purpose, such as oom@alloc:3 or 700@sync,p=0.01,seed=7; see docs/commands/run.md")        \
    X(MAYBE, const char *, fence, "--fence", "[=exit]", NULL,                                                          \
      "after an error that loses the context, let all GPU calls fail at once; =exit: end the program")                 \
    X(STRING, const char *, output, "-o", "FILE|FOLDER/", NULL,                                                        \
      "write the recording to FILE, or to a new file in FOLDER, which has the rank in its name")                       \
    X(BYTES, uint64_t, record_bytes_max, "--record-limit", "SIZE", "512MiB",                                           \
      "largest recording; the oldest events are dropped first; 0: no limit")                                           \
    X(FLAG, bool, quiet, "--quiet", NULL, NULL, "print a verdict only on failure")                                     \
    X(FLAG, bool, no_verdict, "--no-verdict", NULL, NULL, "only record; print no verdict")                             \
    X(STRING, const char *, json, "--json", "FILE", NULL, "also write the verdict as JSON; -: to standard output")     \
    X(STRING, const char *, on_failure, "--on-failure", "print|CMD", NULL,                                             \
      "print the verdict, or run CMD, a few seconds after a failure if the program keeps running")                     \
    X(FLAG, bool, core, "--core", NULL, NULL,                                                                          \
      "if a kernel faults, let the driver write a small GPU core dump and read it")                                    \
    X(FLAG, bool, blame, "--blame", NULL, NULL,                                                                        \
      "after a fault on the GPU, run the program again with synchronous launches")                                     \
    X(FLAG, bool, deep, "--deep", NULL, NULL,                                                                          \
      "record the Python line of each PyTorch allocation, and cuDNN's own log; slower")                                \
    X(FLAG, bool, allocations, "--allocations", NULL, NULL,                                                            \
      "record PyTorch's latest 65,536 allocations at the program's end, too: for gpuwhy whatif")                       \
    X(STRING, const char *, hang_after, "--hang-after", "SECONDS|off", NULL,                                           \
      "report a hang if nothing happens for this long [off on a terminal, otherwise 300]")                             \
    X(FLAG, bool, kill_on_hang, "--kill-on-hang", NULL, NULL,                                                          \
      "after a hang is reported, stop the program: SIGTERM, 10 s later SIGKILL")                                       \
    X(FLAG, bool, no_attach, "--no-attach", NULL, NULL, "do not collect evidence inside Python and frameworks")        \
    X(FLAG, bool, no_sites, "--no-sites", NULL, NULL, "do not record where driver calls were made")                    \
    X(FLAG, bool, catch_crash, "--catch-crash", NULL, NULL,                                                            \
      "install a handler that records the memory address and the stack of a crash in host code")                       \
    X(FLAG, bool, no_stderr, "--no-stderr", NULL, NULL, "do not record the program's stderr")                          \
    X(FLAG, bool, no_sense, "--no-sense", NULL, NULL, "do not sample the state of the cards and the machine")          \
    X(FLAG, bool, no_history, "--no-history", NULL, NULL,                                                              \
      "do not list this run in gpuwhy history, and do not compare it with the last good run")                          \
    X(FLAG, bool, end_with_parent, "--end-with-parent", NULL, NULL,                                                    \
      "stop the program when the process that started gpuwhy exits, or gpuwhy is killed")                              \
    X(COUNT, uint32_t, restart_count, "--restart", "N", NULL,                                                          \
      "if the program fails for a reason that may not happen again, start it again, at most N times")                  \
    X(LIST, gw_option_list, on, "--on", "CAUSE:ACTION", NULL,                                                          \
      "what to change in the next attempt: NAME=/2, NAME=VALUE or env:NAME=VALUE; may be repeated")                    \
    X(FLAG, bool, cure, "--cure", NULL, NULL,                                                                          \
      "after an out-of-memory error, start the program again with a setting that is shown to help")                    \
    X(STRING, const char *, wait_memory, "--wait-memory", "SIZE[:TIMEOUT]", NULL,                                      \
      "before the start, wait until each card has this much free memory")                                              \
    X(STRING, const char *, alarm_at, "--alarm-at", "SIZE|PERCENT[:CMD]", NULL,                                        \
      "report once, and run CMD, when memory that the program cannot give back grows beyond this")                     \
    X(FLAG, bool, help, "--help", NULL, NULL, "print this help")

#define OPTIONS_STRUCT gw_run_options
static const gwi_option options_table[] = {RUN_OPTIONS(GWI_OPTION_ROW)};
#define GW_X(type, ctype, field, name, argument, standard, help)                                                       \
    _Static_assert(__builtin_types_compatible_p(ctype, __typeof__(((gw_run_options *)NULL)->field)), "type of " name);
RUN_OPTIONS(GW_X)
#undef GW_X
enum { OPTION_COUNT = sizeof options_table / sizeof options_table[0] };

static int help(void)
{
    gw_text text = {0};
    gw_text_add_str(&text, "gpuwhy run [options] -- program [arguments]\n\n"
                           "Runs the program, records its GPU calls, and explains at the end why it failed.\n"
                           "The exit status is that of the program.\n\n");
    gwi_options_help(options_table, OPTION_COUNT, &text);
    fputs(gw_text_str(&text), stdout);
    gw_text_free(&text);
    return GW_EXIT_OK;
}

/* Open /dev/null on each of the descriptors 0, 1 and 2 that is closed. Otherwise gpuwhy's next file would get that
 * number, and gpuwhy would print into it. The program does not inherit these descriptors (close-on-exec). */
static void occupy_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
            return;
}

/* Check the options that change what the program sees. */
static gw_status check_interventions(const gw_run_options *options, gw_error *err)
{
    gw_inject_plan plan;
    char reason[GW_INJECT_REASON_MAX];
    if (options->inject != NULL && !gw_inject_parse(options->inject, &plan, reason))
        return gw_fail(err, GW_USAGE, "--inject: %s", reason);
    if (options->fence != NULL && options->fence[0] != '\0' && strcmp(options->fence, "exit") != 0)
        return gw_fail(err, GW_USAGE, "--fence=%s: use --fence or --fence=exit", options->fence);
    if (options->memory_shared && options->memory_bytes == 0)
        return gw_fail(err, GW_USAGE, "--memory-shared needs --memory SIZE");
    return GW_OK;
}

static int parse(gw_run_options *options, int argc, char **argv, char ***ret_program)
{
    gw_error err = {0};
    int index = 0;
    gw_status st = gwi_options_parse(options_table, OPTION_COUNT, options, argc, argv, &index, &err);
    if (st == GW_OK && !options->help && index == argc)
        st = gw_fail(&err, GW_USAGE, "no program given; for example: gpuwhy run -- python train.py");
    if (st == GW_OK && options->deep && options->no_attach)
        st = gw_fail(&err, GW_USAGE, "--deep and --no-attach cannot be combined");
    if (st == GW_OK && options->allocations && options->no_attach)
        st = gw_fail(&err, GW_USAGE, "--allocations and --no-attach cannot be combined");
    if (st == GW_OK && options->cure && options->no_attach)
        st = gw_fail(&err, GW_USAGE, "--cure and --no-attach cannot be combined");
    if (st == GW_OK)
        st = check_interventions(options, &err);
    if (st != GW_OK) {
        gw_say("run: %s", err.text);
        return GW_EXIT_USAGE;
    }
    *ret_program = argv + index;
    return GW_EXIT_OK;
}

gw_status gwi_run_options_check(int count, char *const *words, gw_error *err)
{
    gw_run_options options = {0};
    int index = 0;
    char **argv = calloc((size_t)count + 2, sizeof *argv);
    if (argv == NULL)
        return gw_fail(err, GW_NOMEM, "read the options of gpuwhy run");
    argv[0] = (char[]){"run"};
    for (int i = 0; i < count; i++)
        argv[i + 1] = words[i];
    gw_status st = gwi_options_parse(options_table, OPTION_COUNT, &options, count + 1, argv, &index, err);
    if (st == GW_OK)
        st = check_interventions(&options, err);
    if (st == GW_OK && index < count + 1)
        st = gw_fail(err, GW_USAGE, "%s is not an option of gpuwhy run", argv[index]);
    free(argv);
    return st;
}

/* ---- --on-failure ---- */

static void run_command(gw_supervisor *run, const char *folder, const gw_verdict *verdict, const char *command)
{
    gw_path json;
    gw_error err;
    if (gw_path_format(json, &err, "%s/verdict.json", folder) != GW_OK)
        return;
    if (gwi_verdict_write_json(verdict, json, &err) != GW_OK)
        gw_say("--on-failure: %s", err.text);
    gw_supervisor_command(run, command, json);
}

/* Print a verdict while the program runs. The verdict names the recording only if it will be kept. */
static void print_now(gw_supervisor *run, gw_verdict *verdict)
{
    bool is_kept;
    const char *recording = gw_supervisor_recording(run, &is_kept);
    gwi_verdict_print_now(verdict, is_kept ? recording : NULL);
}

static bool judge_failure(gw_supervisor *run, const char *folder, void *user)
{
    const gw_run_options *options = user;
    gw_verdict *verdict = NULL;
    gw_error err;
    if (gwi_judge(folder, &verdict, &err) != GW_OK) {
        gw_say("--on-failure: %s", err.text);
        return false;
    }
    bool is_fault = verdict->status == GW_VERDICT_FAULT;
    if (is_fault && strcmp(options->on_failure, "print") == 0)
        print_now(run, verdict);
    else if (is_fault)
        run_command(run, folder, verdict, options->on_failure);
    gw_verdict_free(verdict);
    return is_fault;
}

/* ---- --hang-after ---- */

static bool judge_hang(gw_supervisor *run, const char *folder, void *user)
{
    const gw_run_options *options = user;
    gw_verdict *verdict = NULL;
    if (gwi_judge(folder, &verdict, NULL) != GW_OK)
        return false;
    bool is_hang = verdict->is_hang;
    if (is_hang && !options->no_verdict)
        print_now(run, verdict);
    gw_verdict_free(verdict);
    return is_hang;
}

/* ---- --blame: a second run with synchronous launches ---- */

static bool is_blame_wanted(gw_supervisor *first)
{
    gw_verdict *verdict = NULL;
    const char *recording = gw_supervisor_flush(first);
    if (recording == NULL || gwi_judge(recording, &verdict, NULL) != GW_OK)
        return false;
    bool wanted = gwi_blame_wanted(verdict);
    gw_verdict_free(verdict);
    return wanted;
}

static void blame(gw_supervisor *first)
{
    gwi_blame second = {0};
    gw_path recording;
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    if (!is_blame_wanted(first))
        return;
    if (blocking != NULL && atoi(blocking) != 0)
        second.not_run = "the first run already waited for each launch (CUDA_LAUNCH_BLOCKING)";
    else
        second.not_run = gw_supervisor_again(first, recording, &second.status);
    second.recording = recording;
    gw_supervisor_recording(first, &second.is_kept);
    gwi_blame_record(first, &second);
}

/* ---- after the run ---- */

/* A recording that is closed. */
typedef struct closed_recording {
    gw_path path; /* "": there is none */
    bool is_kept;
} closed_recording;

static void tell(const closed_recording *closed, const gw_run_options *options, char *const *program)
{
    gw_verdict *verdict = NULL;
    gw_error err;
    bool is_kept = closed->is_kept;
    const char *recording = closed->path;
    if (recording[0] == '\0')
        return; /* the recording could not be created, and the error was already printed */
    if (options->no_verdict && options->no_history && options->json == NULL)
        return; /* the verdict would not be used */
    gw_status st = gwi_judge_shown(recording, &verdict, &err);
    if (st != GW_OK) {
        gw_say("no verdict: %s", err.text);
        return;
    }
    if (!options->no_history) {
        gw_path folder;
        if (verdict->status != GW_VERDICT_CLEAN && getcwd(folder, sizeof folder) != NULL)
            gwi_last_good_say(verdict, recording, folder);
    }
    if (is_kept) {
        free(verdict->recording);
        verdict->recording = strdup(recording);
    }
    if (!options->no_verdict && (!options->quiet || verdict->status == GW_VERDICT_FAULT))
        gwi_verdict_print(verdict, &(gwi_print){.all = verdict->recording == NULL}, STDERR_FILENO);
    if (options->json != NULL && gwi_verdict_write_json(verdict, options->json, &err) != GW_OK)
        gw_say("--json: %s", err.text);
    /* Only now, because it may wait for other programs. A run is listed with the command that the user gave, even if
     * --on changed it for a later attempt. */
    if (!options->no_history)
        gwi_past_add(verdict, is_kept ? recording : "", verdict->attempt_count > 1 ? program : NULL);
    gw_verdict_free(verdict);
}

/* Run the attempts. On return, the last one is closed, and *ret_status is its status as from waitpid(). *run is NULL if
 * another attempt should have followed and could not be started. */
static void watch_attempts(gwi_attempts *attempts, gw_supervisor **run, closed_recording *ret_closed, int *ret_status)
{
    bool again = true;
    while (again && *run != NULL) {
        gw_supervisor_watch(*run);
        if (attempts->options->blame)
            blame(*run);
        again = gwi_attempts_again(attempts, *run);
        *ret_status = gw_supervisor_status(*run);
        gw_supervisor_close(*run);
        const char *path = gw_supervisor_recording(*run, &ret_closed->is_kept);
        snprintf(ret_closed->path, sizeof ret_closed->path, "%s", path);
        if (again)
            (void)gwi_attempts_next(attempts, run);
    }
}

int gwi_cmd_run(int argc, char **argv)
{
    gw_run_options options = {0};
    gwi_attempts attempts;
    char **program = NULL;
    gw_supervisor *run = NULL;
    gw_error err = {0};
    occupy_standard_descriptors();
    int status = parse(&options, argc, argv, &program);
    if (status != GW_EXIT_OK)
        return status;
    if (options.help)
        return help();
    if (gwi_attempts_begin(&attempts, &options, program, &err) != GW_OK) {
        gw_say("run: %s", err.text);
        gwi_attempts_free(&attempts);
        return GW_EXIT_USAGE;
    }
    gw_run_judges judges = {.failure = judge_failure, .hang = judge_hang, .lines = gwi_growing_lines, .user = &options};
    status = gw_supervisor_start(&options, program, &judges, &run);
    if (status == GW_EXIT_OK) {
        closed_recording closed = {.is_kept = false};
        watch_attempts(&attempts, &run, &closed, &status);
        tell(&closed, &options, program);
        gwi_attempts_free(&attempts);
        if (run == NULL)
            gw_supervisor_end_like(status);
        gw_supervisor_end(run);
    }
    gwi_attempts_free(&attempts);
    return status;
}
