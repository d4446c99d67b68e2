/* Tests the rules of the simulated allocator against cases computed by hand, and what the check of an input finds.
 * Recordings of real runs are replayed by tests/torch/test_whatif.py. */
#include "gw_unit_test.h"
#include "gw_whatif.h"
#include "gwi_allocator.h"

#include <string.h>

static const uint64_t mib = 1 << 20, gib = 1 << 30;

static gw_error err; /* of the last failure */

/* ---- settings ---- */

static gw_replay_settings settings_of(const char *text)
{
    gw_replay_settings settings = gw_replay_settings_default();
    assert_int_equal(gw_replay_settings_read(&settings, text, &err), GW_OK);
    return settings;
}

GW_TEST(settings_are_read)
{
    gw_replay_settings settings = settings_of("");
    assert_false(settings.is_expandable);
    assert_true(settings.max_split_bytes == UINT64_MAX);
    assert_int_equal(settings.non_split_rounding_bytes, 20 * mib);
    settings = settings_of("expandable_segments:True, max_split_size_mb:64,garbage_collection_threshold:0.5,");
    assert_true(settings.is_expandable);
    assert_int_equal(settings.max_split_bytes, 64 * mib);
    assert_true(settings.collect_ratio > 0.49 && settings.collect_ratio < 0.51);
    settings = settings_of("backend:native,pinned_use_cuda_host_register:True,of_a_newer_version:[1,2:3]");
    assert_false(settings.is_expandable);
    settings = settings_of("max_non_split_rounding_mb:40,large_segment_size_mb:32,expandable_segments:False");
    assert_int_equal(settings.non_split_rounding_bytes, 40 * mib);
    assert_int_equal(settings.large_segment_bytes, 32 * mib);
}

GW_TEST(bad_settings_are_refused)
{
    static const char *const bad[] = {"expandable_segments:yes",
                                      "max_split_size_mb:-1",
                                      "max_split_size_mb:64x",
                                      "max_split_size_mb:20",
                                      "max_split_size_mb:99999999999",
                                      "garbage_collection_threshold:1.5",
                                      "garbage_collection_threshold:nan",
                                      "roundup_power2_divisions:3",
                                      "roundup_power2_divisions:[3:4]",
                                      "roundup_power2_divisions:[256]",
                                      "large_segment_size_mb:0",
                                      "expandable_segments"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gw_replay_settings settings = gw_replay_settings_default();
        assert_int_equal(gw_replay_settings_read(&settings, bad[i], &err), GW_USAGE);
    }
    gw_replay_settings settings = gw_replay_settings_default();
    assert_int_equal(gw_replay_settings_read(&settings, "backend:cudaMallocAsync", &err), GW_UNSUPPORTED);
    assert_non_null(strstr(err.text, "cudaMallocAsync"));
}

GW_TEST(requests_are_rounded)
{
    gw_replay_settings settings = settings_of("");
    assert_int_equal(gw_replay_round(&settings, 1), 512);
    assert_int_equal(gw_replay_round(&settings, 512), 512);
    assert_int_equal(gw_replay_round(&settings, 513), 1024);
    assert_int_equal(gw_replay_round(&settings, mib + 1), mib + 512);
    settings = settings_of("roundup_power2_divisions:4");
    assert_int_equal(gw_replay_round(&settings, 1200), 1536); /* not more than 4 * 512: multiples of 512 */
    assert_int_equal(gw_replay_round(&settings, 5000), 5120); /* 4096, 5120, 6144, 7168, 8192 */
    assert_int_equal(gw_replay_round(&settings, 8192), 8192);
    assert_int_equal(gw_replay_round(&settings, 100 * mib), 112 * mib);
    settings = settings_of("roundup_power2_divisions:[64:8,128:2,256:4,>:1]");
    assert_int_equal(gw_replay_round(&settings, 33 * mib), 36 * mib); /* below the first size: its divisions */
    assert_int_equal(gw_replay_round(&settings, 65 * mib), 72 * mib);
    assert_int_equal(gw_replay_round(&settings, 129 * mib), 192 * mib);
    assert_int_equal(gw_replay_round(&settings, 257 * mib), 320 * mib);
    assert_int_equal(gw_replay_round(&settings, 513 * mib + 1), 513 * mib + 512);
}

/* ---- the allocator on a card ---- */

static gw_replay_settings settings;
static gwi_card card;
static gwi_device device;
static gwi_allocator allocator;

static void begin(const char *text, uint64_t room_bytes)
{
    settings = settings_of(text);
    device = gwi_card_device(&card, room_bytes, false);
    gwi_allocator_init(&allocator, &settings, &device, 16 * gib);
}

static int end(void **state)
{
    gwi_allocator_free(&allocator);
    return 0;
}

static uint32_t take(uint64_t bytes)
{
    uint32_t block = 0;
    assert_int_equal(gwi_allocate(&allocator, gw_replay_round(&settings, bytes), 0, &block), GWI_GRANTED);
    assert_true(allocator.block[block].bytes >= bytes);
    return block;
}

static void refuse(uint64_t bytes)
{
    uint32_t block;
    assert_int_equal(gwi_allocate(&allocator, gw_replay_round(&settings, bytes), 0, &block), GWI_REFUSED);
}

static uint64_t address(uint32_t block)
{
    return allocator.block[block].address;
}

static uint64_t bytes_of(uint32_t block)
{
    return allocator.block[block].bytes;
}

GW_TEST(segments_have_three_sizes)
{
    static const struct {
        uint64_t request, segment;
    } rows[] = {{1, 2 << 20},
                {1 << 20, 2 << 20},
                {(1 << 20) + 1, 20 << 20},
                {8519680, 20 << 20}, /* cuBLAS's workspace */
                {(10 << 20) - 512, 20 << 20},
                {10 << 20, 10 << 20},
                {(10 << 20) + 1, 12 << 20}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin("", gib);
        (void)take(rows[i].request);
        assert_int_equal(allocator.reserved_bytes, rows[i].segment);
        gwi_allocator_free(&allocator);
    }
}

GW_TEST_WITH(small_blocks_are_split_and_merged, NULL, end)
{
    begin("", gib);
    uint32_t a = take(1000), b = take(1), c = take(mib);
    assert_int_equal(bytes_of(a), 1024);
    assert_int_equal(address(b), address(a) + 1024);
    assert_int_equal(address(c), address(b) + 512);
    assert_int_equal(allocator.reserved_bytes, 2 * mib);
    gwi_release(&allocator, a);
    gwi_release(&allocator, b);
    uint32_t d = take(1536); /* both together */
    assert_int_equal(address(d), address(c) - 1536);
    gwi_release(&allocator, d);
    gwi_release(&allocator, c);
    assert_true(gwi_empty(&allocator)); /* merged with the rest: the segment is whole again */
    assert_int_equal(allocator.reserved_bytes, 0);
    assert_int_equal(allocator.live_peak, 1024 + 512 + mib);
}

GW_TEST_WITH(large_blocks_keep_a_small_rest, NULL, end)
{
    begin("", gib);
    uint32_t a = take(19 * mib); /* a segment of 20 MiB; a rest of 1 MiB is not split off */
    assert_int_equal(bytes_of(a), 20 * mib);
    uint32_t b = take(15 * mib - 512); /* 16 MiB; the rest is 512 bytes more than 1 MiB */
    assert_int_equal(bytes_of(b), 15 * mib - 512);
    assert_int_equal(allocator.reserved_bytes, 36 * mib);
}

GW_TEST_WITH(the_best_fit_is_chosen, NULL, end)
{
    begin("", gib);
    uint32_t a = take(60 * mib), b = take(30 * mib), c = take(40 * mib), d = take(30 * mib);
    uint64_t smallest = address(b), middle = address(c);
    gwi_release(&allocator, a);
    gwi_release(&allocator, c);
    gwi_release(&allocator, b);
    gwi_release(&allocator, d);
    assert_int_equal(address(take(30 * mib)), smallest); /* of two equal ones the lower address */
    assert_int_equal(address(take(31 * mib)), middle);
    assert_int_equal(allocator.reserved_bytes, 160 * mib);
}

GW_TEST_WITH(streams_share_nothing, NULL, end)
{
    uint32_t block;
    begin("", gib);
    gwi_release(&allocator, take(30 * mib));
    assert_int_equal(gwi_allocate(&allocator, 30 * mib, 1, &block), GWI_GRANTED);
    assert_int_equal(allocator.reserved_bytes, 60 * mib);
}

GW_TEST_WITH(the_cache_is_released_before_a_failure, NULL, end)
{
    begin("", 100 * mib);
    uint32_t a = take(50 * mib), b = take(40 * mib);
    gwi_release(&allocator, a);
    uint32_t c = take(60 * mib); /* only after the 50 MiB were returned */
    assert_int_equal(allocator.retry_count, 1);
    assert_int_equal(allocator.reserved_bytes, 100 * mib);
    gwi_release(&allocator, c);
    (void)take(20 * mib); /* from the 60 MiB: what is left cannot be returned */
    refuse(50 * mib);
    assert_int_equal(allocator.reserved_bytes, 100 * mib);
    gwi_release(&allocator, b);
    (void)take(40 * mib);
}

GW_TEST_WITH(a_limit_of_pytorch_refuses_without_the_driver, NULL, end)
{
    begin("", gib);
    settings.limit_bytes = 64 * mib;
    (void)take(40 * mib);
    refuse(30 * mib);
    assert_int_equal(card.used_bytes, 40 * mib);
    (void)take(24 * mib);
}

GW_TEST_WITH(oversize_blocks_are_not_split, NULL, end)
{
    begin("max_split_size_mb:64", gib);
    uint32_t a = take(100 * mib);
    gwi_release(&allocator, a);
    uint32_t b = take(30 * mib); /* below the limit: not from an oversize block */
    assert_int_equal(allocator.reserved_bytes, 130 * mib);
    uint32_t c = take(90 * mib); /* within 20 MiB: the whole block */
    assert_int_equal(bytes_of(c), 100 * mib);
    gwi_release(&allocator, c);
    uint32_t d = take(80 * mib); /* 20 MiB or more too large: a new segment */
    assert_int_equal(allocator.reserved_bytes, 210 * mib);
    assert_int_not_equal(address(d), address(c));
    gwi_release(&allocator, b);
}

GW_TEST_WITH(oversize_blocks_are_released_first, NULL, end)
{
    begin("max_split_size_mb:64", 400 * mib);
    uint32_t a = take(200 * mib), b = take(100 * mib), c = take(40 * mib);
    gwi_release(&allocator, a);
    gwi_release(&allocator, b);
    gwi_release(&allocator, c);
    (void)take(150 * mib); /* the 200 MiB are freed, and nothing else */
    assert_int_equal(allocator.reserved_bytes, 290 * mib);
    assert_int_equal(allocator.retry_count, 0);
}

GW_TEST_WITH(expandable_blocks_are_not_released_as_oversize, NULL, end)
{
    begin("expandable_segments:True,max_split_size_mb:32", 100 * mib);
    uint32_t a = take(60 * mib), b = take(20 * mib);
    gwi_release(&allocator, a);
    (void)take(70 * mib - 30 * mib); /* an oversize request, 20 MiB smaller: not the free block; no page is left */
    assert_int_equal(allocator.retry_count, 1);
    assert_int_equal(allocator.reserved_bytes, 60 * mib);
    gwi_release(&allocator, b);
}

GW_TEST_WITH(garbage_is_collected_above_the_threshold, NULL, end)
{
    begin("garbage_collection_threshold:0.5", gib);
    settings.limit_bytes = 400 * mib;
    uint32_t old = take(100 * mib), young = take(120 * mib);
    gwi_release(&allocator, old);
    (void)take(30 * mib); /* below the threshold when it begins: nothing is collected; splits the old block */
    gwi_release(&allocator, young);
    (void)take(300 * mib - 2 * mib); /* 220 MiB > 200 MiB: the young block is whole, so it is freed */
    assert_int_equal(allocator.reserved_bytes, 100 * mib + 298 * mib);
    assert_int_equal(allocator.retry_count, 0);
    gwi_allocator_free(&allocator);
    begin("garbage_collection_threshold:0.5", gib); /* without a memory fraction: no effect */
    gwi_release(&allocator, take(600 * mib));
    (void)take(700 * mib - 300 * mib);
    assert_int_equal(allocator.reserved_bytes, 600 * mib);
}

GW_TEST_WITH(expandable_segments_grow_by_pages, NULL, end)
{
    begin("expandable_segments:True", gib);
    uint32_t a = take(30 * mib);
    assert_int_equal(allocator.reserved_bytes, 40 * mib);
    uint32_t b = take(30 * mib); /* 10 MiB are there; one page more */
    assert_int_equal(allocator.reserved_bytes, 60 * mib);
    assert_int_equal(address(b), address(a) + 30 * mib);
    uint32_t c = take(512);
    assert_int_equal(allocator.reserved_bytes, 62 * mib); /* the small pool has pages of 2 MiB */
    gwi_release(&allocator, a);
    uint32_t d = take(40 * mib); /* does not fit into the 30 MiB; the end grows */
    assert_int_equal(address(d), address(b) + 30 * mib);
    assert_int_equal(allocator.reserved_bytes, 102 * mib);
    gwi_release(&allocator, c);
    gwi_release(&allocator, d);
    assert_true(gwi_empty(&allocator)); /* pages 0 and 3, 4 of the large pool; page 1 and 2 hold b */
    assert_int_equal(allocator.reserved_bytes, 40 * mib);
    uint32_t e = take(15 * mib); /* the lowest place that is large enough: page 0 is mapped again */
    assert_int_equal(address(e), address(b) - 30 * mib);
    assert_int_equal(allocator.reserved_bytes, 60 * mib);
}

GW_TEST_WITH(expandable_segments_share_what_is_free, NULL, end)
{
    begin("expandable_segments:True", 100 * mib);
    uint32_t a = take(90 * mib);
    assert_int_equal(allocator.reserved_bytes, 100 * mib);
    gwi_release(&allocator, a);
    (void)take(512); /* the large pool's pages must be unmapped first */
    assert_int_equal(allocator.reserved_bytes, 2 * mib);
    refuse(100 * mib);
    assert_int_equal(allocator.reserved_bytes, 2 * mib);
    (void)take(80 * mib);
}

/* The sets are compared with sorted arrays. */
GW_TEST_WITH(sets_stay_sorted, NULL, end)
{
    enum { COUNT = 500 };
    begin("", gib);
    uint32_t x = 1;
    for (uint32_t i = 0; i < COUNT; i++) {
        x = x * 1664525 + 1013904223;
        uint32_t block = gwi_block_new(&allocator, &allocator.large, x >> 30, i, (x >> 20 & 15) * 512);
        gwi_set_add(&allocator, &allocator.large.free, block);
    }
    for (uint32_t i = 1; i <= COUNT; i += 2)
        gwi_set_remove(&allocator, &allocator.large.free, i);
    size_t seen = 0;
    gwi_key before = {0};
    for (uint32_t at = gwi_set_from(&allocator, &allocator.large.free, before); at != 0;
         at = gwi_set_after(&allocator, &allocator.large.free, at), seen++) {
        const gwi_block *b = &allocator.block[at];
        gwi_key key = {b->stream, b->bytes, b->address};
        assert_int_equal(at % 2, 0);
        assert_true(seen == 0 || key.stream > before.stream ||
                    (key.stream == before.stream &&
                     (key.bytes > before.bytes || (key.bytes == before.bytes && key.address > before.address))));
        assert_true(seen == 0 || gwi_set_before(&allocator, &allocator.large.free, key) != at);
        before = key;
    }
    assert_int_equal(seen, COUNT / 2);
}

/* ---- the check of an input ---- */

static gw_replay_input input;
static gw_replay_check check;

static int input_begin(void **state)
{
    input = (gw_replay_input){.settings = gw_replay_settings_default(),
                              .event = calloc(64, sizeof *input.event),
                              .step = calloc(64, sizeof *input.step),
                              .steps_have_refusals = true,
                              .card_bytes = 16 * gib};
    return input.event == NULL || input.step == NULL ? -1 : 0;
}

static int input_end(void **state)
{
    gw_replay_input_free(&input);
    return 0;
}

static gw_replay_event *event(gw_replay_kind kind, uint32_t block, uint64_t bytes)
{
    gw_replay_event *it = &input.event[input.event_count++];
    *it = (gw_replay_event){.kind = kind, .block = block, .bytes = bytes, .least = bytes, .t_ns = input.event_count};
    input.block_count += kind == GW_REPLAY_REQUEST;
    return it;
}

static void step(gw_replay_step_kind kind, uint64_t address_, uint64_t bytes)
{
    input.step[input.step_count++] = (gw_replay_step){.kind = kind, .address = address_, .bytes = bytes};
}

static gw_status check_now(void)
{
    return gw_replay_check_input(&input, &check, &err);
}

/* Seven cached segments of 512 MiB that are all in use in part, and a request of 1 GiB: the run of scenario S07. */
static void fragmented_run(void)
{
    for (uint32_t i = 0; i < 7; i++) {
        event(GW_REPLAY_REQUEST, i, 512 * mib);
        step(GW_REPLAY_TAKE, (i + 1) * gib, 512 * mib);
    }
    for (uint32_t i = 0; i < 7; i++)
        event(GW_REPLAY_FREE, i, 0);
    for (uint32_t i = 0; i < 14; i++)
        event(GW_REPLAY_REQUEST, 7 + i, 256 * mib);
    for (uint32_t i = 0; i < 14; i += 2)
        event(GW_REPLAY_FREE, 7 + i, 0);
    event(GW_REPLAY_REFUSED, 0, gib);
    step(GW_REPLAY_TAKE_REFUSED, 0, gib);
    step(GW_REPLAY_TAKE_REFUSED, 0, gib);
    input.reserved_bytes = 7 * 512 * mib;
    input.room_bytes = input.reserved_bytes + 600 * mib;
}

static int fragmented_begin(void **state)
{
    int failed = input_begin(state);
    if (failed == 0)
        fragmented_run();
    return failed;
}

GW_TEST_WITH(an_equal_recording_is_exact, fragmented_begin, input_end)
{
    assert_int_equal(check_now(), GW_OK);
    assert_true(check.is_exact);
    assert_int_equal(check.step_count, 9);
    assert_int_equal(check.reserved_peak, 7 * 512 * mib);
    assert_int_equal(check.live_peak, 7 * 512 * mib);
    assert_int_equal(check.live_bytes, 7 * 256 * mib);
}

GW_TEST(each_difference_is_found)
{
    static const char *const words[] = {
        "cudaMalloc of 514.00 MiB", "one call more", "nothing more", "address", "reserved", "is refused",
        "the recorded block has"};
    for (unsigned way = 0; way < sizeof words / sizeof words[0]; way++) {
        assert_int_equal(fragmented_begin(NULL), 0);
        if (way == 0)
            input.step[3].bytes += 2 * mib;
        else if (way == 1)
            input.step_count--;
        else if (way == 2)
            step(GW_REPLAY_TAKE, 9 * gib, 2 * mib);
        else if (way == 3)
            input.event[2].address = 7 * gib;
        else if (way == 4)
            input.reserved_bytes -= mib;
        else if (way == 5)
            input.step[2].kind = input.step[3].kind = GW_REPLAY_TAKE_REFUSED;
        else
            input.event[20].bytes = input.event[20].least = 255 * mib + 512 * 3;
        assert_int_equal(check_now(), GW_OK);
        assert_false(check.is_exact);
        if (strstr(check.difference, words[way]) == NULL)
            fail_msg("%s: not in: %s", words[way], check.difference);
        gw_replay_input_free(&input);
    }
}

GW_TEST(contradictions_are_corrupt)
{
    for (unsigned way = 0; way < 6; way++) {
        assert_int_equal(fragmented_begin(NULL), 0);
        if (way == 0)
            input.event[8].block = 0; /* freed twice */
        else if (way == 1)
            input.event[8].block = 4000;
        else if (way == 2)
            input.event[1].block = 3; /* out of order */
        else if (way == 3)
            input.event[1].bytes = UINT64_MAX;
        else if (way == 4)
            input.event[1].least = input.event[1].bytes + 1;
        else
            input.step[1].bytes = UINT64_MAX;
        assert_int_equal(check_now(), GW_CORRUPT);
        gw_replay_input_free(&input);
    }
}

GW_TEST_WITH(an_emptied_cache_is_found, input_begin, input_end)
{
    event(GW_REPLAY_REQUEST, 0, 30 * mib);
    event(GW_REPLAY_REQUEST, 1, 50 * mib);
    event(GW_REPLAY_FREE, 0, 0);
    event(GW_REPLAY_REQUEST, 2, 512);
    event(GW_REPLAY_REQUEST, 3, 30 * mib);
    step(GW_REPLAY_TAKE, 1 * gib, 30 * mib);
    step(GW_REPLAY_TAKE, 2 * gib, 50 * mib);
    step(GW_REPLAY_GIVE, 1 * gib, 0);
    step(GW_REPLAY_TAKE, 3 * gib, 2 * mib);
    step(GW_REPLAY_TAKE, 4 * gib, 30 * mib);
    assert_int_equal(check_now(), GW_OK);
    assert_string_equal(check.difference, "");
    assert_int_equal(input.event_count, 6);
    assert_int_equal(input.event[3].kind, GW_REPLAY_EMPTY);
    gw_replay_result result;
    gw_replay_variant variant = {.settings = input.settings, .room_bytes = gib};
    assert_int_equal(gw_replay_try(&input, &variant, &result, &err), GW_OK);
    assert_int_equal(result.reserved_most, 82 * mib);
}

/* A block that was not split may be larger than its request: by 1 MiB at most, and not so much that a smaller free
 * block would have served. */
GW_TEST_WITH(unknown_sizes_are_narrowed, input_begin, input_end)
{
    event(GW_REPLAY_REQUEST, 0, 20 * mib); /* a new segment, not split */
    event(GW_REPLAY_REQUEST, 1, 15 * mib); /* split off from 16 MiB? No: a rest of 1 MiB stays */
    event(GW_REPLAY_FREE, 0, 0);
    event(GW_REPLAY_REQUEST, 2, 20 * mib);
    input.event[1].bytes = input.event[1].least = 16 * mib;
    step(GW_REPLAY_TAKE, 1 * gib, 20 * mib);
    step(GW_REPLAY_TAKE, 2 * gib, 16 * mib);
    assert_int_equal(check_now(), GW_OK);
    assert_string_equal(check.difference, "");
    assert_int_equal(check.unsure_count, 3);
    assert_int_equal(input.event[0].least, 19 * mib);
    assert_int_equal(input.event[1].least, 15 * mib);
}

/* ---- what if ---- */

static gw_whatif whatif;

static void make_whatif(const gw_whatif_options *options)
{
    assert_int_equal(gw_whatif_make(&input, options, &whatif, &err), GW_OK);
}

static const gw_whatif_row *row_of(const char *name)
{
    for (size_t i = 0; i < whatif.row_count; i++)
        if (strcmp(whatif.row[i].name, name) == 0)
            return &whatif.row[i];
    return NULL;
}

GW_TEST_WITH(a_cure_is_found, fragmented_begin, input_end)
{
    make_whatif(&(gw_whatif_options){0});
    assert_true(whatif.check.is_exact && whatif.ran_out && whatif.room_is_sure);
    assert_int_equal(whatif.wanted_bytes, gib);
    assert_int_equal(whatif.request_count, 21);
    assert_int_equal(whatif.need_bytes, 7 * 512 * mib);
    const gw_whatif_row *cure = gw_whatif_cure(&whatif);
    assert_non_null(cure);
    assert_string_equal(cure->name, "expandable_segments:True");
    assert_true(cure->result.lives && cure->result.reserved_most <= input.room_bytes);
    assert_int_equal(whatif.unlimited.reserved_most, 7 * 512 * mib + gib);
    char text[GW_WHATIF_TEXT_MAX];
    assert_string_equal(
        gw_whatif_sentence(text, &whatif),
        "With expandable_segments:True this run peaks at 3.50 to 3.52 GiB reserved, instead of the 4.50 "
        "GiB that its own settings need: the refused request of 1.00 GiB would have been granted");
    assert_int_equal(row_of("roundup_power2_divisions:4")->outcome, GW_WHATIF_REFUSED);
    assert_null(row_of("expandable_segments:False")); /* as recorded */
}

GW_TEST_WITH(another_card_is_tried, fragmented_begin, input_end)
{
    gw_whatif_options options = {.memory_bytes = 20 * gib, .own = {"max_split_size_mb:300"}, .own_count = 1};
    make_whatif(&options);
    assert_true(whatif.is_other_card && whatif.same.lives);
    assert_int_equal(whatif.room_bytes, 4 * gib + input.room_bytes);
    assert_true(row_of("max_split_size_mb:300")->is_own);
    options.own[0] = "max_split_size_mb:many";
    assert_int_equal(gw_whatif_make(&input, &options, &whatif, &err), GW_USAGE);
}

GW_TEST_WITH(too_much_is_not_cured, fragmented_begin, input_end)
{
    input.event[input.event_count - 1].bytes = input.event[input.event_count - 1].least = 4 * gib;
    input.step[7].bytes = input.step[8].bytes = 4 * gib;
    make_whatif(&(gw_whatif_options){0});
    assert_true(whatif.check.is_exact);
    assert_null(gw_whatif_cure(&whatif));
    assert_true(whatif.need_bytes > whatif.room_bytes);
    char text[GW_WHATIF_TEXT_MAX];
    assert_string_equal(
        gw_whatif_sentence(text, &whatif),
        "None of PyTorch's settings would have helped: the program needs 5.75 GiB at once, and PyTorch could "
        "have 4.09 GiB");
}

GW_TEST_WITH(a_room_that_would_do_is_not_believed, fragmented_begin, input_end)
{
    input.room_bytes = 16 * gib; /* then the recorded request would not have been refused */
    make_whatif(&(gw_whatif_options){0});
    assert_false(whatif.room_is_sure);
    assert_null(gw_whatif_cure(&whatif));
    assert_int_equal(whatif.row[0].outcome, GW_WHATIF_UNSURE);
}

GW_TEST_WITH(the_cache_can_be_emptied_at_phases, fragmented_begin, input_end)
{
    size_t phase[] = {14};
    gw_whatif_options options = {.phase = phase, .phase_count = 1};
    make_whatif(&options);
    const gw_whatif_row *row = row_of("torch.cuda.empty_cache() at each phase");
    assert_non_null(row);
    assert_false(row->is_setting);
    assert_int_equal(row->outcome, GW_WHATIF_GRANTED); /* then each 256 MiB block has a segment of its own */
}

GW_TEST_MAIN(NULL, NULL)
