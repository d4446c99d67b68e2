/* Tests how a process was started, on folders that look like /proc. */
#include "watch_testlib.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/gpuwhy-origin-XXXXXX";

static void write_file(const char *folder, const char *name, const char *text, size_t bytes)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

/* Words of `command` are separated by blanks. */
static void add(unsigned pid, unsigned parent, const char *name, const char *command, const char *cgroup)
{
    char folder[200], stat[200], words[200];
    snprintf(folder, sizeof folder, "%s/proc/%u", root, pid);
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
    gwi_origin_add(&text, root, pid);
    assert_string_equal(gw_text_str(&text), wanted);
    gw_text_free(&text);
}

static int make_root(void **state)
{
    char path[200];
    (void)state;
    if (mkdtemp(root) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/proc", root);
    return mkdir(path, 0700);
}

static int remove_one(const char *path, const struct stat *info, int flag, struct FTW *where)
{
    (void)info;
    (void)flag;
    (void)where;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#define SESSION "0::/user.slice/user-1000.slice/session-3.scope\n"

static void signs_are_found(void **state)
{
    (void)state;
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
static void words_of_a_command_are_no_signs(void **state)
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
    (void)state;
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

static void what_is_not_known_is_empty(void **state)
{
    (void)state;
    assert_origin(999, "");
    add(1, 0, "bash", "bash", "0::/\n"); /* the first process of a container adopts nothing */
    add(80, 1, "python", "python", "0::/\n");
    assert_origin(80, "");
    add(90, 91, "python", "python", "0::/\n"); /* a circle */
    add(91, 90, "python", "python", "0::/\n");
    assert_origin(90, "");
    char folder[200];
    snprintf(folder, sizeof folder, "%s/proc/90", root);
    write_file(folder, "stat", "90 (no end", 10);
    assert_origin(90, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_are_found),
        cmocka_unit_test(words_of_a_command_are_no_signs),
        cmocka_unit_test(what_is_not_known_is_empty),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
