/* S22: four workers create their contexts on GPU 0, which has no room for all, while other GPUs are idle. Repaired:
 * worker i uses GPU i modulo the GPU count. */
#include "scenario.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { WORKERS = 4, PERCENT = 28 };

static void worker(int ordinal, int ready_fd, int go_fd)
{
    struct gpu gpu;
    CUdeviceptr block;
    char byte;
    size_t bytes_free, bytes_total;
    gpu_open(&gpu, ordinal);
    scenario_memory(&bytes_free, &bytes_total);
    CUresult result = cuMemAlloc(&block, bytes_total / 100 * PERCENT);
    if (write(ready_fd, result == CUDA_SUCCESS ? "+" : "-", 1) != 1 || read(go_fd, &byte, 1) != 0)
        scenario_fail("the launcher is gone");
    gpu_check(result, "cuMemAlloc");
    CHECK(cuMemFree(block));
    gpu_close(&gpu);
}

static int start_worker(const char *program, int ordinal, int ready_fd, int go_fd)
{
    char text[3][16];
    snprintf(text[0], sizeof text[0], "%d", ordinal);
    snprintf(text[1], sizeof text[1], "%d", ready_fd);
    snprintf(text[2], sizeof text[2], "%d", go_fd);
    const char *arguments[] = {"--worker", "--ordinal", text[0], "--ready-fd", text[1], "--go-fd", text[2], NULL};
    return scenario_start(program, arguments);
}

/* Start a worker and wait until its allocation has succeeded or failed, or the worker has died. */
static int start_and_wait(const char *program, int ordinal, int go_fd)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        scenario_fail("no pipe");
    int pid = start_worker(program, ordinal, ready[1], go_fd);
    close(ready[1]);
    if (read(ready[0], &byte, 1) < 0)
        scenario_fail("a pipe broke");
    close(ready[0]);
    return pid;
}

/* Start the workers one after the other, then let all of them continue. Returns how many failed. */
static int launch_workers(const char *program, int gpus)
{
    int go[2], pid[WORKERS], failed = 0;
    if (pipe(go) != 0)
        scenario_fail("no pipe");
    /* Workers must not inherit the write end: they wait until it is closed. */
    fcntl(go[1], F_SETFD, FD_CLOEXEC);
    for (int index = 0; index < WORKERS; index++)
        pid[index] = start_and_wait(program, index % gpus, go[0]);
    close(go[1]);
    for (int index = 0; index < WORKERS; index++)
        failed += scenario_wait(pid[index]) != 0;
    return failed;
}

int main(int argc, char **argv)
{
    int is_worker = 0;
    long long ordinal = 0, ready_fd = -1, go_fd = -1, gpus = 2;
    const struct option_row rows[] = {{"gpus", OPTION_NUMBER, &gpus, "GPUs that the repaired program uses (2)"},
                                      {"worker", OPTION_FLAG, &is_worker, "be a worker"},
                                      {"ordinal", OPTION_NUMBER, &ordinal, "a worker's GPU"},
                                      {"ready-fd", OPTION_NUMBER, &ready_fd, "where a worker says it is ready"},
                                      {"go-fd", OPTION_NUMBER, &go_fd, "where a worker waits"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Four workers pile up on one of two GPUs.");
    if (is_worker) {
        worker((int)ordinal, (int)ready_fd, (int)go_fd);
        return 0;
    }
    truth("workers", "%d", WORKERS);
    int failed = launch_workers(argv[0], repaired ? (int)gpus : 1);
    if (failed > 0)
        scenario_fail("%d of %d workers failed", failed, WORKERS);
    printf("%d workers are done\n", WORKERS);
    return 0;
}
