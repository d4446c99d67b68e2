/* S21: a forked child allocates GPU memory; its runtime library only queries the current context. repaired: the
 * child computes on the CPU instead of the GPU. */
#include "scenario.h"

#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    float *data = NULL;
    int status = 0;
    bool repaired = is_variant(argc, argv, "repaired");
    CHECK(cudaMalloc(&data, 1 << 20));
    CHECK(cudaMemset(data, 0, 1 << 20));
    CHECK(cudaDeviceSynchronize());
    pid_t child = fork();
    if (child == 0) {
        float *other = NULL;
        if (!repaired)
            CHECK(cudaMalloc(&other, 1 << 20));
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        return 1;
    printf("done\n");
    return 0;
}
