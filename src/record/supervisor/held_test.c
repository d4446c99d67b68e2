/* Tests the sums of held memory: against a plain list under random calls, and at the ends of contexts and processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gwi_held.h"

#include "gw_event.h"

#include <stdlib.h>

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

static void random_calls_give_the_same_sum_as_a_list(void **state)
{
    (void)state;
    enum { ADDRESSES = 4096, CALLS = 200000, PIDS = 3 };
    static uint64_t live[PIDS][ADDRESSES];
    gwi_held held = {0};
    uint64_t sum = 0, random = 88172645463325252u;
    for (unsigned i = 0; i < CALLS; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
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

static void contexts_decide_the_device_and_end_their_blocks(void **state)
{
    (void)state;
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

static void only_memory_that_exists_counts(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_give_the_same_sum_as_a_list),
        cmocka_unit_test(contexts_decide_the_device_and_end_their_blocks),
        cmocka_unit_test(only_memory_that_exists_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
