/* The program of the relay, and of what starts it (gwi_relay.h). */
#include "gwi_relay.h"

#include "gw_exit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char mark[] __attribute__((used)) = GW_RELAY_MARK;

/* Map the memory that is shared with the supervisor. Returns NULL if this is not such memory. */
static gwi_stderr_tail *map_tail(int fd)
{
    struct stat shared;
    if (fstat(fd, &shared) != 0 || shared.st_size != sizeof(gwi_stderr_tail))
        return NULL; /* by hand, or by another version of gpuwhy */
    void *tail = mmap(NULL, sizeof(gwi_stderr_tail), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return tail == MAP_FAILED ? NULL : tail;
}

/* Start the relay as a child of the supervisor, our parent. Returns its pid; -1 on failure. */
static pid_t start_relay(char **argv, gwi_stderr_tail *tail)
{
    char number[12], *relay[] = {argv[0], argv[1], argv[2], number, NULL};
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid != 0)
        return pid;
    snprintf(number, sizeof number, "%d", STDERR_FILENO);
    execve(argv[0], relay, (char *[]){NULL});
    gwi_relay(atoi(argv[1]), tail);
}

/* Be the program. */
static int execute(char **argv)
{
    int writer = atoi(argv[3]), report = atoi(argv[4]);
    gwi_stderr_tail *tail = map_tail(atoi(argv[2]));
    fcntl(writer, F_SETFD, FD_CLOEXEC);
    fcntl(report, F_SETFD, FD_CLOEXEC);
    if (tail != NULL)
        gwi_relay_enter(tail, start_relay(argv, tail), writer, strcmp(argv[5], "both") == 0);
    close(atoi(argv[1]));
    close(atoi(argv[2]));
    for (char **variable = environ; *variable != NULL; variable++)
        *variable += **variable == GW_RELAY_HOLDS;
    execvp(argv[GW_RELAY_PROGRAM], argv + GW_RELAY_PROGRAM);
    int why = errno;
    (void)!write(report, &why, sizeof why);
    return GW_EXIT_NOT_FOUND;
}

int main(int argc, char **argv)
{
    if (argc > GW_RELAY_PROGRAM)
        return execute(argv);
    gwi_stderr_tail *tail = argc == 4 ? map_tail(atoi(argv[2])) : NULL;
    if (tail == NULL || dup2(atoi(argv[3]), STDERR_FILENO) < 0)
        return 1;
    gwi_relay(atoi(argv[1]), tail);
}
