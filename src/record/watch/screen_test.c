/* Tests the screen: width, height, order, filter, scrolling, and text of other programs. */
#include "gw_unit_test.h"
#include "gw_watch.h"
#include "watch_testlib.h"

#include "gw_text.h"

static test_world w;
static gwi_history history;
static gw_text plain;

static int begin(void **state)
{
    world_begin(&w);
    memset(&history, 0, sizeof history);
    return 0;
}

static int end(void **state)
{
    gw_text_free(&plain);
    return 0;
}

/* Draw, remove the marks, and check the width and height. Returns the number of lines. */
static unsigned draw(const gw_watch_view *view, unsigned *ret_top_max)
{
    gw_text marked = {0};
    unsigned lines = 0, top_max = 0;
    gw_watch_draw(&w.s, view, &marked, &top_max);
    gw_text_clear(&plain);
    gw_watch_plain(&plain, gw_text_str(&marked));
    gw_text_free(&marked);
    for (const char *at = gw_text_str(&plain); *at != '\0'; lines++) {
        const char *line_end = strchr(at, '\n');
        assert_non_null(line_end);
        assert_true(gw_columns(at, (size_t)(line_end - at)) <= view->width);
        for (const char *c = at; c < line_end; c++)
            assert_true((unsigned char)*c >= ' ' && *c != 127);
        at = line_end + 1;
    }
    assert_true(view->height == 0 || lines <= view->height);
    if (ret_top_max != NULL)
        *ret_top_max = top_max;
    return lines;
}

static bool shows(const char *text)
{
    return strstr(gw_text_str(&plain), text) != NULL;
}

static bool comes_before(const char *first, const char *second)
{
    const char *a = strstr(gw_text_str(&plain), first), *b = strstr(gw_text_str(&plain), second);
    assert_non_null(a);
    assert_non_null(b);
    return a < b;
}

GW_TEST_WITH(nothing_is_said_to_be_nothing, begin, end)
{
    const gw_watch_view view = {.width = 80, .height = 24, .filter = "", .interval_s = 2};
    snprintf(w.s.no_cards_why, sizeof w.s.no_cards_why, "libnvidia-ml.so.1 is missing");
    draw(&view, NULL);
    assert_true(shows("libnvidia-ml.so.1 is missing"));
    assert_true(shows("none; to record one"));
    assert_true(shows("no process holds memory"));
}

GW_TEST_WITH(a_run_and_its_alarm_are_shown, begin, end)
{
    const gw_watch_view view = {.width = 80, .height = 24, .filter = "", .interval_s = 2};
    gw_watch_card *card = world_add_card(&w);
    world_set(card, GW_METRIC_CARD_TEMPERATURE, 45);
    world_set(card, GW_METRIC_CARD_CLOCK_REASONS, GW_CLOCK_REASON_HW_THERMAL | GW_CLOCK_REASON_POWER_CAP);
    card->is.xid_count = 2;
    card->is.xid_last = 79;
    world_add_process(&w, 0, 7, 95 * gib, "ann");
    gw_watch_run *run = world_add_run(&w, 0, 7, 94 * gib);
    run->is.failure_count = 3;
    run->failed_s = 200;
    run->failed_as = "CUDA_ERROR_OUT_OF_MEMORY";
    snprintf(run->is.failed_call, sizeof run->is.failed_call, "cuMemAlloc_v2");
    run->use[0].is.grows = true;
    run->use[0].is.bytes_per_minute = gib;
    run->use[0].is.full_s = 360;
    gwi_snapshot_judge(&w.s, &history);
    draw(&view, NULL);
    assert_true(shows("45 C"));
    assert_true(shows("? W")); /* the card does not report its power */
    assert_true(shows("clock lowered by heat, Xid events: 2, the last one 79 ("));
    assert_true(shows("clock lowered by power limit"));
    assert_true(shows("ALARM GPU 0: needs 97280 MiB, +1.00 GiB/min, full in 6 min; 96256 MiB live"));
    assert_true(shows("last failed call: cuMemAlloc_v2 CUDA_ERROR_OUT_OF_MEMORY, 3 min ago (3 so far)"));
    assert_true(shows("ALARM: 97280 MiB needed"));
    assert_true(shows("  ALARM: GPU 0  alarm at 90 %")); /* in the title */
}

GW_TEST_WITH(a_narrow_screen_cuts_nothing, begin, end)
{
    world_add_card(&w);
    world_add_process(&w, 0, 7, 95 * gib, "ann");
    gw_watch_run *run = world_add_run(&w, 0, 7, 94 * gib);
    snprintf(run->is.command, sizeof run->is.command,
             "python "
             "/home/ann/\u8BAD\u7EC3\u8BAD\u7EC3\u8BAD\u7EC3\u8BAD\u7EC3\u8BAD\u7EC3\u8BAD\u7EC3\u8BAD\u7EC3/train.py "
             "--last");
    gwi_snapshot_judge(&w.s, &history);
    for (unsigned width = 40; width < 80; width += 7) {
        draw(&(gw_watch_view){.width = width, .filter = ""}, NULL);
        assert_true(shows("--last") && shows("97280 MiB") && !shows("~"));
    }
    draw(&(gw_watch_view){.width = 80, .filter = ""}, NULL);
    assert_true(shows("~"));
}

/* An error code in place of a value must not be read as the value. */
GW_TEST_WITH(a_lost_card_has_no_values, begin, end)
{
    const gw_watch_view view = {.width = 80, .height = 24, .filter = ""};
    gw_watch_card *card = world_add_card(&w);
    for (unsigned metric = 0; metric < GW_METRIC_COUNT; metric++)
        card->is.value[metric] = (gw_sample_value){(uint16_t)metric, GW_SAMPLE_FAILED, 15};
    card->total_bytes = card->used_bytes = card->free_bytes = GW_WATCH_UNKNOWN;
    card->is.is_lost = true;
    gwi_snapshot_judge(&w.s, &history);
    draw(&view, NULL);
    assert_true(shows("? C") && shows("? W") && shows("use ? %") && shows("? of ?") && shows("ECC ?"));
    assert_true(shows("the card is lost"));
    assert_false(shows("clock") || shows("errors") || shows("15"));
}

GW_TEST_WITH(the_need_of_others_is_unknown, begin, end)
{
    const gw_watch_view view = {.width = 80, .height = 24, .filter = ""};
    world_add_card(&w);
    world_add_process(&w, 0, 7, 99 * gib, "bob");
    gwi_snapshot_judge(&w.s, &history);
    draw(&view, NULL);
    assert_true(shows("101376 MiB    unknown  unknown      python bob.py"));
    assert_false(shows("ALARM"));
}

GW_TEST_WITH(order_and_filter_apply_to_processes, begin, end)
{
    gw_watch_view view = {.width = 100, .height = 0, .filter = ""};
    world_add_card(&w);
    world_add_card(&w);
    world_add_process(&w, 1, 11, 1 * gib, "ann");
    world_add_process(&w, 0, 30, 2 * gib, "cat");
    world_add_process(&w, 0, 20, 3 * gib, "bob");
    for (size_t i = 0; i < 3; i++) {
        w.process[i].idle = GW_WATCH_IDLE_SINCE;
        w.process[i].idle_s = 1000 * (i + 1);
    }
    draw(&view, NULL);
    assert_true(comes_before("bob.py", "cat.py") && comes_before("cat.py", "ann.py"));
    view.order = GW_WATCH_BY_PID;
    draw(&view, NULL);
    assert_true(comes_before("ann.py", "bob.py") && comes_before("bob.py", "cat.py"));
    view.order = GW_WATCH_BY_USER;
    draw(&view, NULL);
    assert_true(comes_before("ann.py", "bob.py"));
    view.order = GW_WATCH_BY_IDLE;
    draw(&view, NULL);
    assert_true(comes_before("bob.py", "cat.py") && comes_before("cat.py", "ann.py"));
    view.order = GW_WATCH_BY_MEMORY;
    view.filter = "cat";
    draw(&view, NULL);
    assert_true(shows("cat.py") && !shows("bob.py"));
    view.filter = "nobody";
    draw(&view, NULL);
    assert_true(shows("no process matches"));
}

GW_TEST_WITH(long_lists_scroll, begin, end)
{
    gw_watch_view view = {.width = 80, .height = 24, .filter = ""};
    unsigned top_max;
    world_add_card(&w);
    for (uint32_t i = 0; i < 60; i++)
        world_add_process(&w, 0, 100 + i, gib, "ann");
    assert_int_equal(draw(&view, &top_max), 24);
    assert_true(shows("gpuwhy watch") && shows("    100 ") && !shows("    159 ") && shows("more lines"));
    view.top = top_max;
    assert_int_equal(draw(&view, &top_max), 24);
    assert_true(shows("gpuwhy watch") && shows("    159 ") && !shows("    100 ") && !shows("more lines"));
    view.top = UINT32_MAX;
    draw(&view, NULL);
    assert_true(shows("    159 "));
    /* Every line can be reached, one step after the other. */
    bool seen[60] = {false};
    for (view.top = 0; view.top <= top_max; view.top++) {
        draw(&view, NULL);
        for (uint32_t i = 0; i < 60; i++) {
            char pid[16];
            snprintf(pid, sizeof pid, "    %u ", 100 + i);
            seen[i] = seen[i] || shows(pid);
        }
    }
    for (uint32_t i = 0; i < 60; i++)
        assert_true(seen[i]);
}

GW_TEST_WITH(every_size_is_kept, begin, end)
{
    for (int i = 0; i < 8; i++)
        world_add_card(&w);
    for (uint32_t i = 0; i < 10; i++)
        world_add_process(&w, 0, 100 + i, gib, "a-user-with-a-rather-long-name");
    world_add_run(&w, 0, 100, gib);
    gwi_snapshot_judge(&w.s, &history);
    for (unsigned width = 40; width < 200; width += 13)
        for (unsigned height = 1; height < 60; height++) {
            const gw_watch_view view = {
                .width = width, .height = height, .filter = height % 2 ? "" : "a", .help = height % 3 == 0};
            draw(&view, NULL);
        }
}

/* A process may call itself what it likes: neither the terminal nor the layout may be changed by it. */
GW_TEST_WITH(hostile_text_is_harmless, begin, end)
{
    const gw_watch_view view = {.width = 80, .height = 24, .filter = "\x1b[2J\x03"};
    const gw_watch_view all = {.width = 80, .height = 24, .filter = ""};
    world_add_card(&w);
    gw_watch_process *process = world_add_process(&w, 0, 7, gib, "ann");
    snprintf(process->command, sizeof process->command, "x\x1b[31m\x07\r\n\x02\x7f\xff\xc3\xa4\xe2\x82");
    snprintf(process->user, sizeof process->user, "\x1b]0;t");
    gw_watch_run *run = world_add_run(&w, 0, 7, gib);
    snprintf(run->is.command, sizeof run->is.command, "\x01\x02\x03\x04\x05\x06\x07\n");
    snprintf(run->is.failed_call, sizeof run->is.failed_call, "a\nb");
    run->is.failure_count = 1;
    run->failed_s = UINT64_MAX - 1;
    run->seconds = UINT64_MAX;
    snprintf(w.s.host, sizeof w.s.host, "h\x1b[0m");
    gwi_snapshot_judge(&w.s, &history);
    draw(&all, NULL); /* checks for control characters */
    draw(&view, NULL);
    gw_text who = {0};
    gw_watch_draw_who(&w.s, &all, &who);
    assert_null(strchr(gw_text_str(&who), '\x1b'));
    gw_text_free(&who);
}

GW_TEST_WITH(who_shows_whole_commands_without_a_width, begin, end)
{
    const gw_watch_view view = {.filter = "ann"};
    gw_text who = {0};
    world_add_card(&w);
    world_add_process(&w, 0, 8, 2 * gib, "bob");
    gw_watch_process *process = world_add_process(&w, 0, 7, gib, "ann");
    memset(process->command, 'x', 200);
    snprintf(process->started_by, sizeof process->started_by, "Slurm job 17");
    process->idle = GW_WATCH_IDLE_AT_LEAST;
    process->idle_s = 4000;
    assert_int_equal(gw_watch_draw_who(&w.s, &view, &who), 1);
    assert_non_null(strstr(gw_text_str(&who), "> 66 min"));
    assert_non_null(strstr(gw_text_str(&who), "Slurm job 17"));
    assert_true(who.bytes > 250);
    assert_null(strstr(gw_text_str(&who), "bob"));
    gw_text_free(&who);
}

GW_TEST_MAIN(NULL, NULL)
