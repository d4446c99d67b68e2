/* Code shared by the scenario programs: see scenario.h. */
#include "scenario.h"

#include "kernel_ptx.h"

#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

const char scenario_ptx[] = PTX_HEAD PTX_FAULTS("store", "0") //
    ".visible .entry store(.param .u64 p)\n{\n.reg .b64 %d0;\n.reg .b32 %r0;\n"
    "ld.param.u64 %d0, [p];\nmov.u32 %r0, 1;\nst.global.u32 [%d0], %r0;\nret;\n}\n";

bool scenario_begin(int argc, char **argv, const struct option_row *rows, const char *summary)
{
    enum { ROWS_MAX = 16 };
    const char *truth_path = NULL;
    int repaired = 0, count = 2;
    struct option_row all[ROWS_MAX] = {{"repaired", OPTION_FLAG, &repaired, "without the fault"},
                                       {"truth", OPTION_TEXT, &truth_path, "file for what the program knows"}};
    for (; rows != NULL && rows->name != NULL && count < ROWS_MAX - 1; rows++)
        all[count++] = *rows;
    options_parse(argc, argv, all, summary);
    truth_open(truth_path);
    return repaired;
}

CUresult scenario_store(CUfunction store, CUdeviceptr address, CUstream stream)
{
    void *arguments[] = {&address};
    return cuLaunchKernel(store, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}

void scenario_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void scenario_memory(size_t *ret_free, size_t *ret_total)
{
    CHECK(cuMemGetInfo(ret_free, ret_total));
}

int scenario_start(const char *program, const char *const *arguments)
{
    enum { ARGUMENTS_MAX = 16 };
    char *argv[ARGUMENTS_MAX + 2] = {strdup(program)};
    for (int index = 0; index < ARGUMENTS_MAX && arguments[index] != NULL; index++)
        argv[index + 1] = strdup(arguments[index]);
    pid_t pid;
    int error = posix_spawn(&pid, program, NULL, NULL, argv, environ);
    for (int index = 0; argv[index] != NULL; index++)
        free(argv[index]);
    if (error != 0)
        scenario_fail("%s: %s", program, strerror(error));
    return pid;
}

int scenario_wait(int pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid)
        scenario_fail("waitpid %d failed", pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

CUdeviceptr scenario_take(size_t bytes)
{
    CUdeviceptr block = 0;
    CUresult result = cuMemAlloc(&block, bytes);
    if (result != CUDA_SUCCESS)
        scenario_fail("no room for %zu bytes: %d", bytes, (int)result);
    return block;
}
