/* Measure how much gpuwhy's libraries slow down a program's start: run `true` with and without them.
 *
 *   gpuwhy run --quiet -- start_cost [pairs]
 *
 * Prints one JSON object with the time of every start in microseconds. */
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { PAIRS = 500, PAIRS_MAX = 20000, VARIABLES_MAX = 4000 };

extern char **environ;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool is_ours(const char *variable)
{
    return strncmp(variable, "LD_PRELOAD=", 11) == 0 || strncmp(variable, "LD_LIBRARY_PATH=", 16) == 0 ||
           strncmp(variable, "GPUWHY_", 7) == 0;
}

static double start_us(const char *program, char **variables)
{
    char *arguments[] = {(char *)(uintptr_t)program, NULL};
    pid_t child;
    int status;
    uint64_t begin = now_ns();
    if (posix_spawn(&child, program, NULL, NULL, arguments, variables) != 0 || waitpid(child, &status, 0) != child ||
        status != 0) {
        fprintf(stderr, "start_cost: cannot run %s\n", program);
        exit(1);
    }
    return (double)(now_ns() - begin) / 1e3;
}

int main(int argc, char **argv)
{
    static double us[2][PAIRS_MAX];
    static char *without[VARIABLES_MAX];
    int pairs = argc > 1 ? atoi(argv[1]) : PAIRS;
    int count = 0;
    if (pairs < 1 || pairs > PAIRS_MAX) {
        fprintf(stderr, "start_cost: pairs must be 1 to %d\n", PAIRS_MAX);
        return 1;
    }
    for (char **v = environ; *v != NULL && count < VARIABLES_MAX - 1; v++)
        if (!is_ours(*v))
            without[count++] = *v;
    for (int i = -20; i < pairs; i++) {
        bool with_first = (i & 1) != 0;
        double first = start_us("/bin/true", with_first ? environ : without);
        double second = start_us("/bin/true", with_first ? without : environ);
        if (i >= 0) {
            us[0][i] = with_first ? second : first;
            us[1][i] = with_first ? first : second;
        }
    }
    printf("{\"preloaded\": %s", getenv("LD_PRELOAD") != NULL ? "true" : "false");
    for (int with = 0; with < 2; with++) {
        printf(",\n \"%s_us\": [", with ? "with" : "without");
        for (int i = 0; i < pairs; i++)
            printf("%s%.1f", i ? "," : "", us[with][i]);
        printf("]");
    }
    printf("}\n");
    return 0;
}
