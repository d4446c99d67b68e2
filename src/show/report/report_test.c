/* Writes whole pages of made recordings, also hostile ones, and reads the data of the charts back. */
#include "gw_metrics.h"
#include "gw_recording.h"
#include "gw_report.h"
#include "gw_test_folder.h"

#include <json-c/json.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PID = 100, RESULT_NO_MEMORY = 2 };
static const char *const fn_names[] = {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemGetInfo_v2"};
static const double js_max = 9007199254740992.0;

typedef struct made {
    gw_writer *writer;
    gw_model *model;
    gw_verdict *verdict;
    gw_text page;
    struct json_object *charts; /* their data in the page */
} made;

static made run;

static int begin(void **state)
{
    gw_error err;
    run = (made){0};
    if (gw_test_folder_make(state) != 0)
        return -1;
    return gw_writer_create(gw_test_file, 0, fn_names, 3, &run.writer, &err);
}

static void put(gw_item item)
{
    gw_error err;
    assert_int_equal(gw_writer_put(run.writer, &item, &err), GW_OK);
}

static void event(uint64_t t_ns, gw_event_kind kind, uint16_t result, const uint64_t arg[4])
{
    gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = t_ns, .pid = PID, .tid = PID};
    item.event = (gw_event){.t_ns = t_ns, .pid = PID, .tid = PID, .kind = (uint8_t)kind, .result = result};
    item.event.fn = kind == GW_EV_FREE;
    memcpy(item.event.arg, arg, sizeof item.event.arg);
    put(item);
}

static void alloc(uint64_t t_ns, uint64_t address, uint64_t bytes, uint16_t result)
{
    event(t_ns, GW_EV_ALLOC, result, (const uint64_t[4]){address, bytes, 0, 0});
}

static void end_with(uint64_t t_ns, int exit_code)
{
    put((gw_item){.kind = GW_ITEM_EXIT,
                  .t_ns = t_ns,
                  .pid = PID,
                  .exit = {.pid = PID, .is_command = true, .status_known = true, .exit_code = exit_code}});
}

static void end(uint64_t t_ns)
{
    end_with(t_ns, 1);
}

static void card(void)
{
    static const char card[] = "index=0 pci=00000000:18:00.0 uuid=GPU-1 name=NVIDIA H200";
    put((gw_item){.kind = GW_ITEM_SUPERVISOR, .pair = {"nvml.card", card}});
}

static void put_sample(uint64_t t_ns, const gw_sample_value *value, size_t count)
{
    put((gw_item){
        .kind = GW_ITEM_SAMPLE, .t_ns = t_ns, .sample = {.source = GW_SOURCE_NVML, .value = value, .count = count}});
}

/* Judge the recording and write its page. */
static void report(void)
{
    gw_error err = {""};
    gw_reader *reader = NULL;
    gw_report_assets assets = {0};
    if (run.writer != NULL)
        assert_int_equal(gw_writer_close(run.writer, &err), GW_OK);
    assert_int_equal(gw_reader_open(gw_test_file, &reader, &err), GW_OK);
    assert_int_equal(gw_model_build(reader, &run.model, &err), GW_OK);
    gw_reader_close(reader);
    assert_int_equal(gw_judge(run.model, &run.verdict, &err), GW_OK);
    gw_report *page = NULL;
    assert_int_equal(gw_report_begin(1, &page, &err), GW_OK);
    const gw_report_run one = {gw_test_file, gw_test_file, run.model, run.verdict, false};
    assert_int_equal(gw_report_add(page, &one, &err), GW_OK);
    assert_int_equal(gw_report_finish(page, NULL, NULL, &assets, &run.page, &err), GW_OK);
    gw_report_free(page);
    static const char start[] = "<script type=\"application/json\" id=\"charts\">";
    const char *data = strstr(gw_text_str(&run.page), start);
    assert_non_null(data);
    struct json_tokener *parser = json_tokener_new();
    run.charts = json_tokener_parse_ex(parser, data + strlen(start), -1);
    json_tokener_free(parser);
    assert_non_null(run.charts);
}

static int release(void **state)
{
    json_object_put(run.charts);
    gw_text_free(&run.page);
    gw_verdict_free(run.verdict);
    gw_model_free(run.model);
    return gw_test_folder_remove(state);
}

static struct json_object *get(struct json_object *object, const char *key)
{
    struct json_object *value = NULL;
    if (!json_object_object_get_ex(object, key, &value))
        fail_msg("no field %s", key);
    return value;
}

static struct json_object *chart_of(const char *id)
{
    for (size_t i = 0; i < json_object_array_length(run.charts); i++) {
        struct json_object *chart = json_object_array_get_idx(run.charts, i);
        if (strcmp(json_object_get_string(get(chart, "id")), id) == 0)
            return chart;
    }
    fail_msg("no chart %s", id);
    return NULL;
}

/* Times rise, and no number is larger than JavaScript can store. */
static void expect_good_rows(struct json_object *chart)
{
    struct json_object *rows = get(chart, "rows");
    double last = -1;
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);
        double t = json_object_get_double(json_object_array_get_idx(row, 0));
        assert_true(t > last);
        last = t;
        assert_int_equal(json_object_array_length(row), 1 + json_object_array_length(get(chart, "series")));
        for (size_t k = 0; k < json_object_array_length(row); k++) {
            double value = json_object_get_double(json_object_array_get_idx(row, k));
            assert_true(value >= 0 && value <= js_max);
        }
    }
}

static double highest(struct json_object *chart)
{
    struct json_object *rows = get(chart, "rows");
    double top = 0;
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);
        double sum = 0;
        for (size_t k = 1; k < json_object_array_length(row); k++)
            sum += json_object_get_double(json_object_array_get_idx(row, k));
        top = sum > top ? sum : top;
    }
    return top;
}

GW_TEST_WITH(memory_over_time_has_the_true_peak, begin, release)
{
    enum { BLOCKS = 3000, KEPT = 100 };
    uint64_t t = 1000000;
    for (uint64_t i = 0; i < BLOCKS; i++, t += 1000000) {
        alloc(t, 0x7f0000000000 + (i << 24), 1 << 20, 0);
        if (i >= KEPT)
            event(t + 500000, GW_EV_FREE, 0, (const uint64_t[4]){0x7f0000000000 + ((i - KEPT) << 24), 0, 0, 0});
    }
    alloc(t, 0, (uint64_t)1 << 40, RESULT_NO_MEMORY);
    end(t + 1000);
    report();
    struct json_object *chart = chart_of("memory-0-0");
    expect_good_rows(chart);
    assert_true(highest(chart) == (double)(KEPT + 1) * (1 << 20));
    assert_int_equal(json_object_array_length(get(chart, "marks")), 1);
    assert_non_null(strstr(gw_text_str(&run.page), "cuMemAlloc of 1.00 TiB failed"));
    struct json_object *rows = get(chart, "rows"), *last;
    last = json_object_array_get_idx(rows, json_object_array_length(rows) - 1);
    assert_true(json_object_get_double(json_object_array_get_idx(last, 1)) == 0); /* the process ended */
}

GW_TEST_WITH(hostile_numbers_make_a_page, begin, release)
{
    const uint64_t most = UINT64_MAX;
    alloc(1000, most - 5, most, 0);
    alloc(1001, 1, most - 1, 0);
    alloc(1002, 4096, 0, 0);
    alloc(1002, most, most, 0);
    alloc(1003, 1 << 20, most / 2, 0);
    alloc(900, 1 << 21, most / 2 + 7, 0); /* an earlier time */
    event(1004, GW_EV_MEMORY_INFO, 0, (const uint64_t[4]){most, 1, 0, 0});
    event(1005, GW_EV_MEMORY_INFO, 0, (const uint64_t[4]){0, most, most, RESULT_NO_MEMORY});
    event(1006, GW_EV_FREE, 0, (const uint64_t[4]){1, 0, 0, 0});
    event(1007, GW_EV_FREE, 0, (const uint64_t[4]){77, 0, 0, 0});
    alloc(1008, 0, most, RESULT_NO_MEMORY);
    event(1009, GW_EV_SITE, 0, (const uint64_t[4]){most, most, most, most});
    event(1009, GW_EV_SITE_FRAMES, 0, (const uint64_t[4]){most, most, most, most});
    event(1010, GW_EV_ALLOCATOR_OOM, 0, (const uint64_t[4]){most, most, most, 0});
    event(1010, GW_EV_ALLOCATOR_BLOCK, 0, (const uint64_t[4]){most - 1, most, most, 0});
    event(most - 1, GW_EV_FREE, 0, (const uint64_t[4]){1 << 20, 0, 0, 0});
    end(most);
    report();
    for (size_t i = 0; i < json_object_array_length(run.charts); i++) {
        struct json_object *chart = json_object_array_get_idx(run.charts, i);
        expect_good_rows(chart);
        assert_true(json_object_get_double(get(chart, "end_ns")) <= js_max);
    }
    assert_null(strstr(gw_text_str(&run.page), "nan"));
}

GW_TEST_WITH(hostile_text_stays_text, begin, release)
{
    static const char evil[] = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";
    put((gw_item){.kind = GW_ITEM_META, .pair = {"argv", evil}});
    gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = 10, .pid = PID, .tid = PID};
    item.event = (gw_event){.t_ns = 10, .pid = PID, .tid = PID, .kind = GW_EV_PHASE, .text = evil};
    item.event.text_bytes = sizeof evil - 1;
    put(item);
    alloc(1000, 4096, 4096, 0);
    end(2000);
    report();
    struct json_object *bands = get(chart_of("memory-0-0"), "bands");
    assert_int_equal(json_object_array_length(bands), 1);
    assert_string_equal(json_object_get_string(get(json_object_array_get_idx(bands, 0), "text")), evil);
    assert_null(strstr(gw_text_str(&run.page), "<script>alert"));
    assert_null(strstr(gw_text_str(&run.page), "<img"));
}

/* Sorting this list by insertion would move 20 thousand million items. */
GW_TEST_WITH(times_that_go_back_are_not_sorted_for_ever, begin, release)
{
    enum { ITEMS = 200000 };
    alloc(1, 4096, 4096, 0);
    for (uint64_t i = 0; i < ITEMS; i++) {
        const gw_exit_fact fact = {.pid = PID + 1, .status_known = true};
        put((gw_item){.kind = GW_ITEM_EXIT, .t_ns = ITEMS + 10 - i, .pid = PID + 1, .exit = fact});
    }
    end(ITEMS + 20);
    report();
    expect_good_rows(chart_of("memory-0-0"));
}

GW_TEST_WITH(a_cut_recording_has_a_page, begin, release)
{
    gw_error err;
    for (uint64_t i = 0; i < 5000; i++)
        alloc(1000 + i, 0x7f0000000000 + (i << 20), 1 << 19, 0);
    end(10000);
    assert_int_equal(gw_writer_close(run.writer, &err), GW_OK);
    run.writer = NULL;
    FILE *file = fopen(gw_test_file, "r+");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    assert_int_equal(ftruncate(fileno(file), bytes * 3 / 4), 0);
    fclose(file);
    report();
    assert_non_null(strstr(gw_text_str(&run.page), "The recording was cut"));
}

/* An hour of a busy program and four samples a second: the page stays small, and keeps the one short peak. */
GW_TEST_WITH(a_long_run_is_a_small_page, begin, release)
{
    enum { SAMPLES = 4 * 3600, CHANGES = 12, PAGE_BYTES_MAX = 2 << 20 };
    card();
    uint64_t t = 0, seed = 5, next = 1;
    for (unsigned i = 0; i < SAMPLES; i++) {
        for (unsigned k = 0; k < CHANGES; k++, t += 250000000 / CHANGES) {
            alloc(t, next << 30, (seed >> 40) + 1, 0);
            if (i == SAMPLES / 2 && k == 0)
                alloc(t + 1, 1 << 20, (uint64_t)60 << 30, 0);
            event(t + 1000, GW_EV_FREE, 0, (const uint64_t[4]){next++ << 30, 0, 0, 0});
            if (i == SAMPLES / 2 && k == 0)
                event(t + 2000, GW_EV_FREE, 0, (const uint64_t[4]){1 << 20, 0, 0, 0});
            seed = seed * 6364136223846793005u + 1442695040888963407u;
        }
        const gw_sample_value value[] = {{GW_METRIC_CARD_TEMPERATURE, GW_SAMPLE_KNOWN, 40 + seed % 20},
                                         {GW_METRIC_CARD_POWER, GW_SAMPLE_KNOWN, seed % 700000},
                                         {GW_METRIC_CARD_CLOCK_SM, GW_SAMPLE_KNOWN, seed % 1980},
                                         {GW_METRIC_CARD_UTILISATION, GW_SAMPLE_KNOWN, seed % 100}};
        put_sample(t, value, 4);
    }
    end(t);
    report();
    struct json_object *chart = chart_of("memory-0-0");
    expect_good_rows(chart);
    expect_good_rows(chart_of("health-0-0-0"));
    assert_true(highest(chart) >= (double)((uint64_t)60 << 30));
    assert_in_range(run.page.bytes, 1, PAGE_BYTES_MAX);
}

/* ---- leaks ---- */

/* Write the page of a run that ends well, after `lost` events were lost. */
static void clean_run(uint64_t lost)
{
    alloc(1000, 4096, 4096, 0);
    event(2000, GW_EV_FREE, 0, (const uint64_t[4]){4096, 0, 0, 0});
    if (lost > 0)
        put((gw_item){.kind = GW_ITEM_LOST, .t_ns = 2500, .pid = PID, .lost = {.events = lost}});
    end_with(3000, 0);
    report();
    assert_string_equal(gw_verdict_status_text(run.verdict->status), "clean");
}

GW_TEST_WITH(leaks_are_unknown_if_events_were_lost, begin, release)
{
    clean_run(0);
    assert_non_null(strstr(gw_text_str(&run.page), "No leak was found."));
    release(state);
    begin(state);
    clean_run(3);
    assert_null(strstr(gw_text_str(&run.page), "No leak was found."));
    assert_non_null(strstr(gw_text_str(&run.page), "Unknown: no leak was found, but 3 events were lost"));
}

/* ---- marks and bands ---- */

static double number_of(struct json_object *list, size_t index, const char *key)
{
    return json_object_get_double(get(json_object_array_get_idx(list, index), key));
}

/* The chart has `count` marks or bands. They begin at times all over the run: `quarter_min` or more in each quarter. */
static void expect_spread(struct json_object *chart, const char *list_key, const char *key, size_t count,
                          size_t quarter_min)
{
    struct json_object *list = get(chart, list_key);
    double end_ns = json_object_get_double(get(chart, "end_ns"));
    size_t in_quarter[4] = {0};
    assert_int_equal(json_object_array_length(list), count);
    for (size_t i = 0; i < count; i++) {
        double part = number_of(list, i, key) / end_ns;
        if (part < 1)
            in_quarter[(size_t)(part * 4)]++;
    }
    for (int i = 0; i < 4; i++)
        assert_true(in_quarter[i] >= quarter_min);
}

/* Begin a run in which `count` requests fail, each in a thread of its own, a millisecond apart. */
static void fail_often(unsigned count)
{
    alloc(1, 4096, 4096, 0);
    for (unsigned i = 0; i < count; i++) {
        gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = (i + 1) * 1000000ull, .pid = PID, .tid = PID + 1 + i};
        item.event = (gw_event){.t_ns = item.t_ns, .pid = PID, .tid = item.tid, .kind = GW_EV_ALLOC};
        item.event.result = RESULT_NO_MEMORY;
        item.event.arg[1] = (uint64_t)1 << 40;
        put(item);
    }
    end((count + 1) * 1000000ull);
}

GW_TEST_WITH(many_failures_are_marked_all_over_the_run, begin, release)
{
    enum { FAILURES = 1000, MARKS = 60, QUARTER_MIN = 10 };
    fail_often(FAILURES);
    report();
    expect_spread(chart_of("memory-0-0"), "marks", "t_ns", MARKS, QUARTER_MIN);
    assert_int_equal(number_of(get(chart_of("memory-0-0"), "marks"), 0, "t_ns"), run.verdict->t_failure_ns);
    assert_non_null(strstr(gw_text_str(&run.page), "60 of 1000 failed calls are marked"));
}

GW_TEST_WITH(few_failures_are_all_marked, begin, release)
{
    enum { FAILURES = 60 };
    fail_often(FAILURES);
    report();
    assert_int_equal(json_object_array_length(get(chart_of("memory-0-0"), "marks")), FAILURES);
    assert_null(strstr(gw_text_str(&run.page), "failed calls are marked"));
}

GW_TEST_WITH(many_phases_are_shaded_all_over_the_run, begin, release)
{
    enum { PHASES = 5000, BANDS = 200, QUARTER_MIN = 40 };
    alloc(1, 4096, 4096, 0);
    for (unsigned i = 0; i < PHASES; i++) {
        gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = (i + 1) * 1000000ull, .pid = PID, .tid = PID};
        item.event = (gw_event){.t_ns = item.t_ns, .pid = PID, .tid = PID, .kind = GW_EV_PHASE, .text = "epoch"};
        item.event.text_bytes = 5;
        put(item);
    }
    end((PHASES + 1) * 1000000ull);
    report();
    expect_spread(chart_of("memory-0-0"), "bands", "from_ns", BANDS, QUARTER_MIN);
    assert_non_null(strstr(gw_text_str(&run.page), "200 of 5000 phases are shaded"));
}

/* A sample of the clocks. `state`: of the reasons; GW_SAMPLE_NOT_YET: the sample does not contain them. */
static void clocks(uint64_t t_ns, uint8_t state, uint64_t reasons)
{
    const gw_sample_value value[] = {{GW_METRIC_CARD_CLOCK_SM, GW_SAMPLE_KNOWN, 1980},
                                     {GW_METRIC_CARD_CLOCK_REASONS, state, reasons}};
    put_sample(t_ns, value, state == GW_SAMPLE_NOT_YET ? 1 : 2);
}

static void expect_bands(const char *id, const double (*span)[2], size_t count)
{
    struct json_object *bands = get(chart_of(id), "bands");
    assert_int_equal(json_object_array_length(bands), count);
    for (size_t i = 0; i < count; i++) {
        assert_true(number_of(bands, i, "from_ns") == span[i][0]);
        assert_true(number_of(bands, i, "to_ns") == span[i][1]);
    }
}

GW_TEST_WITH(unknown_reasons_end_a_band, begin, release)
{
    const uint64_t cap = GW_CLOCK_REASON_POWER_CAP;
    static const double spans[][2] = {{2000, 4000}, {6000, 9000}};
    card();
    alloc(1, 4096, 4096, 0);
    clocks(1000, GW_SAMPLE_KNOWN, 0);
    clocks(2000, GW_SAMPLE_KNOWN, cap);
    clocks(3000, GW_SAMPLE_KNOWN, cap);
    clocks(4000, GW_SAMPLE_FAILED, 999);
    clocks(5000, GW_SAMPLE_FAILED, 999);
    clocks(6000, GW_SAMPLE_KNOWN, cap);
    clocks(7000, GW_SAMPLE_NOT_YET, 0); /* unchanged */
    clocks(9000, GW_SAMPLE_NOT_YET, 0);
    end(9500);
    report();
    expect_bands("health-0-0-3", spans, 2);
}

GW_TEST_WITH(many_spans_of_reduced_clocks_are_drawn_all_over_the_run, begin, release)
{
    enum { SPANS = 3000, BANDS = 200, QUARTER_MIN = 40 };
    card();
    alloc(1, 4096, 4096, 0);
    for (unsigned i = 0; i < 2 * SPANS; i++)
        clocks((i + 1) * 1000ull, GW_SAMPLE_KNOWN, i % 2 == 0 ? GW_CLOCK_REASON_POWER_CAP : 0);
    end((2 * SPANS + 1) * 1000ull);
    report();
    expect_spread(chart_of("health-0-0-3"), "bands", "from_ns", BANDS, QUARTER_MIN);
    assert_non_null(strstr(gw_text_str(&run.page), "200 of 3000 spans of reduced clocks are drawn"));
}

GW_TEST_MAIN(NULL, NULL)
