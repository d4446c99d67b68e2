/* Tests the phases of a process, the memory kept in each phase, and a phase that is judged alone. */
#include "gw_unit_test.h"

#include "gw_feed.h"
#include "gw_growth.h"

#include <string.h>

static const uint64_t mib = 1u << 20, second_ns = 1000000000;
static gw_feed feed; /* static, because it is large */

static void phase(const char *name, uint64_t age_ns)
{
    gw_feed_text_call(&feed, "", GW_EV_PHASE, age_ns, 0, 0, 0, name);
}

static const char *name_at(const gw_model *model, uint32_t pid, uint64_t t_ns)
{
    const gw_phase *found = gw_model_phase_at(model, pid, t_ns);
    return found == NULL ? "" : found->name;
}

GW_TEST(test_phases_follow_each_other)
{
    gw_feed_open(&feed, 1 << 30);
    uint64_t before = feed.t_ns;
    phase("load", 0);
    uint64_t load = feed.t_ns;
    gw_feed_wait(&feed, second_ns);
    phase("", 0); /* an empty name ends the phase */
    uint64_t none = feed.t_ns;
    gw_feed_wait(&feed, second_ns);
    phase("train", second_ns / 2); /* reported half a second after it began */
    uint64_t train = feed.t_ns - second_ns / 2;
    feed.pid = 200;
    phase("child", 0);
    gw_model *model = gw_feed_finish(&feed);
    assert_string_equal(name_at(model, GW_FEED_PID, before), "");
    assert_string_equal(name_at(model, GW_FEED_PID, load), "load");
    assert_string_equal(name_at(model, GW_FEED_PID, none - 1), "load");
    assert_string_equal(name_at(model, GW_FEED_PID, none), "");
    assert_string_equal(name_at(model, GW_FEED_PID, train - 1), "");
    assert_string_equal(name_at(model, GW_FEED_PID, train), "train");
    assert_string_equal(name_at(model, GW_FEED_PID, UINT64_MAX), "train");
    assert_string_equal(name_at(model, 200, UINT64_MAX), "child");
    assert_string_equal(name_at(model, 200, 0), "");
    assert_string_equal(name_at(model, 201, UINT64_MAX), "");
    gw_model_free(model);
}

GW_TEST(test_kept_is_grouped_by_name)
{
    gw_feed_open(&feed, 1 << 30);
    gw_feed_alloc(&feed, mib);
    for (int epoch = 0; epoch < 3; epoch++) {
        phase("train", 0);
        gw_feed_alloc(&feed, 4 * mib);
        gw_feed_free(&feed, gw_feed_alloc(&feed, 32 * mib));
        phase("check", 0);
        gw_feed_alloc(&feed, 2 * mib);
        gw_feed_wait(&feed, second_ns);
    }
    gw_model *model = gw_feed_finish(&feed);
    const gw_snapshot *end = gw_model_snapshot(model, gw_model_process(model, GW_FEED_PID)->end_snapshot);
    gw_kept kept[4];
    assert_int_equal(gw_model_kept(model, GW_FEED_PID, end->live, end->live_count, kept, 4), 3);
    assert_string_equal(kept[0].phase->name, "train");
    assert_int_equal(kept[0].bytes, 12 * mib);
    assert_int_equal(kept[0].count, 3);
    assert_true(kept[0].t_last_ns - kept[0].t_first_ns >= 2 * second_ns);
    assert_string_equal(kept[1].phase->name, "check");
    assert_int_equal(kept[1].bytes, 6 * mib);
    assert_null(kept[2].phase); /* the block that was allocated before the first phase */
    assert_true(kept[2].time_known);
    assert_int_equal(kept[2].bytes, mib);
    assert_int_equal(gw_model_kept(model, GW_FEED_PID, end->live, end->live_count, kept, 1), 1);
    assert_int_equal(gw_model_kept(model, 7, end->live, end->live_count, kept, 4), 0);
    gw_live unknown[] = {{.bytes = 5}};
    assert_int_equal(gw_model_kept(model, GW_FEED_PID, unknown, 1, kept, 4), 1);
    assert_null(kept[0].phase);
    assert_false(kept[0].time_known);
    gw_model_free(model);
}

/* Equal refusals in a row are one failure, unless a phase begins between them. */
GW_TEST(test_a_phase_parts_failures)
{
    gw_feed_open(&feed, 1 << 30);
    phase("one", 0);
    gw_feed_no_room(&feed, 8 * mib, mib, 1 << 30);
    gw_feed_no_room(&feed, 8 * mib, mib, 1 << 30);
    phase("two", 0);
    gw_feed_no_room(&feed, 8 * mib, mib, 1 << 30);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->failure_count, 2);
    assert_int_equal(model->failure[0].repeat_count, 2);
    gw_model_free(model);
}

GW_TEST(test_one_phase_alone)
{
    static const char traceback[] = "\nTraceback (most recent call last):\n  File \"<cell>\", line 1, in <module>\n"
                                    "ValueError: no\n";
    gw_error err;
    gw_feed_open(&feed, 1 << 30);
    phase("one", 0);
    gw_feed_no_room(&feed, 8 * mib, mib, 1 << 30);
    phase("two", 0);
    phase("one", 0);
    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    assert_int_equal(gw_model_end_phase(feed.model, "three", "", 0, &err), GW_MISSING);
    assert_non_null(strstr(err.text, "three"));
    assert_int_equal(gw_model_end_phase(feed.model, "one", traceback, sizeof traceback - 1, &err), GW_OK);
    gw_model *model = gw_feed_finish(&feed);
    assert_string_equal(model->asked_phase->name, "one");
    assert_true(model->failure[0].is_earlier);
    assert_false(model->failure[1].is_earlier);
    assert_int_equal(model->command->exit.exit_code, 1);
    assert_int_equal(gw_exception_kind_of(&model->stderr_facts), GW_EXCEPTION_SCRIPT);
    gw_model_free(model);
}

GW_TEST(test_a_phase_that_goes_on)
{
    gw_error err;
    gw_feed_open(&feed, 1 << 30);
    phase("one", 0);
    assert_int_equal(gw_model_end_phase(feed.model, "one", "", 0, &err), GW_OK);
    gw_model *model = gw_feed_finish(&feed);
    assert_null(model->command); /* the end of the command was not seen */
    gw_model_free(model);
}

GW_TEST_MAIN(NULL, NULL)
