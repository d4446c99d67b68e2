/* Tests verdicts on refused requests and addresses after events were lost. Some blocks may be known wrongly, so no
 * verdict may depend on them. */
#include "run_testlib.h"

/* If events were lost, this process itself may have allocated the memory of unknown origin. */
static void test_other_process_by_difference_and_lost_events(void **state)
{
    for (uint64_t lost = 0; lost < 2; lost++) {
        open_program(16 * gib);
        gw_feed_alloc(&feed, 3 * gib);
        gw_feed_no_room(&feed, 4 * gib, 2 * gib, 16 * gib);
        lose(lost * 1000, 0);
        close_program(1);
        expect_fault_if(lost == 0, "gpu-oom-other-process", GW_SUPPORTED);
        assert_true(lost == 0 || list_has(&verdict->advice, "1000 events were lost"));
    }
}

/* The driver's own numbers are missing, too, so it is not known whether this program filled the card. */
static void test_capacity_and_lost_events(void **state)
{
    for (uint64_t lost = 0; lost < 2; lost++) {
        open_program(16 * gib);
        gw_feed_alloc(&feed, 9 * gib);
        gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, 2 * gib, 0, 0);
        lose(lost * 1000, 0);
        close_program(1);
        expect_fault_if(lost == 0, "gpu-oom-capacity", GW_SUPPORTED);
    }
}

/* The memory of a process in another container with the same pid counts, too. */
static void test_capacity_and_equal_pids(void **state)
{
    for (uint64_t other = 0; other < 2; other++) {
        gw_error err;
        gw_item item = {.kind = GW_ITEM_PROCESS, .pid = GW_FEED_PID};
        item.process.exe = "/usr/bin/python3";
        open_program(16 * gib);
        for (uint64_t i = 0; i < 2; i++) {
            item.t_ns = feed.t_ns;
            item.process.start_realtime_ns = 1763600000000000000;
            item.process.start_realtime_ns += i * other;
            item.process.pid_namespace = 4026531836 + i * other;
            assert_int_equal(gw_model_feed(feed.model, &item, &err), GW_OK);
            gw_feed_alloc(&feed, 9 * gib / 2);
        }
        gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, 2 * gib, 0, 0);
        close_program(1);
        expect_fault_if(other == 0, "gpu-oom-capacity", GW_SUPPORTED);
        assert_true(other == 0 || list_has(&verdict->advice, "cannot be told apart"));
    }
}

/* A request larger than the card explains the failure by itself. Kept memory does not matter, even if its frees were
 * lost. */
static void test_no_leak_explains_an_impossible_request(void **state)
{
    for (uint64_t lost = 0; lost < 2; lost++) {
        open_program(16 * gib);
        for (int i = 0; i < 40; i++) {
            uint64_t batch = gw_feed_alloc(&feed, 8 * mib);
            gw_feed_alloc(&feed, 4 * mib);
            gw_feed_launch(&feed, KERNEL, STREAM);
            gw_feed_sync(&feed);
            gw_feed_free(&feed, batch);
        }
        lose(lost * 1000, 0);
        gw_feed_no_room(&feed, 32 * gib, 15 * gib, 16 * gib);
        close_program(1);
        expect_fault("gpu-oom-capacity", lost == 0 ? GW_ESTABLISHED : GW_SUPPORTED);
    }
}

/* After lost events, a few blocks that seem to be kept are not reported as a leak. They are smaller than a context, so
 * the driver's numbers cannot confirm them. */
static void test_few_blocks_and_lost_events(void **state)
{
    open_program(4 * gib);
    for (int i = 0; i < 40; i++) {
        uint64_t batch = gw_feed_alloc(&feed, 8 * mib);
        gw_feed_alloc(&feed, 4 * mib);
        gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_sync(&feed);
        gw_feed_free(&feed, batch);
    }
    lose(1000, 0);
    gw_feed_no_room(&feed, 3600 * mib, 3500 * mib, 4 * gib);
    close_program(1);
    judge_open();
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, "gpu-oom-leak") != 0);
}

/* Train `idle` steps that keep nothing and 14 that keep 1 GiB each. Then lose events, and feed a refused request. The
 * driver counts `unseen` more bytes in use than the program allocated. */
static void leak_and_lose(int idle, uint64_t unseen, uint64_t lost)
{
    open_program(16 * gib + unseen);
    for (int i = 0; i < idle + 14; i++) {
        uint64_t batch = gw_feed_alloc(&feed, 512 * mib);
        if (i >= idle)
            gw_feed_alloc(&feed, gib);
        gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_sync(&feed);
        gw_feed_free(&feed, batch);
    }
    lose(lost, 0);
    gw_feed_no_room(&feed, 2 * gib, gib, 16 * gib + unseen);
    close_program(1);
}

/* Blocks that seem to be kept may have been freed in the lost events. They are a leak only if the driver counts about
 * as much memory in use, and if the iterations would prove a leak without the loss: the lost events may show other
 * work, so that the iterations are one pass through the layers of a model. */
static void test_leak_and_lost_events(void **state)
{
    leak_and_lose(5, 0, 1000);
    expect_fault("gpu-oom-leak", GW_SUPPORTED);
    for (int i = 0; i < 2; i++) {
        leak_and_lose(i == 0 ? 0 : 5, i == 0 ? 0 : 16 * gib, 1000);
        expect_open("gpu-oom-leak");
    }
}

/* A damaged block may have shown that the program handled the refusal. */
static void test_damaged_blocks(void **state)
{
    for (uint64_t damaged = 0; damaged < 2; damaged++) {
        open_program(16 * gib);
        gw_feed_alloc(&feed, 9 * gib);
        gw_feed_no_room(&feed, 32 * gib, 6 * gib, 16 * gib);
        feed.model->damaged_count = damaged;
        close_program(1);
        expect_fault_if(damaged == 0, "gpu-oom-capacity", GW_ESTABLISHED);
    }
}

/* A lost refusal may explain the fault of a kernel: the program did not check it, and used a NULL pointer. */
static void test_a_fault_and_damaged_blocks(void **state)
{
    fault_with(700);
    feed.model->damaged_count = 1;
    close_program(1);
    expect_open("illegal-address");
}

/* A leak that is larger than the memory of unknown owner would have filled the card a little later anyway. */
static void test_a_leak_beside_memory_of_unknown_owner(void **state)
{
    leak_and_lose(5, 13 * gib, 0);
    expect_fault("gpu-oom-leak", GW_SUPPORTED);
    assert_int_equal(certainty_of_alternative(verdict, "gpu-oom-other-process"), GW_HYPOTHESIS);
}

/* The lost events may show that the program keeps more in each iteration, even if the driver and the ledger count the
 * same memory in use. */
static void test_driver_fragmentation_and_lost_events(void **state)
{
    for (uint64_t lost = 0; lost < 2; lost++) {
        open_program(8 * gib);
        small_blocks(true);
        lose(lost * 1000, 0);
        gw_feed_no_room(&feed, 2 * gib, 700 * mib, 8 * gib);
        close_program(1);
        expect_fault_if(lost == 0, "gpu-oom-fragmentation", GW_ESTABLISHED);
    }
}

/* Train with a batch in each step, while another process uses the card. Each step keeps a block of at least `keeps`
 * bytes; 0: no block. */
static void train_beside_another(int steps, uint64_t keeps)
{
    open_program(16 * gib);
    gw_feed_alloc(&feed, gib);
    for (int i = 0; i < steps; i++) {
        uint64_t batch = gw_feed_alloc(&feed, 2 * gib);
        if (keeps != 0)
            gw_feed_alloc(&feed, keeps + (uint64_t)i * mib);
        gw_feed_launch(&feed, 0xf00, 0);
        gw_feed_sync(&feed);
        gw_feed_free(&feed, batch);
    }
    gw_feed_no_room(&feed, 2 * gib, gib, 16 * gib);
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=11811160064 cmd=python notebook.py");
    close_program(1);
}

/* A single step that kept much memory may be the start of a leak. So the other process is only a supported cause. */
static void test_other_process_and_a_first_step_that_keeps(void **state)
{
    train_beside_another(1, 512 * mib);
    expect_fault("gpu-oom-other-process", GW_SUPPORTED);
    train_beside_another(1, 0);
    expect_fault("gpu-oom-other-process", GW_ESTABLISHED);
    train_beside_another(6, 0);
    expect_fault("gpu-oom-other-process", GW_ESTABLISHED);
}

/* Another block may have the address of a freed block, or of a smaller one. A NULL address is none of any block. */
static void test_a_refused_address_and_lost_events(void **state)
{
    static const char *const said[] = {"already freed", "for a smaller block", "a NULL address"};
    for (int i = 0; i < 6; i++) {
        bool has_lost = i % 2 != 0;
        open_program(16 * gib);
        uint64_t block = gw_feed_alloc(&feed, mib);
        if (i / 2 == 0)
            gw_feed_free(&feed, block);
        lose(has_lost ? 1000 : 0, 0);
        gw_feed_call(&feed, "cuMemcpyHtoD_v2", GW_EV_COPY, 1, i / 2 == 2 ? 0 : block, 0x7000, 2 * mib, 0);
        close_program(1);
        expect_status(GW_VERDICT_UNDETERMINED);
        assert_int_equal(strstr(verdict->headline, said[i / 2]) != NULL, !has_lost || i / 2 == 2);
    }
}

static const row rows[] = {
    TEST(test_other_process_and_a_first_step_that_keeps),
    TEST(test_other_process_by_difference_and_lost_events),
    TEST(test_capacity_and_lost_events),
    TEST(test_capacity_and_equal_pids),
    TEST(test_no_leak_explains_an_impossible_request),
    TEST(test_few_blocks_and_lost_events),
    TEST(test_leak_and_lost_events),
    TEST(test_damaged_blocks),
    TEST(test_a_fault_and_damaged_blocks),
    TEST(test_a_leak_beside_memory_of_unknown_owner),
    TEST(test_driver_fragmentation_and_lost_events),
    TEST(test_a_refused_address_and_lost_events),
};

ROWS_MAIN(rows)
