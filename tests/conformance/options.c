/* Checks features that only the virtual GPU has: requested faults, other driver versions, limits of the host memory,
 * several processes on one GPU, and notes for the supervisor. Every case runs in its own process. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "card.h"
#include "gw_virt_state.h"

static unsigned failed_count;

static void is(const char *what, long long got, long long want)
{
    if (got == want) {
        printf("ok %s.%s\n", group_name, what);
        return;
    }
    failed_count++;
    printf("not ok %s.%s got %lld want %lld\n", group_name, what, got, want);
}

static CUresult launch(const char *name)
{
    return cuLaunchKernel(function(name), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void oom_at(void)
{
    CUdeviceptr p = 0;
    up();
    is("first", cuMemAlloc(&p, 100), 0);
    is("second", cuMemAlloc(&p, 100), 0);
    is("third", cuMemAlloc(&p, 100), 2);
    is("fourth", cuMemAlloc(&p, 100), 0);
}

/* The host has addresses for less than the virtual card would like, as under ThreadSanitizer or a limit. */
static void few_addresses(void)
{
    unsigned long long pages = 0;
    CUdeviceptr p = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    is("size-read", statm != NULL && fscanf(statm, "%llu", &pages) == 1, 1);
    rlim_t limit = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (rlim_t)112 * 1024 * MIB; /* seven times the card */
    is("limit", setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}), 0);
    up();
    is("alloc", cuMemAlloc(&p, 100), 0);
    is("alloc-async", cuMemAllocAsync(&p, 100, NULL), 0);
    if (statm != NULL)
        fclose(statm);
}

static void init_code(void)
{
    is("init", cuInit(0), 999);
    is("again", cuInit(0), 999);
}

static void call_code(void)
{
    CUstream stream = NULL;
    up();
    is("first", cuStreamCreate(&stream, 0), 0);
    is("second", cuStreamCreate(&stream, 0), 2);
    is("third", cuStreamCreate(&stream, 0), 0);
}

static void kernel_fault(void)
{
    up_with_module();
    is("launch", launch("nothing"), 0);
    is("synchronise", cuCtxSynchronize(), 716);
}

static void launch_fault(void)
{
    up_with_module();
    is("first", launch("nothing"), 0);
    is("synchronise-first", cuCtxSynchronize(), 0);
    is("second", launch("nothing"), 0);
    is("synchronise-second", cuCtxSynchronize(), 719);
}

static void older_driver(void)
{
    void *fn = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    CUmodule newer = NULL;
    int version = 0;
    up();
    is("version", cuDriverGetVersion(&version), 0);
    is("version-value", version, 12020);
    is("resolver-newer", cuGetProcAddress("cuMemAlloc", &fn, 12030, 0, &status), 1);
    is("resolver-same", cuGetProcAddress("cuMemAlloc", &fn, 12020, 0, &status), 0);
    is("newer-ptx", cuModuleLoadData(&newer, ".version 8.5\n.target sm_75\n.address_size 64\n"), 222);
    is("same-ptx", cuModuleLoadData(&newer, ".version 8.2\n.target sm_75\n.address_size 64\n"), 0);
}

static void small_host(void)
{
    void *a = NULL;
    void *b = NULL;
    up();
    is("first", cuMemAllocHost(&a, 48 * MIB), 0);
    is("second", cuMemAllocHost(&b, 48 * MIB), 2);
    is("free", cuMemFreeHost(a), 0);
    is("third", cuMemAllocHost(&b, 48 * MIB), 0);
}

static void small_card(void)
{
    CUdeviceptr p = 0;
    size_t total = 0;
    up();
    is("total", cuDeviceTotalMem(&total, 0), 0);
    is("total-value", total == (size_t)3 << 30, 1);
    size_t room = free_bytes() / (2 * MIB) * (2 * MIB);
    is("all", cuMemAlloc(&p, room), 0);
    is("one-more", cuMemAlloc(&p, 2 * MIB), 2);
    CUstream stream = NULL;
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < 100 && result == 0; i++)
        result = cuStreamCreate(&stream, 0);
    is("streams-need-memory-too", result, 2);
}

static void two_cards(void)
{
    CUcontext second = NULL;
    CUdeviceptr p = 0;
    int count = 0;
    up();
    is("count", cuDeviceGetCount(&count), 0);
    is("count-value", count, 2);
    size_t before = free_bytes();
    is("retain-second", cuDevicePrimaryCtxRetain(&second, 1), 0);
    is("push", cuCtxPushCurrent(second), 0);
    is("alloc", cuMemAlloc(&p, 100 * MIB), 0);
    is("pop", cuCtxPopCurrent(&second), 0);
    is("first-untouched", free_bytes() == before, 1);
}

/* A child allocates memory, waits and is killed. The parent checks the GPU's state after each step. */
static void shared_card(void)
{
    int ready[2];
    char byte = 0;
    gw_error err = {{0}};
    gw_virt_state *state = calloc(1, sizeof *state);
    if (pipe(ready) != 0)
        exit(2);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr p = 0;
        alarm(240);
        bool ok = cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0 &&
                  cuMemAlloc(&p, (size_t)2 << 30) == 0;
        byte = ok ? 'y' : 'n';
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    is("child-ready", read(ready[0], &byte, 1), 1);
    is("child-has-it", byte, 'y');
    up();
    CUdeviceptr p = 0;
    is("too-much-with-the-other", cuMemAlloc(&p, (size_t)2 << 30), 2);
    is("state", gw_virt_state_read(getenv("GPUWHY_VIRTUAL_DIR"), state, &err), GW_OK);
    is("processes", state->process_count, 2);
    bool seen = false;
    for (unsigned i = 0; i < state->process_count; i++)
        seen |= state->processes[i].pid == child && state->processes[i].used_bytes[0] > (uint64_t)2 << 30;
    is("the-other-is-named", seen, 1);
    kill(child, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT); /* the child has died, but is still a zombie */
    is("enough-without-the-other", cuMemAlloc(&p, (size_t)2 << 30), 0);
    waitpid(child, NULL, 0);
    free(state);
}

static bool notes_hold(const char *line)
{
    char path[4096];
    char text[4096] = "";
    snprintf(path, sizeof path, "%s/notes", getenv("GPUWHY_VIRTUAL_DIR"));
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = '\0';
    fclose(file);
    return strstr(text, line) != NULL;
}

static void notes(void)
{
    const CUuuid id = {{1}};
    const void *table = &id;
    up();
    is("none-yet", notes_hold("export-table"), 0);
    is("table", cuGetExportTable(&table, &id), 1);
    is("table-null", table == NULL, 1);
    is("noted", notes_hold("export-table\n"), 1);
    is("lacking", cuGLInit(), 801);
    is("lacking-noted", notes_hold("lacks cuGLInit\n"), 1);
}

static void ipc(void)
{
    int handles[2];
    int status = 0;
    CUdeviceptr p = 0;
    CUipcMemHandle handle;
    unsigned char back[4] = {0};
    if (pipe(handles) != 0)
        exit(2);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(240);
        bool ok = read(handles[0], &handle, sizeof handle) == (ssize_t)sizeof handle && cuInit(0) == 0 &&
                  cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0 &&
                  cuIpcOpenMemHandle(&p, handle, 1) == 0 && cuMemcpyDtoH(back, p, 4) == 0 && back[3] == 7 &&
                  cuMemsetD8(p, 9, 4) == 0 && cuCtxSynchronize() == 0 && cuIpcCloseMemHandle(p) == 0;
        _exit(ok ? 0 : 1);
    }
    up();
    is("alloc", cuMemAlloc(&p, 4 * MIB), 0);
    is("fill", cuMemsetD8(p, 7, 100), 0);
    is("synchronise", cuCtxSynchronize(), 0);
    is("export", cuIpcGetMemHandle(&handle, p), 0);
    is("send", write(handles[1], &handle, sizeof handle), sizeof handle);
    waitpid(child, &status, 0);
    is("child", status, 0);
    is("read-back", cuMemcpyDtoH(back, p, 4), 0);
    is("written-by-the-other", back[0], 9);
}

static void bad_spec(void)
{
    is("init", cuInit(0), 100);
    is("noted", notes_hold("unknown card \"h900\""), 1);
}

static const struct {
    const char *name;
    const char *spec;
    void (*run)(void);
} cases[] = {
    {"oom-at", "h200,fault=oom-at:3", oom_at},
    {"few-addresses", "h200,memory=16GiB", few_addresses},
    {"init-code", "h200,fault=init:999", init_code},
    {"call-code", "h200,fault=2@cuStreamCreate:2", call_code},
    {"kernel-fault", "h200,fault=misaligned@kernel:nothing", kernel_fault},
    {"launch-fault", "h200,fault=trap@launch:2", launch_fault},
    {"older-driver", "h200,driver=12020", older_driver},
    {"small-host", "h200,hostmem=64MiB", small_host},
    {"small-card", "h200,memory=3GiB", small_card},
    {"two-cards", "2xt4", two_cards},
    {"shared-card", "h200,memory=4GiB", shared_card},
    {"notes", "h200", notes},
    {"ipc", "h200,memory=4GiB", ipc},
    {"bad-spec", "h900", bad_spec},
};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

static int run_case(int index)
{
    char folder[] = "/tmp/gpuwhy-options-XXXXXX";
    char command[100];
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (mkdtemp(folder) == NULL)
            _exit(2);
        setenv("GPUWHY_VIRTUAL", cases[index].spec, 1);
        setenv("GPUWHY_VIRTUAL_DIR", folder, 1);
        alarm(240);
        group_name = cases[index].name;
        cases[index].run();
        fflush(stdout);
        snprintf(command, sizeof command, "rm -rf %s", folder);
        if (system(command) != 0)
            failed_count++;
        _exit(failed_count > 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("not ok %s.end got signal %d\n", cases[index].name, WTERMSIG(status));
    return status != 0;
}

int main(void)
{
    int failed = 0;
    for (int i = 0; i < CASE_COUNT; i++)
        failed += run_case(i);
    printf("%d of %d cases failed\n", failed, (int)CASE_COUNT);
    return failed > 0;
}
