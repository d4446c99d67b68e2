/* Judges a program with tens of thousands of refused requests and a large ledger. Judging must not walk through the
 * ledger for each failure, and must find the last one. */
#include "gw_unit_test.h"
#include "judge_testlib.h"

#include <time.h>

static const uint64_t mib = 1u << 20, gib = 1u << 30;
enum { LIVE_COUNT = 100000, FAILURE_COUNT = 20000, BLOCK_BYTES = 64 << 10, TURNOVER = 16 };

static gw_feed feed; /* too large for the stack */
static gw_model *model;
static gw_verdict *verdict;
static uint64_t block[LIVE_COUNT];

typedef enum manner {
    WITHOUT, /* no request is refused */
    RECOVERED /* each request is granted on the second try */,
    REFUSED /* no request is ever granted */
} manner;

/* Replace some live blocks between two failures, so that no two snapshots are equal. */
static void turn_over(unsigned from)
{
    for (unsigned i = 0; i < TURNOVER; i++) {
        uint64_t *at = &block[(from * 7919u + i * 104729u) % LIVE_COUNT];
        gw_feed_free(&feed, *at);
        *at = gw_feed_alloc(&feed, BLOCK_BYTES);
    }
}

static void ask(manner how, unsigned turn)
{
    uint64_t bytes = 2 * mib + turn * 512; /* no two requests are equal */
    if (how != WITHOUT)
        gw_feed_no_room(&feed, bytes, mib, 8 * gib);
    if (how != REFUSED)
        gw_feed_free(&feed, gw_feed_alloc(&feed, bytes));
}

/* Feed and judge a run. Returns the processor time in seconds. */
static double judge(manner how)
{
    gw_error err;
    clock_t begin = clock();
    gw_feed_open(&feed, 8 * gib);
    for (unsigned i = 0; i < LIVE_COUNT; i++)
        block[i] = gw_feed_alloc(&feed, BLOCK_BYTES);
    for (unsigned turn = 0; turn < FAILURE_COUNT; turn++) {
        turn_over(turn);
        ask(how, turn);
    }
    gw_feed_no_room(&feed, 3 * gib, mib, 8 * gib);
    gw_feed_exit(&feed, 1, 0);
    model = gw_feed_finish(&feed);
    assert_int_equal(gw_judge(model, &verdict, &err), GW_OK);
    return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

static void close_judged(void)
{
    gw_verdict_free(verdict);
    gw_model_free(model);
}

static size_t lists_made(void)
{
    size_t count = 0;
    for (size_t i = 0; i < model->snapshot_count; i++)
        count += model->snapshot[i].live != NULL;
    return count;
}

static bool says(const char *part)
{
    return evidence_has(verdict, part);
}

static void judge_many(manner how, double without_s)
{
    double with_s = judge(how);
    print_message("%u failures over %u blocks: %.1f times the cost of the run without them\n", FAILURE_COUNT,
                  LIVE_COUNT, with_s / without_s);
    assert_true(with_s < 5 * without_s); /* the ratio is much higher if the ledger is walked for each failure */
    assert_true(lists_made() <= 2);
    assert_true(model->failure_count + model->failures_dropped == FAILURE_COUNT + 1);
}

GW_TEST(test_many_failures_cost_little)
{
    double without_s = judge(WITHOUT);
    assert_int_equal(model->failure_count, 1);
    close_judged();
    judge_many(RECOVERED, without_s);
    close_judged();
    judge_many(REFUSED, without_s);
    close_judged();
}

/* The snapshot at the last failure must contain exactly the blocks that were live then. Blocks are freed and allocated
 * between failures, so all snapshots differ. */
GW_TEST(test_the_last_of_many_is_the_root)
{
    judge(RECOVERED);
    assert_string_equal(gw_verdict_status_text(verdict->status), "fault");
    assert_int_equal(strncmp(verdict->cause, "gpu-oom", 7), 0);
    assert_true(says("3.00 GiB"));
    const gw_failure *last = &model->failure[model->failure_count - 1];
    assert_int_equal(last->bytes_wanted, 3 * gib);
    const gw_snapshot *snapshot = gw_model_snapshot(model, last->snapshot);
    assert_int_equal(snapshot->live_count, LIVE_COUNT);
    assert_int_equal(snapshot->usage.live_bytes, (uint64_t)LIVE_COUNT * BLOCK_BYTES);
    close_judged();
}

GW_TEST_MAIN(NULL, NULL)
