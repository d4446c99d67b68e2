/* Trials of `gpuwhy fit`: child processes that run `gpuwhy rehearse` or `gpuwhy run`. Each is the leader of a process
 * group of its own, so that the terminal's ^C reaches only us, and we end them all. */
#include "gw_recording.h"
#include "gwi_fit_state.h"
#include "gwi_options.h"

#include "gw_array.h"
#include "gw_clock.h"
#include "gw_own.h"
#include "gw_process.h"
#include "gw_say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Looks at trials of `gpuwhy fit`: finds one, and follows how far a real run is. */

/* A speed needs so many iterations in the measured half. */
static const double iterations_least = 3;
/* Time that a speed is measured, at least. */
static const uint64_t measured_ns = 3000000000u;

const gwi_fit_trial *gwi_fit_trial_of(const gwi_fit *fit, size_t combination, uint64_t number, gwi_fit_kind kind)
{
    for (size_t i = fit->trial_count; i-- > 0;) {
        const gwi_fit_trial *trial = fit->trial[i];
        if (trial->combination == combination && trial->number == number && trial->kind == kind)
            return trial;
    }
    return NULL;
}

uint64_t gwi_fit_launches_each(const gwi_fit *fit, size_t combination, uint64_t number)
{
    uint64_t launches = 0, nearest = UINT64_MAX;
    for (size_t i = 0; i < fit->trial_count; i++) {
        const gwi_fit_trial *trial = fit->trial[i];
        uint64_t apart = trial->number > number ? trial->number - number : number - trial->number;
        if (trial->combination != combination || trial->launches_each == 0 || apart >= nearest)
            continue;
        nearest = apart;
        launches = trial->launches_each;
    }
    return launches;
}

/* ---- how far is a real run? ---- */

static void look_into(void *user, const char *folder)
{
    gwi_fit_trial *trial = user;
    gw_path recording;
    pid_t supervisor = 0;
    if (gw_run_meta_read(folder, recording, &supervisor) && supervisor == trial->pid)
        snprintf(trial->run_folder, sizeof trial->run_folder, "%s", folder);
}

static void count_launches(void *user, const gw_thread_look *look)
{
    *(uint64_t *)user += look->launches;
}

static void ask_to_end(gwi_fit_trial *trial)
{
    trial->asked_ns = gw_monotonic_ns();
    kill(trial->pid, SIGTERM);
}

/* The iterations in the second half of the run so far, and its time: what is slow at the beginning is not measured.
 * 0: unknown. */
static double iterations_of_half(const gwi_fit *fit, const gwi_fit_trial *trial, uint64_t *ret_ns)
{
    uint64_t launches_each = gwi_fit_launches_each(fit, trial->combination, trial->number);
    if (launches_each == 0 || trial->sample_count < 2)
        return 0;
    const gwi_fit_sample *last = &trial->sample[trial->sample_count - 1], *half = &trial->sample[0];
    while (half[1].t_ns <= trial->sample[0].t_ns + (last->t_ns - trial->sample[0].t_ns) / 2)
        half++;
    *ret_ns = last->t_ns - half->t_ns;
    return (double)(last->launches - half->launches) / (double)launches_each;
}

/* A busy machine may look at a run too rarely for a speed after the usual time: then it needs more time. */
static bool is_measured(const gwi_fit *fit, const gwi_fit_trial *trial, uint64_t now_ns)
{
    uint64_t ns = 0;
    return now_ns - trial->sample[0].t_ns >= measured_ns && iterations_of_half(fit, trial, &ns) >= iterations_least;
}

void gwi_fit_watch(const gwi_fit *fit, gwi_fit_trial *trial)
{
    uint64_t launches = 0, now_ns = gw_monotonic_ns();
    if (trial->asked_ns != 0)
        return;
    if (trial->run_folder[0] == '\0')
        gw_run_folders_visit(look_into, trial);
    if (trial->run_folder[0] != '\0' && gw_drain_peek(trial->run_folder, 0, count_launches, &launches, NULL) == GW_OK &&
        launches > trial->launches &&
        gw_array_room(&trial->sample, trial->sample_count, &trial->sample_capacity, sizeof *trial->sample)) {
        trial->sample[trial->sample_count++] = (gwi_fit_sample){now_ns, launches};
        trial->launches = launches;
    }
    bool is_enough = trial->enough_launches != 0 && trial->launches >= trial->enough_launches &&
                     (!fit->speed || is_measured(fit, trial, now_ns));
    if (is_enough || (double)(now_ns - trial->started_ns) / 1e9 > fit->real_seconds)
        ask_to_end(trial);
}

void gwi_fit_measure(const gwi_fit *fit, gwi_fit_trial *trial)
{
    uint64_t ns = 0;
    if (trial->kind != GWI_FIT_REAL || trial->fit != GW_FIT_YES)
        return;
    double iterations = iterations_of_half(fit, trial, &ns);
    if (iterations >= iterations_least)
        trial->items_per_second = iterations * (double)trial->number / ((double)ns / 1e9);
}

extern char **environ;

enum { WATCH_MS = 100, WORDS_MAX = 32 };
static const uint64_t kill_after_ns = 10000000000u, stop_after_ns = 3000000000u;
static const char *const endings[] = {"json", "log", "gpuwhy"};

/* ---- signals and the folder ---- */

/* True if nohup has started us: SIGHUP is then ignored, and must not be blocked, because it would arrive. */
static bool is_nohup(void)
{
    struct sigaction now;
    return sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

gw_status gwi_fit_begin(gwi_fit *fit, gw_error *err)
{
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t taken;
    sigaction(SIGCHLD, &standard, NULL); /* with an inherited SIG_IGN we would get no exit statuses */
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, SIGINT);
    sigaddset(&taken, SIGTERM);
    sigaddset(&taken, SIGQUIT);
    if (!is_nohup())
        sigaddset(&taken, SIGHUP);
    sigprocmask(SIG_BLOCK, &taken, &fit->old_mask);
    gw_orphans_take();
    fit->started_ns = gw_monotonic_ns();
    fit->started_realtime_ns = gw_realtime_ns();
    fit->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fit->signal_fd < 0)
        return gw_fail(err, GW_IO, "take signals: %s", strerror(errno));
    return gwi_temporary_make("fit", &fit->folder, err);
}

static void remove_files(const gwi_fit_trial *trial)
{
    gw_path path;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (gw_path_format(path, NULL, "%s.%s", trial->stem, endings[i]) == GW_OK)
            unlink(path);
}

/* ---- starting ---- */

static size_t add_options(const gwi_fit *fit, const gwi_fit_trial *trial, char memory[32], const char **word)
{
    size_t count = 0;
    bool is_real = trial->kind == GWI_FIT_REAL;
    uint64_t limit = trial->kind == GWI_FIT_LARGER ? trial->limit_bytes : fit->memory_bytes;
    word[count++] = "gpuwhy";
    word[count++] = is_real ? "run" : "rehearse";
    word[count++] = "--gpu";
    word[count++] = fit->gpu;
    if (limit != 0 || is_real) { /* 0: no limit, also if the configuration has one */
        snprintf(memory, 32, "%" PRIu64, limit);
        word[count++] = "--memory";
        word[count++] = memory;
    }
    if (is_real) {
        word[count++] = "--quiet";
        word[count++] = "--hang-after";
        word[count++] = "off";
    } else {
        word[count++] = "--once";
        word[count++] = "--until";
        word[count++] = fit->until;
    }
    word[count++] = "--no-history";
    word[count++] = "--no-sites";
    word[count++] = "--end-with-parent";
    if (fit->no_attach)
        word[count++] = "--no-attach";
    return count + gwi_add_folder(word + count);
}

static gw_status spawn(const gwi_fit *fit, gwi_fit_trial *trial, char *const *argv, const char *log, gw_error *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &fit->old_mask);
    int failed = posix_spawn(&trial->pid, "/proc/self/exe", &files, &how, argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return failed == 0 ? GW_OK : gw_fail(err, GW_IO, "start gpuwhy: %s", strerror(failed));
}

static gw_status start_child(const gwi_fit *fit, gwi_fit_trial *trial, gw_error *err)
{
    const char *word[WORDS_MAX];
    char memory[32];
    gw_path json, log, recording;
    size_t count = add_options(fit, trial, memory, word), more = 0;
    char **command = gw_fit_plan_command(&fit->plan, trial->combination, trial->number);
    while (command != NULL && command[more] != NULL)
        more++;
    char **argv = calloc(WORDS_MAX + more + 1, sizeof *argv);
    gw_status st = command == NULL || argv == NULL ? gw_fail(err, GW_NOMEM, "start a trial") : GW_OK;
    if (st == GW_OK)
        st = gw_path_format(json, err, "%s.json", trial->stem);
    if (st == GW_OK)
        st = gw_path_format(log, err, "%s.log", trial->stem);
    if (st == GW_OK)
        st = gw_path_format(recording, err, "%s.gpuwhy", trial->stem);
    if (st == GW_OK) {
        word[count++] = "--json";
        word[count++] = json;
        word[count++] = "-o";
        word[count++] = recording;
        word[count++] = "--";
        for (size_t i = 0; i < count; i++)
            argv[i] = (char *)(uintptr_t)word[i]; /* posix_spawn() changes no argument */
        memcpy(argv + count, command, more * sizeof *argv);
        st = spawn(fit, trial, argv, log, err);
    }
    free(argv);
    gw_fit_command_free(command);
    return st;
}

gw_status gwi_fit_start(gwi_fit *fit, const gwi_fit_trial *wanted, gwi_fit_trial **ret_trial, gw_error *err)
{
    gwi_fit_trial *trial = malloc(sizeof *trial);
    if (trial == NULL || !gw_array_room(&fit->trial, fit->trial_count, &fit->trial_capacity, sizeof(gwi_fit_trial *))) {
        free(trial);
        return gw_fail(err, GW_NOMEM, "start a trial");
    }
    *trial = *wanted;
    trial->started_ns = gw_monotonic_ns();
    gw_status st = gw_path_format(trial->stem, err, "%s/%zu", fit->folder.path, fit->trial_count);
    if (st == GW_OK)
        st = start_child(fit, trial, err);
    if (st != GW_OK) {
        free(trial);
        return st;
    }
    fit->trial[fit->trial_count++] = trial;
    fit->running_count++;
    *ret_trial = trial;
    return GW_OK;
}

/* ---- waiting ---- */

static void show_progress(const gwi_fit *fit)
{
    if (!fit->shows_progress)
        return;
    size_t ended = fit->trial_count - fit->running_count;
    fprintf(stderr, "\r\033[K%zu trial%s, %zu running, %.0f s", ended, ended == 1 ? "" : "s", fit->running_count,
            (double)(gw_monotonic_ns() - fit->started_ns) / 1e9);
    fflush(stderr);
}

/* End what real runs have left behind in sessions of their own. A rehearsal does this itself. As long as a real run
 * goes on, its processes cannot be told from those of others. */
static void end_left(gwi_fit *fit)
{
    size_t left;
    for (size_t i = 0; i < fit->trial_count; i++)
        if (fit->trial[i]->pid != 0 && fit->trial[i]->kind == GWI_FIT_REAL)
            return;
    fit->ended_count += gw_orphans_end(&left, &fit->ended_names);
}

/* Return a trial that has ended, or NULL. */
static gwi_fit_trial *ended(gwi_fit *fit)
{
    for (size_t i = 0; i < fit->trial_count; i++) {
        gwi_fit_trial *trial = fit->trial[i];
        int status = 0;
        siginfo_t info = {0};
        if (trial->pid == 0 || waitid(P_PID, (id_t)trial->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid != trial->pid)
            continue;
        kill(-trial->pid, SIGKILL); /* what the program has left behind; nobody else can have this group's number yet */
        waitpid(trial->pid, &status, 0);
        trial->pid = 0;
        fit->running_count--;
        end_left(fit);
        trial->seconds = (double)(gw_monotonic_ns() - trial->started_ns) / 1e9;
        gwi_fit_read(fit, trial, status);
        gwi_fit_measure(fit, trial);
        remove_files(trial);
        return trial;
    }
    return NULL;
}

static void read_signals(gwi_fit *fit)
{
    struct signalfd_siginfo info;
    while (read(fit->signal_fd, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
            fit->stop_signal = (int)info.ssi_signo;
}

static bool watch_real_runs(gwi_fit *fit)
{
    bool is_real = false;
    for (size_t i = 0; i < fit->trial_count; i++) {
        gwi_fit_trial *trial = fit->trial[i];
        if (trial->pid == 0 || trial->kind != GWI_FIT_REAL)
            continue;
        is_real = true;
        gwi_fit_watch(fit, trial);
        if (trial->asked_ns != 0 && gw_monotonic_ns() - trial->asked_ns > kill_after_ns)
            kill(-trial->pid, SIGKILL);
    }
    return is_real;
}

gwi_fit_trial *gwi_fit_wait(gwi_fit *fit)
{
    struct pollfd signals = {.fd = fit->signal_fd, .events = POLLIN};
    while (fit->running_count > 0 && fit->stop_signal == 0) {
        gwi_fit_trial *trial = ended(fit);
        show_progress(fit);
        if (trial != NULL)
            return trial;
        poll(&signals, 1, watch_real_runs(fit) ? WATCH_MS : -1);
        read_signals(fit);
    }
    return NULL;
}

/* ---- the end ---- */

static void signal_all(const gwi_fit *fit, int signal, bool whole_group)
{
    for (size_t i = 0; i < fit->trial_count; i++)
        if (fit->trial[i]->pid != 0)
            kill(whole_group ? -fit->trial[i]->pid : fit->trial[i]->pid, signal);
}

static void end_all(gwi_fit *fit)
{
    uint64_t until_ns = gw_monotonic_ns() + stop_after_ns;
    signal_all(fit, SIGTERM, false);
    while (fit->running_count > 0) {
        if (ended(fit) != NULL)
            continue;
        struct pollfd signals = {.fd = fit->signal_fd, .events = POLLIN};
        poll(&signals, 1, WATCH_MS);
        read_signals(fit);
        if (gw_monotonic_ns() > until_ns)
            signal_all(fit, SIGKILL, true);
    }
}

static void trial_free(gwi_fit_trial *trial)
{
    free(trial->why);
    free(trial->card);
    free(trial->sample);
    free(trial);
}

void gwi_fit_end(gwi_fit *fit)
{
    end_all(fit);
    if (fit->shows_progress)
        fputs("\r\033[K", stderr);
    if (fit->ended_count > 0)
        gw_say("fit: the trials left %zu process%s behind, which %s ended: %s", fit->ended_count,
               fit->ended_count == 1 ? "" : "es", fit->ended_count == 1 ? "was" : "were",
               gw_text_str(&fit->ended_names));
    gw_text_free(&fit->ended_names);
    for (size_t i = 0; i < fit->trial_count; i++)
        trial_free(fit->trial[i]);
    free(fit->trial);
    for (size_t i = 0; fit->one != NULL && i < fit->plan.combination_count; i++)
        free(fit->one[i].not_rehearsed);
    free(fit->one);
    gwi_temporary_remove(&fit->folder);
    if (fit->signal_fd >= 0)
        close(fit->signal_fd);
    sigprocmask(SIG_SETMASK, &fit->old_mask, NULL);
}
