/* Test <gpuwhy/scope_cuda_wrap.h>: the calls of this file are those of a program that knows no scopes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cuda_runtime.h>
#include <pthread.h>

static cudaError_t real_free(void *memory) /* a call that is not wrapped */
{
    return cudaFree(memory);
}

#include <gpuwhy/scope_cuda_wrap.h>

#define MIB ((size_t)1 << 20)

static gs_scope *open_scope(uint64_t memory_bytes)
{
    gs_scope *scope;
    gs_options options = {.memory_bytes = memory_bytes};
    assert_int_equal(gs_open(&options, &scope, NULL), GS_OK);
    return scope;
}

static void end_with(gs_scope *scope, size_t held)
{
    gs_report *report;
    assert_int_equal(gs_end(scope, &report), GS_OK);
    assert_int_equal(report->held_count, held);
    assert_int_equal(report->kept_count, 0);
    assert_true(report->missing_bytes <= (int64_t)report->allowed_bytes);
    for (size_t i = 0; i < report->entry_count; i++)
        assert_non_null(strstr(report->entries[i].file, "wrap_test.c"));
    gs_report_free(report);
}

struct all {
    void *device, *ordered, *pinned, *other_pinned, *managed;
    cudaStream_t streams[3];
    cudaEvent_t events[2];
};

static void create(struct all *all)
{
    assert_int_equal(cudaStreamCreate(&all->streams[0]), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&all->streams[1], cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithPriority(&all->streams[2], cudaStreamNonBlocking, 0), cudaSuccess);
    assert_int_equal(cudaEventCreate(&all->events[0]), cudaSuccess);
    assert_int_equal(cudaEventCreateWithFlags(&all->events[1], cudaEventDefault), cudaSuccess);
    assert_int_equal(cudaMalloc(&all->device, 3 * MIB), cudaSuccess);
    assert_int_equal(cudaMallocAsync(&all->ordered, MIB, all->streams[0]), cudaSuccess);
    assert_int_equal(cudaMallocHost(&all->pinned, MIB), cudaSuccess);
    assert_int_equal(cudaHostAlloc(&all->other_pinned, MIB, 0), cudaSuccess);
    assert_int_equal(cudaMallocManaged(&all->managed, MIB, cudaMemAttachGlobal), cudaSuccess);
}

static void destroy(const struct all *all)
{
    assert_int_equal(cudaFreeAsync(all->ordered, all->streams[0]), cudaSuccess);
    assert_int_equal(cudaFree(all->device), cudaSuccess);
    assert_int_equal(cudaFree(all->managed), cudaSuccess);
    assert_int_equal(cudaFreeHost(all->pinned), cudaSuccess);
    assert_int_equal(cudaFreeHost(all->other_pinned), cudaSuccess);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cudaEventDestroy(all->events[i]), cudaSuccess);
    for (int i = 0; i < 3; i++)
        assert_int_equal(cudaStreamDestroy(all->streams[i]), cudaSuccess);
}

static void a_scope_owns_what_is_forgotten(void **state)
{
    (void)state;
    struct all all;
    gs_scope *scope = open_scope(0);
    create(&all);
    end_with(scope, 10);
}

static void a_scope_forgets_what_is_released(void **state)
{
    (void)state;
    struct all all;
    gs_scope *scope = open_scope(0);
    create(&all);
    destroy(&all);
    end_with(scope, 0);
}

static void outside_of_scopes_nothing_changes(void **state)
{
    (void)state;
    struct all all;
    create(&all);
    destroy(&all);
    assert_int_equal(cudaFree(NULL), cudaSuccess);
    assert_int_equal(cudaMalloc(&all.device, MIB), cudaSuccess);
    gs_scope *scope = open_scope(0);
    assert_int_equal(cudaFree(all.device), cudaSuccess); /* no scope owns it */
    end_with(scope, 0);
}

static void arguments_are_evaluated_once(void **state)
{
    (void)state;
    void *blocks[3] = {NULL, NULL, NULL};
    size_t next = 0;
    gs_scope *scope = open_scope(0);
    assert_int_equal(cudaMalloc(&blocks[next++], MIB), cudaSuccess);
    assert_int_equal(cudaMalloc(&blocks[next++], MIB), cudaSuccess);
    assert_int_equal(next, 2);
    assert_int_equal(cudaFree(blocks[--next]), cudaSuccess);
    assert_int_equal(next, 1);
    end_with(scope, 1);
}

static void failures_are_recorded(void **state)
{
    (void)state;
    void *block = NULL;
    gs_failure failure;
    gs_scope *scope = open_scope(0);
    assert_int_equal(cudaMalloc(&block, (size_t)1 << 50), cudaErrorMemoryAllocation);
    assert_null(block);
    assert_int_equal(gs_first_failure(scope, &failure), 1);
    assert_int_equal(failure.source, GS_FROM_CUDART);
    assert_string_equal(failure.call, "cudaMalloc");
    assert_non_null(strstr(failure.file, "wrap_test.c"));
    gs_forgive(scope);
    assert_int_equal(cudaMalloc(&block, MIB), cudaSuccess);
    assert_int_equal(cudaFree((char *)block + 1), cudaErrorInvalidValue); /* the scope still owns the block */
    assert_int_equal(gs_first_failure(scope, &failure), 1);
    assert_string_equal(failure.call, "cudaFree");
    end_with(scope, 1);
}

static void a_limit_holds(void **state)
{
    (void)state;
    void *block = NULL;
    size_t free_before, free_after, total;
    gs_scope *scope = open_scope(4 * MIB);
    assert_int_equal(cudaMalloc(&block, 2 * MIB), cudaSuccess);
    assert_int_equal(cudaMemGetInfo(&free_before, &total), cudaSuccess);
    assert_int_equal(cudaMalloc(&block, 4 * MIB), cudaErrorMemoryAllocation);
    assert_int_equal(cudaMemGetInfo(&free_after, &total), cudaSuccess);
    assert_int_equal(free_after, free_before);
    end_with(scope, 1);
}

static void a_record_out_of_date_is_replaced(void **state)
{
    (void)state;
    void *block, *again;
    gs_scope *scope = open_scope(0);
    assert_int_equal(cudaMalloc(&block, 2 * MIB), cudaSuccess);
    assert_int_equal(real_free(block), cudaSuccess); /* by other code */
    assert_int_equal(cudaMalloc(&again, 2 * MIB), cudaSuccess);
    assert_ptr_equal(again, block); /* or this test tests nothing */
    end_with(scope, 1);
}

static void *free_in_a_thread(void *block)
{
    return (void *)(uintptr_t)cudaFree(block); /* outside of all scopes */
}

static void another_thread_may_free(void **state)
{
    (void)state;
    void *block, *result;
    pthread_t thread;
    gs_scope *scope = open_scope(0);
    assert_int_equal(cudaMalloc(&block, 2 * MIB), cudaSuccess);
    assert_int_equal(pthread_create(&thread, NULL, free_in_a_thread, block), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
    end_with(scope, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_scope_owns_what_is_forgotten),
                                       cmocka_unit_test(a_scope_forgets_what_is_released),
                                       cmocka_unit_test(outside_of_scopes_nothing_changes),
                                       cmocka_unit_test(arguments_are_evaluated_once),
                                       cmocka_unit_test(failures_are_recorded),
                                       cmocka_unit_test(a_limit_holds),
                                       cmocka_unit_test(a_record_out_of_date_is_replaced),
                                       cmocka_unit_test(another_thread_may_free)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
