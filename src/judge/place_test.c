/* Tests which line of the program a verdict reports as its place. */
#include "run_testlib.h"

static void feed_leak_names_its_line(void)
{
    open_program(2 * gib);
    uint32_t batch = gw_feed_site(&feed, "next loader.py 41, train train.py 12");
    uint32_t label = gw_feed_site(&feed, "next loader.py 42, train train.py 12");
    uint32_t refused = gw_feed_site(&feed, "forward model.py 7, train train.py 13");
    run it = {0};
    run_begin(&it);
    for (int i = 0; i < 300; i++) {
        feed.site = batch;
        gw_feed_alloc(&feed, 5 * mib);
        feed.site = label;
        gw_feed_alloc(&feed, 2 * kib);
        feed.site = 0;
        iterate(1);
    }
    feed.site = refused;
    gw_feed_no_room(&feed, 5 * mib, 4 * mib, 2 * gib);
    feed.site = 0;
    close_program(1);
}

static void also_leak_names_its_line(void)
{
    expect_place("loader.py:41 in next", "never freed");
    assert_null(verdict->where_reason);
}

static void feed_places_of_a_reset(void)
{
    open_program(2 * gib);
    uint32_t made = gw_feed_site(&feed, "build model.py 5"), reset = gw_feed_site(&feed, "restart main.py 9"),
             used = gw_feed_site(&feed, "clean main.py 20");
    feed.site = made;
    uint64_t block = gw_feed_alloc(&feed, 64 * mib);
    feed.site = reset;
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    feed.site = used;
    gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 1, block, 0, 0, 0);
    feed.site = 0;
    close_program(1);
}

static void also_places_of_a_reset(void)
{
    expect_place("main.py:9 in restart", "reset");
}

/* A later call reports the fault of a launch. The verdict must state that its place is the place of the reporting
 * call. */
static void feed_place_of_a_late_report(void)
{
    open_program(2 * gib);
    uint32_t innocent = gw_feed_site(&feed, "validate train.py 50");
    gw_feed_sync(&feed);
    gw_feed_launch(&feed, KERNEL, STREAM);
    feed.site = innocent;
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 700, 0, mib, 0, 0);
    feed.site = 0;
    close_program(1);
}

static void also_place_of_a_late_report(void)
{
    expect_place("train.py:50 in validate", "reported the fault");
}

/* The stack is unreadable or has no frame of the user. The verdict then states the reason instead of a place. */
static void test_no_place_says_why(void **state)
{
    static const struct {
        const char *frames, *reason;
    } cases[] = {{NULL, "contains no call sites"},
                 {"", "none of the frames"},
                 {"wait /usr/lib/python3.11/threading.py 324", "none of the frames"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_program(2 * gib);
        feed.site = cases[i].frames == NULL ? 0 : gw_feed_site(&feed, cases[i].frames);
        gw_feed_no_room(&feed, 20 * gib, 2 * gib, 2 * gib);
        feed.site = 0;
        close_program(1);
        judge_open();
        assert_string_equal(verdict->cause, "gpu-oom-capacity");
        assert_null(verdict->where);
        assert_non_null(strstr(verdict->where_reason, cases[i].reason));
    }
}

static void feed_leak_list_of_a_clean_run_has_lines(void)
{
    open_program(16 * gib);
    uint32_t kept = gw_feed_site(&feed, "workspace conv.py 8"), freed = gw_feed_site(&feed, "output conv.py 9"),
             stream = gw_feed_site(&feed, "request serve.py 3");
    for (uint64_t i = 0; i < 200; i++) {
        feed.site = kept;
        gw_feed_alloc(&feed, 16 * mib);
        feed.site = freed;
        gw_feed_free(&feed, gw_feed_alloc(&feed, 16 * mib)); /* like the kept blocks, but at another line */
        feed.site = stream;
        gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, 0x10000 + i, 0, 0, 0);
    }
    feed.site = 0;
    close_program(0);
}

static void also_leak_list_of_a_clean_run_has_lines(void)
{
    assert_true(
        list_has(&verdict->advice, "3.12 GiB in 200 blocks of 16.00 MiB by cuMemAlloc at conv.py:8 in workspace"));
    assert_null(verdict->where);
}

static const row rows[] = {
    NAMED(leak_names_its_line, "gpu-oom-leak", .says = {"failed at model.py:7 in forward", "at loader.py:41 in next"},
          .also = also_leak_names_its_line),
    NAMED(places_of_a_reset, "context-destroyed",
          .says = {"cuMemFree at main.py:20 in clean returned 1",
                   "at model.py:5 in build, which was destroyed with the context"},
          .also = also_places_of_a_reset),
    NAMED(place_of_a_late_report, "illegal-address", .also = also_place_of_a_late_report),
    NO_FAULT(leak_list_of_a_clean_run_has_lines, GW_VERDICT_CLEAN,
             .advice = {"200 streams created at serve.py:3 in request, 200 of them never destroyed"},
             .no_advice = {"conv.py:9"}, .also = also_leak_list_of_a_clean_run_has_lines),
    TEST(test_no_place_says_why),
};

ROWS_MAIN(rows)
