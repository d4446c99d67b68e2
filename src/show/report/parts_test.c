/* Thinning, the map, and the escaping of text and numbers. */
#include "gw_model.h"
#include "gw_recording.h"
#include "gw_test_folder.h"
#include "gwi_collect.h"
#include "gwi_escape.h"
#include "gwi_map.h"
#include "gwi_thin.h"

#include <string.h>
#include <unistd.h>

static const uint64_t mib = 1 << 20;

/* ---- thinning ---- */

static void add(gwi_thin *thin, uint64_t t_ns, uint64_t a, uint64_t b)
{
    gwi_thin_add(thin, t_ns, (const uint64_t[]){a, b});
}

static void expect_sorted(const gwi_thin *thin)
{
    for (size_t i = 1; i < thin->count; i++)
        assert_true(thin->row[i].t_ns > thin->row[i - 1].t_ns);
}

GW_TEST(a_short_run_keeps_every_row)
{
    gwi_thin thin;
    gwi_thin_start(&thin, 2, 1000, 100);
    for (uint64_t i = 0; i < 100; i++)
        add(&thin, i * 10, i, 100 - i);
    gwi_thin_finish(&thin);
    assert_int_equal(thin.count, 100);
    assert_int_equal(thin.row[42].value[1], 58);
    assert_int_equal(thin.dropped, 0);
    gwi_thin_free(&thin);
}

/* A recording may claim that it ended long before its last event. */
GW_TEST(rows_after_the_end_are_limited)
{
    enum { ROWS = 50000, BUCKETS = 10 };
    gwi_thin thin;
    gwi_thin_start(&thin, 2, 1, BUCKETS);
    for (uint64_t i = 0; i < ROWS; i++)
        add(&thin, i * 1000, i * 7919 % 1000, i == ROWS / 2 ? 5000 : i);
    gwi_thin_finish(&thin);
    expect_sorted(&thin);
    assert_in_range(thin.count, 2, (BUCKETS + 1) * thin.bucket_rows_max);
    assert_int_equal(thin.row[thin.count - 1].value[1], ROWS - 1);
    gwi_thin_free(&thin);
}

/* Every bucket has the extremes of each column that a slow second count finds. */
GW_TEST(extremes_of_each_bucket_stay)
{
    enum { ROWS = 20000, BUCKETS = 20 };
    static uint64_t low[BUCKETS][2], high[BUCKETS][2];
    gwi_thin thin;
    gwi_thin_start(&thin, 2, ROWS * 10, BUCKETS);
    memset(low, 0xFF, sizeof low);
    memset(high, 0, sizeof high);
    for (uint64_t i = 0, seed = 7; i < ROWS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t value[2] = {seed >> 40, seed >> 20 & 0xFFFF};
        size_t bucket = i * 10 / thin.bucket_ns;
        for (size_t c = 0; c < 2; c++) {
            low[bucket][c] = value[c] < low[bucket][c] ? value[c] : low[bucket][c];
            high[bucket][c] = value[c] > high[bucket][c] ? value[c] : high[bucket][c];
        }
        gwi_thin_add(&thin, i * 10, value);
    }
    gwi_thin_finish(&thin);
    expect_sorted(&thin);
    assert_in_range(thin.count, BUCKETS, (size_t)BUCKETS * thin.bucket_rows_max);
    assert_int_equal(thin.count + thin.dropped, ROWS);
    for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
        for (size_t c = 0; c < 2; c++) {
            bool has_low = false, has_high = false;
            for (size_t i = 0; i < thin.count; i++) {
                bool here = thin.row[i].t_ns / thin.bucket_ns == bucket;
                has_low = has_low || (here && thin.row[i].value[c] == low[bucket][c]);
                has_high = has_high || (here && thin.row[i].value[c] == high[bucket][c]);
            }
            assert_true(has_low && has_high);
        }
    }
    gwi_thin_free(&thin);
}

GW_TEST(times_that_go_back_are_clamped)
{
    gwi_thin thin;
    gwi_thin_start(&thin, 2, 100, 1);
    add(&thin, 50, 1, 1);
    add(&thin, 10, 9, 1); /* a peak, so it is not overwritten */
    add(&thin, 20, 2, 1);
    add(&thin, UINT64_MAX, 3, 1);
    add(&thin, UINT64_MAX, 4, 1);
    add(&thin, 0, 5, 1);
    gwi_thin_finish(&thin);
    expect_sorted(&thin);
    assert_int_equal(thin.row[0].t_ns, 50);
    uint64_t highest = 0;
    for (size_t i = 0; i < thin.count; i++)
        highest = thin.row[i].value[0] > highest ? thin.row[i].value[0] : highest;
    assert_int_equal(highest, 9);
    assert_int_equal(thin.row[thin.count - 1].value[0], 5);
    gwi_thin_free(&thin);
}

GW_TEST(a_run_without_length_has_one_bucket)
{
    gwi_thin thin;
    gwi_thin_start(&thin, 1, 0, 0);
    gwi_thin_add(&thin, 0, (const uint64_t[]){GWI_UNKNOWN});
    gwi_thin_add(&thin, UINT64_MAX, (const uint64_t[]){1});
    gwi_thin_finish(&thin);
    assert_int_equal(thin.count, 2);
    gwi_thin_free(&thin);
}

/* ---- marks ---- */

GW_TEST(important_marks_come_first_and_others_are_spread)
{
    enum { COUNT = 10000, MAX = 20, SPAN_NS = 10000 };
    static gwi_choice list[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        list[i] = (gwi_choice){.t_ns = i, .weight = i % 10, .index = i, .importance = i >= COUNT - 5};
    assert_int_equal(gwi_pick(list, COUNT, MAX, SPAN_NS), MAX);
    for (size_t i = 1; i < MAX; i++)
        assert_true(list[i].index > list[i - 1].index);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(list[MAX - 1 - i].index, COUNT - 1 - i);
    for (size_t i = 0; i < MAX - 5; i++)
        assert_int_equal(list[i].weight, 9);
    assert_true(list[MAX - 6].t_ns > SPAN_NS / 2);
}

/* Times may be later than the end of the run. */
GW_TEST(marks_after_the_end_are_kept_too)
{
    gwi_choice list[] = {{.t_ns = UINT64_MAX, .index = 0}, {.t_ns = 0, .index = 1}, {.t_ns = 1, .index = 2}};
    assert_int_equal(gwi_pick(list, 3, 3, 1), 3);
    assert_int_equal(gwi_pick(list, 3, 2, 1), 2);
    assert_int_equal(list[0].index, 0);
    assert_int_equal(gwi_pick(list, 2, 0, UINT64_MAX), 0);
}

/* ---- the map ---- */

GW_TEST(holes_are_between_blocks)
{
    gwi_block block[] = {{10 * mib, mib, 1}, {8 * mib, mib, 0}, {100 * mib, 4 * mib, 2}};
    gwi_map map;
    assert_true(gwi_map_make(block, 3, NULL, 0, &map));
    assert_int_equal(map.segment_count, 2);
    assert_int_equal(map.segment[0].bytes, 4 * mib); /* the largest comes first */
    const gwi_segment *second = &map.segment[1];
    assert_int_equal(second->bytes, 3 * mib);
    assert_int_equal(second->used_bytes, 2 * mib);
    assert_int_equal(second->hole_count, 1);
    assert_int_equal(second->count, 3);
    assert_int_equal(map.piece[second->first + 1].colour, GWI_HOLE);
    assert_int_equal(map.piece[second->first + 1].address, 9 * mib);
    assert_int_equal(map.bytes, 7 * mib);
    assert_int_equal(map.hole_bytes_max, mib);
    gwi_map_free(&map);
}

GW_TEST(segments_of_an_allocator_have_their_size)
{
    gwi_block segment[] = {{20 * mib, 10 * mib, 0}, {40 * mib, 2 * mib, 0}};
    gwi_block block[] = {{21 * mib, mib, 3}, {24 * mib, 2 * mib, 4}, {90 * mib, mib, 5}};
    gwi_map map;
    assert_true(gwi_map_make(block, 3, segment, 2, &map));
    assert_int_equal(map.segment_count, 3);
    assert_int_equal(map.segment[0].bytes, 10 * mib);
    assert_int_equal(map.segment[0].used_bytes, 3 * mib);
    assert_int_equal(map.segment[0].hole_count, 3);
    assert_int_equal(map.segment[0].hole_bytes_max, 4 * mib);
    assert_int_equal(map.segment[1].used_bytes, 0); /* cached, and empty */
    assert_int_equal(map.used_bytes, 4 * mib);
    gwi_map_free(&map);
}

/* The pieces of a segment cover it exactly, whatever the blocks are. */
static void expect_whole(const gwi_map *map)
{
    for (size_t i = 0; i < map->segment_count; i++) {
        const gwi_segment *segment = &map->segment[i];
        uint64_t at = segment->address;
        for (size_t k = 0; k < segment->count; k++) {
            const gwi_piece *piece = &map->piece[segment->first + k];
            assert_int_equal(piece->address, at);
            assert_true(piece->bytes > 0 && piece->address + piece->bytes > piece->address);
            at += piece->bytes;
        }
        assert_int_equal(at - segment->address, segment->bytes);
        assert_true(segment->bytes > 0);
    }
}

GW_TEST(hostile_blocks_make_a_map)
{
    const uint64_t end = UINT64_MAX;
    gwi_block block[] = {{0, 0, 0},        {0, 4096, 1},        {100, 50, 2},      {end, end, 3}, {end - 10, end, 4},
                         {end - 10, 3, 5}, {mib, end - mib, 6}, {mib, end / 2, 6}, {4096, 0, 1},  {0, end, 2}};
    gwi_block segment[] = {{0, 0, 0}, {50, end, 0}, {60, 5, 0}, {end - 1, end, 0}};
    gwi_map map;
    gw_text page = {0};
    assert_true(gwi_map_make(block, 10, NULL, 0, &map));
    expect_whole(&map);
    gwi_map_svg(&page, &map, end);
    assert_null(strstr(gw_text_str(&page), "nan"));
    assert_null(strstr(gw_text_str(&page), "inf"));
    gwi_map_free(&map);
    gwi_block again[] = {{0, 0, 0}, {0, 4096, 1}, {100, 50, 2}, {end, end, 3}, {end - 10, end, 4}, {mib, end - mib, 6}};
    assert_true(gwi_map_make(again, 6, segment, 4, &map));
    expect_whole(&map);
    gwi_map_svg(&page, &map, 0);
    gwi_map_free(&map);
    assert_true(gwi_map_make(again, 0, NULL, 0, &map));
    gwi_map_svg(&page, &map, 0);
    assert_int_equal(map.segment_count, 0);
    gwi_map_free(&map);
    gw_text_free(&page);
}

/* A segment with very many blocks is drawn in a limited number of columns. */
GW_TEST(many_blocks_are_few_rectangles)
{
    enum { BLOCKS = 50000 };
    gwi_block *block = malloc(BLOCKS * sizeof *block);
    for (uint64_t i = 0; i < BLOCKS; i++)
        block[i] = (gwi_block){i * 4096, 2048, (uint8_t)(i % 7)};
    gwi_map map;
    gw_text page = {0};
    assert_true(gwi_map_make(block, BLOCKS, NULL, 0, &map));
    assert_int_equal(map.segment_count, 1);
    gwi_map_svg(&page, &map, 0);
    size_t rectangles = 0;
    for (const char *at = gw_text_str(&page); (at = strstr(at, "<rect")) != NULL; at++)
        rectangles++;
    assert_in_range(rectangles, GWI_PIECES_SHOWN / 2, GWI_PIECES_SHOWN);
    gw_text_free(&page);
    gwi_map_free(&map);
    free(block);
}

/* ---- text and numbers ---- */

static void expect_html(const char *string, const char *html)
{
    gw_text page = {0};
    gwi_html(&page, string);
    assert_string_equal(gw_text_str(&page), html);
    gw_text_free(&page);
}

GW_TEST(html_has_no_markup_of_the_recording)
{
    expect_html("</script><b onload='x'>\"&", "&lt;/script&gt;&lt;b onload=&#39;x&#39;&gt;&quot;&amp;");
    expect_html("a\x01"
                "b\xff"
                "c",
                "a?b?c");
    expect_html("größe", "größe");
    expect_html(NULL, "");
}

GW_TEST(script_data_cannot_end_its_element)
{
    gw_text page = {0};
    gwi_script_json(&page, "{\"a\":\"</script><!--\"}");
    assert_string_equal(gw_text_str(&page), "{\"a\":\"\\u003c/script>\\u003c!--\"}");
    gw_text_free(&page);
}

GW_TEST(long_names_are_cut_in_the_middle)
{
    gw_text page = {0};
    gwi_html_cut(&page, "at::native::<elementwise>", 11);
    assert_string_equal(gw_text_str(&page), "<span title=\"at::native::&lt;elementwise&gt;\">at::n…wise&gt;</span>");
    gw_text_clear(&page);
    gwi_html_cut(&page, "ääääääää", 5);
    assert_string_equal(gw_text_str(&page), "<span title=\"ääääääää\">ää…ää</span>");
    gw_text_clear(&page);
    gwi_html_cut(&page, "short", 5);
    assert_string_equal(gw_text_str(&page), "short");
    gw_text_free(&page);
}

GW_TEST(times_are_for_people)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } times[] = {{118000000, "0.118 s"},          {7020000000, "7.02 s"},         {41200000000, "41.2 s"},
                 {725000000000, "12 min 05 s"},   {10920000000000, "3 h 02 min"}, {0, "0.000 s"},
                 {UINT64_MAX, "5124095 h 34 min"}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        gw_text text = {0};
        gwi_time(&text, times[i].ns);
        assert_string_equal(gw_text_str(&text), times[i].text);
        gw_text_free(&text);
    }
}

GW_TEST(numbers_do_not_wrap)
{
    assert_true(gwi_sum(UINT64_MAX, 1) == UINT64_MAX);
    assert_true(gwi_sum(1, 2) == 3);
    assert_true(gwi_product(UINT64_MAX, 2) == UINT64_MAX);
    assert_true(gwi_product(UINT64_MAX, 0) == 0);
    assert_true(gwi_js(UINT64_MAX) == GWI_JS_MAX);
    assert_true(gwi_js(5) == 5);
}

/* The second reading of a recording with many processes: the work at their ends, and the memory that is left. */

static const char *const fn_names[] = {"cuMemAlloc_v2"};

/* A process that keeps two blocks until its end. */
static void write_processes(uint32_t count)
{
    gw_error err;
    gw_writer *writer = NULL;
    assert_int_equal(gw_writer_create(gw_test_file, 0, fn_names, 1, &writer, &err), GW_OK);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t t_ns = 1000 * (i + 1);
        uint32_t pid = 100 + i;
        for (uint64_t k = 0; k < 2; k++) {
            gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = t_ns + k, .pid = pid, .tid = pid};
            item.event = (gw_event){.t_ns = t_ns + k, .pid = pid, .tid = pid, .kind = GW_EV_ALLOC};
            item.event.arg[0] = (k + 1) << 24;
            item.event.arg[1] = (k + 1) << 20;
            assert_int_equal(gw_writer_put(writer, &item, &err), GW_OK);
        }
        gw_item item = {.kind = GW_ITEM_EXIT, .t_ns = t_ns + 500, .pid = pid};
        item.exit = (gw_exit_fact){.pid = pid, .is_command = i + 1 == count, .status_known = true};
        assert_int_equal(gw_writer_put(writer, &item, &err), GW_OK);
    }
    assert_int_equal(gw_writer_close(writer, &err), GW_OK);
}

/* Return the number of groups that were read because a process ended. */
static uint64_t steps_of(uint32_t count)
{
    gw_error err = {""};
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    gwi_holders holders;
    static gwi_course course;
    unlink(gw_test_file); /* the writer creates it */
    write_processes(count);
    assert_int_equal(gw_reader_open(gw_test_file, &reader, &err), GW_OK);
    assert_int_equal(gw_model_build(reader, &model, &err), GW_OK);
    gw_reader_close(reader);
    assert_true(gwi_holders_find(model, &holders));
    assert_int_equal(gwi_course_read(gw_test_file, model, &holders, 1, &course, &err), GW_OK);
    assert_true(course.was_read);
    const gwi_thin *table = &course.device[0].table;
    assert_int_equal(table->row[table->count - 1].value[GWI_TOTAL], 0);
    uint64_t steps = course.exit_steps;
    gwi_course_free(&course);
    gwi_holders_free(&holders);
    gw_model_free(model);
    return steps;
}

GW_TEST_WITH(the_work_at_exits_grows_with_the_processes, gw_test_folder_make, gw_test_folder_remove)
{
    enum { PROCESSES = 1000 };
    uint64_t some = steps_of(PROCESSES), twice = steps_of(2 * PROCESSES);
    assert_int_equal(some, 2 * PROCESSES);
    assert_int_equal(twice, 2 * some);
}

GW_TEST(a_process_that_never_freed_has_its_groups_once)
{
    gw_group group[] = {{.pid = 0}, {.pid = 7}, {.pid = 5}, {.pid = 7}};
    gw_model model = {.group = group, .group_count = 4};
    gwi_alive alive;
    uint64_t bytes, sum = 0;
    assert_true(gwi_alive_start(&model, &alive));
    gwi_alive_change(&alive, 1, 10, true);
    gwi_alive_change(&alive, 3, 20, true);
    gwi_alive_change(&alive, 1, 5, true);
    gwi_alive_change(&alive, 2, 40, true);
    gwi_alive_change(&alive, 3, 100, false); /* more than it has */
    gwi_alive_change(&alive, 99, 1, true);
    for (int i = 0; i < 2; i++) {
        assert_in_range(gwi_alive_take(&alive, 7, &bytes), 1, 3);
        sum += bytes;
    }
    assert_int_equal(sum, 15);
    assert_int_equal(gwi_alive_take(&alive, 7, &bytes), 0);
    assert_int_equal(gwi_alive_take(&alive, 6, &bytes), 0);
    assert_int_equal(gwi_alive_take(&alive, 5, &bytes), 2);
    gwi_alive_change(&alive, 1, UINT64_MAX, true);
    gwi_alive_change(&alive, 1, UINT64_MAX, true);
    assert_int_equal(gwi_alive_take(&alive, 7, &bytes), 1);
    assert_true(bytes == UINT64_MAX);
    gwi_alive_free(&alive);
}

GW_TEST_MAIN(NULL, NULL)
