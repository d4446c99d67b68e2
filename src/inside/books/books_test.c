/* Test the books of device memory: ranges, the driver's order of addresses, pages. */
#include "gw_unit_test.h"
#include <string.h>

#include "gw_pages.h"
#include "gw_ranges.h"

#define MIB ((uint64_t)1 << 20)

/* --- ranges --------------------------------------------------------------------------------------------- */

GW_TEST(test_ranges_refuse)
{
    gw_ranges ranges = {0};
    gw_range a = {.base = 100, .bytes = 50};
    gw_range overlapping[] = {{.base = 149, .bytes = 1},
                              {.base = 90, .bytes = 11},
                              {.base = 100, .bytes = 50},
                              {.base = 90, .bytes = 100},
                              {.base = 120, .bytes = 1}};
    gw_range empty = {.base = 500, .bytes = 0};
    gw_range wrapping = {.base = UINT64_MAX - 1, .bytes = 5};
    assert_true(gw_ranges_add(&ranges, &a));
    for (size_t i = 0; i < sizeof overlapping / sizeof *overlapping; i++)
        assert_false(gw_ranges_add(&ranges, &overlapping[i]));
    assert_false(gw_ranges_add(&ranges, &empty));
    assert_false(gw_ranges_add(&ranges, &wrapping));
    assert_int_equal(ranges.count, 1);
}

GW_TEST(test_ranges_find)
{
    enum { COUNT = 5000 };
    static gw_range members[COUNT];
    gw_ranges ranges = {0};
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned k = i * 7919u % COUNT; /* pseudo-random order: 7919 and COUNT have no common factor */
        members[k].base = 1000 + (uint64_t)k * 16;
        members[k].bytes = 8;
        assert_true(gw_ranges_add(&ranges, &members[k]));
    }
    for (unsigned k = 0; k < COUNT; k += 2)
        gw_ranges_remove(&ranges, &members[k]);
    for (unsigned k = 0; k < COUNT; k++) {
        gw_range *wanted = k % 2 != 0 ? &members[k] : NULL;
        assert_ptr_equal(gw_ranges_at(&ranges, 1000 + (uint64_t)k * 16), wanted);
        assert_ptr_equal(gw_ranges_at(&ranges, 1007 + (uint64_t)k * 16), wanted);
        assert_null(gw_ranges_at(&ranges, 1008 + (uint64_t)k * 16));
    }
    assert_ptr_equal(gw_ranges_from(&ranges, 0), &members[1]);
    assert_null(gw_ranges_from(&ranges, members[COUNT - 1].base + 1));
}

GW_TEST(test_runs_join)
{
    gw_runs runs = {0};
    uint64_t base = 0;
    assert_true(gw_runs_give(&runs, 1000, 100));
    assert_false(gw_runs_take(&runs, 101, 1, &base));
    assert_true(gw_runs_take(&runs, 10, 64, &base)); /* takes 1024 to 1033: a free run remains on either side */
    assert_int_equal(base, 1024);
    assert_int_equal(runs.count, 2);
    assert_true(gw_runs_give(&runs, 1024, 10));
    assert_int_equal(runs.count, 1);
    assert_int_equal(gw_runs_largest(&runs), 100);
    gw_runs_free(&runs);
}

/* --- places --------------------------------------------------------------------------------------------- */

/* A real sequence (H100, driver 580.159.04): sizes in MiB, and the addresses that the driver returned, in MiB from the
 * first chunk of the sequence downwards. A size < 0: free the block of that number. */
GW_TEST(test_places_as_driver)
{
    static const struct {
        int size, place;
    } real[] = {{20, 1024 - 32}, {2, 1024 - 12},  {8, 1024 - 10},    {10, 1024 - 64},   {64, 1024 - 128},
                {2, 1024 - 54},  {2, 1024 - 52},  {100, 1024 - 256}, {30, 1024 - 288},  {34, 1024 - 352},
                {2, 1024 - 318}, {2, 1024 - 316}, {2, 1024 - 314},   {416, 1024 - 768}, {2, 1024 - 312},
                {6, 1024 - 310}, {6, 1024 - 304}, {6, 1024 - 298},   {6, 1024 - 156},   {6, 1024 - 150},
                {6, 1024 - 144}, {2, 1024 - 292}, {2, 1024 - 290},   {2, 1024 - 258},   {200, 1024 - 992},
                {2, 1024 - 792}};
    gw_places places = {0};
    uint64_t base = (uint64_t)1 << 40, address = 0;
    assert_true(gw_places_add(&places, base, 1024 * MIB));
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        assert_true(gw_places_take(&places, (uint64_t)real[i].size * MIB, &address));
        assert_int_equal((address - base) / MIB, real[i].place);
    }
    gw_places_free(&places);
}

GW_TEST(test_places_give_up_chunks)
{
    gw_places places = {0};
    uint64_t base = (uint64_t)1 << 40, a, b, c;
    assert_true(gw_places_add(&places, base, 96 * MIB));
    assert_true(gw_places_take(&places, 34 * MIB, &a)); /* a chunk of 64 MiB */
    assert_true(gw_places_take(&places, 30 * MIB, &b));
    assert_int_equal(b, a + 34 * MIB);
    assert_false(gw_places_take(&places, 64 * MIB, &c));
    assert_true(gw_places_give(&places, a, 34 * MIB));
    assert_false(gw_places_take(&places, 64 * MIB, &c));
    assert_true(gw_places_give(&places, b, 30 * MIB));
    assert_int_equal(places.space.count, 1);
    assert_int_equal(places.chunks.count, 0);
    assert_true(gw_places_take(&places, 96 * MIB, &c));
    assert_false(gw_places_take(&places, 2 * MIB, &a));
    assert_false(gw_places_take(&places, UINT64_MAX - 1, &a));
    assert_true(gw_places_give(&places, base - 2 * MIB, 2 * MIB)); /* not of a chunk: ignored */
    gw_places_free(&places);
}

/* --- pages ---------------------------------------------------------------------------------------------- */

typedef struct card {
    uint64_t free_bytes;
} card;

static bool card_take(void *data, uint64_t bytes)
{
    card *c = data;
    if (c->free_bytes < bytes)
        return false;
    c->free_bytes -= bytes;
    return true;
}

static void card_give(void *data, uint64_t bytes)
{
    ((card *)data)->free_bytes += bytes;
}

static void pages_begin(gw_pages *pages, card *c, uint64_t bytes)
{
    memset(pages, 0, sizeof *pages);
    c->free_bytes = bytes;
    pages->take = card_take;
    pages->give = card_give;
    pages->card = c;
    assert_true(gw_places_add(&pages->addresses, (uint64_t)1 << 40, bytes * 4));
}

GW_TEST(test_pages_refuse)
{
    gw_pages pages;
    card c;
    uint64_t address = 0;
    gw_small_page *page = NULL;
    pages_begin(&pages, &c, 8 * MIB);
    assert_false(gw_pages_alloc(&pages, UINT64_MAX, &address, &page));
    assert_false(gw_pages_alloc(&pages, 8 * MIB + 1, &address, &page));
    assert_int_equal(c.free_bytes, 8 * MIB);
    gw_places_free(&pages.addresses);
}

GW_TEST(test_pages_share)
{
    enum { COUNT = 4000 };
    static uint64_t addresses[COUNT];
    static gw_small_page *homes[COUNT];
    gw_pages pages;
    card c;
    pages_begin(&pages, &c, 8192 * MIB);
    for (int i = 0; i < COUNT; i++)
        assert_true(gw_pages_alloc(&pages, MIB, &addresses[i], &homes[i]));
    assert_int_equal(c.free_bytes, (8192 - COUNT) * MIB);
    for (int i = 0; i < COUNT; i += 2)
        gw_pages_free(&pages, addresses[i], MIB, homes[i]);
    assert_int_equal(c.free_bytes, (8192 - COUNT) * MIB); /* every page still has a block, so it stays allocated */
    for (int i = 1; i < COUNT; i += 2)
        gw_pages_free(&pages, addresses[i], MIB, homes[i]);
    assert_int_equal(c.free_bytes, 8192 * MIB);
    assert_int_equal(pages.addresses.space.count, 1);
    gw_places_free(&pages.addresses);
}

GW_TEST(test_pages_scattered)
{
    uint64_t addresses[16];
    gw_small_page *page = NULL;
    gw_pages pages;
    card c;
    pages_begin(&pages, &c, 64 * MIB);
    for (int i = 0; i < 16; i++) {
        assert_true(gw_pages_alloc(&pages, 4 * MIB, &addresses[i], &page));
        assert_null(page);
    }
    for (int i = 0; i < 16; i += 2)
        gw_pages_free(&pages, addresses[i], 4 * MIB, NULL);
    uint64_t large = 0;
    /* The free 32 MiB are in eight separate places, but scattered pages are mapped to contiguous addresses. */
    assert_true(gw_pages_alloc(&pages, 32 * MIB, &large, &page));
    assert_int_equal(c.free_bytes, 0);
    gw_places_free(&pages.addresses);
}

/* Allocate random sizes and compare with plain sums: blocks do not overlap, and no memory is lost. */
GW_TEST(test_pages_random)
{
    enum { SLOTS = 600, ROUNDS = 20000 };
    static struct {
        gw_range range;
        gw_small_page *page;
    } slots[SLOTS];
    gw_pages pages;
    gw_ranges live = {0};
    card c;
    uint32_t seed = 12345;
    memset(slots, 0, sizeof slots);
    pages_begin(&pages, &c, 4096 * MIB);
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        unsigned s = seed >> 8 & 1023;
        if (s >= SLOTS)
            continue;
        if (slots[s].range.bytes != 0) {
            gw_ranges_remove(&live, &slots[s].range);
            gw_pages_free(&pages, slots[s].range.base, slots[s].range.bytes, slots[s].page);
            slots[s].range.bytes = 0;
            continue;
        }
        uint64_t bytes = (seed >> 20) % 5 == 0 ? 3 * MIB + s : 1 + (seed >> 4) % MIB;
        slots[s].range.bytes = bytes;
        assert_true(gw_pages_alloc(&pages, bytes, &slots[s].range.base, &slots[s].page));
        assert_int_equal(slots[s].range.base % 512, 0);
        assert_true(gw_ranges_add(&live, &slots[s].range));
    }
    for (int s = 0; s < SLOTS; s++)
        if (slots[s].range.bytes != 0)
            gw_pages_free(&pages, slots[s].range.base, slots[s].range.bytes, slots[s].page);
    assert_int_equal(c.free_bytes, 4096 * MIB);
    assert_int_equal(pages.addresses.space.count, 1);
    gw_places_free(&pages.addresses);
}

GW_TEST_MAIN(NULL, NULL)
