/* Tests comparisons of two runs and of several attempts, with runs that are built call by call. tests/e2e/compare.py
 * tests comparisons of recordings. */
#include "gw_unit_test.h"

#include "gw_compare.h"
#include "gw_feed.h"

#include <stdio.h>
#include <string.h>

static const uint64_t mib = 1u << 20, gib = 1u << 30;

typedef struct side {
    gw_feed feed;
    gw_calls *calls;
} side;
static side good, bad; /* too large for the stack */
static gw_portrait *of_good, *of_bad;
static gw_comparison *comparison;

static void begin(side *run)
{
    gw_feed_open(&run->feed, 16 * gib);
    run->calls = gw_calls_new();
    assert_non_null(run->calls);
}

static int begin_both(void **state)
{
    begin(&good);
    begin(&bad);
    return 0;
}

static uint16_t fn_of(const gw_feed *feed, const char *fn)
{
    for (uint32_t i = 0; i < feed->name_count; i++)
        if (strcmp(feed->name[i], fn) == 0)
            return (uint16_t)i;
    fail_msg("no function %s", fn);
    return 0;
}

/* Pass one call to the model, and store it in the order of calls. */
static void call(side *run, const char *fn, gw_event_kind kind, uint16_t result, uint64_t a0, uint64_t a1)
{
    gw_feed_call(&run->feed, fn, kind, result, a0, a1, 0, 0);
    gw_event event = {.t_ns = run->feed.t_ns,
                      .pid = run->feed.pid,
                      .tid = run->feed.tid,
                      .fn = fn_of(&run->feed, fn),
                      .kind = (uint8_t)kind,
                      .result = result,
                      .site = run->feed.site,
                      .arg = {a0, a1}};
    assert_true(gw_calls_feed(run->calls, run->feed.model, &event));
}

static void alloc(side *run, uint64_t bytes)
{
    run->feed.address_next += 2 * bytes;
    call(run, "cuMemAlloc_v2", GW_EV_ALLOC, 0, run->feed.address_next, bytes);
}

static gw_error err; /* of the last failure */

static gw_portrait *finish(side *run)
{
    gw_portrait *portrait = NULL;
    assert_int_equal(gw_portrait_make(gw_feed_finish(&run->feed), run->calls, &portrait, &err), GW_OK);
    return portrait;
}

static void compare(void)
{
    of_good = finish(&good);
    of_bad = finish(&bad);
    assert_int_equal(gw_compare(of_good, of_bad, &comparison, &err), GW_OK);
}

static int end_both(void **state)
{
    gw_comparison_free(comparison);
    gw_portrait_free(of_good);
    gw_portrait_free(of_bad);
    comparison = NULL;
    return 0;
}

static const gw_difference *difference(gw_area area, const char *name)
{
    for (size_t i = 0; i < comparison->count; i++) {
        const gw_difference *at = &comparison->difference[i];
        const gw_trait *any = at->good != NULL ? at->good : at->bad;
        if (at->area == area && strcmp(any->name, name) == 0)
            return at;
    }
    return NULL;
}

GW_TEST_WITH(equal_runs_have_no_difference, begin_both, end_both)
{
    for (int i = 0; i < 3; i++) {
        alloc(&good, (uint64_t)(i + 1) * mib);
        alloc(&bad, (uint64_t)(i + 1) * mib);
    }
    gw_feed_exit(&good.feed, 0, 0);
    gw_feed_exit(&bad.feed, 0, 0);
    compare();
    assert_false(comparison->differs);
    assert_true(comparison->parting.known);
    assert_false(comparison->parting.parted);
    assert_int_equal(comparison->parting.same, 3);
}

/* Two runs diverge at the first call with a different size. Addresses differ in every run and are ignored. */
GW_TEST_WITH(runs_part_at_the_first_other_size, begin_both, end_both)
{
    alloc(&good, mib);
    bad.feed.address_next += 64 * mib;
    alloc(&bad, mib);
    good.feed.site = gw_feed_site(&good.feed, "load /srv/train.py 41");
    alloc(&good, 64 * mib);
    bad.feed.site = gw_feed_site(&bad.feed, "load /srv/train.py 41");
    alloc(&bad, 128 * mib);
    compare();
    assert_true(comparison->differs && comparison->parting.parted && comparison->parting.is_main);
    assert_int_equal(comparison->parting.same, 1);
    assert_int_equal(comparison->parting.good.bytes, 64 * mib);
    assert_int_equal(comparison->parting.bad.bytes, 128 * mib);
    assert_string_equal(comparison->parting.bad.call, "cuMemAlloc");
    assert_non_null(strstr(comparison->parting.bad.place, "train.py:41 in load"));
    const gw_difference *block = difference(GW_AREA_MEMORY, "largest block at train.py:41 in load");
    assert_true(block != NULL && block->matters && block->bad->value == 2 * block->good->value);
}

GW_TEST_WITH(a_thread_that_ends_early_parts, begin_both, end_both)
{
    alloc(&good, mib);
    alloc(&bad, mib);
    alloc(&good, mib);
    compare();
    assert_true(comparison->parting.parted && comparison->parting.bad.ended && !comparison->parting.good.ended);
}

/* The order of two helper threads is random, and a query is repeated until it succeeds. Neither must be reported as a
 * difference. */
GW_TEST_WITH(threads_are_compared_one_by_one, begin_both, end_both)
{
    side *both[] = {&good, &bad};
    for (int i = 0; i < 2; i++) {
        alloc(both[i], mib);
        for (int k = 0; k < 3 + i; k++)
            call(both[i], "cuEventQuery", GW_EV_QUERY, 600, 1, 0);
    }
    for (int i = 0; i < 2;
         i++) { /* good run: the second thread's call is between those of the first; bad run: after them */
        both[i]->feed.tid = GW_FEED_PID + (i == 0);
        alloc(both[i], (i == 0 ? 3 : 2) * mib);
        both[i]->feed.tid = GW_FEED_PID + (i != 0);
        alloc(both[i], (i == 0 ? 2 : 3) * mib);
    }
    compare();
    assert_false(comparison->parting.parted);
    assert_int_equal(comparison->parting.same, 3);
}

GW_TEST_WITH(another_threads_parting_alone_does_not_matter, begin_both, end_both)
{
    alloc(&good, mib);
    alloc(&bad, mib);
    good.feed.tid = bad.feed.tid = GW_FEED_PID + 7;
    alloc(&good, 10 * mib);
    alloc(&good, 10 * mib);
    alloc(&bad, 10 * mib);
    call(&bad, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, 0x51, 0);
    compare();
    assert_true(comparison->parting.parted);
    assert_false(comparison->parting.is_main);
    assert_int_equal(comparison->parting.thread, 2);
}

GW_TEST_WITH(what_is_new_for_each_run_does_not_matter, begin_both, end_both)
{
    gw_feed_meta(&good.feed, "env.SLURM_JOB_ID", "7");
    gw_feed_meta(&bad.feed, "env.SLURM_JOB_ID", "8");
    gw_feed_meta(&good.feed, "host", "a");
    gw_feed_meta(&bad.feed, "host", "b");
    alloc(&good, mib);
    alloc(&bad, mib);
    compare();
    assert_false(comparison->differs);
    assert_non_null(difference(GW_AREA_ENVIRONMENT, "SLURM_JOB_ID"));
    assert_non_null(difference(GW_AREA_HOST, "name"));
}

GW_TEST_WITH(software_and_card_are_compared, begin_both, end_both)
{
    gw_feed_meta(&good.feed, "driver.module", "550.54.14");
    gw_feed_meta(&bad.feed, "driver.module", "535.104.05");
    gw_feed_meta(&bad.feed, "env.CUDA_LAUNCH_BLOCKING", "1");
    gw_feed_fact(&bad.feed, "card.holder", "pid=77 bytes=9663676416 device=0 user=me cmd=serve.py");
    compare();
    const gw_difference *driver = difference(GW_AREA_DRIVER, "kernel module");
    const gw_difference *variable = difference(GW_AREA_ENVIRONMENT, "CUDA_LAUNCH_BLOCKING");
    const gw_difference *holder = difference(GW_AREA_CARD, "held by serve.py (pid 77)");
    assert_true(driver != NULL && driver->matters);
    assert_string_equal(driver->bad->text, "535.104.05");
    assert_true(variable != NULL && variable->matters && variable->good == NULL);
    assert_non_null(holder);
    /* no allocation of the good run was refused, so gpuwhy did not look for other processes that hold memory */
    assert_false(holder->matters);
    assert_string_equal(holder->bad->text, "9.00 GiB");
}

GW_TEST_WITH(lost_calls_are_no_difference, begin_both, end_both)
{
    gw_feed_fact(&bad.feed, "dropped.events", "500");
    alloc(&good, mib);
    alloc(&good, 2 * mib);
    alloc(&bad, 2 * mib);
    compare();
    assert_false(comparison->parting.known);
    assert_non_null(strstr(comparison->parting.reason, "bad run"));
}

GW_TEST_WITH(nothing_recorded_is_said, NULL, end_both)
{
    gw_feed_open_bare(&good.feed);
    gw_feed_open_bare(&bad.feed);
    good.calls = gw_calls_new();
    bad.calls = NULL;
    compare();
    assert_false(comparison->parting.known);
    assert_non_null(comparison->parting.reason);
}

/* Calls and threads beyond the limits are not stored, and `cut` is set. */
GW_TEST_WITH(what_is_kept_is_bounded, begin_both, end_both)
{
    side *both[] = {&good, &bad};
    for (int i = 0; i < 2; i++) {
        gw_event event = {.pid = GW_FEED_PID, .tid = GW_FEED_PID, .kind = GW_EV_CTX_CREATE};
        for (int k = 0; k < GW_CALLS_MAX + 10 + i; k++)
            assert_true(gw_calls_feed(both[i]->calls, both[i]->feed.model, &event));
        for (uint32_t k = 0; k < GW_CALLS_THREADS_MAX + 10; k++) {
            event.tid = GW_FEED_PID + k;
            assert_true(gw_calls_feed(both[i]->calls, both[i]->feed.model, &event));
        }
    }
    compare();
    assert_true(comparison->parting.known && comparison->parting.cut);
    assert_false(comparison->parting.parted);
    assert_int_equal(comparison->parting.same, GW_CALLS_MAX);
}

/* ---- several attempts ---- */

static gw_attempts *attempts;
static gw_splits splits;

static int begin_attempts(void **state)
{
    attempts = gw_attempts_new();
    return attempts == NULL;
}

static int end_attempts(void **state)
{
    gw_splits_free(&splits);
    gw_attempts_free(attempts);
    return 0;
}

static void split(void)
{
    gw_splits_free(&splits);
    assert_int_equal(gw_attempts_split(attempts, &splits, &err), GW_OK);
}

static void attempt(bool is_good, uint64_t limit_bytes, bool has_holder, const char *variable)
{
    char text[120];
    begin(&good);
    gw_feed_call(&good.feed, "cuMemAlloc_v2", GW_EV_GUARD_REFUSED, 0, mib, limit_bytes, 0, 0);
    if (variable != NULL)
        gw_feed_meta(&good.feed, "env.CUDA_LAUNCH_BLOCKING", variable);
    if (has_holder) {
        snprintf(text, sizeof text, "pid=77 bytes=%llu device=0 user=me cmd=serve.py", 9ull << 30);
        gw_feed_fact(&good.feed, "card.holder", text);
    }
    gw_feed_exit(&good.feed, is_good ? 0 : 1, 0);
    gw_portrait *portrait = finish(&good);
    assert_true(gw_attempts_add(attempts, portrait, is_good));
    gw_portrait_free(portrait);
}

static const gw_split *split_of(const char *name)
{
    for (size_t i = 0; i < splits.count; i++)
        if (strcmp(splits.item[i].name, name) == 0)
            return &splits.item[i];
    return NULL;
}

GW_TEST_WITH(what_failed_attempts_share_is_found, begin_attempts, end_attempts)
{
    for (int i = 0; i < 7; i++) /* some good and some failed attempts set the variable, so it does not split them */
        attempt(true, (9 + (uint64_t)i) * gib, false, i % 2 == 0 ? "1" : NULL);
    for (int i = 0; i < 3; i++)
        attempt(false, (2 + (uint64_t)i) * gib, true, i % 2 == 0 ? "1" : NULL);
    split();
    const gw_split *limit = split_of("GPU 0 limit"), *holder = split_of("held by serve.py (pid 77)");
    assert_non_null(limit);
    assert_string_equal(limit->bad, "at most 4.00 GiB");
    assert_string_equal(limit->good, "at least 9.00 GiB");
    assert_non_null(holder);
    assert_string_equal(holder->bad, "9.00 GiB");
    assert_null(holder->good); /* in the good attempts, gpuwhy did not look for other processes that hold memory */
    assert_null(split_of("CUDA_LAUNCH_BLOCKING"));
    assert_true(splits.chance < 0.1);
}

GW_TEST_WITH(overlapping_attempts_share_nothing, begin_attempts, end_attempts)
{
    attempt(true, 4 * gib, false, NULL);
    attempt(false, 5 * gib, false, NULL);
    attempt(false, 3 * gib, false, NULL);
    split();
    assert_int_equal(splits.count, 0);
}

/* With one attempt of each kind, every difference splits the attempts, so `chance` is high. */
GW_TEST_WITH(few_attempts_may_differ_by_chance, begin_attempts, end_attempts)
{
    attempt(true, 4 * gib, false, NULL);
    split();
    assert_int_equal(splits.count, 0);
    attempt(false, 3 * gib, false, "1");
    split();
    assert_int_equal(splits.count, 2);
    assert_non_null(split_of("CUDA_LAUNCH_BLOCKING"));
    assert_true(splits.chance == 1);
}

GW_TEST_MAIN(NULL, NULL)
