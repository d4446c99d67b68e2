/* S04: two processes share a GPU, and each tries to allocate 60 % of its memory. Repaired: the second process allocates
 * 20 %. Sizes are relative to the GPU's memory, so that any GPU works. */
#include "scenario.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The second process: allocate a block, write to `ready_fd`, and wait to be killed. */
static void hold(long long percent, int ready_fd)
{
    struct gpu gpu;
    CUdeviceptr block;
    size_t bytes_free, bytes_total;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* kill this process if its parent ends */
    gpu_open(&gpu, 0);
    scenario_memory(&bytes_free, &bytes_total);
    size_t bytes = bytes_total / 100 * (size_t)percent;
    CHECK(cuMemAlloc(&block, bytes));
    truth("holder_pid", "%d", (int)getpid());
    truth("holder_bytes", "%zu", bytes);
    if (write(ready_fd, "r", 1) != 1)
        scenario_fail("the parent does not listen");
    for (;;)
        pause();
}

static int start_holder(const char *program, const char *truth_path, long long percent)
{
    int ready[2];
    char byte, percent_text[24], fd_text[16];
    if (pipe(ready) != 0)
        scenario_fail("no pipe");
    snprintf(percent_text, sizeof percent_text, "%lld", percent);
    snprintf(fd_text, sizeof fd_text, "%d", ready[1]);
    const char *arguments[] = {"--hold", percent_text, "--ready-fd", fd_text, "--truth", truth_path, NULL};
    if (truth_path == NULL)
        arguments[4] = NULL;
    int pid = scenario_start(program, arguments);
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        scenario_fail("the neighbour died");
    close(ready[0]);
    return pid;
}

static CUresult work(void)
{
    struct gpu gpu;
    CUdeviceptr block;
    size_t bytes_free, bytes_total;
    gpu_open(&gpu, 0);
    scenario_memory(&bytes_free, &bytes_total);
    size_t bytes = bytes_total / 100 * 60;
    CUresult result = cuMemAlloc(&block, bytes);
    truth("wanted_bytes", "%zu", bytes);
    if (result == CUDA_SUCCESS) {
        CHECK(cuMemFree(block));
        gpu_close(&gpu);
    }
    return result;
}

int main(int argc, char **argv)
{
    const char *truth_path = NULL;
    long long hold_percent = 0, ready_fd = -1;
    int repaired = 0;
    const struct option_row rows[] = {{"repaired", OPTION_FLAG, &repaired, "without the fault"},
                                      {"truth", OPTION_TEXT, &truth_path, "file for what the program knows"},
                                      {"hold", OPTION_NUMBER, &hold_percent, "be the neighbour: percent of the card"},
                                      {"ready-fd", OPTION_NUMBER, &ready_fd, "where the neighbour says it is ready"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "Two processes on one card.");
    truth_open(truth_path);
    if (hold_percent > 0)
        hold(hold_percent, (int)ready_fd);
    int holder = start_holder(argv[0], truth_path, repaired ? 20 : 60);
    CUresult result = work();
    kill(holder, SIGTERM);
    scenario_wait(holder);
    if (result != CUDA_SUCCESS)
        scenario_fail("the block cannot be had: %d", (int)result);
    printf("both had room\n");
    return 0;
}
