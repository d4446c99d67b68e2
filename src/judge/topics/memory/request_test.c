/* Tests verdicts about the size and the GPU of a refused request, and that advice only mentions calls that the program
 * made. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

static const uint64_t tib = (uint64_t)1 << 40;

static bool headline_has(const char *part)
{
    return strstr(verdict->headline, part) != NULL;
}

static void refuse(uint64_t bytes)
{
    feed.site = gw_feed_site(&feed, "make train.py 9");
    gw_feed_no_room(&feed, bytes, 3 * gib, 16 * gib);
    feed.site = 0;
}

/* ---- sizes ---- */

GW_TEST(test_negative_size)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_alloc(&feed, 12 * gib);
    refuse((uint64_t)(int64_t)INT32_MIN);
    expect_failure("gpu-oom-capacity", GW_ESTABLISHED);
    assert_true(headline_has("18446744071562067968 bytes: the size was negative (-2147483648) or overflowed"));
    assert_true(list_has(&verdict->next, "how this size is computed"));
    assert_false(list_has(&verdict->next, "smaller batch"));
    assert_false(evidence_has(verdict, "needed at that moment"));
    assert_false(evidence_has(verdict, "one block"));
    assert_string_equal(verdict->where->frame[verdict->where->user].text, "train.py:9 in make");
}

GW_TEST(test_size_beyond_all_cards)
{
    gw_feed_open(&feed, 16 * gib);
    refuse(40 * tib);
    expect_failure("gpu-oom-capacity", GW_ESTABLISHED);
    assert_true(headline_has("more than any card has"));
}

/* A correct program may request these sizes, although they exceed the card. So the verdict advises a smaller batch, not
 * a check of the computed size. */
GW_TEST(test_honest_sizes)
{
    const uint64_t sizes[] = {17 * gib, 600 * gib, tib};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        gw_feed_open(&feed, 16 * gib);
        refuse(sizes[i]);
        expect_failure("gpu-oom-capacity", GW_ESTABLISHED);
        assert_true(headline_has("is larger than the whole 16.00 GiB"));
        assert_true(list_has(&verdict->next, "smaller batch"));
        assert_false(list_has(&verdict->next, "how this size is computed"));
    }
}

/* The program leaks memory, and then requests a negative size, which would not fit without the leak either. The verdict
 * is not a leak. */
GW_TEST(test_negative_size_after_growth)
{
    gw_feed_open(&feed, 16 * gib);
    for (int i = 0; i < 40; i++) {
        gw_feed_alloc(&feed, 256 * mib);
        gw_feed_launch(&feed, 0xf1, 0);
        gw_feed_sync(&feed);
    }
    refuse(UINT64_MAX - 4095);
    expect_failure("gpu-oom-capacity", GW_ESTABLISHED);
    assert_true(headline_has("negative (-4096)"));
}

/* ---- the largest block, and the GPU ---- */

static void hold_one_block(uint64_t bytes, uint64_t more)
{
    gw_feed_open(&feed, 16 * gib);
    feed.site = gw_feed_site(&feed, "load data.py 3");
    gw_feed_alloc(&feed, bytes);
    feed.site = 0;
    gw_feed_alloc(&feed, more);
    feed.site = gw_feed_site(&feed, "make train.py 9");
    gw_feed_no_room(&feed, 4 * gib, 16 * gib - bytes - more - gib / 2, 16 * gib);
    feed.site = 0;
    expect_failure("gpu-oom-capacity", GW_ESTABLISHED);
}

GW_TEST(test_largest_block)
{
    hold_one_block(11 * gib, 2 * gib);
    assert_true(headline_has("one block takes 11.00 GiB of it"));
    assert_true(evidence_has(verdict, "allocated at data.py:3 in load"));
    assert_string_equal(verdict->where->frame[verdict->where->user].text, "train.py:9 in make");
    hold_one_block(7 * gib, 6 * gib); /* the block is most of the live memory, but less than half of the card */
    assert_false(headline_has("one block"));
    assert_false(list_has(&verdict->next, "the whole block"));
}

GW_TEST(test_which_gpu)
{
    for (int cards = 1; cards <= 2; cards++) {
        gw_feed_open(&feed, 16 * gib);
        if (cards == 2)
            gw_feed_text_call(&feed, "?", GW_EV_DEVICE, 1, 16 * gib, 16 * gib, 0, "Card");
        refuse(17 * gib);
        expect_failure("gpu-oom-capacity", GW_ESTABLISHED);
        assert_int_equal(evidence_has(verdict, "on GPU 0 of 2"), cards == 2);
        assert_int_equal(evidence_has(verdict, "on GPU"), cards == 2);
    }
}

/* ---- advice ---- */

static void use_after(const char *fn, gw_event_kind kind)
{
    gw_feed_open(&feed, 16 * gib);
    uint64_t block = gw_feed_alloc(&feed, gib);
    if (kind == GW_EV_CTX_RESET)
        gw_feed_call(&feed, fn, kind, 0, 0, 0, 0, 0);
    else
        gw_feed_call(&feed, fn, kind, 0, feed.context, 0, 0, 0);
    gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 1, block, 0, GW_SPACE_DEVICE, 0);
    expect_failure("context-destroyed", GW_SUPPORTED);
}

GW_TEST(test_advice_on_a_reset)
{
    use_after("cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET);
    assert_true(list_has(&verdict->next, "Remove the reset (cuDevicePrimaryCtxReset"));
    assert_false(list_has(&verdict->next, "cuCtxDestroy"));
    assert_false(list_has(&verdict->next, "in pairs"));
    use_after("cuCtxDestroy_v2", GW_EV_CTX_DESTROY);
    assert_false(list_has(&verdict->next, "cuDevicePrimaryCtxReset"));
    assert_true(list_has(&verdict->next, "Do not destroy a context (cuCtxDestroy)"));
}

static void launch_of(uint64_t grid, uint64_t block, uint32_t shared, uint16_t result)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_call(&feed, "?", GW_EV_DEVICE_ATTRIBUTE, 0, 0, 1, 1024, 0);  /* maximum threads of a block */
    gw_feed_call(&feed, "?", GW_EV_DEVICE_ATTRIBUTE, 0, 0, 8, 49152, 0); /* maximum shared memory of a block */
    gw_feed_extra_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, result, shared, 0xf1, grid | 1ull << 32 | 1ull << 48,
                       block | 1ull << 21 | 1ull << 42, 0);
    expect_failure("launch-config-invalid", GW_SUPPORTED);
}

GW_TEST(test_advice_on_a_launch)
{
    launch_of(0, 32, 0, 1);
    assert_true(list_has(&verdict->next, "a batch of 0"));
    assert_false(list_has(&verdict->next, "1,024 threads"));
    assert_false(list_has(&verdict->next, "48 KiB"));
    launch_of(1, 4096, 0, 1);
    assert_true(list_has(&verdict->next, "1,024 threads"));
    assert_false(list_has(&verdict->next, "a batch of 0"));
    launch_of(1, 32, 100000, 1);
    assert_true(list_has(&verdict->next, "48 KiB"));
    assert_false(list_has(&verdict->next, "1,024 threads"));
}

GW_TEST_MAIN(NULL, NULL)
