/* Tests verdicts on refused requests when a framework's allocator reports how long the live blocks have existed. */
#include "run_testlib.h"

static void observe_blocks(uint64_t first_bytes, size_t count, uint64_t age_ns)
{
    for (size_t i = 0; i < count; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x100000000 + 0x1000 * (age_ns + i), first_bytes - i * mib,
                     age_ns, GW_BLOCK_LIVE);
}

/* A step fails at once: a library's two requests for workspaces are refused, then the program's request for a tensor.
 * With `second`, the program catches the exception, tries a smaller step, and is soon refused the same size again. With
 * `kept`, the first step's memory is still live then. */
static void fail_twice(bool kept, bool second)
{
    open_torch(7 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 6 * gib);
    gw_feed_launch(&feed, KERNEL, STREAM);
    observe_oom(614 * mib, 6 * gib, 6 * gib, mib);
    gw_feed_launch(&feed, KERNEL, STREAM);
    observe_oom(1843 * mib, 6 * gib, 6 * gib, mib);
    gw_feed_wait(&feed, 1000000);
    observe_oom(1226 * mib, 6 * gib, 6 * gib, mib);
    if (!second)
        observe_blocks(gib, 6, 50000000);
    if (second) {
        gw_feed_copy(&feed, 60 * mib);
        gw_feed_sync(&feed);
        gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_wait(&feed, 10000000);
        observe_oom(1226 * mib, 6 * gib, 6 * gib, mib);
        observe_blocks(gib, 6, kept ? 50000000 : 5000000);
    }
    torch_oom_message();
    close_program(1);
}

static void feed_kept_exception_fails_at_once(void)
{
    fail_twice(true, true);
}

static void also_kept_exception_fails_at_once(void)
{
    /* capacity stays a hypothesis while the first step's memory is kept */
    assert_int_equal(certainty_of_alternative(verdict, "gpu-oom-capacity"), GW_HYPOTHESIS);
}

static void feed_kept_exception_near_a_dropped_one(void)
{
    fail_twice(false, true);
}

static void feed_kept_exception_near_a_library_that_tries(void)
{
    fail_twice(false, false);
}

/* Feed the maximum and minimum of live bytes in a span of 1 ms that began `ago_ms` before the failure. Call this in
 * order of time. */
static void observe_span(uint64_t ago_ms, uint64_t peak, uint64_t low)
{
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_HISTORY, 0, GW_ACTION_LIVE_PEAK, 0, peak, ago_ms * 1000000);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_HISTORY, 0, GW_ACTION_LIVE_LOW, 0, low, ago_ms * 1000000);
}

static void observe_block(uint64_t address, uint64_t bytes, uint64_t ago_ms)
{
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, address, bytes, ago_ms * 1000000, GW_BLOCK_LIVE);
}

/* Feed the blocks that one training keeps: its weights, and for each of `kept` steps a block of 300 MiB and one of 76
 * MiB. */
static void observe_training(uint64_t ago_ms, uint64_t kept, uint64_t address)
{
    static const uint64_t weights[] = {7168, 512, 294912, 1024, 250880, 1536};
    for (uint64_t i = 0; i < 6; i++)
        observe_block(address + i * 0x100000, weights[i], ago_ms);
    for (uint64_t i = 0; i < kept; i++) {
        observe_block(address + 0x80000000 * (i + 1), 300 * mib, ago_ms - 20 * (i + 1));
        observe_block(address + 0x80000000 * (i + 1) + 0x40000000, 76 * mib, ago_ms - 20 * (i + 1));
    }
}

/* Feed `count` spans of 1 ms, as in steps that free everything. Their peaks alternate between 900 MiB and 100 MiB above
 * `base`. */
static void observe_steps(uint64_t ago_ms, uint64_t count, uint64_t base)
{
    for (uint64_t i = 0; i < count; i++)
        observe_span(ago_ms - i, base + (i % 2 == 0 ? 900 : 100) * mib, base + (i % 2 == 0 ? 50 : 0) * mib);
}

static void judge_two_trainings(bool first_is_kept)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 2000000000);
    gw_feed_alloc(&feed, 3900 * mib);
    /* about as much memory is cached as requested, which does not prove fragmentation */
    observe_oom(154 * mib, 3730 * mib, 3887 * mib, 40 * mib);
    if (first_is_kept)
        observe_training(900, 6, 0x100000000);
    observe_training(400, first_is_kept ? 3 : 9, 0x900000000);
    for (uint64_t step = 0; step < 45; step++)
        observe_steps(900 - step * 18, 18, (first_is_kept ? 376 * mib * (step / 5) : step < 25 ? 0 : 376 * mib));
    torch_oom_message();
    close_program(1);
}

static void feed_a_leak_is_no_fragmentation(void)
{
    judge_two_trainings(true);
}

static void feed_a_leak_near_nothing_is_kept_of_the_first_run(void)
{
    judge_two_trainings(false);
}

/* The program trains, and then copies its weights to compute an average. The sizes repeat, but this is not a second
 * run. */
static void feed_a_leak_near_a_copy_of_the_weights(void)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 2000000000);
    gw_feed_alloc(&feed, 3900 * mib);
    observe_oom(154 * mib, 3730 * mib, 3887 * mib, 40 * mib);
    for (uint64_t copy = 0; copy < 2; copy++) {
        for (uint64_t i = 0; i < 8; i++)
            observe_block(0x100000000 * (copy + 1) + i * 0x1000, (200 + 7 * i) * mib, copy == 0 ? 900 : 100);
    }
    observe_steps(880, 700, 1824 * mib);
    torch_oom_message();
    close_program(1);
}

typedef enum place { IN_A_LOOP, IN_A_LATE_PHASE, IN_A_FIRST_PASS } place;
/* Feed a loop that keeps a block every 50 ms. Only the observer reports these blocks.
 * - IN_A_LATE_PHASE: all blocks are from the last 12 ms
 * - IN_A_FIRST_PASS: nothing ran before; a deep model keeps such a block for each layer, which is not a leak */
static void keep_steps(place where)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 2000000000);
    gw_feed_alloc(&feed, 3900 * mib);
    observe_oom(154 * mib, 3600 * mib, 3630 * mib, 20 * mib);
    for (uint64_t i = 0; i < 12; i++)
        observe_block(0x100000000 + 0x80000000 * i, 290 * mib, where == IN_A_LATE_PHASE ? 12 - i : 600 - 50 * i);
    if (where != IN_A_FIRST_PASS)
        observe_steps(800, where == IN_A_LATE_PHASE ? 780 : 200, 0);
    for (uint64_t i = 0; i < 12; i++) {
        if (where == IN_A_LATE_PHASE)
            observe_span(12 - i, 290 * mib * (i + 1), 290 * mib * i);
        else
            observe_steps(600 - 50 * i, 50, 290 * mib * (i + 1));
    }
    torch_oom_message();
    close_program(1);
}

static void feed_kept_steps_by_the_observer(void)
{
    keep_steps(IN_A_LOOP);
}

static void feed_kept_steps_near_a_late_phase(void)
{
    keep_steps(IN_A_LATE_PHASE);
}

static void feed_kept_steps_near_a_first_pass(void)
{
    keep_steps(IN_A_FIRST_PASS);
}

/* Feed 12 kept blocks. The first 3 are older than the history of 800 ms, so they have no age. The process first
 * allocated memory `earlier_ns` before the history began. */
static void judge_kept_steps_with_undated(uint64_t earlier_ns)
{
    open_torch(4 * gib);
    gw_feed_alloc(&feed, 3900 * mib);
    gw_feed_wait(&feed, earlier_ns + 800000000);
    observe_oom(154 * mib, 3600 * mib, 3630 * mib, 20 * mib);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_HISTORY_AGE, 800000000, 0, 0);
    for (uint64_t i = 0; i < 12; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x100000000 + 0x80000000 * i, 290 * mib,
                     i < 3 ? GW_AGE_UNKNOWN : (600 - 50 * i) * 1000000, GW_BLOCK_LIVE);
    observe_steps(800, 200, 0);
    for (uint64_t i = 0; i < 12; i++)
        observe_steps(600 - 50 * i, 50, 290 * mib * (i + 1));
    torch_oom_message();
    close_program(1);
}

static void feed_kept_steps_of_which_some_have_no_age(void)
{
    judge_kept_steps_with_undated(1000000);
}

/* All steps in the history keep memory, but the history covers only the end of the run, so this may not be a leak. */
static void feed_kept_steps_near_a_history_that_began_late(void)
{
    judge_kept_steps_with_undated(5000000000);
}

/* A step fails, and later the next one, while the blocks of the first one are live. `age_ns` is their age, or
 * GW_AGE_UNKNOWN. `history_ms` is the length of the history; 0: there is none. */
static void keep_an_exception(uint64_t age_ns, uint64_t history_ms)
{
    open_torch(8 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 6 * gib);
    observe_oom(3 * gib, 6 * gib, 6 * gib, mib);
    for (int i = 0; i < 100; i++)
        gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_sync(&feed);
    gw_feed_wait(&feed, 1000000000);
    observe_oom(2 * gib + mib, 6 * gib, 6 * gib, mib);
    for (uint64_t i = 0; i < 6; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x1000 * i, gib - i * mib, age_ns, GW_BLOCK_LIVE);
    if (history_ms != 0)
        observe_span(history_ms, 6 * gib, 6 * gib);
    torch_oom_message();
    close_program(1);
}

static void feed_kept_exception(void)
{
    keep_an_exception(1500000000, 0);
}

static void test_kept_exception_of_blocks_older_than_the_history(void **state)
{
    keep_an_exception(GW_AGE_UNKNOWN, 1500);
    judge_open();
    assert_string_equal(verdict->cause, "gpu-oom-leak");
    assert_true(says("exception"));
}

static void test_kept_exception_near_ages_that_are_not_known(void **state)
{
    const uint64_t too_short[] = {500, 0};
    for (size_t i = 0; i < 2; i++) {
        keep_an_exception(GW_AGE_UNKNOWN, too_short[i]);
        judge_open();
        assert_string_equal(verdict->cause, "gpu-oom-capacity");
        assert_string_equal(gw_certainty_text(verdict->certainty), "supported"); /* the memory may be a leak */
        assert_false(list_has(&verdict->ruled_out, "leak"));
    }
}

static const row rows[] = {
    FAULT(kept_exception, "gpu-oom-leak", GW_SUPPORTED, .says = {"exception"}),
    FAULT(kept_exception_fails_at_once, "gpu-oom-leak", GW_SUPPORTED, .value = {{(double)(1226 * mib), "bytes"}},
          .says = {"exception"}, .also = also_kept_exception_fails_at_once),
    /* all live memory is newer than the first failure, so that failure kept nothing */
    FAULT(kept_exception_near_a_dropped_one, "gpu-oom-capacity", GW_SUPPORTED, .no_alternative = {"gpu-oom-leak"}),
    /* the program did not wait for anything between the refusals, so they belong to one step */
    FAULT(kept_exception_near_a_library_that_tries, "gpu-oom-capacity", GW_SUPPORTED,
          .value = {{(double)(1226 * mib), "bytes"}}, .no_alternative = {"gpu-oom-leak"}),
    FAULT(a_leak_is_no_fragmentation, "gpu-oom-leak", GW_SUPPORTED, .says = {"second run"}),
    NOT_NAMED(a_leak_near_nothing_is_kept_of_the_first_run, "gpu-oom-fragmentation", .silent = {"second run"}),
    NAMED(a_leak_near_a_copy_of_the_weights, "gpu-oom-capacity", .alternative = {"gpu-oom-leak"}),
    FAULT(kept_steps_by_the_observer, "gpu-oom-leak", GW_SUPPORTED, .value = {{12, "count"}}),
    FAULT(kept_steps_near_a_late_phase, "gpu-oom-peak-phase", GW_SUPPORTED),
    FAULT(kept_steps_near_a_first_pass, "gpu-oom-capacity", GW_SUPPORTED, .no_alternative = {"gpu-oom-leak"}),
    /* blocks without an age are not counted */
    FAULT(kept_steps_of_which_some_have_no_age, "gpu-oom-leak", GW_SUPPORTED,
          .value = {{(double)(9 * 290 * mib), "bytes"}}),
    /* supported at most, because the memory may be a leak */
    FAULT(kept_steps_near_a_history_that_began_late, "gpu-oom-capacity", GW_SUPPORTED, .not_ruled_out = {"leak"}),
    TEST(test_kept_exception_of_blocks_older_than_the_history),
    TEST(test_kept_exception_near_ages_that_are_not_known),
};

ROWS_MAIN(rows)
