/* Sets up a run and cleans up after it. The setup finds the program, prepares the facade ("opens the doors"), creates
 * the recording and starts the program. Through the facade, the program loads the driver. */
#include "gw_keep.h"
#include "gwi_state.h"

#include "gw_exit.h"
#include "gw_fact.h"
#include "gw_own.h"
#include "gw_say.h"
#include "gw_supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- setup ---- */

static int find_program(gw_supervisor *run)
{
    gw_error err;
    gw_status st = gwi_program_find(run->argv, &run->program, &err);
    if (st == GW_OK)
        return GW_EXIT_OK;
    gw_text meant = {0};
    gwi_program_meant(run->argv, run->options.rehearse ? "gpuwhy rehearse --" : "gpuwhy run --", &meant);
    gw_say("%s%s", err.text, gw_text_str(&meant));
    gw_text_free(&meant);
    return st == GW_MISSING ? GW_EXIT_NOT_FOUND : GW_EXIT_CANNOT_RUN;
}

static int open_doors(gw_supervisor *run)
{
    gw_error err;
    gw_status st = gwi_doors_prepare(&run->doors, &run->options, &run->program, run->run_folder, &err);
    if (st == GW_OK)
        return GW_EXIT_OK;
    bool is_32_bit = run->program.is_32_bit && st == GW_UNSUPPORTED;
    if (st == GW_USAGE || (run->doors.is_virtual && !is_32_bit)) {
        /* without its virtual GPU, the program would use another GPU */
        gw_say("run: %s", err.text);
        return GW_EXIT_USAGE;
    }
    snprintf(run->doors_reason, sizeof run->doors_reason, "%s", err.text);
    if (strcmp(run->doors.closed_why, "failed") == 0)
        run->doors.closed_why = run->doors_reason;
    if (strcmp(run->doors.closed_why, "no driver") != 0)
        gw_say("GPU calls are not recorded: %s", err.text);
    else if (!run->options.quiet)
        gw_say("this machine has no GPU driver (libcuda.so.1), so GPU calls cannot be recorded; %s",
               run->program.needs_driver && !run->program.needs_runtime
                   ? "to run the program without a GPU: gpuwhy run --gpu virtual:h200 -- program"
                   : "without a GPU, see gpuwhy explain LOG, gpuwhy doctor -- python, gpuwhy lab");
    return GW_EXIT_OK;
}

static void make_run_folder(gw_supervisor *run)
{
    gw_error err;
    bool is_on_disk = false;
    gwi_run_folders_tidy();
    if (gwi_run_folder_make(run->run_folder, &is_on_disk, &err) != GW_OK) {
        run->run_folder[0] = '\0';
        gw_say("GPU calls are not recorded: %s", err.text);
    } else if (is_on_disk && !run->options.quiet) {
        gw_say("the buffers are in %s, because no writable tmpfs has room; a slow disk may delay the program",
               run->run_folder);
    }
}

/* If the program cannot load the hook, record why. The program runs anyway, but the verdict must not claim anything
 * about its GPU calls. */
static void say_what_is_not_seen(gw_supervisor *run)
{
    const gwi_program *program = &run->program;
    const char *why = NULL;
    if (program->is_32_bit)
        why = "a 32-bit program";
    else if (program->is_privileged)
        why = "a program with other privileges than yours (setuid, setgid or capabilities)";
    else if (program->is_static)
        why = "a static program";
    if (why == NULL)
        return;
    gwi_record_fact(&run->record, gw_fact_key_text(GW_FACT_UNOBSERVED_PROGRAM), "%s is %s", program->image, why);
    if (!program->is_32_bit && run->doors.open && !run->options.quiet)
        gw_say("%s is %s: its own GPU calls cannot be recorded", program->image, why);
}

/* If another run started this one, append a line to the file "nested" in the outer run's folder. The outer recording
 * lacks this run's processes. */
static void say_nested(const gw_supervisor *run)
{
    const char *outer = getenv("GPUWHY_RUN_DIR");
    int folder;
    if (outer == NULL || outer[0] != '/' || run->is_second || gw_own_folder_open(outer, &folder, NULL) != GW_OK)
        return;
    int fd = openat(folder, "nested", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    close(folder);
    if (fd < 0)
        return;
    bool kept = run->record.path[0] != '\0' && !run->record.is_temporary;
    dprintf(fd, "pid %d is another gpuwhy run; the processes that it started are recorded %s%s\n", (int)getpid(),
            kept ? "in " : "elsewhere", kept ? run->record.path : "");
    close(fd);
}

static void record_capture(gw_supervisor *run)
{
    if (run->capture.not_recorded != NULL)
        gwi_record_fact(&run->record, gw_fact_key_text(GW_FACT_STDERR_NOT_RECORDED), "%s", run->capture.not_recorded);
    if (run->capture.with_stdout)
        gwi_record_fact(&run->record, gw_fact_key_text(GW_FACT_STDERR_WITH_STDOUT), "both are the same file or pipe");
}

static int start(gw_supervisor *run)
{
    gwi_stderr_begin(&run->capture, !run->options.no_stderr, run->run_folder);
    gwi_doors_stderr(&run->doors, &run->program, run->run_folder, &run->capture);
    gwi_start how = {.argv = run->argv,
                     .program = &run->program,
                     .options = &run->options,
                     .doors = &run->doors,
                     .capture = &run->capture,
                     .signals = &run->signals,
                     .cudnn = &run->cudnn,
                     .run_folder = run->run_folder,
                     .handout = run->handout.text,
                     .supervisor = getpid()};
    gw_error err;
    int why = 0;
    gw_status st = gwi_child_start(&how, &run->child, &why, &err);
    gwi_stderr_began(&run->capture);
    record_capture(run);
    if (st == GW_OK) {
        run->started_at_ns = gwi_record_now_ns(&run->record);
        gwi_senses_begin(&run->senses, &run->record, &run->options, &run->doors, run->child);
        if (!run->options.no_sense && !run->doors.is_virtual)
            gwi_record_bus(&run->record);
        return GW_EXIT_OK;
    }
    gw_say("%s", err.text);
    return GW_EXIT_CANNOT_RUN;
}

/* --wait-memory. Returns false if a signal asked us to end. If the time is over, or nothing is known about the memory,
 * the program is started anyway. */
static bool wait_for_memory(gw_supervisor *run)
{
    return run->is_second || run->wanted.bytes == 0 || gwi_room_wait(run, &run->wanted) != GW_WAIT_STOPPED;
}

/* True if the user keeps this run out of the list of runs and has named its file: it is then not "the last" one
 * either. */
static bool is_apart(const gw_supervisor *run)
{
    return run->options.no_history && run->options.output != NULL;
}

int gwi_supervisor_start(gw_supervisor *run)
{
    gw_error err;
    if (run->attempt == 1)
        gwi_doors_path(&run->options);
    int status = find_program(run);
    if (status != GW_EXIT_OK)
        return status;
    make_run_folder(run);
    gwi_shared_file_make(&run->shared, &run->options, run->run_folder);
    gwi_handout_begin(&run->handout, run->run_folder);
    run->watch.run_folder = run->run_folder;
    gwi_signals_begin(&run->signals);
    gwi_rehearsal_begin(&run->options);
    gwi_around_begin(&run->around);
    status = open_doors(run);
    if (status != GW_EXIT_OK)
        return status;
    status = gwi_rehearsal_possible(run);
    if (status != GW_EXIT_OK)
        return status;
    run->record.held = &run->memory.held;
    run->memory.limit_bytes = run->options.memory_bytes;
    if (gwi_record_open(&run->record, &run->options, run->run_folder, run->argv, &err) != GW_OK) {
        gw_say("run: %s", err.text);
        return GW_EXIT_USAGE;
    }
    if (run->record.path[0] != '\0' && !run->record.is_temporary && !run->is_second && !is_apart(run))
        gwi_last_recording_set(run->record.path); /* `gpuwhy explain` reads this recording by default */
    if (run->record.path[0] != '\0' && !run->record.is_temporary && !run->is_second && !run->options.no_history)
        gwi_unfinished_set(run->record.path, run->unfinished);
    if (run->options.core)
        gwi_dumps_ask(&run->dumps, &run->record, run->run_folder);
    if (run->options.deep)
        gwi_cudnn_ask(&run->cudnn, &run->record);
    gwi_record_meta(&run->record, &run->options, run->argv, &run->doors);
    if (!run->doors.open)
        gwi_record_fact(&run->record, "doors.reason", "%s", run->doors_reason);
    else if (run->run_folder[0] == '\0')
        gwi_record_fact(&run->record, gw_fact_key_text(GW_FACT_DOORS_CLOSED), "no folder has room for the buffers");
    say_what_is_not_seen(run);
    say_nested(run);
    return wait_for_memory(run) ? start(run) : GW_EXIT_STOPPED;
}

void gwi_supervisor_init(gw_supervisor *run, const gw_run_options *options, char *const *argv)
{
    *run = (gw_supervisor){.options = *options, .argv = argv};
    run->signals.fd = -1;
    run->capture.child_fd = run->capture.file_fd = run->capture.source_fd = run->capture.tail_fd = -1;
    run->handout.fd = -1;
    gwi_record_init(&run->record);
    gwi_cudnn_init(&run->cudnn);
}

/* ---- clean-up ---- */

/* Remove old recordings beyond the configured limits. If the limits cannot be read, remove nothing: the user may want
 * to keep more than usual. */
static void remove_old_recordings(void)
{
    gw_keep_limits limits;
    gw_keep_result result;
    gw_error err;
    if (gw_keep_limits_read(&limits, &err) != GW_OK)
        gw_say("old recordings are not removed: %s", err.text);
    else if (gw_keep_apply(&limits, &result, &err) != GW_OK)
        gw_say("old recordings cannot be removed: %s", err.text);
}

void gwi_supervisor_clean_up(gw_supervisor *run)
{
    gw_text left_behind = {0};
    gwi_rehearsal_end(&run->options, &left_behind);
    if (left_behind.bytes > 0)
        gw_say("rehearse: %s", gw_text_str(&left_behind));
    gw_text_free(&left_behind);
    gwi_cudnn_end(&run->cudnn); /* if the program was not started, the log is still open */
    gwi_record_close(&run->record);
    gwi_stderr_end(&run->capture);
    if (run->command_pid > 0)
        waitpid(run->command_pid, NULL, 0); /* wait: the --on-failure command reads the verdict from the run folder */
    gwi_alarm_end(&run->alarm);
    gwi_held_free(&run->memory.held);
    gwi_hangs_close(&run->hangs);
    gwi_handout_end(&run->handout);
    gwi_shared_file_close(&run->shared);
    gwi_dumps_end(&run->dumps);
    if (run->run_folder[0] != '\0')
        gwi_folder_remove(run->run_folder);
    if (!run->is_second)
        remove_old_recordings();
    gwi_unfinished_clear(run->unfinished);
    gwi_signals_end(&run->signals);
}

/* ---- for the caller ---- */

static bool judge_hang(void *user, const char *folder)
{
    gw_supervisor *run = user;
    return run->judges.hang != NULL && run->judges.hang(run, folder, run->judges.user);
}

void gwi_supervisor_release_signals(gw_supervisor *run)
{
    gwi_signals_restore(&run->signals);
    gwi_signals_end(&run->signals);
}

int gwi_supervisor_start_or_clean_up(gw_supervisor *run)
{
    gw_error err;
    if (gwi_hangs_begin(&run->hangs, &run->options, &err) != GW_OK ||
        gwi_room_wanted_parse(run->options.wait_memory, &run->wanted, &err) != GW_OK ||
        gwi_alarm_parse(run->options.alarm_at, &run->alarm, &err) != GW_OK) {
        gw_say("run: %s", err.text);
        return GW_EXIT_USAGE;
    }
    if (gwi_rehearsal_check(&run->options, &err) != GW_OK) {
        gw_say("rehearse: %s", err.text);
        return GW_EXIT_USAGE;
    }
    run->hangs.judge = judge_hang;
    run->hangs.user = run;
    int status = gwi_supervisor_start(run);
    if (status == GW_EXIT_OK)
        return GW_EXIT_OK;
    gwi_record_close(&run->record);
    if (run->record.path[0] != '\0')
        unlink(run->record.path); /* an empty recording is of no use: the program never ran */
    gwi_supervisor_clean_up(run);
    /* as a program that the signal ended; after an earlier attempt, the caller first reports that one */
    if (status == GW_EXIT_STOPPED && run->attempt == 1)
        gwi_end_like(run->signals.stop_signal);
    return status;
}

/* Run the program without gpuwhy, because the limit on open files is too low to record it. Returns only on failure,
 * with gpuwhy's exit status. */
static int run_bare(const gw_run_options *options, char *const *argv)
{
    if (strcmp(options->gpu, "real") != 0) { /* without gpuwhy, the program would use another GPU */
        gw_say("run: the limit on open files is too low (ulimit -n) to run a program with --gpu %s", options->gpu);
        return GW_EXIT_USAGE;
    }
    if (options->rehearse) { /* without gpuwhy, the program would take memory and compute */
        gw_say("rehearse: the limit on open files is too low (ulimit -n); the program was not started");
        return GW_EXIT_CANNOT_RUN;
    }
    gw_say("cannot record: the limit on open files is too low (ulimit -n); the program runs without gpuwhy");
    gwi_limits_restore();
    execvp(argv[0], argv);
    gw_say("%s: %s", argv[0], strerror(errno));
    return errno == ENOENT ? GW_EXIT_NOT_FOUND : GW_EXIT_CANNOT_RUN;
}

int gw_supervisor_start(const gw_run_options *options, char *const *argv, const gw_run_judges *judges,
                        gw_supervisor **ret_run)
{
    if (!gwi_limits_begin())
        return run_bare(options, argv);
    gw_supervisor *run = calloc(1, sizeof *run);
    if (run == NULL) {
        gw_say("run: out of memory");
        return GW_EXIT_CANNOT_RUN;
    }
    gwi_supervisor_init(run, options, argv);
    run->judges = *judges;
    run->attempt = 1;
    run->parent = getppid();
    run->input_at = lseek(STDIN_FILENO, 0, SEEK_CUR); /* -1 for a terminal or a pipe, which cannot be rewound */
    int status = gwi_supervisor_start_or_clean_up(run);
    if (status == GW_EXIT_OK)
        *ret_run = run;
    else
        free(run);
    return status;
}

void gw_supervisor_watch(gw_supervisor *run)
{
    gwi_loop_run(run);
    gwi_finish_recording(run);
}

bool gw_supervisor_is_host_full(gw_supervisor *run)
{
    if (run->is_host_full)
        run->status = GW_EXIT_HOST_FULL << 8; /* as from waitpid() */
    return run->is_host_full;
}

void gw_supervisor_note(gw_supervisor *run, const char *key, const char *value)
{
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(&run->record)};
    item.pair.key = key;
    item.pair.value = value;
    gwi_record_put(&run->record, &item);
}

void gw_supervisor_close(gw_supervisor *run)
{
    gwi_record_close(&run->record);
}

void gw_supervisor_end(gw_supervisor *run, int status)
{
    if (run != NULL)
        gwi_supervisor_clean_up(run);
    free(run);
    gwi_end_like(status);
}

void gw_supervisor_leave(gw_supervisor *run, gw_text *left_behind)
{
    gwi_signals_pass_on(&run->signals, 0); /* a signal that has ended the program must not end the caller */
    gwi_supervisor_release_signals(run);
    gwi_rehearsal_end(&run->options, left_behind);
    gwi_supervisor_clean_up(run);
    free(run);
}

const char *gw_supervisor_flush(gw_supervisor *run)
{
    if (run->record.writer == NULL || gw_writer_flush(run->record.writer, false, NULL) != GW_OK)
        return NULL;
    return run->run_folder[0] == '\0' ? run->record.path : run->run_folder;
}

const char *gw_supervisor_recording(const gw_supervisor *run, bool *ret_is_kept)
{
    *ret_is_kept = run->record.path[0] != '\0' && !run->record.is_temporary;
    return run->record.path;
}

void gw_supervisor_command(gw_supervisor *run, const char *command, const char *json)
{
    const gwi_setting settings[] = {{"GPUWHY_VERDICT_JSON", json}, {NULL, NULL}};
    run->command_pid = gwi_command_start(run, command, settings);
}
