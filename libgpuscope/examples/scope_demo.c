/* Demonstrates libgpuscope: a process repeats the same run many times, and every run uses the same memory.
 *
 *     scope_demo [--runs N] [--memory SIZE] [--batch N] [--warm] [--fault]
 *
 * A run finds the largest micro-batch that fits, plans the memory of an iteration, executes a few iterations, and ends.
 * All memory is then returned to the driver. --warm keeps the context between runs. --fault first starts a child
 * process that fails with a wild pointer.
 *
 * Exits 0 if all runs succeeded and all later runs used the same memory. */
#include "options.h"

#include <gpuwhy/scope.h>

#include <stdio.h>
#include <stdlib.h>

/* The virtual GPU does not execute kernels. gpuwhy_model_step makes it report a fault if the kernel's first parameter
 * does not point to memory. */
static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .global .align 8 .u64 gpuwhy_model_step[5] = {0x4D4B594857555047, 1, 1, 1, 0};\n"
                          ".visible .entry step(.param .u64 p)\n{\n.reg .b64 %d;\n.reg .b32 %r;\n"
                          "ld.param.u64 %d, [p];\nmov.u32 %r, 1;\nst.global.u32 [%d], %r;\nret;\n}\n";

enum { LAYERS = 8, ITERATIONS = 5, MIB = 1 << 20 };

struct settings {
    long long runs, memory_bytes, batch;
};

/* Return the bytes that layer `i` keeps for the backward pass of `images` images. */
static size_t layer_bytes(int i, size_t images)
{
    return images * (size_t)(LAYERS - i) * 20000;
}

/* ---- planned memory ---- */

struct iteration {
    gs_plan *plan;
    gs_plan_size size;
};

/* Plan one iteration. The forward pass allocates memory for each layer. The backward pass frees this memory layer by
 * layer, and needs one more block for each gradient. */
static gs_status plan_iteration(size_t images, struct iteration *ret)
{
    size_t saved[LAYERS], gradient;
    gs_plan *plan;
    gs_status status = gs_plan_new(0, &plan);
    if (status != GS_OK)
        return status;
    for (int i = 0; i < LAYERS && status == GS_OK; i++)
        status = gs_plan_alloc(plan, layer_bytes(i, images), &saved[i]);
    for (int i = LAYERS; i-- > 0 && status == GS_OK;) {
        status = gs_plan_alloc(plan, layer_bytes(i, images), &gradient);
        if (status == GS_OK)
            status = gs_plan_free(plan, gradient);
        if (status == GS_OK)
            status = gs_plan_free(plan, saved[i]);
    }
    if (status == GS_OK)
        status = gs_plan_close(plan, &ret->size);
    if (status != GS_OK) {
        gs_plan_delete(plan);
        return status;
    }
    ret->plan = plan;
    return GS_OK;
}

static gs_status bytes_for(void *unused, size_t images, uint64_t *ret_bytes)
{
    (void)unused;
    struct iteration iteration;
    gs_status status = plan_iteration(images, &iteration);
    if (status != GS_OK)
        return status;
    *ret_bytes = iteration.size.arena_bytes;
    gs_plan_delete(iteration.plan);
    return GS_OK;
}

/* ---- one run ---- */

/* Execute one iteration. The calls must be the same as in the plan. */
static gs_status iterate(gs_arena *arena, CUfunction step, size_t images, CUstream stream)
{
    CUdeviceptr saved[LAYERS], gradient;
    GS_RETURN_IF_FAILED(gs_arena_restart(arena));
    for (int i = 0; i < LAYERS; i++) {
        GS_RETURN_IF_FAILED(gs_arena_alloc(arena, layer_bytes(i, images), &saved[i]));
        GS_RETURN_IF_FAILED(GS_LAUNCH(step, gs_dim(1, 1, 1), gs_dim(32, 1, 1), 0, stream, &saved[i]));
    }
    for (int i = LAYERS; i-- > 0;) {
        GS_RETURN_IF_FAILED(gs_arena_alloc(arena, layer_bytes(i, images), &gradient));
        GS_RETURN_IF_FAILED(gs_arena_free(arena, gradient));
        GS_RETURN_IF_FAILED(gs_arena_free(arena, saved[i]));
    }
    return GS_OK;
}

struct seen {
    /* images: the largest micro-batch that fits; peak_bytes: largest memory use of the scope; driver_bytes: memory in
     * use on the whole GPU */
    uint64_t images, peak_bytes, driver_bytes;
};

static gs_status work(gs_scope *scope, const struct settings *settings, struct iteration *iteration, struct seen *seen)
{
    gs_fit fit = {.budget_bytes = (uint64_t)settings->memory_bytes * 3 / 4,
                  .n_max = (size_t)settings->batch,
                  .divides = (size_t)settings->batch};
    const size_t workspaces[] = {(size_t)settings->memory_bytes, 64 << 20, 4 << 20, 0};
    size_t images, choice;
    uint64_t bytes;
    gs_arena *arena;
    gs_workspace *workspace;
    CUdeviceptr at;
    CUstream stream;
    CUmodule module;
    CUfunction step;
    gs_memory memory;
    GS_RETURN_IF_FAILED(gs_fit_batch(&fit, bytes_for, NULL, &images, &bytes));
    GS_RETURN_IF_FAILED(plan_iteration(images, iteration));
    GS_RETURN_IF_FAILED(gs_arena_open(scope, iteration->plan, &arena));
    GS_RETURN_IF_FAILED(gs_workspace_open(scope, 128 << 20, &workspace));
    GS_RETURN_IF_FAILED(gs_workspace_choose(workspace, workspaces, 4, &choice, &at));
    GS_RETURN_IF_FAILED(gs_stream(scope, &stream));
    GS_RETURN_IF_FAILED(gs_module(scope, ptx, &module));
    GS_RETURN_IF_FAILED(gs_kernel(scope, module, "step", &step));
    for (int i = 0; i < ITERATIONS; i++)
        GS_RETURN_IF_FAILED(iterate(arena, step, images, stream));
    GS_RETURN_IF_FAILED(gs_wait(stream));
    GS_RETURN_IF_FAILED(gs_memory_of(scope, &memory));
    *seen = (struct seen){
        .images = images, .peak_bytes = memory.peak_bytes, .driver_bytes = memory.total_bytes - memory.free_bytes};
    return GS_OK;
}

static gs_status run(gs_scope *outer, const struct settings *settings, struct seen *seen, gs_report **ret_report)
{
    gs_options options = {.name = "run", .memory_bytes = (uint64_t)settings->memory_bytes};
    gs_scope *scope;
    gs_failure failure;
    char text[1024];
    struct iteration iteration = {0};
    gs_status status = outer != NULL ? gs_begin(outer, &options, &scope) : gs_open(&options, &scope, &failure);
    if (status != GS_OK) {
        if (outer == NULL || gs_first_failure(outer, &failure))
            fprintf(stderr, "%s\n", gs_failure_text(&failure, text, sizeof text));
        return status;
    }
    status = work(scope, settings, &iteration, seen);
    gs_status ended = gs_end(scope, ret_report);
    gs_plan_delete(iteration.plan);
    return status != GS_OK ? status : ended;
}

/* ---- a run that fails ---- */

/* Launch a kernel with a wild pointer, so that the run fails. gs_run_in_child() calls this in a separate process, so
 * that the parent stays usable. */
static gs_status ruin(const void *input, size_t input_bytes, gs_reply *reply)
{
    (void)input;
    (void)input_bytes;
    gs_scope *scope;
    CUmodule module;
    CUfunction step;
    CUdeviceptr nowhere = 0x1000;
    gs_status status = gs_open(NULL, &scope, NULL);
    if (status != GS_OK)
        return status;
    status = gs_module(scope, ptx, &module);
    if (status == GS_OK)
        status = gs_kernel(scope, module, "step", &step);
    if (status == GS_OK)
        status = GS_LAUNCH(step, gs_dim(1, 1, 1), gs_dim(32, 1, 1), 0, NULL, &nowhere);
    if (status == GS_OK)
        status = gs_wait_all();
    gs_status told = gs_reply_write(reply, "ruined", 6);
    gs_status ended = gs_end(scope, NULL);
    return status != GS_OK ? status : told != GS_OK ? told : ended;
}

static int show_fault(void)
{
    gs_child_result result;
    char text[1024];
    gs_status status = gs_run_in_child(ruin, NULL, 0, 60000, &result);
    if (status != GS_OK) {
        fprintf(stderr, "the child process could not run: %s\n", gs_status_text(status));
        return 0;
    }
    printf("a child answered \"%.*s\": %s\n", (int)result.output_bytes, (const char *)result.output,
           gs_status_text(result.status));
    if (result.has_failure)
        printf("%s\n", gs_failure_text(&result.failure, text, sizeof text));
    free(result.output);
    return result.status == GS_DEAD;
}

int main(int argc, char **argv)
{
    static const gs_child_entry entries[] = {{"ruin", ruin}, {NULL, NULL}};
    gs_child_main(argc, argv, entries);
    struct settings settings = {.runs = 3, .memory_bytes = 1 << 30, .batch = 1024};
    int warm = 0, fault = 0, all_well = 1;
    const struct option_row rows[] = {
        {"runs", OPTION_NUMBER, &settings.runs, "number of runs (3)"},
        {"memory", OPTION_NUMBER, &settings.memory_bytes, "memory limit of a run"},
        {"batch", OPTION_NUMBER, &settings.batch, "images in a batch"},
        {"warm", OPTION_FLAG, &warm, "keep one context for all runs"},
        {"fault", OPTION_FLAG, &fault, "first make a run with a fault, in a child process"},
        {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "Runs that leave nothing behind.");
    gs_scope *outer = NULL;
    struct seen first = {0}, seen = {0};
    if (fault)
        all_well = show_fault();
    if (warm && gs_open(NULL, &outer, NULL) != GS_OK)
        return 1;
    for (long long i = 1; i <= settings.runs; i++) {
        gs_report *report = NULL;
        gs_status status = run(outer, &settings, &seen, &report);
        if (i == 2)
            first = seen;
        printf("run %lld: %s, micro-batch %llu, peak %llu bytes (%.2f MiB), card %llu bytes (%.2f MiB)\n", i,
               gs_status_text(status), (unsigned long long)seen.images, (unsigned long long)seen.peak_bytes,
               (double)seen.peak_bytes / MIB, (unsigned long long)seen.driver_bytes, (double)seen.driver_bytes / MIB);
        if (i > 2 && (seen.peak_bytes != first.peak_bytes || seen.driver_bytes != first.driver_bytes))
            all_well = 0;
        if (status != GS_OK)
            all_well = 0;
        if (report != NULL && (i == settings.runs || status != GS_OK))
            gs_report_print(report, stdout);
        gs_report_free(report);
    }
    if (warm && gs_end(outer, NULL) != GS_OK)
        all_well = 0;
    return all_well ? 0 : 1;
}
