/* `gpuwhy run`: runs a program under the supervisor, judges the recording and prints the verdict. */
#include "gwi_attempts.h"
#include "gwi_blame.h"
#include "gwi_cmd.h"
#include "gwi_gate.h"
#include "gwi_judge.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_output.h"
#include "gwi_past_runs.h"
#include "gwi_terminal.h"

#include "gw_config.h"
#include "gw_inject.h"
#include "gw_say.h"
#include "gw_supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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
    X(MAYBE, const char *, fence, "--fence", "exit", NULL,                                                             \
      "after an error that loses the context, let all GPU calls fail at once; =exit: end the program")                 \
    X(STRING, const char *, output, "-o", "FILE|FOLDER/", NULL,                                                        \
      "write the recording to FILE, or to a new file in FOLDER, which has the rank in its name")                       \
    X(STRING, const char *, leaks, "--leaks", "strict", NULL,                                                          \
      "all device memory that a program leaves unfreed at a good end is a leak")                                       \
    X(STRING, const char *, fail_on, "--fail-on", "any|leak|CAUSE[,..]", NULL,                                         \
      "exit with 123 if the program exits with 0, but the verdict is one of these; any: a fault or a leak, or "        \
      "unknown; memory that is only not freed counts with --leaks strict")                                             \
    X(FLAG, bool, quiet, "--quiet", NULL, NULL, "print a verdict only on failure")                                     \
    X(FLAG, bool, no_verdict, "--no-verdict", NULL, NULL, "only record; print no verdict")                             \
    X(STRING, const char *, json, "--json", "FILE", NULL, "also write the verdict as JSON; -: to standard output")     \
    X(STRING, const char *, junit, "--junit", "FILE", NULL,                                                            \
      "also write the result as JUnit XML: the end, and each word of --fail-on, is a test")                            \
    X(STRING, const char *, message, "--message", "FILE", NULL,                                                        \
      "after a failure, also write the verdict as short text, at most 4096 bytes: /dev/termination-log")               \
    X(STRING, const char *, on_failure, "--on-failure", "print|CMD", NULL,                                             \
      "print the verdict, or run CMD, a few seconds after a failure if the program keeps running")                     \
    X(FLAG, bool, no_history, "--no-history", NULL, NULL,                                                              \
      "do not list this run in gpuwhy history, and do not compare it with the last good run")                          \
    X(BYTES, uint64_t, record_bytes_max, "--record-limit", "SIZE", GW_STANDARD_RECORD_LIMIT,                           \
      "largest recording; the oldest events are dropped first; 0: no limit")                                           \
    X(STRING, const char *, record_environment, "--record-environment", "NAME[,..]", NULL,                             \
      "also record these environment variables; * at the end of a name: any text")                                     \
    X(FLAG, bool, blame, "--blame", NULL, NULL,                                                                        \
      "after a fault on the GPU, run the program again with synchronous launches")                                     \
    X(FLAG, bool, core, "--core", NULL, NULL,                                                                          \
      "if a kernel faults, let the driver write a small GPU core dump and read it")                                    \
    X(FLAG, bool, deep, "--deep", NULL, NULL,                                                                          \
      "record the Python line of each PyTorch allocation, and cuDNN's own log; slower")                                \
    X(FLAG, bool, allocations, "--allocations", NULL, NULL,                                                            \
      "record PyTorch's latest 65,536 allocations at the program's end, too: for gpuwhy whatif")                       \
    X(FLAG, bool, catch_crash, "--catch-crash", NULL, NULL,                                                            \
      "install a handler that records the memory address and the stack of a crash in host code")                       \
    X(FLAG, bool, no_ras, "--no-ras", NULL, NULL, "when a hang is seen, do not ask NCCL's RAS about the ranks")        \
    X(FLAG, bool, no_attach, "--no-attach", NULL, NULL, "do not collect evidence inside Python and frameworks")        \
    X(FLAG, bool, no_sites, "--no-sites", NULL, NULL, "do not record where driver calls were made")                    \
    X(FLAG, bool, no_stderr, "--no-stderr", NULL, NULL, "do not record the program's stderr")                          \
    X(FLAG, bool, no_sense, "--no-sense", NULL, NULL, "do not sample the state of the cards and the machine")          \
    X(STRING, const char *, hang_after, "--hang-after", "SECONDS|off", NULL,                                           \
      "report a hang if nothing happens for this long [off on a terminal, otherwise 300]")                             \
    X(FLAG, bool, kill_on_hang, "--kill-on-hang", NULL, NULL,                                                          \
      "after a hang is reported, stop the program: SIGTERM, 10 s later SIGKILL")                                       \
    X(COUNT, uint32_t, restart_count, "--restart", "N", NULL,                                                          \
      "if the program fails for a reason that may not happen again, start it again, at most N times")                  \
    X(LIST, gw_option_list, on, "--on", "CAUSE:ACTION", NULL,                                                          \
      "what to change in the next attempt: NAME=/2, NAME=VALUE or env:NAME=VALUE; may be repeated")                    \
    X(FLAG, bool, cure, "--cure", NULL, NULL,                                                                          \
      "after an out-of-memory error, start the program again with a setting that is shown to help")                    \
    X(MAYBE, const char *, rescue, "--rescue", "N|leak|rehearse", NULL,                                                \
      "after a failure, change what is shown to help, and start the program again, at most N times [3]")               \
    X(STRING, const char *, resume_with, "--resume-with", "WORDS", NULL,                                               \
      "with --rescue: add these words to the next attempt's command; {last} is the newest checkpoint")                 \
    X(STRING, const char *, checkpoints, "--checkpoints", "PATTERN", NULL,                                             \
      "with --rescue: the files that the program writes as checkpoints, such as 'out/*.pt'")                           \
    X(STRING, const char *, wait_memory, "--wait-memory", "SIZE[:TIMEOUT]", NULL,                                      \
      "before the start, wait until each card has this much free memory")                                              \
    X(STRING, const char *, alarm_at, "--alarm-at", "SIZE|PERCENT[:CMD]", NULL,                                        \
      "report once, and run CMD, when memory that the program cannot give back grows beyond this")                     \
    X(FLAG, bool, end_with_parent, "--end-with-parent", NULL, NULL,                                                    \
      "stop the program when the process that started gpuwhy exits, or gpuwhy is killed")                              \
    X(FLAG, bool, off, "--off", NULL, NULL, "start the program without recording it, as if gpuwhy were not there")

#define OPTIONS_STRUCT gw_run_options
GWI_OPTION_TABLE(options_table, OPTION_COUNT, RUN_OPTIONS);

const gwi_manual gwi_manual_run = {
    .usage = "gpuwhy run [options] -- program [arguments]\n",
    .about = "Runs the program, records the GPU calls of the program and its children, and prints at the end on "
             "stderr why it failed. Output, exit status and signals are those of the program. Options end at -- or "
             "at the first word that is not an option.",
    .words = "PROGRAM",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .sections = {{"--gpu", "the GPU"},
                 {"-o", "output"},
                 {"--blame", "evidence"},
                 {"--hang-after", "hangs, limits and new attempts"},
                 {"--help", "all commands"}},
    .brief = "--gpu --memory -o --quiet --json --blame --core --deep --hang-after --restart --rescue --wait-memory",
    .exits = {{GWI_EXIT_PROGRAM,
               "the exit status of the program; if a signal ended the program, gpuwhy ends by the same signal"},
              {GW_EXIT_USAGE, "usage error; the program was not started"},
              {GW_EXIT_FAIL_ON, "with --fail-on: the program exited with 0, but the verdict is one of the words"},
              {GW_EXIT_HOST_FULL,
               "this machine has no memory left for the virtual cards; gpuwhy ended the program, and gives "
               "no verdict"},
              {GW_EXIT_CANNOT_RUN, "the program cannot be executed"},
              {GW_EXIT_NOT_FOUND, "there is no such program"}},
    .environment = {{GWI_MANUAL_STATE_HOME},
                    {"GPUWHY_OFF", "1: the hook records nothing and passes every call through"},
                    {"GPUWHY_SITES", "0: do not record call sites, like --no-sites; see docs/call-sites.md"},
                    {"GPUWHY_HISTORY",
                     "number of entries that --deep reads from PyTorch's memory history; default: 100000"},
                    {"GPUWHY_COURSE", "0: do not follow PyTorch's allocations from the first one on"},
                    {"CUDA_LAUNCH_BLOCKING",
                     "if it is not 0, --blame does not start a second run, because the first one already waits for "
                     "each launch"}},
    .files = {{GWI_MANUAL_RECORDINGS},
              {"$XDG_STATE_HOME/gpuwhy/last", "link to the last recording"},
              {GWI_MANUAL_RUNS},
              {"$XDG_CONFIG_HOME/gpuwhy/config",
               "how long recordings are kept, in JSON; by default ~/.config/gpuwhy/config"}},
    .examples = {{"gpuwhy run -- python train.py", "record the program and explain why it failed"},
                 {"gpuwhy run --quiet --json verdict.json -- ./train",
                  "print a verdict only on failure, and write it as JSON"},
                 {"gpuwhy run --memory 16GiB -- python train.py", "let the program see a smaller card"},
                 {"gpuwhy run --gpu virtual:h200 -- ./train",
                  "run a program that uses the driver API on a machine without a GPU"}},
    .see_also = "explain history rehearse report"};

/* Open /dev/null on each of the descriptors 0, 1 and 2 that is closed. Otherwise gpuwhy's next file would get that
 * number, and gpuwhy would print into it. The program does not inherit these descriptors (close-on-exec). */
static void occupy_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
            return;
}

/* Leave out values of the configuration that do not go with an option. */
static void reconcile(gw_run_options *options)
{
    const gw_config_value *value = gw_config_process()->value;
    if (options->kill_on_hang && options->hang_after != NULL &&
        value[GW_CONFIG_HANG_AFTER].source != GW_CONFIG_OPTION && strcmp(options->hang_after, "off") == 0)
        options->hang_after = NULL;
    if (options->memory_bytes == 0 && value[GW_CONFIG_MEMORY_SHARED].source != GW_CONFIG_OPTION)
        options->memory_shared = false;
}

/* Check the options that change what the program sees, and what fails the job. */
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
    if (options->leaks != NULL && strcmp(options->leaks, "strict") != 0)
        return gw_fail(err, GW_USAGE, "--leaks %s: must be strict", options->leaks);
    return gwi_gate_check(options->fail_on, err);
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
    if (st == GW_OK && !gw_config_names_are_valid(options->record_environment))
        st = gw_fail(&err, GW_USAGE, "--record-environment %s: expected %s", options->record_environment,
                     gw_config_valid(GW_CONFIG_TYPE_NAMES));
    reconcile(options);
    if (st == GW_OK)
        st = check_interventions(options, &err);
    if (st != GW_OK)
        return gwi_refuse("run", &err);
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
    reconcile(&options);
    if (st == GW_OK)
        st = check_interventions(&options, err);
    if (st == GW_OK && index < count + 1)
        st = gw_fail(err, GW_USAGE, "%s is not an option of gpuwhy run", argv[index]);
    free(argv);
    return st;
}

/* ---- the configuration ---- */

/* Report a limit of the configuration, because the user may not know that there is one. */
static void say_limit(const gw_run_options *options)
{
    gw_text place = {0};
    char bytes[GW_BYTES_TEXT_MAX];
    const gw_config *config = gw_config_process();
    gw_config_source source = config->value[GW_CONFIG_MEMORY].source;
    if (options->memory_bytes == 0 || source == GW_CONFIG_OPTION || options->quiet)
        return;
    gw_config_add_place(config, GW_CONFIG_MEMORY, &place);
    gw_say("the program sees at most %s of GPU memory (%s)", gw_bytes_text(bytes, options->memory_bytes),
           gw_text_str(&place));
    gw_text_free(&place);
}

/* Return the option that cannot be honoured while gpuwhy is switched off, or NULL. Without it, the program would use
 * another GPU or see something else than the user wants, or pass a gate that nothing watches. */
static const char *needs_gpuwhy(const gw_run_options *options)
{
    if (strcmp(options->gpu, "real") != 0)
        return "--gpu";
    if (gw_config_process()->value[GW_CONFIG_MEMORY].source == GW_CONFIG_OPTION && options->memory_bytes != 0)
        return "--memory";
    if (options->inject != NULL)
        return "--inject";
    if (options->fail_on != NULL)
        return "--fail-on";
    return options->fence != NULL ? "--fence" : NULL;
}

/* Replace this process by the program, without gpuwhy. Returns only on failure, with the exit status. */
static int run_off(const gw_run_options *options, char *const *program)
{
    gw_text place = {0};
    const char *option = needs_gpuwhy(options);
    gw_config_add_place(gw_config_process(), GW_CONFIG_OFF, &place);
    if (option != NULL)
        gw_say("run: %s does not work while gpuwhy is switched off (%s)", option, gw_text_str(&place));
    else if (!options->quiet)
        gw_say("switched off (%s): the program runs without gpuwhy", gw_text_str(&place));
    gw_text_free(&place);
    if (option != NULL)
        return GW_EXIT_USAGE;
    execvp(program[0], program);
    int why = errno;
    gw_say("%s: %s", program[0], strerror(why));
    return why == ENOENT ? GW_EXIT_NOT_FOUND : GW_EXIT_CANNOT_RUN;
}

/* ---- --on-failure ---- */

static void run_command(gw_supervisor *run, const char *folder, const gw_verdict *verdict, const char *command)
{
    gw_path json;
    gw_error err;
    if (gw_path_format(json, &err, "%s/verdict.json", folder) != GW_OK)
        return;
    const gwi_output output = {.option = "--on-failure", .path = json, .fd = -1};
    if (gwi_verdict_write_json(verdict, &output, &err) != GW_OK)
        gw_say("%s", err.text);
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
    int status; /* how the program ended, as from waitpid() */
} closed_recording;

/* The files that the options name. */
enum { RECORDING, MESSAGE, JSON, JUNIT, OUTPUT_COUNT };

static bool ended_well(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Write --junit, and return how to end: with the status of --fail-on if the program ended well, but the job must fail.
 * `verdict` NULL: there is none. */
static int judge_job(const gw_run_options *options, const gw_verdict *verdict, int status, const gwi_output *junit)
{
    gw_error err;
    if (options->junit != NULL &&
        gwi_gate_write_junit(options->fail_on, verdict, ended_well(status), junit, &err) != GW_OK)
        gw_say("%s", err.text);
    return ended_well(status) && gwi_gate_fails(options->fail_on, verdict) ? W_EXITCODE(GW_EXIT_FAIL_ON, 0) : status;
}

/* The user knows why the program ended: one line is enough, as other programs print after Ctrl-C. */
static void say_interrupt(const gw_verdict *verdict, const gw_run_options *options)
{
    gw_text line = {0};
    bool is_last = !options->no_history || options->output == NULL; /* what `gpuwhy explain` reads */
    gw_text_addf(&line, "interrupted with Ctrl-C after %.1f s", verdict->seconds);
    if (verdict->recording != NULL)
        gw_text_add_str(&line, "; details: ");
    if (verdict->recording != NULL)
        gw_add_explain(&line, false, is_last ? NULL : verdict->recording);
    if (gwi_is_terminal(STDERR_FILENO))
        (void)!write(STDERR_FILENO, "\n", 1); /* the terminal has printed ^C */
    gw_say("%s", gw_text_str(&line));
    gw_text_free(&line);
}

/* Return the verdict, or NULL: there is none, and the reason was printed, or it would not be used. */
static gw_verdict *judge(const closed_recording *closed, const gw_run_options *options)
{
    gw_verdict *verdict = NULL;
    gw_error err;
    bool is_unused = options->no_verdict && options->no_history && options->json == NULL && options->message == NULL &&
                     options->junit == NULL && options->fail_on == NULL;
    if (closed->path[0] == '\0' || is_unused)
        return NULL;
    if (gwi_judge_shown(closed->path, &verdict, &err) != GW_OK)
        gw_say("no verdict: %s", err.text);
    return verdict;
}

static void tell(gw_verdict *verdict, const closed_recording *closed, const gw_run_options *options,
                 char *const *program, const gwi_output output[OUTPUT_COUNT])
{
    gw_error err;
    bool is_kept = closed->is_kept;
    const char *recording = closed->path;
    if (!options->no_history) {
        gw_path folder;
        if (verdict->status != GW_VERDICT_CLEAN && getcwd(folder, sizeof folder) != NULL)
            gwi_last_good_say(verdict, recording, folder);
    }
    if (is_kept) {
        free(verdict->recording);
        verdict->recording = strdup(recording);
    }
    /* first, because a container is killed if it ends slowly */
    gwi_message_write(&output[MESSAGE], verdict, closed->status);
    bool is_good = ended_well(closed->status) && verdict->status != GW_VERDICT_FAULT;
    if (!options->no_verdict && verdict->is_interrupt)
        say_interrupt(verdict, options);
    else if (!options->no_verdict && !(options->quiet && is_good))
        gwi_verdict_print(verdict, &(gwi_print){.all = verdict->recording == NULL}, STDERR_FILENO);
    if (options->json != NULL && gwi_verdict_write_json(verdict, &output[JSON], &err) != GW_OK)
        gw_say("%s", err.text);
    /* Only now, because it may wait for other programs. A run is listed with the command that the user gave, even if
     * --on changed it for a later attempt. */
    if (!options->no_history)
        gwi_past_add(verdict, is_kept ? recording : "", verdict->attempt_count > 1 ? program : NULL, NULL);
}

/* Judge the run, and say what came of it. Returns how to end this process, as from waitpid(). */
static int conclude(const closed_recording *closed, const gw_run_options *options, char *const *program,
                    const gwi_output output[OUTPUT_COUNT])
{
    gw_verdict *verdict = judge(closed, options);
    if (verdict != NULL)
        tell(verdict, closed, options, program, output);
    int status = judge_job(options, verdict, closed->status, &output[JUNIT]);
    gw_verdict_free(verdict);
    return status;
}

/* Run the attempts. On return, the last one is closed. *run is NULL if another attempt should have followed and could
 * not be started. */
static void watch_attempts(gwi_attempts *attempts, gw_supervisor **run, closed_recording *ret_closed)
{
    bool again = true;
    while (again && *run != NULL) {
        gw_supervisor_watch(*run);
        bool is_host_full = gw_supervisor_is_host_full(*run);
        if (attempts->options->blame && !is_host_full)
            blame(*run);
        again = !is_host_full && gwi_attempts_again(attempts, *run);
        ret_closed->status = gw_supervisor_status(*run);
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
        return gwi_manual_print(&gwi_manual_run);
    if (gw_config_process()->value[GW_CONFIG_OFF].number != 0) {
        status = gwi_attempts_begin(&attempts, &options, program, &err) == GW_OK
                     ? run_off(&options, attempts.command.argv)
                     : gwi_refuse("run", &err);
        gwi_attempts_free(&attempts);
        return status;
    }
    say_limit(&options);
    gw_path folder;
    gwi_output output[] = {
        [RECORDING] = {.option = "-o", .path = options.output, .kind = GWI_OUTPUT_RECORDING},
        [MESSAGE] = {.option = "--message", .path = options.message, .beside = ".txt", .wait_s_max = GWI_OUTPUT_WAIT_S},
        [JSON] = {.option = "--json",
                  .path = options.json,
                  .beside = ".json",
                  .may_be_stdout = true,
                  .wait_s_max = GWI_OUTPUT_WAIT_S},
        [JUNIT] = {.option = "--junit",
                   .path = options.junit,
                   .beside = ".xml",
                   .mode = 0666,
                   .wait_s_max = GWI_OUTPUT_WAIT_S}};
    if (options.output == NULL && gwi_common()->folder != NULL &&
        gw_path_format(folder, NULL, "%s/", gwi_common()->folder) == GW_OK && folder[0] == '/')
        output[RECORDING] =
            (gwi_output){.option = "--folder", .path = folder, .kind = GWI_OUTPUT_RECORDING, .makes_parents = true};
    if (gwi_attempts_begin(&attempts, &options, program, &err) != GW_OK ||
        gwi_outputs_open(output, OUTPUT_COUNT, program, 1, &err) != GW_OK) {
        gwi_attempts_free(&attempts);
        return gwi_refuse("run", &err);
    }
    gw_run_judges judges = {.failure = judge_failure, .hang = judge_hang, .lines = gwi_growing_lines, .user = &options};
    status = gw_supervisor_start(&options, attempts.command.argv, &judges, &run);
    if (status == GW_EXIT_OK) {
        closed_recording closed = {.is_kept = false};
        watch_attempts(&attempts, &run, &closed);
        if (run != NULL && gw_supervisor_is_host_full(run))
            gw_say("no verdict: this machine has no memory left for the virtual cards, so gpuwhy ended the program");
        else
            closed.status = conclude(&closed, &options, program, output);
        gwi_attempts_free(&attempts);
        gw_supervisor_end(run, closed.status);
    }
    gwi_attempts_free(&attempts);
    return status;
}
