/* Test the back end `cuda` on the virtual GPU, with fake libraries. First everything works; then each call of the
 * driver and of the libraries fails in turn. There must be no crash and no hang, and the failed call must be named.
 * Everything must be released, unless the GPU is dead.
 *
 *     cuda_faults_test [EVERY]               each call, or every EVERY-th
 *     cuda_faults_test WHOSE CALL CODE       a single case; WHOSE: driver, library */
#include "../../libgpuscope/tests/shim.h"

#include "backend.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char network[] =
    "input 3 6 6\nconv 8 3 pad 1 relu\nmaxpool 2\nsegment\nbatchnorm relu\nmaxpool 2 pad 1\nconv 8 1 nobias\n"
    "b = batchnorm relu\n"
    "conv 8 3 pad 1\nbatchnorm\nadd b relu\naveragepool\nlinear 4\n";
enum { IMAGES = 2, MIB = 1 << 20 };

static void (*arm)(long, int, int);
static long (*driver_calls)(void), (*driver_alive)(void);
static const char *(*driver_failed)(void);
static long *library_calls, *library_alive, *fail_at, *sums;
static int *fail_code;
static const char **library_failed;

static void look_up(void *library, const char *name, void *ret)
{
    void *found = library == NULL ? NULL : dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "%s is not there: %s\n", name, library == NULL ? dlerror() : "another library");
        _exit(2);
    }
    memcpy(ret, &found, sizeof found);
}

static void find_libraries(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *library = dlopen(getenv("GPUSCOPE_CUDNN"), RTLD_NOW);
    look_up(driver, "shim_arm", &arm);
    look_up(driver, "shim_count", &driver_calls);
    look_up(driver, "shim_alive", &driver_alive);
    look_up(driver, "shim_faulted", &driver_failed);
    look_up(library, "fake_calls", &library_calls);
    look_up(library, "fake_alive", &library_alive);
    look_up(library, "fake_fail_at", &fail_at);
    look_up(library, "fake_fail_code", &fail_code);
    look_up(library, "fake_failed", &library_failed);
    look_up(library, "fake_sums", &sums);
}

/* ---- a training: two steps of two micro-batches, and an evaluation ---- */

struct run {
    const struct backend *backend;
    struct model model;
    struct schedule schedule;
    void *state;
    float *parameters, *statistics; /* owned */
    void *images;                   /* allocated by the back end */
    struct results results;
};

static bool put_all(struct run *run, struct reason *reason)
{
    const struct schedule *schedule = &run->schedule;
    run->parameters = calloc(run->model.parameter_count, sizeof *run->parameters);
    run->statistics = calloc(run->model.statistics_count, sizeof *run->statistics);
    if (run->parameters == NULL || run->statistics == NULL)
        return because(reason, "no memory");
    model_begin(&run->model, 1, run->parameters, run->statistics);
    return run->backend->put(run->state, schedule->lasting[LASTING_PARAMETERS], run->parameters,
                             run->model.parameter_count * sizeof(float), reason) &&
           run->backend->put(run->state, schedule->lasting[LASTING_STATISTICS], run->statistics,
                             run->model.statistics_count * sizeof(float), reason) &&
           run->backend->host_alloc(run->state, IMAGES * shape_count(run->model.layers[0].out) * sizeof(float),
                                    &run->images, reason);
}

static bool one_batch(struct run *run, unsigned part, bool is_evaluation, struct reason *reason)
{
    static const int32_t labels[IMAGES] = {1, 3};
    struct iteration iteration = {.turn = part,
                                  .is_first = part == 0,
                                  .is_evaluation = is_evaluation,
                                  .loss_scale = 128,
                                  .images_in_step = 2 * IMAGES,
                                  .images = IMAGES};
    const struct backend *backend = run->backend;
    return backend->feed(run->state, part, run->images, labels, reason) && backend->fed(run->state, part, reason) &&
           backend->iterate(run->state, &iteration, reason);
}

static bool train(struct run *run, struct reason *reason)
{
    const struct backend *backend = run->backend;
    struct update update = {.optimizer = OPTIMIZER_ADAM, .rate = 0.1F, .number = 1, .scale = 1.0F / 128};
    gs_nccl_id id;
    if (!backend->invite(run->state, &id, reason) || !backend->join(run->state, 2, 0, &id, reason))
        return false;
    for (; update.number <= 2; update.number++)
        if (!one_batch(run, 0, false, reason) || !one_batch(run, 1, false, reason) ||
            !backend->sum_gradients(run->state, reason) || !backend->update(run->state, &update, reason) ||
            !backend->settle(run->state, &run->results, reason))
            return false;
    return one_batch(run, 0, true, reason) && backend->settle(run->state, &run->results, reason) &&
           backend->get(run->state, run->schedule.lasting[LASTING_PARAMETERS], run->parameters,
                        run->model.parameter_count * sizeof(float), reason);
}

static bool prepare(struct run *run, enum precision precision, struct reason *reason)
{
    struct schedule_options options = {
        .images = IMAGES, .precision = precision, .optimizer = OPTIMIZER_ADAM, .checkpointing = true};
    char path[] = "/tmp/model-XXXXXX";
    int fd = mkstemp(path);
    bool is_good = fd >= 0 && write(fd, network, sizeof network - 1) == (ssize_t)sizeof network - 1 &&
                   model_read(path, &run->model, reason);
    close(fd);
    unlink(path);
    return is_good && schedule_make(&run->model, &options, run->backend, run->state, MIB, &run->schedule, reason) &&
           run->backend->load(run->state, &run->schedule, reason) && put_all(run, reason);
}

static bool run_all(enum precision precision, bool tune, struct reason *reason)
{
    struct run run = {.backend = backend_find("cuda")};
    struct backend_options options = {.deterministic = true, .tune = tune, .name = "faults"};
    struct reason of_close = {.text = ""};
    gs_report *report = NULL;
    if (!run.backend->open(&options, &run.state, reason))
        return false;
    bool is_well = prepare(&run, precision, reason) && train(&run, reason);
    if (run.images != NULL)
        run.backend->host_free(run.state, run.images);
    bool is_closed = run.backend->close(run.state, &report, &of_close);
    if (is_well && !is_closed)
        *reason = of_close;
    gs_report_free(report);
    schedule_clear(&run.schedule);
    model_clear(&run.model);
    free(run.parameters);
    free(run.statistics);
    return is_well && is_closed;
}

/* ---- requirements ---- */

static bool is_wrong(bool condition, const char *what)
{
    if (condition)
        fprintf(stderr, "  %s\n", what);
    return condition;
}

/* True if the run may succeed although `call` fails: another algorithm is used, or the call only affects the report. */
static bool may_go_well(const char *call)
{
    static const char *const calls[] = {
        "cudnnBackend",   "WorkspaceSize", "Algorithm_v7", "nvrtcGetProgramLog", "cuDevicePrimaryCtxGetState",
        "cuMemGetInfo_v2"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strstr(call, calls[i]) != NULL)
            return true;
    return false;
}

/* True if `text` names the failed call. libgpuscope does not record the names of NVRTC's calls, so "NVRTC" is enough
 * for them. */
static bool names_it(const char *text, const char *call)
{
    return strstr(text, call) != NULL || (strncmp(call, "nvrtc", 5) == 0 && strstr(text, "NVRTC") != NULL);
}

static int judge(bool is_driver, long at, int code)
{
    struct reason reason = {.text = ""};
    find_libraries();
    arm(is_driver ? at : 0, code, code == 700);
    *fail_at = is_driver ? 0 : at;
    *fail_code = code;
    bool is_well = run_all(PRECISION_BF16, false, &reason);
    const char *call = is_driver ? driver_failed() : *library_failed;
    if (is_wrong(call == NULL, "there was no such call"))
        return 1;
    /* The scope also records failures during cleanup and of calls that were repeated; `reason` does not. */
    gs_failure first;
    bool is_known = gs_first_failure(NULL, &first) && strstr(first.call, call) != NULL;
    bool bad = is_wrong(is_well && !is_known && !may_go_well(call), "nobody noticed");
    bad |= is_wrong(!is_well && !names_it(reason.text, call), "the failure has another name");
    bad |= is_wrong(*library_alive != 0 && code != 700, "handles or descriptors are left over");
    bad |= is_wrong(driver_alive() != 0 && strcmp(call, "cuDevicePrimaryCtxRelease_v2") != 0,
                    "things of the driver are left over");
    if (bad)
        fprintf(stderr, "  %s: %s\n", call, reason.text);
    arm(0, 0, 0);
    *fail_at = 0;
    bool again = run_all(PRECISION_BF16, false, &reason);
    bad |= is_wrong(code != 700 && !again, "the next run fails");
    return bad;
}

/* ---- all cases ---- */

static int in_child(int what(bool, long, int), bool is_driver, long at, int code)
{
    int status = 0;
    pid_t pid = fork(); /* allowed, because the parent has not used the driver */
    if (pid == 0) {
        alarm(120);
        _exit(what(is_driver, at, code));
    }
    waitpid(pid, &status, 0);
    return status;
}

/* Check runs without failures in one precision. `tune`: measure the algorithms. Nothing may be left over. Returns 0 if
 * all is well. */
static int is_sound(bool unused, long precision, int tune)
{
    struct reason reason = {.text = ""};
    (void)unused;
    find_libraries();
    arm(0, 0, 0);
    bool bad = false;
    for (int i = 0; i < 3; i++) {
        *sums = 0;
        bad |= is_wrong(!run_all((enum precision)precision, tune, &reason), reason.text);
        bad |= is_wrong(*library_alive != 0 || driver_alive() != 0, "something is left over");
        bad |= is_wrong(*sums != 2, "gradients were not summed");
    }
    return bad;
}

static int pipe_ends[2];
static int tell_counts(bool unused, long unused_too, int unused_three)
{
    struct reason reason = {.text = ""};
    (void)unused, (void)unused_too, (void)unused_three;
    find_libraries();
    arm(0, 0, 0);
    if (!run_all(PRECISION_BF16, false, &reason))
        return 1;
    long counts[] = {driver_calls(), *library_calls};
    return write(pipe_ends[1], counts, sizeof counts) != (ssize_t)sizeof counts;
}

static int try_case(bool is_driver, long at, int code)
{
    int status = in_child(judge, is_driver, at, code);
    if (status != 0)
        fprintf(stderr, "FAILED: cuda_faults_test %s %ld %d: %s %d\n", is_driver ? "driver" : "library", at, code,
                WIFSIGNALED(status) ? "signal" : "exit status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return status != 0;
}

int main(int argc, char **argv)
{
    int failed = 0, cases = 0;
    long counts[2] = {0}, every = argc == 2 ? atol(argv[1]) : 1;
    if (argc == 4)
        return try_case(strcmp(argv[1], "driver") == 0, atol(argv[2]), atoi(argv[3]));
    for (int i = 0; i < 2 * PRECISION_COUNT; i++, cases++)
        failed += in_child(is_sound, false, i / 2, i % 2) != 0;
    if (failed != 0 || pipe(pipe_ends) != 0 || in_child(tell_counts, false, 0, 0) != 0 ||
        read(pipe_ends[0], counts, sizeof counts) != (ssize_t)sizeof counts) {
        fprintf(stderr, "the program does not even work without a fault\n");
        return 1;
    }
    for (long at = 1; at <= counts[0]; at += every, cases += 2)
        failed += try_case(true, at, 999) + try_case(true, at, 700);
    for (long at = 1; at <= counts[1]; at += every, cases++)
        failed += try_case(false, at, 5);
    printf("%ld calls of the driver, %ld of libraries, %d cases, %d failed\n", counts[0], counts[1], cases, failed);
    return failed != 0;
}
