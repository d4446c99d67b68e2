/* S28: a program uses the GPU without a fault, then ends for an unrelated reason: a crash, an abort, an exit status
 * or a signal from outside. */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void use_the_gpu(void)
{
    struct gpu gpu;
    CUdeviceptr block;
    gpu_open(&gpu, 0);
    CUfunction store = gpu_kernel(gpu_load(scenario_ptx), "store");
    CHECK(cuMemAlloc(&block, 1 << 20));
    for (int step = 0; step < 100; step++)
        CHECK(scenario_store(store, block, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(block));
    gpu_close(&gpu);
}

/* Write through an invalid pointer. It is volatile, so that the compiler does not see its value. */
static void crash(void)
{
    int *volatile never_set = (int *)16;
    *never_set = 1;
}

/* Request more memory than any GPU has, and then hang. */
static void get_stuck(void)
{
    struct gpu gpu;
    CUdeviceptr block;
    gpu_open(&gpu, 0);
    CUresult result = cuMemAlloc(&block, (size_t)1 << 40);
    fprintf(stderr, "no room: %d\n", (int)result);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    const char *truth_path = NULL, *end = "return";
    long long status = 3;
    const struct option_row rows[] = {
        {"end", OPTION_TEXT, &end, "return, crash, abort, exit, wait (for a signal), stuck (after a failure)"},
        {"status", OPTION_NUMBER, &status, "exit status of --end exit (3)"},
        {"truth", OPTION_TEXT, &truth_path, "file for what the program knows"},
        {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "Uses the GPU, then ends for a reason of its own.");
    truth_open(truth_path);
    use_the_gpu();
    printf("the GPU is done\n");
    fflush(stdout);
    truth("pid", "%d", (int)getpid());
    if (strcmp(end, "crash") == 0)
        crash();
    if (strcmp(end, "abort") == 0)
        abort();
    if (strcmp(end, "stuck") == 0)
        get_stuck();
    if (strcmp(end, "wait") == 0)
        for (;;)
            pause();
    return strcmp(end, "exit") == 0 ? (int)status : 0;
}
