/* `gpuwhy run`: start the program under the doors, move what its buffers hold into the recording, wait, judge. */
#include "gwi_blame.h"
#include "gwi_child.h"
#include "gwi_cmd.h"
#include "gwi_cudnn.h"
#include "gwi_judge.h"
#include "gwi_options.h"
#include "gwi_past.h"
#include "gwi_run.h"

#include "gw_clock.h"
#include "gw_fact.h"
#include "gw_gpucore.h"
#include "gw_out.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS_STRUCT gwi_run_options
static const gwi_option options_table[] = {GWI_RUN_OPTIONS(GWI_OPTION_ROW)};
enum { OPTION_COUNT = sizeof options_table / sizeof options_table[0] };

enum { DRAIN_EVERY_MS = 100, DRAIN_SOON_MS = 10, FIRST_LOOK_MS = 5 };
static const double fill_ratio_soon = 0.5;
/* How long a failure may stay unanswered before it counts as one that lasts, and how often we look again. */
static const uint64_t failure_lasts_ns = 3000000000u;
static const uint64_t judge_again_ns = 10000000000u;
/* How long we wait, after the command's end, for recorded processes that it left behind. */
static const uint64_t others_end_ns = 1000000000u;

typedef struct supervisor {
    gwi_run_options options;
    char **argv;
    gwi_program program;
    gwi_path run_folder; /* "" when there is none */
    gwi_doors doors;
    char doors_reason[512]; /* why they are closed, in words */
    gwi_record record;
    gwi_dumps dumps;
    gwi_cudnn cudnn; /* --deep */
    gwi_stderr capture;
    gwi_signals signals;
    gwi_watch watch;
    gwi_senses senses;
    pid_t child;
    uint64_t started_at_ns; /* run time */
    int status;
    gwi_hangs hangs; /* --hang-after */
    /* --on-failure */
    uint64_t judged_at_ns;
    bool failure_told;
    pid_t command_pid;
    bool is_second; /* the run of --blame */
    off_t input_at; /* where the program's standard input began; -1: it cannot be read again */
    /* --end-with-parent */
    pid_t parent;
    uint64_t parent_gone_at_ns; /* monotonic; 0: it is there */
} supervisor;

static int help(void)
{
    gw_text text = {0};
    gw_text_add_str(&text, "gpuwhy run [options] -- program [arguments]\n\n"
                           "Runs the program, records what it asks of the GPU, and says at the end why it died.\n"
                           "Ends with the program's own status.\n\n");
    gwi_options_help(options_table, OPTION_COUNT, &text);
    fputs(gw_text_str(&text), stdout);
    gw_text_free(&text);
    return GWI_EXIT_OK;
}

/* A descriptor 0, 1 or 2 that is closed would be given to the next file we open, and our words would land in it.
 * Close-on-exec: the program finds it as closed as we did. */
static void occupy_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
            return;
}

/* ---- before ---- */

static int parse(supervisor *run, int argc, char **argv)
{
    gw_error err = {0};
    int index = 0;
    gw_status st = gwi_options_parse(options_table, OPTION_COUNT, &run->options, argc, argv, &index, &err);
    if (st == GW_OK && !run->options.help && index == argc)
        st = gw_fail(&err, GW_USAGE, "no program given; for instance: gpuwhy run -- python train.py");
    if (st == GW_OK && run->options.deep && run->options.no_attach)
        st = gw_fail(&err, GW_USAGE, "--deep asks PyTorch, --no-attach forbids it");
    if (st != GW_OK) {
        gwi_say("run: %s", err.text);
        return GWI_EXIT_USAGE;
    }
    run->argv = argv + index;
    return GWI_EXIT_OK;
}

gw_status gwi_run_options_check(int count, char *const *words, gw_error *err)
{
    gwi_run_options options = {0};
    int index = 0;
    char **argv = calloc((size_t)count + 2, sizeof *argv);
    if (argv == NULL)
        return gw_fail(err, GW_NOMEM, "read the options of gpuwhy run");
    argv[0] = (char[]){"run"};
    for (int i = 0; i < count; i++)
        argv[i + 1] = words[i];
    gw_status st = gwi_options_parse(options_table, OPTION_COUNT, &options, count + 1, argv, &index, err);
    if (st == GW_OK && index < count + 1)
        st = gw_fail(err, GW_USAGE, "%s is no option of gpuwhy run", argv[index]);
    free(argv);
    return st;
}

static int find_program(supervisor *run)
{
    gw_error err;
    gw_status st = gwi_program_find(run->argv, &run->program, &err);
    if (st == GW_OK)
        return GWI_EXIT_OK;
    gwi_say("%s", err.text);
    return st == GW_MISSING ? GWI_EXIT_NOT_FOUND : GWI_EXIT_CANNOT_RUN;
}

static int open_doors(supervisor *run)
{
    gw_error err;
    gw_status st = gwi_doors_prepare(&run->doors, &run->options, &run->program, run->run_folder, &err);
    if (st == GW_OK)
        return GWI_EXIT_OK;
    bool is_32_bit = run->program.is_32_bit && st == GW_UNSUPPORTED;
    if (st == GW_USAGE || (run->doors.is_virtual && !is_32_bit)) {
        /* without its virtual GPU the program would meet another one */
        gwi_say("run: %s", err.text);
        return GWI_EXIT_USAGE;
    }
    snprintf(run->doors_reason, sizeof run->doors_reason, "%s", err.text);
    if (strcmp(run->doors.closed_why, "no driver") != 0)
        gwi_say("GPU calls are not recorded: %s", err.text);
    else if (!run->options.quiet)
        gwi_say("there is no GPU driver (libcuda.so.1) here, so GPU calls cannot be recorded; to try gpuwhy without a "
                "GPU: gpuwhy run --gpu virtual:h200 -- program");
    return GWI_EXIT_OK;
}

static void make_run_folder(supervisor *run)
{
    gw_error err;
    gwi_run_folders_tidy();
    if (gwi_run_folder_make(run->run_folder, &err) != GW_OK) {
        run->run_folder[0] = '\0';
        gwi_say("GPU calls are not recorded: %s", err.text);
    }
}

/* What keeps the hook out although the doors stand open. The program runs; the verdict must not claim anything. */
static void say_what_is_not_seen(supervisor *run)
{
    const gwi_program *program = &run->program;
    const char *why = program->is_32_bit ? "a 32-bit program"
                      : program->is_privileged
                          ? "a program with other rights than yours (setuid, setgid or capabilities)"
                      : program->is_static ? "a static program"
                                           : NULL;
    if (why == NULL)
        return;
    gwi_record_fact(&run->record, gw_fact_key_text(GW_FACT_UNOBSERVED_PROGRAM), "%s is %s", program->image, why);
    if (!program->is_32_bit && run->doors.open && !run->options.quiet)
        gwi_say("%s is %s: its own GPU calls cannot be recorded", program->image, why);
}

static int start(supervisor *run)
{
    gwi_stderr_begin(&run->capture, !run->options.no_stderr);
    if (run->capture.not_recorded != NULL)
        gwi_record_fact(&run->record, gw_fact_key_text(GW_FACT_STDERR_NOT_RECORDED), "%s", run->capture.not_recorded);
    if (run->capture.with_stdout)
        gwi_record_fact(&run->record, gw_fact_key_text(GW_FACT_STDERR_WITH_STDOUT), "both are one file or pipe");
    gwi_start how = {.argv = run->argv,
                     .program = &run->program,
                     .options = &run->options,
                     .doors = &run->doors,
                     .capture = &run->capture,
                     .signals = &run->signals,
                     .cudnn = &run->cudnn,
                     .run_folder = run->run_folder,
                     .supervisor = getpid()};
    gw_error err;
    int why = 0;
    gw_status st = gwi_child_start(&how, &run->child, &why, &err);
    gwi_stderr_began(&run->capture);
    if (st == GW_OK) {
        run->started_at_ns = gwi_record_now_ns(&run->record);
        gwi_senses_begin(&run->senses, &run->record, &run->options, &run->doors, run->child);
        if (!run->options.no_sense && !run->doors.is_virtual)
            gwi_record_bus(&run->record);
        return GWI_EXIT_OK;
    }
    gwi_say("%s", err.text);
    return GWI_EXIT_CANNOT_RUN;
}

/* ---- --on-failure ---- */

static void run_command(supervisor *run, const gw_verdict *verdict)
{
    gwi_path json;
    gw_error err;
    if (run->run_folder[0] == '\0' || gwi_path_format(json, &err, "%s/verdict.json", run->run_folder) != GW_OK)
        return;
    if (gwi_verdict_write_json(verdict, json, &err) != GW_OK)
        gwi_say("--on-failure: %s", err.text);
    run->command_pid = fork();
    if (run->command_pid != 0)
        return;
    gwi_signals_restore(&run->signals);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is the program's */
    setenv("GPUWHY_VERDICT_JSON", json, 1);
    execl("/bin/sh", "sh", "-c", run->options.on_failure, (char *)NULL);
    _exit(GWI_EXIT_NOT_FOUND);
}

static void judge_while_running(supervisor *run)
{
    gw_verdict *verdict = NULL;
    gw_error err;
    gwi_record_stderr(&run->record, &run->capture);
    gwi_cudnn_look(&run->cudnn);
    gwi_record_drain(&run->record, false);
    if (gwi_judge(run->run_folder, &verdict, &err) != GW_OK) {
        gwi_say("--on-failure: %s", err.text);
        return;
    }
    if (verdict->status == GW_VERDICT_FAULT) {
        run->failure_told = true;
        if (strcmp(run->options.on_failure, "print") == 0)
            gwi_verdict_print_now(verdict, &run->record);
        else
            run_command(run, verdict);
    }
    gw_verdict_free(verdict);
}

static void look_at_failures(supervisor *run)
{
    if (run->command_pid > 0 && waitpid(run->command_pid, NULL, WNOHANG) == run->command_pid)
        run->command_pid = 0;
    uint64_t now = gwi_record_now_ns(&run->record), since = run->record.failure_at_ns;
    if (run->options.on_failure == NULL || run->failure_told || since == 0 || run->record.path[0] == '\0' ||
        run->run_folder[0] == '\0')
        return;
    if (now - since < failure_lasts_ns && now < run->judged_at_ns + judge_again_ns)
        return; /* it may still be recovered; but a stream of failures must not put this off for ever */
    if (now < run->judged_at_ns + failure_lasts_ns)
        return;
    run->judged_at_ns = now;
    run->record.failure_at_ns = 0;
    judge_while_running(run);
}

/* ---- --hang-after ---- */

static bool say_hang(const char *run_folder, const gwi_record *record)
{
    gw_verdict *verdict = NULL;
    if (gwi_judge(run_folder, &verdict, NULL) != GW_OK)
        return false;
    bool is_hang = verdict->is_hang;
    if (is_hang)
        gwi_verdict_print_now(verdict, record);
    gw_verdict_free(verdict);
    return is_hang;
}

/* ---- --end-with-parent ---- */

/* A server that starts programs through us knows nobody but us. When it is gone, the program would learn it from a new
 * parent, but its parent is us. */
static void look_at_parent(supervisor *run)
{
    static const uint64_t patience_ns = 5000000000u;
    if (!run->options.end_with_parent || getppid() == run->parent)
        return;
    uint64_t now = gw_monotonic_ns();
    if (run->parent_gone_at_ns == 0) {
        run->parent_gone_at_ns = now;
        kill(run->child, SIGTERM);
    } else if (now - run->parent_gone_at_ns > patience_ns) {
        kill(run->child, SIGKILL);
    }
}

/* ---- meanwhile ---- */

/* Wait until something happened, or it is time to drain. */
static void wait_a_moment(const supervisor *run)
{
    bool soon = run->record.drain != NULL && gw_drain_fill_ratio(run->record.drain) > fill_ratio_soon;
    /* An end is looked at once: how a process ended can be read best before its parent has asked. */
    struct pollfd waited[] = {
        {.fd = run->signals.fd, .events = POLLIN},
        {.fd = run->record.drain == NULL ? -1 : gw_drain_end_fd(run->record.drain), .events = POLLIN}};
    bool is_new = gwi_record_now_ns(&run->record) < run->started_at_ns + FIRST_LOOK_MS * UINT64_C(1000000);
    poll(waited, sizeof waited / sizeof waited[0], is_new ? FIRST_LOOK_MS : soon ? DRAIN_SOON_MS : DRAIN_EVERY_MS);
}

static void watch(supervisor *run)
{
    while (!gwi_child_ended(run->child, &run->status)) {
        wait_a_moment(run);
        gwi_signals_pass_on(&run->signals, run->child);
        gwi_record_drain(&run->record, false);
        gwi_cudnn_look(&run->cudnn);
        gwi_holders_record(&run->record, &run->doors);
        gwi_senses_look(&run->senses, &run->record);
        gwi_watch_look(&run->watch, &run->record, &run->doors, run->child, false);
        look_at_failures(run);
        look_at_parent(run);
        gwi_hangs_look(&run->hangs, &run->record, &run->capture, run->run_folder, run->child);
    }
}

/* ---- after ---- */

/* One fact a line of the notes that the virtual cards left. */
static void take_virtual_notes(supervisor *run)
{
    gwi_path path;
    if (run->doors.virtual_folder[0] == '\0' ||
        gwi_path_format(path, NULL, "%s/notes", run->doors.virtual_folder) != GW_OK)
        return;
    char line[1024];
    FILE *notes = fopen(path, "re");
    while (notes != NULL && fgets(line, sizeof line, notes) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        gwi_record_fact(&run->record, "virtual.note", "%s", line);
    }
    if (notes != NULL)
        fclose(notes);
}

/* Processes that the command left behind are often about to end: a launcher's workers, pools that are torn down. They
 * get a moment, and no more: a service that the command started must not keep the caller waiting. */
static void see_others_end(supervisor *run)
{
    enum { PIDS_MAX = 64 };
    uint32_t pid[PIDS_MAX];
    if (run->record.drain == NULL)
        return;
    uint64_t until_ns = gw_monotonic_ns() + others_end_ns;
    gwi_record_drain(&run->record, false);
    size_t count = gw_drain_alive(run->record.drain, pid, PIDS_MAX);
    while (count > 0 && gw_monotonic_ns() < until_ns) {
        wait_a_moment(run);
        gwi_signals_pass_on(&run->signals, 0); /* whom they were for is gone */
        gwi_record_drain(&run->record, false);
        count = gw_drain_alive(run->record.drain, pid, PIDS_MAX);
    }
    for (size_t i = 0; i < count && i < PIDS_MAX; i++) {
        gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(&run->record), .pid = pid[i]};
        item.pair.key = gw_fact_key_text(GW_FACT_PROCESS_ALIVE);
        item.pair.value = "when the command had ended";
        gwi_record_put(&run->record, &item);
    }
}

/* A run inside this one has a recording of its own: the processes that it started are not in ours. One says so in a
 * file of our run folder, a line each. */
static void say_nested(const supervisor *run)
{
    const char *outer = getenv("GPUWHY_RUN_DIR");
    gwi_path path;
    if (outer == NULL || outer[0] != '/' || run->is_second || gwi_path_format(path, NULL, "%s/nested", outer) != GW_OK)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    bool kept = run->record.path[0] != '\0' && !run->record.is_temporary;
    dprintf(fd, "pid %d is another gpuwhy run; what it started is recorded %s%s\n", (int)getpid(),
            kept ? "in " : "elsewhere", kept ? run->record.path : "");
    close(fd);
}

static void take_nested(supervisor *run)
{
    gwi_path path;
    char line[PATH_MAX + 128];
    if (run->run_folder[0] == '\0' || gwi_path_format(path, NULL, "%s/nested", run->run_folder) != GW_OK)
        return;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        gwi_record_fact(&run->record, "unobserved.nested", "%s", line);
    }
    if (file != NULL)
        fclose(file);
}

static void finish_recording(supervisor *run)
{
    uint64_t ended_at_ns = gwi_record_now_ns(&run->record);
    see_others_end(run);
    gwi_stderr_settle(&run->capture);
    gwi_record_drain(&run->record, true);
    gwi_holders_record(&run->record, &run->doors);
    gwi_senses_last(&run->senses, &run->record, run->status);
    gwi_record_stderr(&run->record, &run->capture);
    gwi_cudnn_end(&run->cudnn);
    take_virtual_notes(run);
    take_nested(run);
    gwi_dumps_take(&run->dumps, &run->record, run->child);
    gwi_host_cores_take(&run->record, run->child, run->status);
    gw_item item = {.kind = GW_ITEM_EXIT, .t_ns = ended_at_ns};
    item.pid = (uint32_t)run->child;
    item.exit = (gw_exit_fact){.pid = (uint32_t)run->child,
                               .is_command = true,
                               .status_known = true,
                               .exit_code = WIFEXITED(run->status) ? WEXITSTATUS(run->status) : -1,
                               .signal = WIFSIGNALED(run->status) ? WTERMSIG(run->status) : 0,
                               .core_dumped = WIFSIGNALED(run->status) && WCOREDUMP(run->status)};
    gwi_record_put(&run->record, &item);
    gwi_record_names(&run->record); /* after the end, so that nothing is missing if it takes too long for somebody */
}

static void tell(supervisor *run)
{
    gw_verdict *verdict = NULL;
    gw_error err;
    if (run->record.path[0] == '\0')
        return; /* said when the recording could not be made */
    gw_status st = gwi_judge(run->record.path, &verdict, &err);
    if (st != GW_OK) {
        gwi_say("no verdict: %s", err.text);
        return;
    }
    if (!run->options.no_history) {
        gwi_path folder;
        if (verdict->status != GW_VERDICT_CLEAN && getcwd(folder, sizeof folder) != NULL)
            gwi_last_good_say(verdict, run->record.path, folder);
        gwi_past_add(verdict, run->record.is_temporary ? "" : run->record.path);
    }
    if (!run->record.is_temporary) {
        free(verdict->recording);
        verdict->recording = strdup(run->record.path);
    }
    if (!run->options.quiet || verdict->status == GW_VERDICT_FAULT)
        gwi_verdict_print(verdict, &(gwi_print){.all = verdict->recording == NULL}, STDERR_FILENO);
    if (run->options.json != NULL && gwi_verdict_write_json(verdict, run->options.json, &err) != GW_OK)
        gwi_say("--json: %s", err.text);
    gw_verdict_free(verdict);
}

static void clean_up(supervisor *run)
{
    gwi_cudnn_end(&run->cudnn); /* of a program that was not started */
    gwi_record_close(&run->record);
    gwi_stderr_end(&run->capture);
    if (run->command_pid > 0)
        waitpid(run->command_pid, NULL, 0); /* it reads its verdict from the run folder */
    if (run->run_folder[0] != '\0')
        gwi_folder_remove(run->run_folder);
    gwi_signals_end(&run->signals);
}

/* Everything up to the started program. An exit status other than 0: it was not started. */
static int begin(supervisor *run)
{
    gw_error err;
    if (!run->is_second)
        gwi_doors_path(&run->options);
    int status = find_program(run);
    if (status != GWI_EXIT_OK)
        return status;
    make_run_folder(run);
    gwi_signals_begin(&run->signals);
    status = open_doors(run);
    if (status != GWI_EXIT_OK)
        return status;
    if (gwi_record_open(&run->record, &run->options, run->run_folder, run->argv, &err) != GW_OK) {
        gwi_say("run: %s", err.text);
        return GWI_EXIT_USAGE;
    }
    if (run->record.path[0] != '\0' && !run->record.is_temporary && !run->is_second)
        gwi_last_recording_set(run->record.path); /* `gpuwhy explain` can be asked from now on */
    if (run->options.core)
        gwi_dumps_ask(&run->dumps, &run->record, run->run_folder);
    if (run->options.deep)
        gwi_cudnn_ask(&run->cudnn, &run->record);
    gwi_record_meta(&run->record, &run->options, run->argv, &run->doors);
    if (!run->doors.open)
        gwi_record_fact(&run->record, "doors.reason", "%s", run->doors_reason);
    say_what_is_not_seen(run);
    say_nested(run);
    return start(run);
}

/* ---- --blame: once more, waiting for each launch ---- */

/* Nobody reads the output of a second run as if it were the first one's: it goes nowhere. */
static int output_to_nowhere(void)
{
    int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (kept >= 0 && null >= 0)
        dup2(null, STDOUT_FILENO);
    if (null >= 0)
        close(null);
    return kept;
}

static void output_back(int kept)
{
    if (kept < 0)
        return;
    dup2(kept, STDOUT_FILENO);
    close(kept);
}

static gw_status name_second(const supervisor *first, gwi_path out)
{
    const char *ending = strstr(first->record.path, ".gpuwhy");
    if (first->record.is_temporary || first->record.path[0] == '\0')
        return first->run_folder[0] == '\0' ? GW_MISSING
                                            : gwi_path_format(out, NULL, "%s/blame.gpuwhy", first->run_folder);
    size_t bytes = ending != NULL && strcmp(ending, ".gpuwhy") == 0 ? (size_t)(ending - first->record.path)
                                                                    : strlen(first->record.path);
    return gwi_path_format(out, NULL, "%.*s.blame.gpuwhy", (int)bytes, first->record.path);
}

static void supervise(supervisor *run)
{
    watch(run);
    finish_recording(run);
}

/* GWI_EXIT_OK: second->status and its recording are there. */
static int run_second(const supervisor *first, supervisor *second, const char *recording)
{
    *second = (supervisor){
        .options = first->options, .argv = first->argv, .is_second = true, .input_at = -1, .parent = first->parent};
    second->options.output = recording;
    second->options.blame = second->options.core = false;
    second->options.on_failure = second->options.json = NULL;
    second->options.quiet = true;
    second->signals.fd = -1;
    second->capture.child_fd = second->capture.file_fd = -1;
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    gwi_dumps_forbid(); /* the launch shall report the fault itself */
    if (first->input_at >= 0)
        (void)!lseek(STDIN_FILENO, first->input_at, SEEK_SET);
    int output = output_to_nowhere();
    gwi_record_init(&second->record);
    gwi_cudnn_init(&second->cudnn);
    int status = begin(second);
    if (status == GWI_EXIT_OK)
        supervise(second);
    output_back(output);
    clean_up(second);
    return status;
}

static bool is_wanted(supervisor *first, gwi_blame *blame)
{
    gw_verdict *verdict = NULL;
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    if (!first->options.blame || first->record.writer == NULL ||
        gw_writer_flush(first->record.writer, false, NULL) != GW_OK ||
        gwi_judge(first->run_folder[0] == '\0' ? first->record.path : first->run_folder, &verdict, NULL) != GW_OK)
        return false;
    bool wanted = gwi_blame_wanted(verdict);
    gw_verdict_free(verdict);
    if (wanted && blocking != NULL && atoi(blocking) != 0)
        blame->not_run = "the first one waited for each launch already (CUDA_LAUNCH_BLOCKING)";
    return wanted;
}

/* The mask and the witness of the first run go before the second one sets up its own. */
static void give_signals_back(supervisor *first)
{
    gwi_signals_restore(&first->signals);
    gwi_signals_end(&first->signals);
}

static void blame(supervisor *first)
{
    static supervisor second;
    gwi_blame facts = {0};
    gwi_path recording;
    if (!is_wanted(first, &facts))
        return;
    if (facts.not_run == NULL && name_second(first, recording) != GW_OK)
        facts.not_run = "there is no place for its recording";
    if (facts.not_run == NULL) {
        gwi_say(
            "a fault on the GPU ended the run; it runs once more with CUDA_LAUNCH_BLOCKING=1 (--blame), without its "
            "standard output");
        give_signals_back(first);
        if (run_second(first, &second, recording) != GWI_EXIT_OK)
            facts.not_run = "it could not be started";
    }
    facts.recording = recording;
    facts.status = second.status;
    facts.is_kept = !first->record.is_temporary;
    gwi_blame_record(&first->record, &facts);
}

int gwi_cmd_run(int argc, char **argv)
{
    static supervisor run; /* large, and there is one */
    occupy_standard_descriptors();
    int status = parse(&run, argc, argv);
    if (status != GWI_EXIT_OK)
        return status;
    if (run.options.help)
        return help();
    run.parent = getppid();
    gw_error err;
    if (gwi_hangs_begin(&run.hangs, &run.options, say_hang, &err) != GW_OK) {
        gwi_say("run: %s", err.text);
        return GWI_EXIT_USAGE;
    }
    run.signals.fd = -1;
    run.capture.child_fd = run.capture.file_fd = -1;
    run.input_at = lseek(STDIN_FILENO, 0, SEEK_CUR); /* a terminal or a pipe has no place to go back to */
    gwi_record_init(&run.record);
    gwi_cudnn_init(&run.cudnn);
    status = begin(&run);
    if (status != GWI_EXIT_OK) {
        gwi_record_close(&run.record);
        if (run.record.path[0] != '\0')
            unlink(run.record.path); /* of a program that never ran */
        clean_up(&run);
        return status;
    }
    supervise(&run);
    blame(&run);
    gwi_record_close(&run.record);
    tell(&run);
    clean_up(&run);
    gwi_end_like(run.status);
}
