/* Lets each driver call fail in turn, in several ways. Requirements:
 * - no crash and no hang
 * - the first failure names the right call
 * - everything is released and the next run works, or the scope is dead
 *
 *    faults_test [--few]                       all cases, with five ways of failing (--few: with two)
 *    faults_test VARIANT CALL CODE STICKS      a single case */
#include "shim.h"

#include <gpuwhy/scope.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry nothing(.param .u64 p)\n{\nret;\n}\n";

static void (*arm)(long, int, int);
static long (*count)(void), (*alive)(void), (*left)(void);
static const char *(*faulted)(void);

static void find_shim(void)
{
    static const char *const names[] = {"shim_arm", "shim_count", "shim_alive", "shim_faulted", "shim_left_to_context"};
    void *const places[] = {&arm, &count, &alive, &faulted, &left};
    void *shim = dlopen("libcuda.so.1", RTLD_NOW);
    for (int i = 0; i < 5; i++) {
        void *found = shim == NULL ? NULL : dlsym(shim, names[i]);
        if (found == NULL) {
            fprintf(stderr, "libcuda.so.1 is not the test's own\n");
            _exit(2);
        }
        memcpy(places[i], &found, sizeof found);
    }
}

/* ---- the program: one variant stops at the first failure, the other checks nothing ---- */

static int is_careless;

#define STEP(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != GS_OK && !is_careless)                                                                           \
            return;                                                                                                    \
    } while (0)

static void work(gs_scope *scope)
{
    CUstream stream = NULL;
    CUevent begin = NULL, end = NULL;
    CUdeviceptr block = 0, other = 0, ordered = 0, mapped_address = 0, at = 0;
    void *pinned = NULL, *mapped = NULL;
    CUmodule module = NULL;
    CUfunction kernel = NULL;
    gs_workspace *workspace = NULL;
    gs_memory memory;
    float ms;
    char bytes[64];
    size_t choice;
    const size_t sizes[] = {4 * MIB, MIB};
    STEP(gs_stream(scope, &stream));
    STEP(gs_event(scope, 1, &begin));
    STEP(gs_event(scope, 1, &end));
    STEP(gs_alloc(scope, 3 * MIB, &block));
    STEP(gs_alloc(scope, 100, &other));
    STEP(gs_alloc_ordered(scope, 5 * MIB, stream, &ordered));
    STEP(gs_alloc_pinned(scope, MIB, &pinned));
    STEP(gs_alloc_mapped(scope, MIB, &mapped, &mapped_address));
    STEP(gs_workspace_open(scope, 8 * MIB, &workspace));
    if (workspace != NULL)
        STEP(gs_workspace_choose(workspace, sizes, 2, &choice, &at));
    STEP(gs_module(scope, ptx, &module));
    if (module != NULL)
        STEP(gs_kernel(scope, module, "nothing", &kernel));
    if (begin != NULL)
        STEP(gs_record(begin, stream));
    if (kernel != NULL)
        STEP(GS_LAUNCH(kernel, gs_dim(1, 1, 1), gs_dim(32, 1, 1), 0, stream, &block));
    if (block != 0) {
        STEP(gs_fill(block, 1, 64, stream));
        STEP(gs_copy_out(bytes, block, 64, stream));
        STEP(gs_copy_in(block, bytes, 64, stream));
        STEP(gs_copy(block, block + 128, 64, stream));
    }
    if (begin != NULL && end != NULL) {
        STEP(gs_record(end, stream));
        STEP(gs_follow(NULL, end));
        STEP(gs_wait_event(end));
        STEP(gs_elapsed(begin, end, &ms));
    }
    STEP(gs_wait(stream));
    STEP(gs_wait_all());
    STEP(gs_memory_of(scope, &memory));
    STEP(gs_free(scope, other));
    STEP(gs_free_ordered(scope, ordered, stream));
    STEP(gs_alloc_ordered(scope, 64, stream, &ordered));
    STEP(gs_free_host(scope, pinned));
    STEP(gs_event_close(scope, begin));
}

static gs_status run(gs_report *ret_report)
{
    gs_scope *outer = NULL, *inner = NULL;
    gs_report *report = NULL;
    gs_failure failure;
    gs_options options = {.name = "outer"};
    gs_status status = gs_open(&options, &outer, &failure);
    if (status != GS_OK)
        return status;
    work(outer);
    if (gs_begin(outer, NULL, &inner) == GS_OK) {
        work(inner);
        status = gs_end(inner, NULL);
    }
    status = gs_end(outer, &report);
    *ret_report = *report;
    gs_report_free(report);
    return status;
}

/* ---- requirements ---- */

/* True if the scope need not record the failure of `call`:
 * - a query that only affects the report
 * - an allocation without enough memory: the workspace then tries a smaller size */
static int may_stay_unsaid(const char *call, int code)
{
    return strcmp(call, "cuDevicePrimaryCtxGetState") == 0 || (strcmp(call, "cuMemAlloc_v2") == 0 && code == 2);
}

/* True for calls that are made before there is a context that could die. */
static int is_before_context(const char *call)
{
    return strcmp(call, "cuInit") == 0 || strcmp(call, "cuDeviceGet") == 0;
}

static int is_wrong(int condition, const char *what)
{
    if (condition)
        fprintf(stderr, "  %s\n", what);
    return condition;
}

static int judge(long at, int code, int sticks)
{
    gs_report report = {0};
    gs_failure failure = {0};
    find_shim();
    arm(at, code, sticks);
    gs_status status = run(&report);
    const char *call = faulted();
    int bad = 0;
    if (is_wrong(call == NULL, "there was no such call"))
        return 1;
    int has_failure = gs_first_failure(NULL, &failure);
    int is_last = strcmp(call, "cuDevicePrimaryCtxRelease_v2") == 0;
    bad |= is_wrong(!has_failure && !may_stay_unsaid(call, code), "no failure is known");
    bad |= is_wrong(has_failure && strcmp(failure.call, call) != 0, "the first failure has another name");
    bad |= is_wrong(has_failure && (failure.code != code || failure.source != GS_FROM_DRIVER), "or another code");
    if (is_last)
        bad |= is_wrong(report.context != GS_CONTEXT_UNSURE || status == GS_OK, "the context's release is not told");
    else
        bad |= is_wrong(alive() != 0, "something was not given back");
    /* The end of the context may free only the object whose release failed. After the sticky error 700, every release
     * fails, so it frees all. */
    bad |= is_wrong(code != 700 && left() > 1, "things were left to the context");
    bad |= is_wrong(code == 999 && left() > 0 && strstr(call, "Destroy") == NULL && strstr(call, "Unload") == NULL,
                    "memory was left to the context");
    bad |= is_wrong(code == 700 && has_failure && !failure.is_sticky, "700 does not stick");
    bad |= is_wrong(code != 700 && failure.is_sticky, "an error sticks that does not");
    if (bad)
        fprintf(stderr, "  status %d, failing call %s; known: %s %s\n", status, call, failure.call, failure.text);
    arm(0, 0, 0);
    gs_status again = run(&report);
    if (code == 700 && !is_before_context(call))
        bad |= is_wrong(has_failure && again != GS_DEAD, "the next run does not know that the card is lost");
    else
        bad |= is_wrong(again != GS_OK, "the next run fails");
    return bad;
}

/* ---- all cases ---- */

static long count_calls(void)
{
    int results[2];
    long calls = 0;
    if (pipe(results) != 0)
        return 0;
    pid_t pid = fork();
    if (pid == 0) {
        gs_report report = {0};
        find_shim();
        arm(0, 0, 0);
        gs_status status = run(&report);
        calls = status == GS_OK && alive() == 0 && left() == 0 && report.missing_bytes <= (int64_t)report.allowed_bytes
                    ? count()
                    : 0;
        _exit(write(results[1], &calls, sizeof calls) != (ssize_t)sizeof calls);
    }
    close(results[1]);
    if (read(results[0], &calls, sizeof calls) != (ssize_t)sizeof calls)
        calls = 0;
    close(results[0]);
    waitpid(pid, NULL, 0);
    return calls;
}

static int try_case(int careless, long at, int code, int sticks)
{
    int status = 0;
    pid_t pid = fork(); /* allowed, because the parent has not used the driver */
    if (pid == 0) {
        alarm(240);
        is_careless = careless;
        _exit(judge(at, code, sticks));
    }
    waitpid(pid, &status, 0);
    if (status != 0)
        fprintf(stderr, "FAILED: faults_test %d %ld %d %d: %s %d\n", careless, at, code, sticks,
                WIFSIGNALED(status) ? "signal" : "exit status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return status != 0;
}

int main(int argc, char **argv)
{
    static const struct {
        int code, sticks;
    } ways[] = {{999, 0}, {700, 1}, {700, 0}, {1, 0}, {2, 0}};
    int failed = 0, cases = 0, way_count = argc == 2 && strcmp(argv[1], "--few") == 0 ? 2 : 5;
    if (argc == 5)
        return try_case(atoi(argv[1]), atol(argv[2]), atoi(argv[3]), atoi(argv[4]));
    long calls = count_calls();
    if (calls == 0) {
        fprintf(stderr, "the program does not even work without a fault\n");
        return 1;
    }
    for (int careless = 0; careless < 2; careless++) {
        for (long at = 1; at <= calls; at++) {
            for (int way = 0; way < way_count; way++, cases++)
                failed += try_case(careless, at, ways[way].code, ways[way].sticks);
        }
    }
    printf("%ld calls, %d cases, %d failed\n", calls, cases, failed);
    return failed != 0;
}
