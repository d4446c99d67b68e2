/* Run all groups of calls, or those that are named: see calls.h. */
#include "calls.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc == 1;
}

/* Run a group in a child process, which has not used the driver yet. */
static void run(const group *g)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        group_name = g->name;
        setvbuf(stdout, NULL, _IOLBF, 0);
        g->run();
        exit(0);
    }
    waitpid(child, &status, 0);
    printf("%s.end = %d\n", g->name, status);
}

int main(int argc, char **argv)
{
    const group *const lists[] = {memory_groups, work_groups};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (const group *g = lists[k]; g->name != NULL; g++)
            if (is_wanted(g->name, argc, argv))
                run(g);
    return 0;
}
