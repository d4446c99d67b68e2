/* Test libgpuscope on the virtual GPU, which the library path selects (CMakeLists.txt). A test that ruins the process's
 * GPU runs in a child of gs_run_in_child(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <gpuwhy/kernel_model.h>
#include <gpuwhy/scope.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 8 .u64 gpuwhy_model_store[7] = {0x4D4B594857555047, 1, 1, 1, 0, 0, 0};\n"
    ".visible .entry store(.param .u64 p)\n{\n.reg .b64 %d;\nld.param.u64 %d, [p];\nst.global.u32 [%d], 1;\nret;\n}\n"
    ".visible .entry nothing(.param .u64 p)\n{\nret;\n}\n";

static gs_scope *open_scope(const char *name)
{
    gs_scope *scope;
    gs_failure failure;
    char text[1024];
    gs_options options = {.name = name};
    gs_status status = gs_open(&options, &scope, &failure);
    if (status != GS_OK)
        fail_msg("%s: %s", gs_status_text(status), gs_failure_text(&failure, text, sizeof text));
    return scope;
}

static void end_clean(gs_scope *scope)
{
    gs_report *report;
    assert_int_equal(gs_end(scope, &report), GS_OK);
    assert_int_equal(report->has_memory, 1);
    assert_int_equal(report->missing_bytes <= (int64_t)report->allowed_bytes, 1);
    assert_int_equal(report->kept_count, 0);
    gs_report_free(report);
}

static void take_one_of_each(gs_scope *scope)
{
    CUstream stream;
    CUevent event;
    CUdeviceptr block, ordered, mapped_address;
    void *pinned, *mapped;
    CUmodule module;
    CUfunction kernel;
    unsigned words[64];
    assert_int_equal(gs_stream(scope, &stream), GS_OK);
    assert_int_equal(gs_event(scope, 0, &event), GS_OK);
    assert_int_equal(gs_alloc(scope, 3 * MIB, &block), GS_OK);
    assert_int_equal(gs_alloc_ordered(scope, 5 * MIB, stream, &ordered), GS_OK);
    assert_int_equal(gs_alloc_pinned(scope, MIB, &pinned), GS_OK);
    assert_int_equal(gs_alloc_mapped(scope, MIB, &mapped, &mapped_address), GS_OK);
    assert_int_equal(gs_module(scope, ptx, &module), GS_OK);
    assert_int_equal(gs_kernel(scope, module, "store", &kernel), GS_OK);
    assert_int_equal(GS_LAUNCH(kernel, gs_dim(1, 1, 1), gs_dim(32, 1, 1), 0, stream, &block), GS_OK);
    assert_int_equal(gs_fill(block, 7, 256, stream), GS_OK);
    assert_int_equal(gs_copy(ordered, block, 256, stream), GS_OK);
    assert_int_equal(gs_record(event, stream), GS_OK);
    assert_int_equal(gs_copy_out(words, ordered, 256, stream), GS_OK);
    assert_int_equal(gs_wait(stream), GS_OK);
    assert_int_equal(words[63], 0x07070707);
}

static const gs_held *held_of(const gs_report *report, gs_kind kind)
{
    for (size_t i = 0; i < report->entry_count; i++) {
        if (report->entries[i].kind == kind)
            return &report->entries[i];
    }
    return NULL;
}

/* ---- what a scope owns ---- */

static void the_end_gives_everything_back(void **state)
{
    (void)state;
    static const gs_kind kinds[] = {GS_KIND_EVENT,  GS_KIND_ORDERED, GS_KIND_DEVICE, GS_KIND_MAPPED,
                                    GS_KIND_PINNED, GS_KIND_MODULE,  GS_KIND_STREAM};
    gs_report *report;
    gs_scope *scope = open_scope("each");
    take_one_of_each(scope);
    assert_int_equal(gs_end(scope, &report), GS_OK);
    assert_int_equal(report->held_count, 7);
    assert_int_equal(report->entry_count, 7);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const gs_held *held = held_of(report, kinds[i]);
        assert_non_null(held);
        assert_int_equal(held->count, 1);
        assert_non_null(strstr(held->file, "scope_test.c"));
        assert_string_equal(held->scope, "each");
    }
    assert_int_equal(held_of(report, GS_KIND_DEVICE)->bytes, 3 * MIB);
    assert_int_equal(report->peak_bytes, 8 * MIB);
    assert_int_equal(report->pinned_peak_bytes, 2 * MIB);
    assert_int_equal(report->has_failure, 0);
    assert_int_equal(report->context, GS_CONTEXT_RELEASED);
    assert_int_equal(report->kept_count, 0);
    assert_true(report->missing_bytes >= 0 && (uint64_t)report->missing_bytes <= report->allowed_bytes);
    gs_report_free(report);
}

static void what_is_given_back_is_not_held(void **state)
{
    (void)state;
    gs_scope *scope = open_scope(NULL);
    CUstream stream;
    CUevent event;
    CUdeviceptr block, ordered, address;
    void *pinned, *mapped;
    CUmodule module;
    gs_report *report;
    assert_int_equal(gs_stream(scope, &stream), GS_OK);
    assert_int_equal(gs_event(scope, 1, &event), GS_OK);
    assert_int_equal(gs_alloc(scope, 64, &block), GS_OK);
    assert_int_equal(gs_alloc_ordered(scope, 64, stream, &ordered), GS_OK);
    assert_int_equal(gs_alloc_pinned(scope, 64, &pinned), GS_OK);
    assert_int_equal(gs_alloc_mapped(scope, 64, &mapped, &address), GS_OK);
    assert_int_equal(gs_module(scope, ptx, &module), GS_OK);
    assert_int_equal(gs_free(scope, block), GS_OK);
    assert_int_equal(gs_free_ordered(scope, ordered, stream), GS_OK);
    assert_int_equal(gs_free_host(scope, pinned), GS_OK);
    assert_int_equal(gs_free_host(scope, mapped), GS_OK);
    assert_int_equal(gs_module_close(scope, module), GS_OK);
    assert_int_equal(gs_event_close(scope, event), GS_OK);
    assert_int_equal(gs_stream_close(scope, stream), GS_OK);
    assert_int_equal(gs_free(scope, block), GS_MISUSE); /* freed for the second time */
    assert_int_equal(gs_end(scope, &report), GS_OK);
    assert_int_equal(report->held_count, 0);
    assert_int_equal(report->has_failure, 1);
    assert_int_equal(report->failure.status, GS_MISUSE);
    assert_non_null(strstr(report->failure.text, "owns no such device memory"));
    gs_report_free(report);
}

static void inner_scopes_end_first(void **state)
{
    (void)state;
    gs_scope *outer = open_scope("outer"), *inner, *innermost;
    CUdeviceptr kept, block;
    gs_report *report;
    gs_options name = {.name = "inner"};
    assert_int_equal(gs_alloc(outer, MIB, &kept), GS_OK);
    assert_int_equal(gs_begin(outer, &name, &inner), GS_OK);
    assert_int_equal(gs_alloc(inner, 4 * MIB, &block), GS_OK);
    assert_int_equal(gs_end(inner, &report), GS_OK);
    assert_int_equal(report->held_count, 1);
    assert_int_equal(report->missing_bytes, 0);
    assert_int_equal(report->context, GS_CONTEXT_STAYS);
    gs_report_free(report);
    /* End the outermost scope while two inner scopes are still open: gs_end() ends them, too. */
    assert_int_equal(gs_begin(outer, &name, &inner), GS_OK);
    assert_int_equal(gs_begin(inner, NULL, &innermost), GS_OK);
    assert_int_equal(gs_alloc(innermost, 2 * MIB, &block), GS_OK);
    assert_int_equal(gs_free(innermost, kept), GS_OK); /* owned by an outer scope */
    assert_int_equal(gs_alloc(inner, 2 * MIB, &block), GS_OK);
    assert_int_equal(gs_end(outer, &report), GS_OK);
    assert_int_equal(report->held_count, 2);
    assert_int_equal(report->peak_bytes, 5 * MIB);
    assert_true(report->missing_bytes <= (int64_t)report->allowed_bytes);
    gs_report_free(report);
}

static void outermost_scopes_end_in_any_order(void **state)
{
    (void)state;
    for (int left_first = 0; left_first < 2; left_first++) {
        gs_scope *first = open_scope("first"), *second = open_scope("second"), *inner;
        CUdeviceptr block;
        gs_options name = {.name = "inner"};
        assert_int_equal(gs_begin(second, &name, &inner), GS_OK);
        assert_int_equal(gs_end(first, NULL), GS_OK);
        assert_int_equal(gs_alloc(inner, MIB, &block), GS_OK);
        if (left_first) {
            assert_int_equal(gs_leave(inner), GS_OK);
            assert_int_equal(gs_enter(inner), GS_OK);
        }
        assert_int_equal(gs_end(inner, NULL), GS_OK);
        assert_int_equal(gs_alloc(second, MIB, &block), GS_OK);
        end_clean(second);
    }
}

/* ---- limits and failures ---- */

static void no_memory_is_an_answer(void **state)
{
    (void)state;
    gs_scope *outer = open_scope(NULL), *inner;
    CUdeviceptr block;
    gs_failure failure;
    gs_memory memory;
    gs_options limit = {.memory_bytes = 10 * MIB};
    assert_int_equal(gs_alloc(outer, (size_t)1 << 50, &block), GS_NO_MEMORY); /* refused by the driver itself */
    assert_int_equal(gs_first_failure(outer, &failure), 1);
    assert_int_equal(failure.code, 2);
    assert_string_equal(failure.call, "cuMemAlloc_v2");
    assert_int_equal(failure.is_sticky, 0);
    gs_forgive(outer);
    assert_int_equal(gs_first_failure(outer, &failure), 0);
    assert_int_equal(gs_begin(outer, &limit, &inner), GS_OK);
    assert_int_equal(gs_alloc(inner, 9 * MIB, &block), GS_OK); /* uses five pages of 2 MiB */
    assert_int_equal(gs_alloc(inner, 1, &block), GS_NO_MEMORY);
    assert_int_equal(gs_memory_of(inner, &memory), GS_OK);
    assert_int_equal(memory.taken_bytes, 10 * MIB);
    assert_int_equal(memory.live_bytes, 9 * MIB);
    assert_int_equal(gs_alloc(outer, 1, &block), GS_OK);
    end_clean(inner);
    end_clean(outer);
}

static void scopes_are_for_those_inside(void **state)
{
    (void)state;
    gs_scope *scope = open_scope(NULL);
    CUdeviceptr block;
    assert_int_equal(gs_leave(scope), GS_OK);
    assert_int_equal(gs_alloc(scope, 1, &block), GS_MISUSE);
    assert_int_equal(gs_fill(0, 0, 1, NULL), GS_MISUSE);
    assert_int_equal(gs_leave(scope), GS_MISUSE);
    assert_int_equal(gs_alloc(NULL, 1, &block), GS_MISUSE);
    assert_int_equal(gs_enter(scope), GS_OK);
    assert_int_equal(gs_alloc(scope, 1, &block), GS_OK);
    assert_int_equal(gs_end(NULL, NULL), GS_MISUSE);
    assert_int_equal(gs_leave(scope), GS_OK);
    end_clean(scope); /* the thread has left the scope */
}

static void a_module_says_what_is_wrong(void **state)
{
    (void)state;
    gs_scope *scope = open_scope(NULL);
    CUmodule module;
    CUfunction kernel;
    gs_failure failure;
    assert_int_equal(gs_module(scope, "no module at all", &module), GS_FAILED);
    assert_int_equal(gs_first_failure(scope, &failure), 1);
    assert_string_equal(failure.call, "cuModuleLoadDataEx");
    gs_forgive(scope);
    assert_int_equal(gs_module(scope, ptx, &module), GS_OK);
    assert_int_equal(gs_kernel(scope, module, "absent", &kernel), GS_FAILED);
    assert_int_equal(gs_first_failure(scope, &failure), 1);
    assert_non_null(strstr(failure.text, "absent"));
    end_clean(scope);
}

static int query_function(int code)
{
    return code;
}

static void the_first_failure_is_kept(void **state)
{
    (void)state;
    gs_scope *scope = open_scope(NULL);
    gs_failure failure;
    char text[1024];
    assert_int_equal(GS_TRY(query_function(0)), GS_OK);
    assert_int_equal(GS_TRY(query_function(600)), GS_NOT_READY);
    assert_int_equal(gs_first_failure(scope, &failure), 0);
    assert_int_equal(GS_TRY(query_function(801)), GS_FAILED);
    assert_int_equal(GS_TRY(query_function(1)), GS_FAILED);
    assert_int_equal(GS_TRY(query_function(2)), GS_NO_MEMORY);
    assert_int_equal(gs_first_failure(scope, &failure), 1);
    assert_int_equal(failure.code, 801);
    assert_string_equal(failure.call, "query_function(801)");
    assert_non_null(strstr(failure.text, "CUDA_ERROR_NOT_SUPPORTED (801)"));
    gs_failure_text(&failure, text, sizeof text);
    assert_non_null(strstr(text, "scope_test.c:"));
    end_clean(scope);
}

static void no_such_device(void **state)
{
    (void)state;
    gs_scope *scope = NULL;
    gs_failure failure;
    gs_options options = {.device = 99};
    assert_int_equal(gs_open(&options, &scope, &failure), GS_NO_DEVICE);
    assert_null(scope);
    assert_string_equal(failure.call, "cuDeviceGet");
}

/* ---- many runs ---- */

static void a_hundred_runs_are_one(void **state)
{
    (void)state;
    uint64_t free_bytes = 0, peak_bytes = 0;
    for (int run = 0; run < 100; run++) {
        gs_report *report;
        gs_scope *scope = open_scope("run");
        take_one_of_each(scope);
        assert_int_equal(gs_end(scope, &report), GS_OK);
        if (run == 1) {
            free_bytes = report->free_begin_bytes;
            peak_bytes = report->peak_bytes;
        }
        if (run > 1) {
            assert_int_equal(report->free_begin_bytes, free_bytes);
            assert_int_equal(report->peak_bytes, peak_bytes);
        }
        gs_report_free(report);
    }
}

/* Create and end 400 inner scopes. Each has its own pool of stream-ordered memory. */
static void pools_come_and_go(void **state)
{
    (void)state;
    gs_scope *outer = open_scope(NULL), *inner;
    CUdeviceptr block;
    for (int i = 0; i < 400; i++) {
        assert_int_equal(gs_begin(outer, NULL, &inner), GS_OK);
        assert_int_equal(gs_alloc_ordered(inner, 5 * MIB, NULL, &block), GS_OK);
        end_clean(inner);
    }
    end_clean(outer);
}

/* ---- planned memory ---- */

static void an_arena_repeats_its_plan(void **state)
{
    (void)state;
    gs_plan *plan;
    gs_plan_size size;
    gs_arena *arena;
    gs_failure failure;
    size_t a, b, c;
    CUdeviceptr at_a, at_b, at_c, first = 0;
    gs_scope *scope = open_scope(NULL);
    assert_int_equal(gs_plan_new(0, &plan), GS_OK);
    assert_int_equal(gs_plan_alloc(plan, MIB, &a), GS_OK);
    assert_int_equal(gs_arena_open(scope, plan, &arena), GS_MISUSE); /* the plan is not closed */
    gs_forgive(scope);
    assert_int_equal(gs_plan_alloc(plan, 2 * MIB, &b), GS_OK);
    assert_int_equal(gs_plan_free(plan, a), GS_OK);
    assert_int_equal(gs_plan_alloc(plan, MIB, &c), GS_OK);
    assert_int_equal(gs_plan_close(plan, &size), GS_OK);
    assert_int_equal(size.arena_bytes, 3 * MIB);
    assert_int_equal(gs_arena_open(scope, plan, &arena), GS_OK);
    for (int iteration = 0; iteration < 5; iteration++) {
        assert_int_equal(gs_arena_restart(arena), GS_OK);
        assert_int_equal(gs_arena_alloc(arena, MIB, &at_a), GS_OK);
        assert_int_equal(gs_arena_alloc(arena, 2 * MIB, &at_b), GS_OK);
        assert_int_equal(gs_arena_free(arena, at_a), GS_OK);
        assert_int_equal(gs_arena_alloc(arena, MIB, &at_c), GS_OK);
        assert_true(at_a == at_c && at_a == gs_arena_at(arena, a) && at_b == gs_arena_at(arena, b));
        first = iteration == 0 ? at_a : first;
        assert_true(first == at_a);
        assert_int_equal(gs_arena_alloc(arena, MIB, &at_c), GS_DIFFERS); /* one allocation more than planned */
    }
    gs_forgive(scope);
    assert_int_equal(gs_arena_restart(arena), GS_OK);
    assert_int_equal(gs_arena_alloc(arena, MIB, &at_a), GS_OK);
    assert_int_equal(gs_arena_alloc(arena, MIB, &at_b), GS_DIFFERS); /* another size than planned */
    assert_int_equal(gs_first_failure(scope, &failure), 1);
    assert_non_null(
        strstr(failure.text, "step 1 of the plan allocates 2097152 bytes (2.00 MiB), not 1048576 bytes (1.00 MiB)"));
    assert_int_equal(gs_arena_free(arena, at_a), GS_DIFFERS); /* another order than planned */
    assert_int_equal(gs_arena_restart(arena), GS_DIFFERS);
    assert_int_equal(gs_free(scope, at_a), GS_MISUSE); /* owned by the arena, so it cannot be freed */
    end_clean(scope);
    gs_plan_delete(plan);
}

static void count_lines(void *user, const char *line)
{
    (void)line;
    ++*(int *)user;
}

static void a_workspace_falls_back(void **state)
{
    (void)state;
    int lines = 0;
    gs_options options = {.log = count_lines, .log_user = &lines, .memory_bytes = 40 * MIB};
    gs_scope *scope;
    gs_workspace *workspace;
    gs_failure failure;
    size_t choice = 99;
    CUdeviceptr at;
    assert_int_equal(gs_open(&options, &scope, NULL), GS_OK);
    assert_int_equal(gs_workspace_open(scope, 64 * MIB, &workspace), GS_OK);
    const size_t sizes[] = {100 * MIB, 50 * MIB, 20 * MIB, 0};
    assert_int_equal(gs_workspace_choose(workspace, sizes, 4, &choice, &at), GS_OK);
    /* 100 MiB is more than the workspace's budget (64 MiB). 50 MiB is more than the scope's limit (40 MiB). */
    assert_int_equal(choice, 2);
    assert_int_equal(lines, 2);
    assert_true(at != 0);
    assert_int_equal(gs_first_failure(scope, &failure), 0); /* trying a smaller size is not a failure */
    assert_int_equal(gs_workspace_choose(workspace, sizes, 2, &choice, &at), GS_NO_MEMORY);
    assert_int_equal(gs_workspace_choose(workspace, sizes + 3, 1, &choice, &at), GS_OK);
    assert_true(at == 0);
    end_clean(scope);
}

/* ---- library handles ---- */

static void library_handles_are_owned(void **state)
{
    (void)state;
    void *dnn, *blas, *lt, *nccl, *more;
    gs_nccl_id id;
    gs_failure failure;
    gs_report *report;
    gs_scope *scope = open_scope(NULL);
    assert_int_equal(gs_cublas(scope, NULL, &blas), GS_OK);
    assert_int_equal(gs_cudnn(scope, NULL, &dnn), GS_OK);
    assert_int_equal(gs_cublaslt(scope, &lt), GS_OK);
    assert_int_equal(gs_nccl_new_id(scope, &id), GS_OK);
    assert_int_equal(gs_nccl(scope, 2, &id, 1, &nccl), GS_OK);
    int *alive = gs_symbol(GS_FROM_CUDNN, "fake_alive"), *next = gs_symbol(GS_FROM_CUDNN, "fake_next_result");
    char *order = gs_symbol(GS_FROM_CUDNN, "fake_order");
    assert_true(alive != NULL && next != NULL && order != NULL);
    assert_null(gs_symbol(GS_FROM_CUDNN, "no_such_function"));
    assert_int_equal(*alive, 4);
    *next = 9;
    assert_int_equal(gs_cudnn(scope, NULL, &more), GS_FAILED);
    assert_int_equal(gs_first_failure(scope, &failure), 1);
    assert_int_equal(failure.source, GS_FROM_CUDNN);
    assert_int_equal(failure.code, 9);
    assert_string_equal(failure.text, "9: not fine");
    assert_int_equal(gs_nccl(scope, 3, &id, 1, &more), GS_FAILED);
    assert_int_equal(GS_TRY_OF(GS_FROM_CUBLAS, query_function(7)), GS_FAILED);
    assert_int_equal(gs_handle_close(scope, GS_KIND_CUBLASLT, lt), GS_OK);
    assert_int_equal(gs_handle_close(scope, GS_KIND_CUBLASLT, lt), GS_MISUSE);
    assert_int_equal(gs_handle_close(scope, GS_KIND_DEVICE, lt), GS_MISUSE);
    assert_int_equal(gs_end(scope, &report), GS_OK);
    assert_int_equal(report->held_count, 3);
    assert_int_equal(*alive, 0);
    /* first cuBLASLt (l), closed above; then what gs_end() closed: NCCL (n), cuDNN (d), cuBLAS (b) */
    assert_string_equal(order, "lndb");
    gs_report_free(report);
}

static gs_status without_libraries(const void *input, size_t bytes, gs_reply *reply)
{
    (void)input;
    (void)bytes;
    void *handle;
    gs_failure failure;
    gs_scope *scope = open_scope(NULL);
    setenv("GPUSCOPE_CUDNN", "/nowhere/libcudnn.so.9", 1);
    gs_status status = gs_cudnn(scope, NULL, &handle);
    assert_int_equal(gs_first_failure(scope, &failure), 1);
    assert_int_equal(gs_reply_write(reply, failure.text, strlen(failure.text)), GS_OK);
    end_clean(scope);
    return status;
}

/* ---- threads ---- */

struct crowd {
    gs_scope *scope;
    int failed_count;
};

static void *work_in_scope(void *argument)
{
    struct crowd *crowd = argument;
    CUdeviceptr block = 0;
    CUstream stream = NULL;
    gs_scope *inner = NULL;
    int bad = gs_enter(crowd->scope) != GS_OK;
    bad += gs_stream(crowd->scope, &stream) != GS_OK;
    for (int i = 0; i < 50 && bad == 0; i++) {
        bad += gs_begin(crowd->scope, NULL, &inner) != GS_OK;
        bad += gs_alloc(inner, 4096, &block) != GS_OK;
        bad += gs_fill(block, 1, 4096, stream) != GS_OK;
        bad += gs_wait(stream) != GS_OK;
        bad += i % 2 == 0 && gs_free(inner, block) != GS_OK;
        bad += gs_alloc_ordered(crowd->scope, 4096, stream, &block) != GS_OK;
        bad += i % 3 == 0 && gs_free_ordered(crowd->scope, block, stream) != GS_OK;
        bad += gs_end(inner, NULL) != GS_OK;
    }
    __atomic_add_fetch(&crowd->failed_count, bad, __ATOMIC_RELAXED);
    return NULL; /* no gs_leave(): a thread leaves its scopes when it ends */
}

static void sixteen_threads_share_a_scope(void **state)
{
    (void)state;
    enum { THREADS = 16 };
    pthread_t threads[THREADS];
    struct crowd crowd = {open_scope("crowd"), 0};
    gs_report *report;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work_in_scope, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(crowd.failed_count, 0);
    assert_int_equal(gs_end(crowd.scope, &report), GS_OK);
    assert_int_equal(held_of(report, GS_KIND_STREAM)->count, THREADS);
    assert_int_equal(held_of(report, GS_KIND_ORDERED)->count, THREADS * 33);
    assert_true(report->missing_bytes <= (int64_t)report->allowed_bytes);
    gs_report_free(report);
}

static void *run_alone(void *failed_count)
{
    int bad = 0;
    for (int i = 0; i < 20 && bad == 0; i++) {
        gs_scope *scope;
        CUdeviceptr block;
        if (gs_open(NULL, &scope, NULL) != GS_OK)
            bad++;
        else
            bad += (gs_alloc(scope, 4096, &block) != GS_OK) + (gs_end(scope, NULL) != GS_OK);
    }
    __atomic_add_fetch((int *)failed_count, bad, __ATOMIC_RELAXED);
    return NULL;
}

/* Each thread can use the context as if it were the only thread. */
static void threads_have_scopes_of_their_own(void **state)
{
    (void)state;
    enum { THREADS = 16 };
    pthread_t threads[THREADS];
    int failed_count = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_alone, &failed_count), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failed_count, 0);
    end_clean(open_scope(NULL));
}

struct visitor {
    gs_scope *scope;
    pthread_barrier_t barrier;
};

static void *visit(void *argument)
{
    struct visitor *visitor = argument;
    gs_status status = gs_enter(visitor->scope);
    pthread_barrier_wait(&visitor->barrier);
    pthread_barrier_wait(&visitor->barrier);
    if (status == GS_OK)
        status = gs_leave(visitor->scope);
    return (void *)(intptr_t)status;
}

static void nobody_is_left_inside(void **state)
{
    (void)state;
    struct visitor visitor = {.scope = open_scope(NULL)};
    pthread_t thread;
    gs_failure failure;
    void *status;
    pthread_barrier_init(&visitor.barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, visit, &visitor), 0);
    pthread_barrier_wait(&visitor.barrier);
    assert_int_equal(gs_end(visitor.scope, NULL), GS_BUSY);
    assert_int_equal(gs_first_failure(visitor.scope, &failure), 1);
    assert_non_null(strstr(failure.text, "is still inside; it entered at"));
    pthread_barrier_wait(&visitor.barrier);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, GS_OK);
    end_clean(visitor.scope);
    pthread_barrier_destroy(&visitor.barrier);
}

/* ---- in a child ---- */

static gs_status echo(const void *input, size_t bytes, gs_reply *reply)
{
    return gs_reply_write(reply, input, bytes);
}

/* A kernel writes to an invalid address. The next wait and all calls after it return GS_DEAD. */
static gs_status fault(const void *input, size_t bytes, gs_reply *reply)
{
    (void)input;
    (void)bytes;
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr wild = 0x1234567890, block;
    gs_report *report;
    gs_failure failure;
    gs_scope *scope = open_scope("faulty"), *inner, *other = NULL;
    assert_int_equal(gs_begin(scope, NULL, &inner), GS_OK);
    assert_int_equal(gs_alloc(inner, MIB, &block), GS_OK);
    assert_int_equal(gs_module(inner, ptx, &module), GS_OK);
    assert_int_equal(gs_kernel(inner, module, "store", &kernel), GS_OK);
    assert_int_equal(GS_LAUNCH(kernel, gs_dim(1, 1, 1), gs_dim(32, 1, 1), 0, NULL, &wild), GS_OK);
    assert_int_equal(gs_wait_all(), GS_DEAD);
    assert_int_equal(gs_alloc(scope, 1, &block), GS_DEAD);
    /* The scope is dead, so GS_TRY does not evaluate the call, which would crash. */
    assert_int_equal(GS_TRY(query_function(*(volatile int *)NULL)), GS_DEAD);
    assert_int_equal(gs_first_failure(scope, &failure), 1);
    assert_int_equal(failure.code, 700);
    assert_int_equal(failure.is_sticky, 1);
    assert_string_equal(failure.launch_call, "kernel");
    assert_int_equal(gs_end(scope, &report), GS_DEAD);
    assert_int_equal(report->is_dead, 1);
    assert_int_equal(report->kept_count, 2);
    assert_int_equal(report->context, GS_CONTEXT_RELEASED);
    gs_report_free(report);
    assert_int_equal(gs_open(NULL, &other, &failure), GS_DEAD);
    assert_int_equal(failure.code, 700);
    return gs_reply_write(reply, "done", 4) == GS_OK ? GS_DEAD : GS_FAILED;
}

/* If the scope waits for launches, a launch returns the error of its own kernel. */
static gs_status fault_at_launch(const void *input, size_t bytes, gs_reply *reply)
{
    (void)input;
    (void)bytes;
    (void)reply;
    gs_options options = {.flags = GS_WAIT_FOR_LAUNCHES};
    gs_scope *scope;
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr wild = 0x1234567890;
    gs_failure failure;
    assert_int_equal(gs_open(&options, &scope, NULL), GS_OK);
    assert_int_equal(gs_module(scope, ptx, &module), GS_OK);
    assert_int_equal(gs_kernel(scope, module, "nothing", &kernel), GS_OK);
    assert_int_equal(GS_LAUNCH(kernel, gs_dim(1, 1, 1), gs_dim(32, 1, 1), 0, NULL, &wild), GS_OK);
    assert_int_equal(gs_kernel(scope, module, "store", &kernel), GS_OK);
    assert_int_equal(GS_LAUNCH(kernel, gs_dim(1, 1, 1), gs_dim(32, 1, 1), 0, NULL, &wild), GS_DEAD);
    assert_int_equal(gs_death(scope, &failure), 1);
    assert_string_equal(failure.call, "cuStreamSynchronize");
    assert_int_equal(failure.line, failure.launch_line);
    return gs_end(scope, NULL);
}

static gs_status die(const void *input, size_t bytes, gs_reply *reply)
{
    (void)input;
    (void)bytes;
    if (gs_reply_write(reply, "half", 4) == GS_OK)
        kill(getpid(), SIGKILL);
    return GS_OK;
}

static gs_status stand_still(const void *input, size_t bytes, gs_reply *reply)
{
    (void)input;
    (void)bytes;
    (void)reply;
    for (int i = 0; i < 1000; i++)
        pause();
    return GS_OK;
}

/* After a fork the driver does not work, and libgpuscope does not call it. */
static gs_status forked(const void *input, size_t bytes, gs_reply *reply)
{
    (void)input;
    (void)bytes;
    CUdeviceptr block;
    gs_failure failure;
    gs_scope *scope = open_scope("forked");
    gs_scope *other = NULL;
    pid_t pid = fork();
    if (pid == 0) {
        int bad = gs_alloc(scope, 1, &block) != GS_DEAD;
        bad += gs_open(NULL, &other, &failure) != GS_DEAD;
        bad += strstr(failure.text, "gs_run_in_child") == NULL;
        bad += gs_end(scope, NULL) != GS_DEAD;
        _exit(bad);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    end_clean(scope);
    return status == 0 ? gs_reply_write(reply, "well", 4) : GS_FAILED;
}

static const gs_child_entry entries[] = {{"echo", echo},
                                         {"fault", fault},
                                         {"die", die},
                                         {"stand still", stand_still},
                                         {"forked", forked},
                                         {"without libraries", without_libraries},
                                         {"fault at launch", fault_at_launch},
                                         {NULL, NULL}};

static void a_child_answers(void **state)
{
    (void)state;
    enum { BYTES = 5 << 20 };
    gs_child_result result;
    char *data = malloc(BYTES);
    assert_non_null(data);
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)(i * 7);
    assert_int_equal(gs_run_in_child(echo, data, BYTES, 60000, &result), GS_OK);
    assert_int_equal(result.status, GS_OK);
    assert_int_equal(result.exit_status, 0);
    assert_int_equal(result.has_failure, 0);
    assert_int_equal(result.output_bytes, BYTES);
    assert_memory_equal(result.output, data, BYTES);
    free(result.output);
    free(data);
    assert_int_equal(gs_run_in_child(echo, NULL, 0, 0, &result), GS_OK);
    assert_int_equal(result.output_bytes, 0);
    assert_null(result.output);
}

static void a_sticky_error_stays_in_the_child(void **state)
{
    (void)state;
    gs_child_result result;
    assert_int_equal(gs_run_in_child(fault, NULL, 0, 60000, &result), GS_OK);
    assert_int_equal(result.output_bytes, 4);
    free(result.output);
    assert_int_equal(result.status, GS_DEAD);
    assert_int_equal(result.has_failure, 1);
    assert_int_equal(result.failure.code, 700);
    assert_int_equal(result.failure.is_sticky, 1);
    assert_string_equal(result.failure.call, "cuCtxSynchronize");
    end_clean(open_scope("afterwards"));
}

static void a_launch_that_is_waited_for_reports_itself(void **state)
{
    (void)state;
    gs_child_result result;
    assert_int_equal(gs_run_in_child(fault_at_launch, NULL, 0, 60000, &result), GS_OK);
    assert_int_equal(result.exit_status, 1);
    assert_int_equal(result.status, GS_DEAD);
}

static void a_child_that_dies_is_told(void **state)
{
    (void)state;
    gs_child_result result;
    assert_int_equal(gs_run_in_child(die, NULL, 0, 60000, &result), GS_OK);
    assert_int_equal(result.status, GS_CHILD_DIED);
    assert_int_equal(result.signal, 9);
    assert_int_equal(result.output_bytes, 4); /* output that the child wrote before it died is kept */
    free(result.output);
    assert_int_equal(gs_run_in_child(stand_still, NULL, 0, 300, &result), GS_OK);
    assert_int_equal(result.status, GS_TIMEOUT);
    assert_int_equal(gs_run_in_child(NULL, NULL, 0, 0, &result), GS_MISUSE);
}

static void a_fork_is_dead(void **state)
{
    (void)state;
    gs_child_result result;
    assert_int_equal(gs_run_in_child(forked, NULL, 0, 60000, &result), GS_OK);
    free(result.output);
    assert_int_equal(result.status, GS_OK);
}

static void a_library_may_be_missing(void **state)
{
    (void)state;
    gs_child_result result;
    assert_int_equal(gs_run_in_child(without_libraries, NULL, 0, 60000, &result), GS_OK);
    assert_int_equal(result.status, GS_NO_LIBRARY);
    assert_true(result.output_bytes > 0 && memmem(result.output, result.output_bytes, "/nowhere/", 9) != NULL);
    free(result.output);
}

int main(int argc, char **argv)
{
    gs_child_main(argc, argv, entries);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_gives_everything_back),
        cmocka_unit_test(what_is_given_back_is_not_held),
        cmocka_unit_test(inner_scopes_end_first),
        cmocka_unit_test(outermost_scopes_end_in_any_order),
        cmocka_unit_test(no_memory_is_an_answer),
        cmocka_unit_test(scopes_are_for_those_inside),
        cmocka_unit_test(a_module_says_what_is_wrong),
        cmocka_unit_test(the_first_failure_is_kept),
        cmocka_unit_test(no_such_device),
        cmocka_unit_test(a_hundred_runs_are_one),
        cmocka_unit_test(pools_come_and_go),
        cmocka_unit_test(an_arena_repeats_its_plan),
        cmocka_unit_test(a_workspace_falls_back),
        cmocka_unit_test(library_handles_are_owned),
        cmocka_unit_test(a_library_may_be_missing),
        cmocka_unit_test(sixteen_threads_share_a_scope),
        cmocka_unit_test(threads_have_scopes_of_their_own),
        cmocka_unit_test(nobody_is_left_inside),
        cmocka_unit_test(a_child_answers),
        cmocka_unit_test(a_sticky_error_stays_in_the_child),
        cmocka_unit_test(a_launch_that_is_waited_for_reports_itself),
        cmocka_unit_test(a_child_that_dies_is_told),
        cmocka_unit_test(a_fork_is_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
