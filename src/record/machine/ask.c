/* Query NVML and a Python interpreter, each in a child process that writes its answer to a pipe. NVML may block forever
 * on a failing card, so slow children are killed. */
#include "gwi_doctor.h"

#include "gw_clock.h"
#include "gw_room.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 512 << 10 };
static const uint64_t patience_ns = 30000000000u;

typedef struct child {
    pid_t pid; /* 0: this is the child; -1: fork failed */
    int fd;    /* read end of the pipe in the parent, write end in the child */
} child;

static child start(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return (child){-1, -1};
    fflush(stdout); /* otherwise the child could write this buffered output a second time */
    pid_t pid = fork();
    close(ends[pid == 0 ? 0 : 1]);
    if (pid < 0)
        close(ends[0]);
    return (child){pid, pid == 0 ? ends[1] : ends[0]};
}

/* Read until the child closes its end of the pipe. Returns false on a timeout. */
static bool read_answer(int fd, gw_text *answer)
{
    uint64_t begin_ns = gw_monotonic_ns();
    for (;;) {
        char part[4096];
        struct pollfd waited = {.fd = fd, .events = POLLIN};
        uint64_t gone_ns = gw_monotonic_ns() - begin_ns;
        int ready = gone_ns >= patience_ns ? 0 : poll(&waited, 1, (int)((patience_ns - gone_ns) / 1000000) + 1);
        if (ready == 0)
            return false;
        ssize_t bytes = ready < 0 ? -1 : read(fd, part, sizeof part);
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes <= 0)
            return true;
        if (answer->bytes < ANSWER_BYTES_MAX)
            gw_text_add(answer, part, (size_t)bytes);
    }
}

/* Read the child's answer and wait for its end. Returns false if the child exceeds its time limit. The child is then
 * killed, but not waited for, because it may be blocked in the kernel. */
static bool finish(const child *asked, gw_text *answer, int *ret_status)
{
    bool in_time = read_answer(asked->fd, answer);
    close(asked->fd);
    if (!in_time) {
        kill(asked->pid, SIGKILL);
        return false;
    }
    while (waitpid(asked->pid, ret_status, 0) < 0 && errno == EINTR) {
    }
    return true;
}

/* ---- NVML ---- */

static void write_fact(void *user, const char *key, const char *value)
{
    dprintf(*(const int *)user, "%s=%s\n", key, value);
}

void gw_doctor_ask_nvml(gw_facts *facts)
{
    child asked = start();
    if (asked.pid == 0) {
        gw_error err;
        if (gw_survey_nvml(NULL, write_fact, &asked.fd, &err) != GW_OK)
            dprintf(asked.fd, "nvml.why=%s\n", err.text);
        _exit(0);
    }
    gw_text answer = {0};
    int status = 0;
    if (asked.pid < 0)
        gw_facts_set(facts, "nvml.why", "cannot start a child process");
    else if (!finish(&asked, &answer, &status))
        gw_facts_set(facts, "nvml.why", "NVML did not respond for 30 s, perhaps because a card hangs");
    else if (!WIFEXITED(status))
        gw_facts_set(facts, "nvml.why", "NVML crashed (signal %d)", WTERMSIG(status));
    gw_facts_parse(facts, gw_text_str(&answer), "nvml. card.");
    gw_text_free(&answer);
}

/* ---- the Python interpreter ---- */

/* Run the command `words` with the option -B and our script. Never returns. */
static void become(char *const *words, const char *script, int out)
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    char **argv = calloc(count + 3, sizeof *argv);
    if (argv == NULL)
        _exit(126);
    memcpy(argv, words, count * sizeof *argv);
    argv[count] = (char *)"-B";
    argv[count + 1] = (char *)script;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDERR_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    execvp(argv[0], argv);
    _exit(127);
}

void gw_doctor_ask_python(gw_facts *facts, const char *root, char *const *words, const char *script)
{
    child asked = start();
    if (asked.pid == 0)
        become(words, script, asked.fd);
    gw_text answer = {0};
    int status = 0;
    if (asked.pid < 0)
        gw_facts_set(facts, "python.why", "cannot start a child process");
    else if (!finish(&asked, &answer, &status))
        gw_facts_set(facts, "python.why", "%s took more than 30 s", words[0]);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == 127 && answer.bytes == 0)
        gw_facts_set(facts, "python.why", "%s does not exist", words[0]);
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || strstr(gw_text_str(&answer), "python.version=") == NULL)
        gw_facts_set(facts, "python.why", "%s is not a Python interpreter, or cannot start", words[0]);
    gw_doctor_take_python(facts, root, gw_text_str(&answer));
    gw_text_free(&answer);
}
