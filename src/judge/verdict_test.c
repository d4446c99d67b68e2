/* Tests that random events give sound verdicts, and that the catalogue of causes is complete. */
#include "run_testlib.h"

/* Feed random calls and results of four processes. Each verdict must be sound, and at least one of the 40 runs must be
 * judged a fault. */
static void test_hostile_events(void **state)
{
    unsigned faults = 0, established = 0;
    static const char *const names[] = {"cuMemAlloc_v2", "cuLaunchKernel", "cuStreamSynchronize", "cuMemFree_v2"};
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 40; round++) {
        gw_feed_open_bare(&feed);
        for (int i = 0; i < 3000; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            feed.pid = 100 + (uint32_t)(random >> 20 & 3);
            feed.tid = feed.pid;
            feed.context = random >> 33 & 3;
            const char *name = names[random >> 5 & 3];
            static const uint16_t results[] = {0, 0, 0, 0, 1, 2, 2, 3, 700, 709, 201, 710, 719, 500, 600, 0};
            uint16_t result = results[random >> 50 & 15];
            if ((random >> 40 & 15) == 0)
                gw_feed_launch(&feed, random >> 8 & 255, random >> 16 & 7);
            else
                gw_feed_call(&feed, name, (gw_event_kind)(random % GW_EV_COUNT), result, random >> 8 & 255,
                             (random >> 16 & 1) ? random : random >> 44, random >> 24 & 31, random >> 32 & 15);
        }
        gw_feed_fact(&feed, "card.holder", round & 1 ? "pid= bytes=x cmd=" : "nonsense");
        gw_feed_stderr(&feed,
                       "Traceback (most recent call last):\nX: tried to allocate 99999999999999999999999 bytes\n");
        gw_feed_exit(&feed, round & 3, round & 4 ? 11 : 0);
        judge_open();
        faults += verdict->status == GW_VERDICT_FAULT;
        established += verdict->certainty == GW_ESTABLISHED;
    }
    print_message("of 40 random runs %u are faults, %u of them established\n", faults, established);
    assert_true(faults > 0);
}

static void test_catalogue(void **state)
{
    size_t count;
    const gw_cause_info *causes = gw_causes(&count);
    assert_true(count >= 19);
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(causes[i].summary) > 10 && strlen(causes[i].proof) > 10 && strlen(causes[i].fixes) > 10);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(causes[i].id, causes[k].id);
        assert_string_not_equal(causes[i].id, "template");
    }
}

static const row rows[] = {
    TEST(test_hostile_events),
    TEST(test_catalogue),
};

ROWS_MAIN(rows)
