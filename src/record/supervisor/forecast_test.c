/* Tests the forecast of --alarm-at: growth is found, and what only looks like growth is not. */
#include "gw_unit_test.h"

#include "gw_event.h"
#include "gw_test_random.h"
#include "gwi_held.h"

#include <math.h>

enum { ROOM = 256 };
static const uint64_t mib = 1 << 20, limit = UINT64_C(16) << 30;
static const uint64_t step_ns = 100000000; /* between two samples */

/* Bytes that are held at sample `i` of `count`. */
typedef uint64_t curve(unsigned i, unsigned count);

/* Sample a curve; each sample is `rounds` rounds after the one before it. */
static gwi_forecast judge_rounds(curve *held, unsigned count, unsigned rounds)
{
    static gwi_held_sample sample[ROOM];
    size_t used = 0;
    gwi_forecast forecast;
    for (unsigned i = 0; i < count; i++)
        used = gwi_forecast_add(sample, used, ROOM,
                                (gwi_held_sample){(i + 1) * step_ns, (uint64_t)i * rounds, held(i, count)});
    gwi_forecast_make(sample, used, limit, &forecast);
    return forecast;
}

static gwi_forecast judge(curve *held, unsigned count)
{
    return judge_rounds(held, count, 2);
}

/* 4 GiB, and 20 MiB more at each sample. */
static uint64_t linear(unsigned i, unsigned count)
{
    return 4096 * mib + i * 20 * mib;
}

static uint64_t stepped(unsigned i, unsigned count)
{
    return 4096 * mib + i / 20 * 400 * mib;
}

static uint64_t plateau(unsigned i, unsigned count)
{
    return 15500 * mib;
}

/* An iteration of 25 samples takes up to 12 GiB and frees it. */
static uint64_t sawtooth(unsigned i, unsigned count)
{
    return 3000 * mib + i % 25 * 500 * mib;
}

static uint64_t leaking_sawtooth(unsigned i, unsigned count)
{
    return sawtooth(i, count) + i / 25 * 100 * mib;
}

/* Grows over the first third, and then stays. */
static uint64_t warm_up(unsigned i, unsigned count)
{
    return 1000 * mib + (i < count / 3 ? i : count / 3) * 100 * mib;
}

static uint64_t one_late_phase(unsigned i, unsigned count)
{
    return (i < count * 2 / 3 ? 8000 : 14000) * mib;
}

static uint64_t two_phases(unsigned i, unsigned count)
{
    uint64_t held = 4000;
    if (i > count / 3)
        held = 8000;
    if (i > count * 2 / 3)
        held = 14000;
    return held * mib;
}

static uint64_t freed_at_the_end(unsigned i, unsigned count)
{
    return i + 4 > count ? 0 : linear(i, count);
}

/* The rest of a plateau with a little noise. */
static uint64_t noise(unsigned i, unsigned count)
{
    return 15000 * mib + i * 2654435761u % 7 * mib;
}

static uint64_t slow(unsigned i, unsigned count)
{
    return 4096 * mib + i * 4096; /* 0.4 MiB in 100 samples */
}

static void expect_growth(const gwi_forecast *forecast, uint64_t held, double bytes_per_minute)
{
    assert_true(forecast->grows);
    assert_true(fabs((double)forecast->kept_bytes / (double)held - 1) < 0.05);
    assert_true(fabs(forecast->bytes_per_minute / bytes_per_minute - 1) < 0.25);
    double full_s = ((double)limit - (double)forecast->kept_bytes) / forecast->bytes_per_minute * 60;
    assert_true(fabs(forecast->full_s - full_s) < 0.01 * full_s + 0.01);
    assert_true(forecast->since_ns > 0);
}

GW_TEST(growth_is_found)
{
    const double linear_rate = 200.0 * 60 * (double)mib, sawtooth_rate = 40.0 * 60 * (double)mib;
    gwi_forecast forecast = judge(linear, 200);
    expect_growth(&forecast, linear(199, 200), linear_rate);
    forecast = judge(stepped, 240);
    expect_growth(&forecast, stepped(239, 240), linear_rate);
    forecast = judge(leaking_sawtooth, 250);
    expect_growth(&forecast, leaking_sawtooth(225, 250), sawtooth_rate); /* the lowest of the last tooth */
}

GW_TEST(growth_is_found_in_merged_samples)
{
    gwi_forecast forecast = judge(linear, 600); /* more than there is room for */
    expect_growth(&forecast, linear(599, 600), 200.0 * 60 * (double)mib);
    forecast = judge(plateau, 3000);
    assert_false(forecast.grows);
    forecast = judge(sawtooth, 3010);
    assert_false(forecast.grows);
}

GW_TEST(what_only_looks_like_growth_is_none)
{
    static const struct {
        const char *name;
        curve *held;
    } curves[] = {{"plateau", plateau},       {"sawtooth", sawtooth},
                  {"warm-up", warm_up},       {"one late phase", one_late_phase},
                  {"two phases", two_phases}, {"freed at the end", freed_at_the_end},
                  {"noise", noise},           {"slow", slow}};
    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++) {
        for (unsigned count = 100; count < 256; count += 7) { /* ends at different points of an iteration */
            if (judge(curves[i].held, count).grows)
                fail_msg("%s of %u samples counts as growth", curves[i].name, count);
        }
    }
}

GW_TEST(too_little_is_no_growth)
{
    gwi_forecast forecast;
    assert_false(judge_rounds(linear, 10, 50).grows); /* too few samples */
    assert_true(judge_rounds(linear, 20, 50).grows);
    assert_false(judge_rounds(linear, 200, 0).grows); /* no work: the program builds its model */
    assert_true(judge_rounds(linear, 200, 1).grows);
    gwi_forecast_make(NULL, 0, limit, &forecast);
    assert_false(forecast.grows);
    assert_int_equal(forecast.kept_bytes, 0);
}

GW_TEST(a_few_rounds_are_no_growth)
{
    gwi_held_sample sample[ROOM];
    gwi_forecast forecast;
    for (unsigned i = 0; i < ROOM; i++)
        sample[i] = (gwi_held_sample){(i + 1) * step_ns, i / 10, linear(i, 0)}; /* 25 rounds */
    gwi_forecast_make(sample, ROOM, limit, &forecast);
    assert_false(forecast.grows);
    for (unsigned i = 0; i < ROOM; i++)
        sample[i].rounds = i / 5;
    gwi_forecast_make(sample, ROOM, limit, &forecast);
    assert_true(forecast.grows);
}

GW_TEST(merging_keeps_the_lowest_value)
{
    gwi_held_sample sample[4];
    size_t count = 0;
    for (uint64_t i = 0; i < 5; i++)
        count = gwi_forecast_add(sample, count, 4, (gwi_held_sample){i, 10 * i, i == 0 || i == 3 ? 1 : 5});
    assert_int_equal(count, 3);
    assert_true(sample[0].t_ns == 1 && sample[0].rounds == 10 && sample[0].bytes == 1);
    assert_true(sample[1].t_ns == 3 && sample[1].rounds == 30 && sample[1].bytes == 1);
    assert_true(sample[2].t_ns == 4 && sample[2].bytes == 5);
}

/* The first iteration allocates for long, and only the later ones wait. */
GW_TEST(one_long_iteration_is_no_growth)
{
    gwi_held_sample sample[ROOM];
    gwi_forecast forecast;
    for (unsigned i = 0; i < ROOM; i++)
        sample[i] = (gwi_held_sample){(i + 1) * step_ns, i < 200 ? 0 : i, linear(i < 200 ? i : 200, 0)};
    gwi_forecast_make(sample, ROOM, limit, &forecast);
    assert_false(forecast.grows);
}

GW_TEST(a_full_card_is_full_now)
{
    gwi_held_sample sample[ROOM];
    gwi_forecast forecast;
    for (unsigned i = 0; i < 200; i++)
        sample[i] = (gwi_held_sample){(i + 1) * step_ns, i * 2, limit - 199 * 20 * mib + i * 20 * mib};
    gwi_forecast_make(sample, 200, limit, &forecast);
    assert_true(forecast.grows);
    assert_true(forecast.full_s < 1);
}

/* Tests the sums of held memory: against a plain list under random calls, and at the ends of contexts and processes. */

static void event(gwi_held *held, gw_event_kind kind, uint32_t pid, uint64_t context, uint64_t a, uint64_t b,
                  uint64_t c, uint64_t d)
{
    gw_item item = {.kind = GW_ITEM_EVENT, .pid = pid};
    item.event = (gw_event){.pid = pid, .kind = (uint8_t)kind, .context = context, .arg = {a, b, c, d}};
    gwi_held_take(held, &item);
}

static void allocate(gwi_held *held, uint32_t pid, uint64_t context, uint64_t address, uint64_t bytes)
{
    event(held, GW_EV_ALLOC, pid, context, address, bytes, GW_SPACE_DEVICE, 0);
}

static void release(gwi_held *held, uint32_t pid, uint64_t address)
{
    event(held, GW_EV_FREE, pid, 0, address, 0, GW_SPACE_DEVICE, 0);
}

static void end_process(gwi_held *held, uint32_t pid)
{
    gw_item item = {.kind = GW_ITEM_EXIT, .pid = pid};
    item.exit = (gw_exit_fact){.pid = pid};
    gwi_held_take(held, &item);
}

GW_TEST(random_calls_give_the_same_sum_as_a_list)
{
    enum { ADDRESSES = 4096, CALLS = 200000, PIDS = 3 };
    static uint64_t live[PIDS][ADDRESSES];
    gwi_held held = {0};
    uint64_t sum = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        uint64_t random = gw_test_random();
        uint32_t pid = (uint32_t)(random % PIDS);
        uint64_t address = random / PIDS % ADDRESSES, bytes = 1 + (random >> 40);
        if (live[pid][address] == 0) {
            allocate(&held, pid + 1, 0, address << 21, bytes);
            live[pid][address] = bytes;
            sum += bytes;
        } else {
            release(&held, pid + 1, address << 21);
            sum -= live[pid][address];
            live[pid][address] = 0;
        }
        assert_int_equal(held.live_bytes[0], sum);
        if (i % 50000 == 49999) {
            end_process(&held, pid + 1);
            for (unsigned k = 0; k < ADDRESSES; k++) {
                sum -= live[pid][k];
                live[pid][k] = 0;
            }
            assert_int_equal(held.live_bytes[0], sum);
        }
    }
    assert_false(held.failed);
    gwi_held_free(&held);
}

GW_TEST(contexts_decide_the_device_and_end_their_blocks)
{
    gwi_held held = {0};
    event(&held, GW_EV_CTX_CREATE, 7, 0, 0xc0, 0, 0, GW_CONTEXT_PRIMARY);
    event(&held, GW_EV_CTX_CREATE, 7, 0, 0xc1, 0, 1, GW_CONTEXT_PLAIN);
    event(&held, GW_EV_CTX_CREATE, 7, 0, 0xc0, 0, 0, GW_CONTEXT_PRIMARY); /* retained twice */
    allocate(&held, 7, 0xc0, 0x1000, 10);
    allocate(&held, 7, 0xc1, 0x2000, 20);
    event(&held, GW_EV_VMM_CREATE, 7, 0xc0, 0x1000, 40, 1, 0); /* a handle may equal an address */
    assert_int_equal(held.live_bytes[0], 10);
    assert_int_equal(held.live_bytes[1], 60);
    event(&held, GW_EV_CTX_DESTROY, 7, 0, 0xc1, 0, 0, 0);
    assert_int_equal(held.live_bytes[1], 40);
    event(&held, GW_EV_CTX_RELEASE, 7, 0, 0, 0, 0, 0);
    assert_int_equal(held.live_bytes[0], 10);
    event(&held, GW_EV_CTX_RELEASE, 7, 0, 0, 0, 0, 0);
    assert_int_equal(held.live_bytes[0], 0);
    event(&held, GW_EV_VMM_RELEASE, 7, 0, 0x1000, 0, 0, 0);
    assert_int_equal(held.live_bytes[1], 0);
    event(&held, GW_EV_CTX_CREATE, 7, 0, 0xc0, 0, 0, GW_CONTEXT_PRIMARY);
    allocate(&held, 7, 0xc0, 0x3000, 5);
    event(&held, GW_EV_CTX_RESET, 7, 0, 0, 0, 0, 0);
    assert_int_equal(held.live_bytes[0], 0);
    gwi_held_free(&held);
}

GW_TEST(only_memory_that_exists_counts)
{
    gwi_held held = {0};
    gw_item refused = {.kind = GW_ITEM_EVENT};
    refused.event = (gw_event){.pid = 1, .kind = GW_EV_ALLOC, .result = 2, .arg = {0, 100, 0, 0}};
    gwi_held_take(&held, &refused);
    release(&held, 1, 0x1000); /* unknown: allocated before, or lost */
    event(&held, GW_EV_ALLOC, 1, 0, 0x1000, 50, GW_SPACE_MANAGED, 0);
    assert_int_equal(held.live_bytes[0], 0);
    allocate(&held, 1, 0, 0x1000, 50);
    allocate(&held, 1, 0, 0x1000, 60); /* the free was lost */
    assert_int_equal(held.live_bytes[0], 60);
    gw_item process = {.kind = GW_ITEM_PROCESS, .pid = 1};
    gwi_held_take(&held, &process);
    assert_int_equal(held.live_bytes[0], 0);
    event(&held, GW_EV_DEVICE, 1, 0, 0, 1000, 900, 0);
    assert_int_equal(held.total_bytes[0], 1000);
    gwi_held_free(&held);
}

GW_TEST_MAIN(NULL, NULL)
