/* Tests what follows from a snapshot: needs, alarms, idle times, and which card and run belong together. */
#include "gw_frameworks.h"
#include "gw_test_folder.h"
#include "watch_testlib.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static test_world w;
static gwi_history history;

static int begin(void **state)
{
    world_begin(&w);
    memset(&history, 0, sizeof history);
    world_add_card(&w);
    world_add_card(&w);
    return 0;
}

GW_TEST_WITH(a_run_needs_its_live_memory_and_the_drivers_share, begin, NULL)
{
    world_add_process(&w, 1, 7, 52 * gib, "ann");
    gw_watch_use *use = &world_add_run(&w, 1, 7, 50 * gib)->use[0];
    use->is.reserved_bytes = 45 * gib; /* of which PyTorch only caches 30 GiB */
    use->is.allocated_bytes = 15 * gib;
    use->is.kept_bytes = 20 * gib;
    gwi_snapshot_judge(&w.s, &history);
    assert_int_equal(use->card, 1);
    assert_int_equal(w.process[0].run, 0);
    assert_int_equal(use->outside_bytes, 2 * gib);
    assert_int_equal(use->need_bytes, 22 * gib);
    assert_int_equal(w.card[1].need_bytes, 22 * gib);
    assert_int_equal(w.card[1].unjudged_bytes, 0);
    assert_int_equal(w.card[0].need_bytes, 0);
}

/* 95 of 100 GiB are in use, but 70 of them are a cache. */
GW_TEST_WITH(reserved_memory_raises_no_alarm, begin, NULL)
{
    world_add_process(&w, 0, 7, 95 * gib, "ann");
    gw_watch_use *use = &world_add_run(&w, 0, 7, 94 * gib)->use[0];
    use->is.reserved_bytes = 94 * gib;
    use->is.allocated_bytes = use->is.kept_bytes = 24 * gib;
    gwi_snapshot_judge(&w.s, &history);
    assert_false(use->is_alarm || w.card[0].is_alarm);
    use->is.kept_bytes = 90 * gib; /* now it needs 91 GiB */
    gwi_snapshot_judge(&w.s, &history);
    assert_true(use->is_alarm && w.card[0].is_alarm);
    w.s.alarm_ratio = 0;
    w.s.alarm_bytes = 92 * gib;
    gwi_snapshot_judge(&w.s, &history);
    assert_false(use->is_alarm);
}

GW_TEST_WITH(two_runs_together_raise_the_alarm_of_the_card, begin, NULL)
{
    world_add_process(&w, 0, 7, 50 * gib, "ann");
    world_add_process(&w, 0, 8, 45 * gib, "ann");
    world_add_run(&w, 0, 7, 50 * gib);
    world_add_run(&w, 0, 8, 45 * gib);
    gwi_snapshot_judge(&w.s, &history);
    assert_false(w.run[0].use[0].is_alarm || w.run[1].use[0].is_alarm);
    assert_true(w.card[0].is_alarm);
}

GW_TEST_WITH(what_is_only_in_use_raises_no_alarm, begin, NULL)
{
    world_add_process(&w, 0, 7, 99 * gib, "bob");
    gwi_snapshot_judge(&w.s, &history);
    assert_false(w.card[0].is_alarm);
    assert_int_equal(w.card[0].unjudged_bytes, 99 * gib);
    gw_watch_run *run = world_add_run(&w, 0, 7, 98 * gib); /* its framework hides a cache */
    run->blind_pid = 7;
    gwi_snapshot_judge(&w.s, &history);
    assert_true(run->use[0].need_bytes == GW_WATCH_UNKNOWN && run->use[0].need_why != NULL);
    assert_false(w.card[0].is_alarm || run->use[0].is_alarm);
    assert_int_equal(w.card[0].unjudged_bytes, 99 * gib);
    run->blind_pid = 0;
    run->is_unseen = true;
    gwi_snapshot_judge(&w.s, &history);
    assert_true(run->use[0].need_bytes == GW_WATCH_UNKNOWN && run->use[0].need_why != NULL);
    run->is_unseen = false;
    run->is.is_incomplete = true;
    gwi_snapshot_judge(&w.s, &history);
    assert_true(run->use[0].need_bytes == GW_WATCH_UNKNOWN);
    run->is.is_incomplete = false;
    run->use[0].is.is_mixed = true;
    run->use[0].is.has_pci = false;
    gwi_snapshot_judge(&w.s, &history);
    assert_true(run->use[0].need_bytes == GW_WATCH_UNKNOWN && !run->use[0].is_alarm);
}

GW_TEST_WITH(without_the_drivers_share_the_need_is_unknown, begin, NULL)
{
    w.s.alarm_ratio = 0.1;
    gw_watch_use *use = &world_add_run(&w, 0, 7, 95 * gib)->use[0];
    gwi_snapshot_judge(&w.s, &history); /* NVML reports no process of the run */
    assert_true(use->outside_bytes == GW_WATCH_UNKNOWN && use->need_bytes == GW_WATCH_UNKNOWN);
    assert_non_null(use->need_why);
    assert_false(use->is_alarm || w.card[0].is_alarm);
    gw_watch_process *process = world_add_process(&w, 0, 7, GW_WATCH_UNKNOWN, "ann"); /* not how much it holds */
    gwi_snapshot_judge(&w.s, &history);
    assert_true(use->need_bytes == GW_WATCH_UNKNOWN && w.card[0].unjudged_bytes == GW_WATCH_UNKNOWN);
    process->bytes = 20 * gib; /* not all processes of the run */
    gwi_snapshot_judge(&w.s, &history);
    assert_true(use->need_bytes == GW_WATCH_UNKNOWN && w.card[0].unjudged_bytes == 20 * gib);
    assert_false(use->is_alarm || w.card[0].is_alarm);
    process->bytes = 96 * gib;
    gwi_snapshot_judge(&w.s, &history);
    assert_true(use->need_bytes == 96 * gib && use->is_alarm && w.card[0].unjudged_bytes == 0);
    use->is.live_bytes = use->is.kept_bytes = 97 * gib; /* NVML's number is older: the share is still known */
    gwi_snapshot_judge(&w.s, &history);
    assert_true(use->need_bytes == 98 * gib && use->is_alarm);
}

/* NVML and the run's own numbers are read at different times: one look with a large difference is no need. */
GW_TEST_WITH(a_single_difference_is_not_the_drivers_share, begin, NULL)
{
    gw_watch_process *process = world_add_process(&w, 0, 7, 51 * gib, "ann");
    gw_watch_use *use = &world_add_run(&w, 0, 7, 50 * gib)->use[0];
    for (int i = 0; i < 3; i++)
        gwi_snapshot_judge(&w.s, &history);
    process->bytes = 95 * gib;
    gwi_snapshot_judge(&w.s, &history);
    assert_int_equal(use->need_bytes, 51 * gib);
    for (int i = 0; i < 3; i++)
        gwi_snapshot_judge(&w.s, &history);
    assert_int_equal(use->need_bytes, 95 * gib); /* but it is, if it stays */
}

GW_TEST_WITH(growth_fills_the_card_or_the_limit, begin, NULL)
{
    world_add_process(&w, 0, 7, 51 * gib, "ann");
    gw_watch_use *use = &world_add_run(&w, 0, 7, 50 * gib)->use[0];
    gwi_snapshot_judge(&w.s, &history);
    assert_true(use->full_s == GW_WATCH_UNKNOWN);
    use->is.grows = true;
    use->is.bytes_per_minute = gib;
    use->is.full_s = 5000;
    gwi_snapshot_judge(&w.s, &history);
    assert_int_equal(use->full_s, 2400); /* 40 GiB are free */
    use->is.full_s = 60;
    gwi_snapshot_judge(&w.s, &history);
    assert_int_equal(use->full_s, 60);
    use->is.bytes_per_minute = 0;
    gwi_snapshot_judge(&w.s, &history);
    assert_true(use->full_s == GW_WATCH_UNKNOWN);
}

GW_TEST_WITH(idle_times_come_from_samples_and_from_the_run, begin, NULL)
{
    uint64_t now_us;
    gw_watch_process *process = world_add_process(&w, 0, 7, gib, "ann");
    now_us = w.s.t_realtime_ns / 1000;
    gwi_snapshot_judge(&w.s, &history);
    assert_int_equal(process->idle, GW_WATCH_IDLE_UNKNOWN); /* NVML has no samples */
    w.card[0].is.busy_since_us = now_us - 30000000;
    gwi_snapshot_judge(&w.s, &history);
    assert_int_equal(process->idle, GW_WATCH_IDLE_AT_LEAST);
    assert_int_equal(process->idle_s, 30);
    w.card[0].is.holder[0].busy_at_us = now_us - 20000000;
    gwi_snapshot_judge(&w.s, &history);
    assert_int_equal(process->idle, GW_WATCH_IDLE_SINCE);
    assert_int_equal(process->idle_s, 20);
    /* NVML's buffer forgets it, but the history does not. */
    w.card[0].is.holder[0].busy_at_us = 0;
    w.s.t_realtime_ns += UINT64_C(100000000000);
    gwi_snapshot_judge(&w.s, &history);
    assert_int_equal(process->idle_s, 120);
    world_add_run(&w, 0, 7, gib)->idle_s = 3;
    gwi_snapshot_judge(&w.s, &history);
    assert_int_equal(process->idle_s, 3);
}

/* Nothing wraps or is divided by zero, whatever a run claims. */
GW_TEST_WITH(absurd_numbers_do_no_harm, begin, NULL)
{
    world_add_process(&w, 0, 7, UINT64_MAX - 1, "ann");
    world_add_process(&w, 0, 8, GW_WATCH_UNKNOWN, "ann");
    gw_watch_run *run = world_add_run(&w, 0, 7, UINT64_MAX);
    run->use[0].is = (gw_live_device){.live_bytes = 0,
                                      .reserved_bytes = UINT64_MAX,
                                      .kept_bytes = UINT64_MAX - 1,
                                      .bytes_per_minute = UINT64_MAX,
                                      .full_s = UINT64_MAX,
                                      .grows = 1,
                                      .has_pci = 1,
                                      .pci_bus = 16};
    w.card[0].is.busy_since_us = UINT64_MAX;
    w.card[0].is.holder[0].busy_at_us = UINT64_MAX;
    gwi_snapshot_judge(&w.s, &history);
    assert_true(w.run[0].use[0].need_bytes >= UINT64_MAX - 1);
    assert_int_equal(w.process[0].idle_s, 0);
    assert_true(w.card[0].unjudged_bytes == GW_WATCH_UNKNOWN); /* one process's memory is unknown */
    w.card[0].total_bytes = GW_WATCH_UNKNOWN;
    gwi_snapshot_judge(&w.s, &history);
    assert_false(w.card[0].is_alarm);
}

/* Tests which processes a run may claim, and which frameworks hide memory. This process plays the program of a run. */

static gwi_history blind_history;

GW_TEST(only_processes_of_the_owner_count)
{
    uint32_t self = (uint32_t)getpid();
    gw_live live = {.pid_count = 3, .pid = {1, self, 0x7ffffff0}, .has_cache = {0, 1, 0}};
    gwi_run_confine(&live, getuid());
    assert_true(live.pid_count >= 1 && live.pid_count <= 2); /* root may claim process 1 */
    assert_true(live.pid[live.pid_count - 1] == self && live.has_cache[live.pid_count - 1] == 1);
    gwi_run_confine(&live, getuid() + 1);
    assert_int_equal(live.pid_count, 0);
}

/* Map an empty library of this name. */
static void *map(const char *name)
{
    char path[100];
    snprintf(path, sizeof path, "%s/%s", gw_test_folder, name);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0 && ftruncate(fd, 4096) == 0);
    void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(at != MAP_FAILED);
    close(fd);
    unlink(path);
    return at;
}

static uint32_t blind_pid(uint8_t has_cache, uint64_t now_ns)
{
    gw_watch_run run = {.is = {.pid_count = 1, .pid = {(uint32_t)getpid()}, .has_cache = {has_cache}}};
    gwi_run_look_blind(&run, &blind_history, now_ns);
    assert_false(run.is_unseen);
    return run.blind_pid;
}

GW_TEST(frameworks_hide_what_is_not_followed)
{
    const uint64_t s = 1000000000u;
    assert_int_equal(blind_pid(0, s), 0);
    void *torch = map("libc10_cuda.so");
    assert_int_equal(blind_pid(0, 2 * s), 0); /* not looked at again so soon */
    assert_int_equal(blind_pid(0, 12 * s), getpid());
    assert_int_equal(blind_pid(1, 12 * s), 0); /* its allocator is followed */
    void *jax = map("xla_extension.so");
    assert_int_equal(blind_pid(1, 23 * s), getpid());
    munmap(torch, 4096);
    munmap(jax, 4096);
    assert_int_equal(blind_pid(0, 34 * s), 0);
}

GW_TEST(without_maps_it_is_not_certain)
{
    gw_watch_run run = {.is = {.pid_count = 1}};
    pid_t child = fork(); /* a process that has ended and was not waited for has no maps */
    if (child == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    run.is.pid[0] = (uint32_t)child;
    gwi_run_look_blind(&run, &blind_history, 1);
    assert_true(run.blind_pid == 0 && run.is_unseen);
    waitpid(child, NULL, 0);
}

/* Tests how a process was started, on folders that look like /proc. */

static void write_file(const char *folder, const char *name, const char *text, size_t bytes)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    gw_test_write(path, text, bytes);
}

/* Words of `command` are separated by blanks. */
static void add(unsigned pid, unsigned parent, const char *name, const char *command, const char *cgroup)
{
    char folder[200], stat[200], words[200];
    snprintf(folder, sizeof folder, "%s/proc/%u", gw_test_folder, pid);
    mkdir(folder, 0700);
    int bytes = snprintf(stat, sizeof stat, "%u (%s) S %u 1 1 0 -1", pid, name, parent);
    write_file(folder, "stat", stat, (size_t)bytes);
    bytes = snprintf(words, sizeof words, "%s ", command);
    for (int i = 0; i < bytes; i++)
        words[i] = words[i] == ' ' ? '\0' : words[i];
    write_file(folder, "cmdline", words, (size_t)bytes);
    write_file(folder, "cgroup", cgroup, strlen(cgroup));
}

static void assert_origin(unsigned pid, const char *wanted)
{
    gw_text text = {0};
    gwi_origin_add(&text, gw_test_folder, pid);
    assert_string_equal(gw_text_str(&text), wanted);
    gw_text_free(&text);
}

static int make_root(void **state)
{
    char path[200];
    if (gw_test_folder_make(state) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/proc", gw_test_folder);
    return mkdir(path, 0700);
}

#define SESSION "0::/user.slice/user-1000.slice/session-3.scope\n"

GW_TEST(signs_are_found)
{
    add(1, 0, "systemd", "/sbin/init", "0::/init.scope\n");
    add(10, 1, "sshd", "sshd: ann", "0::/system.slice/ssh.service\n");
    add(11, 10, "bash", "-bash", SESSION);
    add(12, 11, "python", "python train.py", SESSION);
    assert_origin(12, "ssh");
    add(20, 1, "tmux: server", "tmux", SESSION);
    add(21, 20, "bash", "-bash", SESSION);
    add(22, 21, "python", "python train.py", SESSION);
    assert_origin(22, "tmux");
    add(30, 21, "jupyter-lab", "python /usr/bin/jupyter-lab", SESSION);
    add(31, 30, "python", "python -m ipykernel_launcher -f x.json", SESSION);
    assert_origin(31, "notebook");
    add(40, 1, "SCREEN", "SCREEN -S x", SESSION);
    add(41, 40, "odd) name (", "prog", SESSION);
    assert_origin(41, "screen");
    add(50, 22, "python", "python", "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n");
    assert_origin(50, "Slurm job 4711");
    add(51, 22, "python", "python", "0::/system.slice/docker-0123456789abcdef0123.scope\n");
    assert_origin(51, "container 0123456789ab");
    add(60, 1, "serve", "serve", "0::/system.slice/model-server.service\n");
    assert_origin(60, "systemd model-server.service");
    add(61, 1, "python", "python train.py", SESSION);
    assert_origin(61, "orphan");
    add(62, 61, "worker", "worker", SESSION);
    assert_origin(62, "orphan");
    add(70, 1, "systemd", "/lib/systemd/systemd --user",
        "0::/user.slice/user-1000.slice/user@1000.service/init.scope\n");
    add(71, 70, "python", "python train.py", SESSION);
    assert_origin(71, "orphan");
}

/* Only the program counts, and the script or module that it runs. */
GW_TEST(words_of_a_command_are_no_signs)
{
    static const struct {
        const char *name, *command, *origin;
    } cases[] = {
        {"python", "python train_tmux.py", ""},
        {"tmux_train.py", "python ./tmux_train.py", ""},
        {"python", "python train.py --name tmux -m ipykernel_launcher", ""},
        {"python", "python train.py jupyter-lab", ""},
        {"python", "python -c ipykernel", ""},
        {"screens", "./screens", ""},
        {"login_model", "./login_model sshd", ""},
        {"cronus", "cronus", ""},
        {"vim", "vim /home/ann/.vscode-server/settings", ""},
        {"python", "python /home/ann/ipykernel_launcher/train.py", ""},
        {"python", "python -m ipykernel_tools", ""},
        {"python3.11", "/usr/bin/python3.11 -Xfrozen_modules=off -W ignore -m ipykernel_launcher -f x.json",
         "notebook"},
        {"python3", "python3 -um ipykernel.kernelapp", "notebook"},
        {"python3", "python3 -mnotebook", "notebook"},
        {"python3", "python3 -B /opt/gpuwhy_kernel.py -f x", "notebook"},
        {"jupyter-lab", "/usr/bin/python3 /usr/bin/jupyter-lab --port 8888", "notebook"},
        {"node", "/home/ann/.vscode-server/bin/1/node /x.js", "VS Code"},
        {"node", "node /home/ann/.vscode-server/bin/1/out/server-main.js", "VS Code"},
        {"sshd-session", "sshd-session: ann@pts/0", "ssh"},
        {"tmux: server", "tmux new -s x", "tmux"},
        {"screen", "SCREEN -S x", "screen"},
        {"cron", "/usr/sbin/CRON -f", "cron"},
    };
    add(1, 0, "bash", "bash", "0::/\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        add(100, 1, cases[i].name, cases[i].command, "0::/\n");
        assert_origin(100, cases[i].origin);
    }
    add(100, 1, "python", "python", "0::/system.slice/docker-cleaner.service\n");
    assert_origin(100, "systemd docker-cleaner.service");
    add(100, 1, "python", "python", "0::/home.slice/my_kubepods/slurm/job_x\n");
    assert_origin(100, "");
}

GW_TEST(what_is_not_known_is_empty)
{
    assert_origin(999, "");
    add(1, 0, "bash", "bash", "0::/\n"); /* the first process of a container adopts nothing */
    add(80, 1, "python", "python", "0::/\n");
    assert_origin(80, "");
    add(90, 91, "python", "python", "0::/\n"); /* a circle */
    add(91, 90, "python", "python", "0::/\n");
    assert_origin(90, "");
    char folder[200];
    snprintf(folder, sizeof folder, "%s/proc/90", gw_test_folder);
    write_file(folder, "stat", "90 (no end", 10);
    assert_origin(90, "");
}

GW_TEST_MAIN(make_root, gw_test_folder_remove)
