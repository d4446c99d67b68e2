/* Tests the sentences about a process that cannot be read. */
#include "gw_outside.h"
#include "gw_unit_test.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const gw_outside_rights usual = {.same_user = true, .is_dumpable = true, .yama_scope = -1, .user = "ann"};

/* Each row takes one right away, or several: the sentence must name the one that counts. */
GW_TEST(the_reason_is_named)
{
    gw_outside_rights other = usual, hidden = usual, scope1 = usual, scope2 = usual, scope3 = usual, filtered = usual;
    gw_outside_rights root = usual, unknown = usual;
    other.same_user = false;
    other.yama_scope = 1;
    hidden.is_dumpable = false;
    scope1.yama_scope = 1;
    scope2.yama_scope = 2;
    scope3.yama_scope = 3;
    filtered.calls_are_filtered = true;
    filtered.same_user = false;
    root.may_trace = true;
    root.same_user = false;
    const struct {
        const gw_outside_rights *rights;
        const char *refused, *allow;
    } rows[] = {{&other, "belongs to user ann", "as user ann or as root"},
                {&hidden, "protected from inspection", "as root"},
                {&scope1, "ptrace_scope is 1", "sysctl kernel.yama.ptrace_scope=0"},
                {&scope2, "ptrace_scope is 2", "as root"},
                {&scope3, "ptrace_scope is 3", "restart the machine"},
                {&filtered, "system call filter", "--cap-add=SYS_PTRACE"},
                {&root, "user namespace", "outside of the container"},
                {&unknown, "the kernel does not permit it", "as root"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char refused[256], allow[256];
        gw_outside_refusal(rows[i].rights, refused, allow);
        assert_non_null(strstr(refused, rows[i].refused));
        assert_non_null(strstr(allow, rows[i].allow));
        assert_true(strlen(refused) < sizeof refused - 1 && strlen(allow) < sizeof allow - 1); /* nothing is cut */
    }
}

GW_TEST(a_tree_has_parents_first)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0)
            pause();
        (void)!write(ends[1], "x", 1);
        pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    uint32_t pid[8];
    assert_int_equal(gw_outside_tree((uint32_t)child, pid, 8), 2);
    assert_int_equal(pid[0], child);
    assert_int_equal(gw_outside_tree((uint32_t)child, pid, 1), 1);
    kill((pid_t)pid[1], SIGKILL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

GW_TEST_MAIN(NULL, NULL)
