/* Tests verdicts on programs that survived a refused request, or seemed to, and later ended for another reason. */
#include "run_testlib.h"

typedef enum after {
    AFTER_NOTHING,
    AFTER_RESULTS,  /* copy earlier results back to the host */
    AFTER_COPIES,   /* copy input, launch, and copy the result back (blocking) */
    AFTER_FILLS,    /* fill memory, and wait for that with a blocking copy */
    AFTER_REQUESTS, /* 2000 further requests, which succeed */
    AFTER_NULL      /* as AFTER_COPIES, then use the NULL pointer */
} after;

static void refuse_then(after what)
{
    open_program(8 * gib);
    gw_feed_alloc(&feed, 5 * gib);
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 8 * gib);
    bool works = what == AFTER_COPIES || what == AFTER_NULL;
    if (works || what == AFTER_FILLS)
        gw_feed_alloc(&feed, 16 * mib);
    if (works) {
        gw_feed_hot(&feed, "cuMemcpyHtoD_v2", GW_COUNT_COPY, 64, 0);
        gw_feed_launch(&feed, KERNEL, 0);
    }
    for (int i = 0; what == AFTER_FILLS && i < 10; i++)
        gw_feed_hot(&feed, "cuMemsetD8_v2", GW_COUNT_FILL, 64, 0);
    if (works || what == AFTER_FILLS || what == AFTER_RESULTS)
        gw_feed_hot(&feed, "cuMemcpyDtoH_v2", GW_COUNT_COPY, 64, 0);
    for (int i = 0; what == AFTER_REQUESTS && i < 2000; i++)
        gw_feed_free(&feed, gw_feed_alloc(&feed, mib));
    if (what == AFTER_NULL)
        gw_feed_call(&feed, "cuMemcpyHtoD_v2", GW_EV_COPY, 1, 0, 0x5000, 64, 0);
}

static void say_value_error(void)
{
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nValueError: labels\n");
    close_program(1);
}

static void say_illegal(void)
{
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, STREAM, 0, 0, 0);
    close_program(1);
}

static void test_an_exception_after_an_outlived_refusal(void **state)
{
    static const after good[] = {AFTER_COPIES, AFTER_FILLS, AFTER_REQUESTS};
    static const after bad[] = {AFTER_NOTHING, AFTER_RESULTS, AFTER_NULL};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        refuse_then(good[i]);
        say_value_error();
        /* Unless thousands of requests succeeded later, the exception may be a consequence of the refusal. */
        expect_fault("script-exception", good[i] == AFTER_REQUESTS ? GW_ESTABLISHED : GW_SUPPORTED);
        assert_true(list_has(&verdict->advice, "handled: cuMemAlloc of 4.00 GiB"));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse_then(bad[i]);
        say_value_error();
        /* the program may have gone on without the GPU, unless it used the NULL pointer */
        expect_fault("gpu-oom-capacity", bad[i] == AFTER_NULL ? GW_ESTABLISHED : GW_SUPPORTED);
        assert_false(list_has(&verdict->advice, "handled"));
    }
}

static void test_an_illegal_access_after_an_outlived_refusal(void **state)
{
    static const after good[] = {AFTER_COPIES, AFTER_FILLS, AFTER_REQUESTS};
    static const after bad[] = {AFTER_NOTHING, AFTER_RESULTS, AFTER_NULL};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        refuse_then(good[i]);
        say_illegal();
        expect_fault("illegal-address", good[i] == AFTER_REQUESTS ? GW_ESTABLISHED : GW_SUPPORTED);
        assert_int_equal(has_alternative("gpu-oom-capacity"), good[i] != AFTER_REQUESTS);
        assert_true(list_has(&verdict->advice, "handled: cuMemAlloc of 4.00 GiB"));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse_then(bad[i]);
        say_illegal();
        expect_fault("gpu-oom-capacity", GW_ESTABLISHED);
        assert_int_equal(verdict->alternative_count, 0);
    }
}

/* The program ended with an exit code and printed no message. Then a refusal is the root, unless the program certainly
 * handled it. */
static void test_an_exit_code_after_an_outlived_refusal(void **state)
{
    refuse_then(AFTER_REQUESTS);
    feed.is_silent = true;
    close_program(3);
    expect_status(GW_VERDICT_UNDETERMINED);
    assert_true(list_has(&verdict->advice, "thousands of other requests succeeded"));
    refuse_then(AFTER_COPIES);
    feed.is_silent = true;
    close_program(3);
    expect_fault("gpu-oom-capacity", GW_SUPPORTED);
    refuse_then(AFTER_REQUESTS); /* a refused request at the end */
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 8 * gib);
    feed.is_silent = true;
    close_program(3);
    expect_fault("gpu-oom-capacity", GW_SUPPORTED);
    refuse_then(AFTER_REQUESTS); /* the program itself reports a lack of memory */
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n"
                          "MemoryError: CUDA out of memory: cuMemAlloc of 4 GiB\n");
    close_program(1);
    judge_open();
    assert_non_null(verdict->cause);
    assert_string_equal(verdict->cause, "gpu-oom-capacity");
}

/* After a refusal, a request of half the size succeeds. If both are on one line, the program searches for a size
 * that fits, and has handled the refusal. Otherwise it is only the next request. */
static void test_a_retreat_without_a_free(void **state)
{
    for (int same = 0; same < 2; same++) {
        open_program(8 * gib);
        uint32_t line = gw_feed_site(&feed, "grow /data/t.py 7"), other = gw_feed_site(&feed, "next /data/t.py 9");
        feed.site = line;
        gw_feed_no_room(&feed, 10 * gib, 8 * gib, 8 * gib);
        feed.site = same ? line : other;
        gw_feed_alloc(&feed, 5 * gib);
        gw_feed_hot(&feed, "cuMemsetD8_v2", GW_COUNT_FILL, 64, 0);
        gw_feed_hot(&feed, "cuMemcpyDtoH_v2", GW_COUNT_COPY, 64, 0);
        feed.is_silent = true;
        close_program(3);
        judge_open();
        assert_int_equal(verdict->status, same ? GW_VERDICT_UNDETERMINED : GW_VERDICT_FAULT);
        assert_int_equal(list_has(&verdict->advice, "handled"), same);
    }
}

/* The program requests smaller and smaller sizes at one line until nothing fits. The last refusal ended the program. */
static void feed_a_search_for_what_fits(void)
{
    open_program(8 * gib);
    feed.site = gw_feed_site(&feed, "grow /data/t.py 7");
    uint64_t left = 8 * gib;
    for (uint64_t bytes = 3 * gib; bytes >= 96 * mib; bytes /= 2) {
        for (; left >= bytes; left -= bytes)
            gw_feed_alloc(&feed, bytes);
        gw_feed_no_room(&feed, bytes, left, 8 * gib);
    }
    close_program(1);
}

static void also_a_search_for_what_fits(void)
{
    assert_int_equal(verdict->status, GW_VERDICT_FAULT);
}

static void feed_handled_refusals_are_told_together(void)
{
    open_program(8 * gib);
    feed.site = gw_feed_site(&feed, "probe /data/t.py 7");
    for (int i = 0; i < 100; i++) {
        gw_feed_no_room(&feed, gib, 100 * mib, 8 * gib);
        iterate(1);
    }
    feed.site = gw_feed_site(&feed, "other /data/t.py 17");
    gw_feed_no_room(&feed, 3 * gib, 100 * mib, 8 * gib);
    gw_feed_wait(&feed, mib);
    gw_feed_no_room(&feed, 2 * gib, 100 * mib, 8 * gib);
    iterate(1);
    close_program(0);
}

static const row rows[] = {
    NOT_NAMED(a_search_for_what_fits, "", .says = {"cuMemAlloc of 96.00 MiB failed"},
              .silent = {"cuMemAlloc of 3.00 GiB failed"}, .also = also_a_search_for_what_fits),
    NO_FAULT(
        handled_refusals_are_told_together, GW_VERDICT_CLEAN,
        .advice =
            {"handled: cuMemAlloc at t.py:7 in probe was refused 100 times for lack of memory (1.00 GiB each, ",
             "handled: cuMemAlloc at t.py:17 in other was refused 2 times for lack of memory (2.00 GiB to 3.00 GiB, "}),
    TEST(test_an_exception_after_an_outlived_refusal),
    TEST(test_an_illegal_access_after_an_outlived_refusal),
    TEST(test_an_exit_code_after_an_outlived_refusal),
    TEST(test_a_retreat_without_a_free),
};

ROWS_MAIN(rows)
