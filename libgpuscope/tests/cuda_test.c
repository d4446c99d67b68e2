/* Test scopes in programs that use the CUDA runtime. Built in three ways:
 * - linked: with the runtime's header and a static runtime, whose names the dynamic loader cannot see
 * - FOUND: without its header, linked to a shared runtime
 * - LOADED: without its header; GPUSCOPE_CUDART names the runtime's file */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(FOUND) || defined(LOADED)
#include <gpuwhy/scope_cuda.h>

#include <cuda_runtime.h>
#else
#include <cuda_runtime.h>

#include <gpuwhy/scope_cuda.h>
#endif
#include <dlfcn.h>
#include <stdio.h>

#define MIB ((size_t)1 << 20)

static gs_scope *open_scope(uint64_t memory_bytes)
{
    gs_scope *scope;
    gs_failure failure;
    char text[1024];
    gs_options options = {.name = "runtime", .memory_bytes = memory_bytes};
    if (gs_open(&options, &scope, &failure) != GS_OK)
        fail_msg("%s", gs_failure_text(&failure, text, sizeof text));
    return scope;
}

/* End a scope that must hold `held` resources and have released all of them. */
static void end_with(gs_scope *scope, size_t held)
{
    gs_report *report;
    assert_int_equal(gs_end(scope, &report), GS_OK);
    assert_int_equal(report->held_count, held);
    assert_int_equal(report->kept_count, 0);
    assert_int_equal(report->has_memory, 1);
    assert_true(report->missing_bytes <= (int64_t)report->allowed_bytes);
    gs_report_free(report);
}

static gs_failure failure_of(const gs_scope *scope)
{
    gs_failure failure = {0};
    assert_int_equal(gs_first_failure(scope, &failure), 1);
    return failure;
}

#define assert_refused(call, status_, words)                                                                           \
    do {                                                                                                               \
        gs_forgive(scope);                                                                                             \
        assert_int_equal((call), (status_));                                                                           \
        gs_failure refused = failure_of(scope);                                                                        \
        if (strstr(refused.text, (words)) == NULL)                                                                     \
            fail_msg("\"%s\" has no \"%s\"", refused.text, (words));                                                   \
    } while (0)

struct one_of_each {
    void *device, *ordered, *pinned, *managed;
    CUstream stream;
    CUevent event;
};

static void take_one_of_each(gs_scope *scope, struct one_of_each *each)
{
    assert_int_equal(gs_cuda_stream(scope, 1, &each->stream), GS_OK);
    assert_int_equal(gs_cuda_event(scope, 0, &each->event), GS_OK);
    assert_int_equal(gs_cuda_malloc(scope, 3 * MIB, &each->device), GS_OK);
    assert_int_equal(gs_cuda_malloc_async(scope, 5 * MIB, each->stream, &each->ordered), GS_OK);
    assert_int_equal(gs_cuda_malloc_host(scope, MIB, &each->pinned), GS_OK);
    assert_int_equal(gs_cuda_malloc_managed(scope, MIB, &each->managed), GS_OK);
}

static void the_end_releases_what_the_runtime_created(void **state)
{
    (void)state;
    static const gs_kind kinds[] = {GS_KIND_EVENT,   GS_KIND_ORDERED, GS_KIND_DEVICE,
                                    GS_KIND_MANAGED, GS_KIND_PINNED,  GS_KIND_STREAM};
    struct one_of_each each;
    gs_report *report;
    gs_scope *scope = open_scope(0);
    take_one_of_each(scope, &each);
    assert_int_equal(gs_fill((CUdeviceptr)(uintptr_t)each.device, 1, MIB, each.stream), GS_OK);
    assert_int_equal(gs_record(each.event, each.stream), GS_OK);
    assert_int_equal(gs_end(scope, &report), GS_OK);
    assert_int_equal(report->entry_count, 6);
    for (size_t i = 0; i < 6; i++) { /* in the order of release */
        assert_int_equal(report->entries[i].kind, kinds[i]);
        assert_non_null(strstr(report->entries[i].file, "cuda_test.c"));
    }
    assert_int_equal(report->peak_bytes, 8 * MIB);
    assert_int_equal(report->pinned_peak_bytes, MIB);
    assert_int_equal(report->kept_count, 0);
    assert_int_equal(report->has_failure, 0);
    assert_int_equal(report->context, GS_CONTEXT_STAYS); /* the runtime retains it, too */
    assert_true(report->missing_bytes <= (int64_t)report->allowed_bytes);
    gs_report_free(report);
}

static void each_call_has_its_release(void **state)
{
    (void)state;
    struct one_of_each each;
    gs_scope *scope = open_scope(0);
    take_one_of_each(scope, &each);
    assert_int_equal(gs_cuda_free_async(scope, each.ordered, each.stream), GS_OK);
    assert_int_equal(gs_cuda_malloc_async(scope, MIB, each.stream, &each.ordered), GS_OK);
    assert_int_equal(gs_cuda_free(scope, each.ordered), GS_OK);
    assert_int_equal(gs_cuda_free(scope, each.device), GS_OK);
    assert_int_equal(gs_cuda_free(scope, each.managed), GS_OK);
    assert_int_equal(gs_cuda_free_host(scope, each.pinned), GS_OK);
    assert_int_equal(gs_event_close(scope, each.event), GS_OK);
    assert_int_equal(gs_stream_close(scope, each.stream), GS_OK);
    assert_refused(gs_cuda_free(scope, each.device), GS_MISUSE, "owns no such device memory");
    assert_refused(gs_cuda_free_async(scope, each.ordered, NULL), GS_MISUSE, "owns no such stream-ordered memory");
    end_with(scope, 0);
}

/* The runtime returns NULL for 0 bytes: a scope does not own that, and accepts it again. */
static void nothing_is_not_owned(void **state)
{
    (void)state;
    gs_scope *scope = open_scope(64 * MIB);
    for (int i = 0; i < 2; i++) {
        void *device = &device, *pinned = &pinned;
        assert_int_equal(gs_cuda_malloc(scope, 0, &device), GS_OK);
        assert_int_equal(gs_cuda_malloc_host(scope, 0, &pinned), GS_OK);
        assert_null(device);
        assert_null(pinned);
        assert_int_equal(gs_cuda_free(scope, device), GS_OK);
        assert_int_equal(gs_cuda_free_async(scope, device, NULL), GS_OK);
        assert_int_equal(gs_cuda_free_host(scope, pinned), GS_OK);
    }
    gs_memory now;
    assert_int_equal(gs_memory_of(scope, &now), GS_OK);
    assert_int_equal(now.live_bytes + now.taken_bytes + now.pinned_live_bytes, 0);
    end_with(scope, 0);
}

static void runs_use_equal_memory(void **state)
{
    (void)state;
    uint64_t free_bytes = 0;
    for (int run = 0; run < 20; run++) {
        struct one_of_each each;
        gs_report *report;
        gs_scope *scope = open_scope(0);
        take_one_of_each(scope, &each);
        assert_int_equal(gs_end(scope, &report), GS_OK);
        if (run == 1)
            free_bytes = report->free_end_bytes;
        assert_true(run < 2 || report->free_end_bytes == free_bytes);
        gs_report_free(report);
    }
}

/* ---- adopting ---- */

/* Functions of the runtime, which the program calls itself. */
static int (*malloc_)(void **, size_t), (*free_)(void *), (*stream_)(CUstream *, unsigned);
static void (*fail_next)(cudaError_t);

static void find_functions(void)
{
#ifdef LOADED
    void *runtime = dlopen(getenv("GPUSCOPE_CUDART"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(runtime);
    void *found[] = {dlsym(runtime, "cudaMalloc"), dlsym(runtime, "cudaFree"),
                     dlsym(runtime, "cudaStreamCreateWithFlags"), dlsym(runtime, "fake_runtime_fail")};
    memcpy(&malloc_, &found[0], sizeof malloc_);
    memcpy(&free_, &found[1], sizeof free_);
    memcpy(&stream_, &found[2], sizeof stream_);
    memcpy(&fail_next, &found[3], sizeof fail_next);
#else
    malloc_ = (int (*)(void **, size_t))cudaMalloc;
    free_ = (int (*)(void *))cudaFree;
    stream_ = (int (*)(CUstream *, unsigned))cudaStreamCreateWithFlags;
    fail_next = fake_runtime_fail;
#endif
}

static void a_scope_adopts(void **state)
{
    (void)state;
    void *kept, *disowned;
    CUstream stream;
    gs_scope *scope = open_scope(0), *inner;
    assert_int_equal(malloc_(&kept, MIB), 0);
    assert_int_equal(malloc_(&disowned, MIB), 0);
    assert_int_equal(stream_(&stream, 0), 0);
    assert_int_equal(gs_cuda_adopt(scope, GS_KIND_DEVICE, kept, MIB), GS_OK);
    assert_int_equal(gs_cuda_adopt(scope, GS_KIND_DEVICE, disowned, MIB), GS_OK);
    assert_int_equal(gs_cuda_adopt(scope, GS_KIND_STREAM, stream, 0), GS_OK);
    assert_refused(gs_cuda_adopt(scope, GS_KIND_DEVICE, kept, MIB), GS_MISUSE,
                   "owns this device memory already, since");
    assert_int_equal(gs_begin(scope, NULL, &inner), GS_OK);
    assert_int_equal(gs_cuda_adopt(inner, GS_KIND_DEVICE, kept, MIB), GS_MISUSE); /* the outer scope owns it */
    assert_int_equal(gs_end(inner, NULL), GS_OK);
    assert_refused(gs_cuda_adopt(scope, GS_KIND_MANAGED, kept, MIB), GS_MISUSE,
                   "owns this device memory already, since"); /* it would be freed twice */
    assert_refused(gs_cuda_adopt(scope, GS_KIND_DEVICE, 0, MIB), GS_MISUSE, "no device memory was given");
    assert_refused(gs_cuda_adopt(scope, GS_KIND_MODULE, kept, 0), GS_MISUSE, "does not create a module");
    assert_refused(gs_adopt(scope, GS_KIND_POOL, kept, 0), GS_MISUSE, "not a kind that a scope can adopt");
    assert_int_equal(gs_disown(scope, GS_KIND_DEVICE, disowned), GS_OK);
    assert_refused(gs_disown(scope, GS_KIND_DEVICE, disowned), GS_MISUSE, "owns no such device memory");
    assert_int_equal(free_(disowned), 0); /* the scope has not freed it */
    end_with(scope, 2);
    assert_int_not_equal(free_(kept), 0); /* the scope has freed it */
}

static void memory_of_an_arena_is_not_adopted(void **state)
{
    (void)state;
    gs_plan *plan;
    gs_arena *arena;
    size_t block;
    gs_plan_size size;
    CUdeviceptr address;
    gs_scope *scope = open_scope(0);
    assert_int_equal(gs_plan_new(0, &plan), GS_OK);
    assert_int_equal(gs_plan_alloc(plan, MIB, &block), GS_OK);
    assert_int_equal(gs_plan_close(plan, &size), GS_OK);
    assert_int_equal(gs_arena_open(scope, plan, &arena), GS_OK);
    assert_int_equal(gs_arena_alloc(arena, MIB, &address), GS_OK);
    assert_refused(gs_cuda_adopt(scope, GS_KIND_DEVICE, address, MIB), GS_MISUSE, "owns this device memory already");
    end_with(scope, 1);
    gs_plan_delete(plan);
}

/* The runtime's default pool returns memory only at a wait, and nothing else is released after it. */
static void stream_ordered_memory_alone_is_returned(void **state)
{
    (void)state;
    void *block;
    gs_scope *scope = open_scope(0);
    assert_int_equal(gs_cuda_malloc_async(scope, 64 * MIB, NULL, &block), GS_OK);
    end_with(scope, 1);
}

static void a_limit_holds_for_adopted_memory(void **state)
{
    (void)state;
    void *block;
    gs_scope *scope = open_scope(4 * MIB);
    assert_int_equal(malloc_(&block, 6 * MIB), 0);
    assert_refused(gs_cuda_adopt(scope, GS_KIND_DEVICE, block, 6 * MIB), GS_NO_MEMORY, "6291456 bytes (6.00 MiB)");
    assert_int_equal(free_(block), 0);
    assert_refused(gs_cuda_malloc(scope, 6 * MIB, &block), GS_NO_MEMORY,
                   "the scope's limit is 4194304 bytes (4.00 MiB), and 0 bytes are in use");
    end_with(scope, 0);
}

/* As <gpuwhy/scope_cuda_wrap.h> does it, here also with a runtime that is found at run time. */
static void what_exceeds_the_limit_is_released(void **state)
{
    (void)state;
    void *block;
    gs_scope *scope = open_scope(4 * MIB);
    assert_int_equal(malloc_(&block, 6 * MIB), 0);
    assert_int_equal(
        gs_cuda_created_at(GS_CUDA_RUNTIME, 0, GS_KIND_DEVICE, GS_NUMBER(block), 6 * MIB, "cudaMalloc", GS_HERE), 2);
    assert_int_not_equal(free_(block), 0); /* it has been freed */
    end_with(scope, 0);
}

static int released_count;

static int release_own(void *handle)
{
    assert_int_equal(*(int *)handle, 7);
    released_count++;
    return 0;
}

static void any_release_function_works(void **state)
{
    (void)state;
    int object = 7;
    void *handle;
    int (*create)(void **);
    gs_scope *scope = open_scope(0);
    assert_int_equal(gs_adopt_with(scope, GS_KIND_CUBLAS, &object, 0, GS_FROM_CUBLAS, release_own, "release_own"),
                     GS_OK);
    assert_refused(gs_adopt_with(scope, GS_KIND_CUBLAS, &object, 0, GS_FROM_CUBLAS, NULL, "none"), GS_MISUSE,
                   "no release function");
    void *library = dlopen(getenv("GPUSCOPE_CUDNN"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *found = dlsym(library, "cudnnCreate");
    memcpy(&create, &found, sizeof create);
    assert_int_equal(create(&handle), 0);
    assert_int_equal(*(int *)dlsym(library, "fake_alive"), 1);
    assert_int_equal(gs_adopt(scope, GS_KIND_CUDNN, handle, 0), GS_OK);
    end_with(scope, 2);
    assert_int_equal(released_count, 1);
    assert_int_equal(*(int *)dlsym(library, "fake_alive"), 0);
}

/* ---- failures ---- */

static void failures_of_the_runtime_are_recorded(void **state)
{
    (void)state;
    void *block;
    gs_scope *scope = open_scope(0);
    assert_int_equal(gs_cuda_malloc(scope, (size_t)1 << 50, &block), GS_NO_MEMORY);
    gs_failure failure = failure_of(scope);
    assert_int_equal(failure.source, GS_FROM_CUDART);
    assert_int_equal(failure.code, 2);
    assert_int_equal(failure.is_sticky, 0);
    assert_string_equal(failure.call, "cudaMalloc");
    assert_string_equal(failure.text, "cudaErrorMemoryAllocation (2): out of memory");
    gs_forgive(scope);
    assert_int_equal(GS_TRY_CUDA(600), GS_NOT_READY);
    assert_int_equal(gs_first_failure(scope, &failure), 0);
    assert_int_equal(GS_TRY_CUDA(9), GS_FAILED); /* only the runtime has this number */
    assert_string_equal(failure_of(scope).text, "cudaErrorInvalidConfiguration (9): invalid configuration argument");
    gs_forgive(scope);
    fail_next((cudaError_t)1);
    CUstream stream;
    assert_int_equal(gs_cuda_stream(scope, 0, &stream), GS_FAILED);
    assert_string_equal(failure_of(scope).call, "cudaStreamCreateWithFlags");
    gs_forgive(scope);
    free_(NULL);
    while (gs_cuda_launched_at(GS_CUDA_RUNTIME, "step", GS_HERE) != GS_OK) /* reads the errors above */
        continue;
    gs_forgive(scope);
    assert_int_equal(GS_CUDA_LAUNCHED(step), GS_OK);
    end_with(scope, 0);
}

static void a_failed_release_is_tried_again(void **state)
{
    (void)state;
    void *block;
    gs_report *report;
    gs_scope *scope = open_scope(0), *inner;
    assert_int_equal(gs_cuda_malloc(scope, 2 * MIB, &block), GS_OK);
    fail_next((cudaError_t)801);
    assert_int_equal(gs_cuda_free(scope, block), GS_FAILED); /* the scope still owns it */
    assert_string_equal(failure_of(scope).call, "cudaFree");
    fail_next((cudaError_t)801);
    assert_int_equal(gs_end(scope, &report), GS_OK);
    assert_int_equal(report->held_count, 1);
    assert_int_equal(report->kept_count, 0);
    assert_true(report->missing_bytes <= (int64_t)report->allowed_bytes);
    gs_report_free(report);
    /* A handle is never released twice: the report counts it. */
    scope = open_scope(0);
    CUstream stream;
    assert_int_equal(gs_begin(scope, NULL, &inner), GS_OK);
    assert_int_equal(gs_cuda_stream(inner, 0, &stream), GS_OK);
    fail_next((cudaError_t)801);
    assert_int_equal(gs_end(inner, &report), GS_FAILED);
    assert_int_equal(report->kept_count, 1);
    gs_report_free(report);
    assert_int_equal(GS_CUDA_LAUNCHED(nothing), GS_FAILED); /* the runtime repeats its last error once */
    assert_int_equal(gs_end(scope, NULL), GS_OK);
}

/* The last test, because it ruins the process's GPU. */
static void sticky_failure_names_the_launch(void **state)
{
    (void)state;
    void *block;
    gs_report *report;
    gs_scope *scope = open_scope(0);
    assert_int_equal(gs_cuda_malloc(scope, MIB, &block), GS_OK);
    assert_int_equal(GS_CUDA_LAUNCHED(step), GS_OK);
    assert_int_equal(GS_TRY_CUDA(700), GS_DEAD);
    gs_failure failure = failure_of(scope);
    assert_int_equal(failure.is_sticky, 1);
    assert_string_equal(failure.launch_call, "step");
    assert_non_null(strstr(failure.text, "cudaErrorIllegalAddress (700)"));
    assert_int_equal(gs_cuda_malloc(scope, MIB, &block), GS_DEAD);
    assert_int_equal(GS_CUDA_LAUNCHED(step), GS_DEAD);
    assert_int_equal(gs_end(scope, &report), GS_DEAD);
    gs_report_free(report);
}

#ifdef LOADED
/* The first test: without GPUSCOPE_CUDART, this program has no runtime. */
static void without_a_runtime_calls_fail(void **state)
{
    (void)state;
    void *block;
    char *named = strdup(getenv("GPUSCOPE_CUDART"));
    assert_non_null(named);
    assert_int_equal(unsetenv("GPUSCOPE_CUDART"), 0);
    gs_scope *scope = open_scope(0);
    assert_refused(gs_cuda_malloc(scope, MIB, &block), GS_NO_LIBRARY, "include <cuda_runtime.h> before");
    assert_refused(gs_cuda_adopt(scope, GS_KIND_DEVICE, &block, MIB), GS_NO_LIBRARY, "no CUDA runtime was found");
    assert_int_equal(gs_cuda_created_at(NULL, 0, GS_KIND_DEVICE, 4096, MIB, "cudaMalloc", GS_HERE), 0); /* not owned */
    assert_int_equal(setenv("GPUSCOPE_CUDART", "/none/libcudart.so", 1), 0);
    assert_refused(gs_cuda_malloc(scope, MIB, &block), GS_NO_LIBRARY, "GPUSCOPE_CUDART=/none/libcudart.so: ");
    end_with(scope, 0);
    assert_int_equal(setenv("GPUSCOPE_CUDART", named, 1), 0);
    free(named);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef LOADED
        cmocka_unit_test(without_a_runtime_calls_fail),
#endif
        cmocka_unit_test(the_end_releases_what_the_runtime_created),
        cmocka_unit_test(each_call_has_its_release),
        cmocka_unit_test(nothing_is_not_owned),
        cmocka_unit_test(runs_use_equal_memory),
        cmocka_unit_test(a_scope_adopts),
        cmocka_unit_test(memory_of_an_arena_is_not_adopted),
        cmocka_unit_test(stream_ordered_memory_alone_is_returned),
        cmocka_unit_test(a_limit_holds_for_adopted_memory),
        cmocka_unit_test(what_exceeds_the_limit_is_released),
        cmocka_unit_test(any_release_function_works),
        cmocka_unit_test(failures_of_the_runtime_are_recorded),
        cmocka_unit_test(a_failed_release_is_tried_again),
        cmocka_unit_test(sticky_failure_names_the_launch),
    };
    find_functions();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
