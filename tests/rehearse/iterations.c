/* A program of iterations, for the end of a rehearsal: iterations PLAN...
 *
 * Each word of the plan is COUNTxSHAPE: COUNT iterations of a shape. A shape is a list of parts, and each part ends
 * with a copy to the host, unless the shape begins with `-`. A part is a number of launches, with `!` behind it one
 * more, of the kernel that PyTorch's optimizers launch. `+N` in place of a part
 * allocates N MiB that stay. For example, `3x4,4` is three iterations of two equal parts, and `1x+64` grows. `sleep` in
 * place of a word waits for an hour, `deaf` ignores SIGTERM, and `fail` ends the program with status 3. Prints a line
 * for each word when it is done. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

static const char kernels_ptx[] = ".version 6.3\n.target sm_75\n.address_size 64\n"
                                  ".visible .entry nothing()\n{\n    ret;\n}\n"
                                  ".visible .entry multi_tensor_apply_kernel()\n{\n    ret;\n}\n";

static CUfunction nothing, update;
static CUdeviceptr block;

static void begin(void)
{
    struct gpu gpu;
    gpu_open(&gpu, 0);
    CUmodule module = gpu_load(kernels_ptx);
    nothing = gpu_kernel(module, "nothing");
    update = gpu_kernel(module, "multi_tensor_apply_kernel");
    CHECK(cuMemAlloc(&block, 1 << 20));
}

static void part(const char *text, bool copies)
{
    CUdeviceptr kept = 0;
    char back[64];
    if (text[0] == '+') {
        CHECK(cuMemAlloc(&kept, (size_t)atoi(text + 1) << 20));
        return;
    }
    for (int i = 0; i < atoi(text); i++)
        CHECK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    if (strchr(text, '!') != NULL)
        CHECK(cuLaunchKernel(update, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    if (copies)
        CHECK(cuMemcpyDtoH(back, block, sizeof back));
}

static void iteration(const char *shape)
{
    char text[256], *rest = text;
    bool copies = shape[0] != '-';
    snprintf(text, sizeof text, "%s", shape + !copies);
    for (char *word; (word = strsep(&rest, ",")) != NULL;)
        part(word, copies);
}

int main(int argc, char **argv)
{
    begin();
    for (int i = 1; i < argc; i++) {
        char *shape = NULL;
        if (strcmp(argv[i], "deaf") == 0)
            signal(SIGTERM, SIG_IGN);
        else if (strcmp(argv[i], "fail") == 0)
            return 3;
        else if (strcmp(argv[i], "sleep") == 0)
            for (int minutes = 0; minutes < 60; minutes++)
                sleep(60);
        else
            for (long count = strtol(argv[i], &shape, 10); count > 0; count--)
                iteration(shape + 1);
        printf("done %s\n", argv[i]);
        fflush(stdout);
    }
    CHECK(cuCtxSynchronize());
    return 0;
}
