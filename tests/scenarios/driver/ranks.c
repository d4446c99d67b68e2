/* Starts four workers with ranks, as torchrun does. Rank 2 crashes in host code, or its kernel writes to a bad
 * address. The launcher then ends the other, faultless ranks. Repaired: no rank fails. With --starts, the launcher then
 * starts all ranks again, as torchrun does with --max-restarts, and each start has its own fault. */
#include "scenario.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, CULPRIT = 2 };

/* Report that this rank is ready, then wait until all ranks are. */
static void meet(int ready_fd, int go_fd)
{
    char byte;
    if (write(ready_fd, "+", 1) != 1 || read(go_fd, &byte, 1) != 0)
        scenario_fail("the launcher is gone");
}

static void worker(const char *of, int fails, int ready_fd, int go_fd)
{
    struct gpu gpu;
    CUdeviceptr block;
    gpu_open(&gpu, 0);
    CUfunction store = gpu_kernel(gpu_load(scenario_ptx), "store");
    CHECK(cuMemAlloc(&block, 1 << 20));
    CHECK(scenario_store(store, block, NULL));
    CHECK(cuCtxSynchronize());
    meet(ready_fd, go_fd);
    if (fails && strcmp(of, "crash") == 0)
        raise(SIGSEGV);
    CHECK(scenario_store(store, fails ? 0x1000 : block, NULL));
    CHECK(cuCtxSynchronize());
    /* If one rank fails, the others wait for it, as in a real job, until the launcher ends them. */
    int waits = strcmp(of, "nothing") != 0;
    while (waits)
        pause();
    gpu_close(&gpu);
}

/* With --inside, each rank sets its own RANK later, as the workers of Ray do. */
static int is_inside;

static void set_rank(const char *rank, int later)
{
    setenv(later ? "WORKER" : "RANK", rank, 1);
    setenv(later ? "LOCAL_WORKER" : "LOCAL_RANK", rank, 1);
    setenv("WORLD_SIZE", "4", 1);
}

static int start_worker(const char *program, const char *of, int rank, int ready_fd, int go_fd)
{
    char text[2][16], rank_text[16];
    snprintf(text[0], sizeof text[0], "%d", ready_fd);
    snprintf(text[1], sizeof text[1], "%d", go_fd);
    snprintf(rank_text, sizeof rank_text, "%d", rank);
    set_rank(rank_text, is_inside);
    const char *arguments[] = {"--worker", "--of", of, "--ready-fd", text[0], "--go-fd", text[1], NULL};
    return scenario_start(program, arguments);
}

/* Wait for all ranks to exit. When the first one fails, end the others. Returns how many failed by themselves. */
static int wait_for_all(const int *pid)
{
    int failed = 0, status;
    for (int left = WORKERS; left > 0; left--) {
        if (wait(&status) < 0)
            scenario_fail("wait failed");
        if (status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM))
            continue;
        failed++;
        for (int index = 0; index < WORKERS; index++)
            kill(pid[index], SIGTERM);
    }
    return failed;
}

/* Start all ranks and wait for them. Returns how many failed by themselves. */
static int launch(const char *program, const char *of)
{
    int ready[2], go[2], pid[WORKERS];
    char byte;
    if (pipe(ready) != 0 || pipe(go) != 0)
        scenario_fail("no pipe");
    fcntl(ready[0], F_SETFD, FD_CLOEXEC);
    fcntl(go[1], F_SETFD, FD_CLOEXEC);
    for (int rank = 0; rank < WORKERS; rank++) {
        pid[rank] = start_worker(program, of, rank, ready[1], go[0]);
        if (rank == CULPRIT)
            truth("culprit_pid", "%d", pid[rank]);
    }
    close(ready[1]);
    for (int count = 0; count < WORKERS; count++)
        if (read(ready[0], &byte, 1) != 1)
            scenario_fail("a worker did not start");
    usleep(300000); /* so that monitors outside have time to see the workers */
    close(go[1]);
    int failed = wait_for_all(pid);
    close(ready[0]);
    close(go[0]);
    return failed;
}

/* Start the ranks once for each fault in the list, such as "address,crash", until none fails. */
static int launch_again(const char *program, char *list)
{
    int failed = 0, restart = 0;
    for (char *of = strtok(list, ","); of != NULL && (restart == 0 || failed > 0); of = strtok(NULL, ",")) {
        char text[16];
        snprintf(text, sizeof text, "%d", restart++);
        setenv("TORCHELASTIC_RESTART_COUNT", text, 1);
        failed = launch(program, of);
    }
    return failed;
}

int main(int argc, char **argv)
{
    const char *of = "address", *starts = NULL;
    int is_worker = 0;
    long long ready_fd = -1, go_fd = -1;
    const struct option_row rows[] = {{"of", OPTION_TEXT, &of, "what rank 2 dies of: address or crash"},
                                      {"starts", OPTION_TEXT, &starts, "--of for each start, such as address,crash"},
                                      {"inside", OPTION_FLAG, &is_inside, "each rank sets its variables itself"},
                                      {"worker", OPTION_FLAG, &is_worker, "be a worker"},
                                      {"ready-fd", OPTION_NUMBER, &ready_fd, "where a worker says it is ready"},
                                      {"go-fd", OPTION_NUMBER, &go_fd, "where a worker waits"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Of four ranks one fails, and the launcher ends the others.");
    if (is_worker) {
        if (getenv("WORKER") != NULL) {
            set_rank(getenv("WORKER"), 0);
            setenv("PMIX_RANK", "0", 1); /* as a library does that starts MPI without a launcher */
        }
        const char *rank = getenv("RANK");
        int fails = rank != NULL && atoi(rank) == CULPRIT && strcmp(of, "nothing") != 0;
        worker(of, fails, (int)ready_fd, (int)go_fd);
        return 0;
    }
    char list[64] = "";
    snprintf(list, sizeof list, "%s", starts == NULL ? "" : starts);
    int failed = starts != NULL ? launch_again(argv[0], list) : launch(argv[0], repaired ? "nothing" : of);
    if (failed > 0)
        scenario_fail("%d of %d workers failed", failed, WORKERS);
    printf("%d workers are done\n", WORKERS);
    return 0;
}
