/* Tests verdicts on refused requests where memory is fragmented, or where another process or library holds it. */
#include "run_testlib.h"

/* Feed and judge a refused request for 6 GiB on a card of 16 GiB. A pool keeps `kept` bytes but uses only `used`.
 * `kind` and `pool` describe the request. */
static void refuse_beside_pool(uint64_t kept, uint64_t used, gw_event_kind kind, uint64_t pool)
{
    enum { POOL = 0xb001, THRESHOLD = 4 };
    const uint64_t left = 15 * gib - kept;
    open_program(16 * gib);
    gw_feed_call(&feed, "cuMemPoolSetAttribute", GW_EV_POOL_SET, 0, POOL, THRESHOLD, UINT64_MAX, 0);
    gw_feed_alloc(&feed, 512 * mib);
    if (used > 0)
        gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, 0x7a0000000000, used, 0, STREAM);
    gw_feed_call(&feed, kind == GW_EV_ALLOC ? "cuMemAlloc_v2" : "cuMemAllocFromPoolAsync", kind, 2, 0, 6 * gib, pool,
                 0);
    gw_feed_call(&feed, "?", GW_EV_MEMORY_INFO, 0, left, 16 * gib, 0, 2);
    gw_feed_call(&feed, "?", GW_EV_POOL_STATE, 0, POOL, kept, used, (uint64_t)1 << 32);
    close_program(1);
    judge_open();
}

static void test_a_pool_of_its_own(void **state)
{
    refuse_beside_pool(12 * gib, gib, GW_EV_ALLOC, 0);
    assert_cause(verdict, "gpu-oom-fragmentation", GW_ESTABLISHED);
    assert_true(says("pool 0xb001, the device's default pool, had reserved 12.00 GiB and used 1.00 GiB"));
    assert_true(says("never returns memory to the driver"));
    assert_true(list_has(&verdict->next, "cuMemPoolTrimTo"));
    assert_false(has_alternative("gpu-oom-other-process"));
    assert_false(has_alternative("gpu-hidden-driver-growth"));
    refuse_beside_pool(12 * gib, gib, GW_EV_ALLOC_ASYNC, 0xb002); /* request from another pool */
    assert_string_equal(verdict->cause, "gpu-oom-fragmentation");
    refuse_beside_pool(12 * gib, gib, GW_EV_ALLOC_ASYNC, 0xb001); /* request from the pool that keeps memory */
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, "gpu-oom-fragmentation") != 0);
    assert_false(has_alternative("gpu-oom-other-process"));
    refuse_beside_pool(12 * gib, 12 * gib, GW_EV_ALLOC, 0); /* the program uses all memory of the pool */
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, "gpu-oom-fragmentation") != 0);
    assert_false(says("cuMemPoolTrimTo"));
}

static void feed_driver_fragmentation(void)
{
    open_program(8 * gib);
    small_blocks(true);
    gw_feed_no_room(&feed, 2 * gib, 700 * mib, 8 * gib);
    close_program(1);
}

static void feed_driver_fragmentation_near_pages_are_full(void)
{
    open_program(8 * gib);
    small_blocks(false);
    gw_feed_no_room(&feed, 2 * gib, 700 * mib, 8 * gib);
    close_program(1);
}

static void feed_framework_fragmentation(void)
{
    open_torch(4 * gib);
    gw_feed_alloc(&feed, 3600 * mib);
    observe_oom(26 * mib, 3287 * mib, 3598 * mib, 21 * mib);
    torch_oom_message();
    close_program(1);
}

/* Feed and judge a refusal on a card of 140 GiB where PyTorch may use only 2867 MiB. If `is_told`, PyTorch reports
 * this limit in its state. If `by_driver`, the card is full and the driver refuses. */
static void at_own_limit(bool is_told, bool by_driver)
{
    const uint64_t allowed = 2867 * mib, card = 140 * gib, left = by_driver ? 10 * mib : 134 * gib;
    open_torch(card);
    gw_feed_alloc(&feed, 2840 * mib);
    if (by_driver)
        gw_feed_no_room(&feed, 20 * mib, left, card);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_OOM, 0, by_driver ? 20 * mib : 200 * mib, allowed, left, 0);
    if (is_told)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_LIMIT, allowed, 0, 0);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_ALLOCATED, 2830 * mib, 0, 0);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_RESERVED, 2840 * mib, 0, 0);
    torch_oom_message();
    close_program(1);
    judge_open();
}

/* The program survived a refusal by the driver. Later, PyTorch's own limit caused another refusal. */
static void feed_pytorchs_own_limit_after_an_outlived_refusal(void)
{
    open_torch(140 * gib);
    gw_feed_no_room(&feed, 200 * gib, 130 * gib, 140 * gib);
    iterate(10);
    gw_feed_wait(&feed, 1000000);
    gw_feed_alloc(&feed, 2840 * mib);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_OOM, 0, 200 * mib, 2867 * mib, 134 * gib, 0);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_LIMIT, 2867 * mib, 0, 0);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_ALLOCATED, 2830 * mib, 0, 0);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_RESERVED, 2840 * mib, 0, 0);
    torch_oom_message();
    close_program(1);
}

static void test_pytorchs_own_limit(void **state)
{
    for (int told = 0; told < 2; told++) {
        at_own_limit(told, false);
        assert_non_null(verdict->cause);
        assert_string_equal(verdict->cause, "gpu-oom-capacity");
        assert_non_null(strstr(verdict->headline, "2.80 GiB, PyTorch's own limit"));
        assert_true(
            says("PyTorch's own limit of 2.80 GiB (set_per_process_memory_fraction) was reached; 134.00 GiB of the "
                 "card's 140.00 GiB was free"));
        assert_true(says("27.00 MiB of the 2.80 GiB that PyTorch may take was left"));
        assert_true(list_has(&verdict->next, "Raise PyTorch's own limit"));
        assert_true(list_has(&verdict->ruled_out, "PyTorch's own limit counts only this program"));
        assert_false(has_alternative("gpu-oom-other-process"));
        at_own_limit(told, true);
        assert_false(says("set_per_process_memory_fraction"));
        assert_true(says("10.00 MiB of 140.00 GiB was free"));
    }
}

static void feed_framework_fragmentation_near_all_is_in_use(void)
{
    open_torch(4 * gib);
    gw_feed_alloc(&feed, 3990 * mib);
    observe_oom(200 * mib, 3980 * mib, 3990 * mib, 4 * mib);
    torch_oom_message();
    close_program(1);
}

static void feed_other_process(void)
{
    open_program(16 * gib);
    gw_feed_alloc(&feed, mib);
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 16 * gib);
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=13958643712 cmd=python notebook.py");
    close_program(1);
}

/* The process allocated in two large steps, and a third one was refused beside another process. */
static void steps_beside_other_process(bool has_sites)
{
    open_program(16 * gib);
    if (!has_sites)
        gw_feed_meta(&feed, "option.no_sites", "1");
    uint32_t site = has_sites ? gw_feed_site(&feed, "grow t.py 9") : 0;
    gw_feed_alloc(&feed, 10 * mib);
    for (uint64_t i = 0; i < 2; i++) {
        feed.site = site;
        gw_feed_alloc(&feed, (3000 + 700 * i) * mib);
        feed.site = 0;
        for (int k = 0; k < 20; k++)
            gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_sync(&feed);
    }
    feed.site = site;
    gw_feed_no_room(&feed, 3600 * mib, 2 * gib, 16 * gib);
    feed.site = 0;
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=6663676416 cmd=python notebook.py");
    close_program(1);
}

static void feed_steps_of_one_place_beside_other_process(void)
{
    steps_beside_other_process(true);
}

/* Without call sites, the program's own memory may come from the place of the refused request. */
static void feed_steps_beside_other_process_without_sites(void)
{
    steps_beside_other_process(false);
}

/* The model has no facts about this device. The verdict must not report the memory of another device, such as
 * device 0. */
static void feed_a_refusal_beyond_the_table_is_not_of_the_first_card(void)
{
    open_program(16 * gib);
    gw_feed_alloc(&feed, 15 * gib);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xbeef, 0, 16, GW_CONTEXT_PRIMARY);
    feed.context = 0xbeef;
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, 4 * gib, GW_SPACE_DEVICE, 0);
    gw_feed_call(&feed, "cuMemGetInfo_v2", GW_EV_MEMORY_INFO, 0, 2 * gib, 16 * gib, 16, 2);
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=13958643712 device=0 cmd=python notebook.py");
    close_program(1);
}

static void also_a_refusal_beyond_the_table_is_not_of_the_first_card(void)
{
    assert_false(says("4711") || says("15.0"));
    assert_null(verdict->cause);
}

static void feed_other_process_of_the_same_run(void)
{
    open_program(16 * gib);
    feed.pid = feed.tid = 200;
    gw_feed_begin_cuda(&feed, 16 * gib);
    gw_feed_alloc(&feed, 13 * gib);
    feed.pid = feed.tid = GW_FEED_PID;
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 16 * gib);
    close_program(1);
}

static void feed_other_process_near_its_share_is_small(void)
{
    open_program(16 * gib);
    for (int i = 0; i < 7; i++)
        gw_feed_alloc(&feed, 2 * gib + (uint64_t)i);
    gw_feed_no_room(&feed, 4 * gib, gib, 16 * gib);
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=600000000 cmd=Xorg");
    close_program(1);
}

static void feed_other_process_by_difference(void)
{
    open_program(16 * gib);
    gw_feed_alloc(&feed, mib);
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 16 * gib);
    close_program(1);
}

/* No recorded allocation explains 4.5 GiB of the card. Without another process that holds them, the request would
 * fit. But part of them may be the program's own context. */
static void feed_other_process_by_difference_near_its_own_context(void)
{
    open_program(16 * gib);
    gw_feed_alloc(&feed, 19 * gib / 2);
    gw_feed_no_room(&feed, 6 * gib, 2 * gib, 16 * gib);
    close_program(1);
}

static void feed_preallocation(void)
{
    open_program(16 * gib);
    gw_feed_map(&feed, "/venv/jaxlib/libjax_common.so");
    gw_feed_map(&feed, "/venv/torch/lib/libtorch_cuda.so");
    gw_feed_alloc(&feed, 12 * gib);
    gw_feed_no_room(&feed, 4 * gib, 3 * gib, 16 * gib);
    torch_oom_message();
    close_program(1);
}

static void feed_preallocation_near_jax_alone(void)
{
    open_program(16 * gib);
    gw_feed_map(&feed, "/venv/jaxlib/libjax_common.so");
    gw_feed_alloc(&feed, 12 * gib);
    gw_feed_no_room(&feed, 14 * gib, 3 * gib, 16 * gib);
    close_program(1);
}

static void feed_library_handle(void)
{
    open_torch(4 * gib);
    gw_feed_alloc(&feed, 3500 * mib);
    gw_feed_no_room(&feed, 32 * mib, 3 * mib, 4 * gib);
    gw_feed_stderr(&feed,
                   "Traceback (most recent call last):\n  File \"t.py\", line 9, in step\nRuntimeError: CUDA error: "
                   "CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n");
    close_program(1);
}

/* Report PyTorch's memory at the refusal of another library's request, which must come just before. */
static void report_beside(uint64_t allocated, uint64_t reserved)
{
    const uint64_t fields[][2] = {{GW_ALLOCATOR_WHEN, GW_WHEN_OTHER_REFUSED},
                                  {GW_ALLOCATOR_ALLOCATED, allocated},
                                  {GW_ALLOCATOR_RESERVED, reserved}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, fields[i][0], fields[i][1], 0, 0);
}

static void no_room_beside(uint64_t allocated, uint64_t reserved, bool is_told)
{
    open_torch(4 * gib);
    gw_feed_alloc(&feed, 3500 * mib);
    gw_feed_no_room(&feed, 32 * mib, 3 * mib, 4 * gib);
    report_beside(allocated, reserved);
    if (is_told)
        gw_feed_stderr(
            &feed, "Traceback (most recent call last):\n  File \"t.py\", line 9, in step\nRuntimeError: CUDA error: "
                   "CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n");
    close_program(1);
}

static void feed_library_handle_beside_a_cache(void)
{
    no_room_beside(500 * mib, 3500 * mib, true);
}

static void feed_library_handle_beside_live_tensors(void)
{
    no_room_beside(3490 * mib, 3500 * mib, true);
}

/* PyTorch holds little of the process's memory, so its report does not show what filled the card. */
static void feed_library_handle_beside_a_small_pytorch(void)
{
    no_room_beside(20 * mib, 1000 * mib, true);
}

/* Without the library's message, the refusal is not known to be about a handle. The cache would have been enough, so
 * the live memory is not the cause. */
static void feed_a_cache_that_another_library_cannot_use(void)
{
    no_room_beside(500 * mib, 3500 * mib, false);
}

static void fill_beside_other_process(uint64_t allocated)
{
    open_torch(16 * gib);
    gw_feed_alloc(&feed, 6 * gib);
    gw_feed_no_room(&feed, 32 * mib, 3 * mib, 16 * gib);
    report_beside(allocated, 6 * gib);
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=9663676416 cmd=python notebook.py");
    close_program(1);
}

/* Without the other process, the request would have fitted. Nothing else explains the refusal. */
static void feed_other_process_beside_live_tensors(void)
{
    fill_beside_other_process(6 * gib - mib);
}

/* The same, but without PyTorch's cache, the request would have fitted, too. */
static void feed_other_process_beside_a_cache(void)
{
    fill_beside_other_process(gib);
}

static void feed_library_handle_near_a_device_assert(void)
{
    open_torch(4 * gib);
    gw_feed_alloc(&feed, gib);
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 710, 0, mib, 0, 0);
    gw_feed_stderr(&feed,
                   "a.cu:92: f: block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
                   "Traceback (most recent call last):\n  File \"t.py\", line 9, in step\nRuntimeError: CUDA error: "
                   "CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n");
    close_program(1);
}

static void pile_up(bool second_card_is_used)
{
    gw_feed_open_bare(&feed);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/launcher");
    for (uint32_t worker = 0; worker < 4; worker++) {
        feed.pid = feed.tid = 200 + worker;
        gw_feed_begin_cuda(&feed, 4 * gib);
        gw_feed_text_call(&feed, "cuInit", GW_EV_DEVICE, 1, 4 * gib, 4 * gib, 0, "Test card");
        if (second_card_is_used)
            gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc0df, 0, 1, GW_CONTEXT_PRIMARY);
        if (worker < 3)
            gw_feed_alloc(&feed, 1146 * mib);
        else
            gw_feed_no_room(&feed, 1146 * mib, 200 * mib, 4 * gib);
    }
    gw_feed_exit_of(&feed, 203, 1, 0);
    gw_feed_exit(&feed, 1, 0);
}

static void feed_context_pileup(void)
{
    pile_up(false);
}

static void feed_context_pileup_near_no_card_is_idle(void)
{
    pile_up(true);
}

static void feed_fragmentation_near_a_small_margin(void)
{
    open_torch(4 * gib);
    gw_feed_alloc(&feed, 3900 * mib);
    observe_oom(150 * mib, 3700 * mib, 3860 * mib, 40 * mib);
    torch_oom_message();
    close_program(1);
}

static void judge_beside_a_pool(uint64_t reserved, const char *preallocate)
{
    open_program(8 * gib);
    gw_feed_map(&feed, "/venv/jaxlib/libjax_common.so");
    if (preallocate != NULL)
        gw_feed_meta(&feed, "env.XLA_PYTHON_CLIENT_PREALLOCATE", preallocate);
    gw_feed_alloc(&feed, 6 * gib);
    gw_feed_call(&feed, "?", GW_EV_NOTE, 0, GW_NOTE_OBSERVER_ATTACHED, 0, 0, 0);
    gw_feed_alloc(&feed, gib);
    observe_oom(308 * mib, reserved - 150 * mib, reserved, 100 * mib);
    torch_oom_message();
    close_program(1);
}

static void feed_preallocation_seen_by_the_observer(void)
{
    judge_beside_a_pool(gib, NULL);
}

static void feed_preallocation_near_the_block_is_pytorchs(void)
{
    judge_beside_a_pool(7 * gib, NULL);
}

static void feed_preallocation_near_it_is_switched_off(void)
{
    judge_beside_a_pool(gib, "false");
}

static const row rows[] = {
    FAULT(driver_fragmentation, "gpu-oom-fragmentation", GW_ESTABLISHED, .value = {{(double)(7000 * mib), "bytes"}},
          .says = {"2 MiB"}),
    NOT_NAMED(driver_fragmentation_near_pages_are_full, "gpu-oom-fragmentation",
              .no_alternative = {"gpu-oom-fragmentation"}),
    FAULT(framework_fragmentation, "gpu-oom-fragmentation", GW_ESTABLISHED, .value = {{(double)(21 * mib), "bytes"}},
          .says = {"expandable_segments"}),
    NOT_NAMED(pytorchs_own_limit_after_an_outlived_refusal, "",
              .says = {"PyTorch's own limit of 2.80 GiB (set_per_process_memory_fraction) was reached"},
              .silent = {"cuMemAlloc of 200.00 GiB failed"}),
    FAULT(framework_fragmentation_near_all_is_in_use, "gpu-oom-capacity", GW_SUPPORTED, .ruled_out = {"fragmentation"}),
    FAULT(other_process, "gpu-oom-other-process", GW_ESTABLISHED, .says = {"4711", "python notebook.py"}),
    NOT_NAMED(a_refusal_beyond_the_table_is_not_of_the_first_card, "",
              .also = also_a_refusal_beyond_the_table_is_not_of_the_first_card),
    FAULT(other_process_of_the_same_run, "gpu-oom-other-process", GW_ESTABLISHED,
          .value = {{(double)(13 * gib), "bytes"}}, .says = {"200"}),
    FAULT(other_process_near_its_share_is_small, "gpu-oom-capacity", GW_ESTABLISHED, .ruled_out = {"other processes"}),
    NAMED(steps_of_one_place_beside_other_process, "gpu-oom-leak", .alternative = {"gpu-oom-other-process"}),
    FAULT(steps_beside_other_process_without_sites, "gpu-oom-other-process", GW_SUPPORTED),
    FAULT(other_process_by_difference, "gpu-oom-other-process", GW_SUPPORTED, .says = {"its own contexts are included"},
          .silent = {"but not by this program"}),
    NOT_NAMED(other_process_by_difference_near_its_own_context, "gpu-oom-other-process",
              .no_alternative = {"gpu-oom-other-process"}),
    FAULT(preallocation, "gpu-oom-preallocation", GW_SUPPORTED, .says = {"XLA_PYTHON_CLIENT_PREALLOCATE"}),
    NAMED(preallocation_near_jax_alone, "gpu-oom-capacity"),
    FAULT(library_handle, "gpu-oom-library-handle", GW_SUPPORTED),
    FAULT(library_handle_beside_a_cache, "gpu-oom-library-handle", GW_SUPPORTED,
          .value = {{(double)(3000 * mib), "bytes"}},
          .says = {"PyTorch's cache kept 2.93 GiB", "torch.cuda.empty_cache()", "not made by PyTorch's allocator"},
          .no_alternative = {"gpu-oom-fragmentation"}),
    FAULT(library_handle_beside_live_tensors, "gpu-oom-library-handle", GW_SUPPORTED,
          .says = {"PyTorch's live tensors held 3.41 GiB of 4.00 GiB"}, .silent = {"torch.cuda.empty_cache()"}),
    FAULT(library_handle_beside_a_small_pytorch, "gpu-oom-library-handle", GW_SUPPORTED,
          .says = {"its message names another problem"}, .silent = {"PyTorch had", "PyTorch's cache"}),
    FAULT(other_process_beside_live_tensors, "gpu-oom-other-process", GW_ESTABLISHED,
          .says = {"4711", "held 6.00 GiB"}),
    FAULT(other_process_beside_a_cache, "gpu-oom-other-process", GW_SUPPORTED, .says = {"4711", "held 6.00 GiB"}),
    NOT_NAMED(a_cache_that_another_library_cannot_use, "gpu-oom-capacity", .alternative = {"gpu-oom-capacity"},
              .no_alternative = {"gpu-oom-fragmentation"}),
    FAULT(library_handle_near_a_device_assert, "device-assert-index", GW_ESTABLISHED, .says = {"n_classes"},
          .no_alternative = {"gpu-oom-library-handle"}),
    FAULT(context_pileup, "gpu-context-pileup", GW_ESTABLISHED, .value = {{4, "count"}}, .says = {"GPU 1"}),
    FAULT(context_pileup_near_no_card_is_idle, "gpu-oom-other-process", GW_ESTABLISHED,
          .no_alternative = {"gpu-context-pileup"}),
    NAMED(fragmentation_near_a_small_margin, "gpu-oom-capacity", .alternative = {"gpu-oom-fragmentation"}),
    FAULT(preallocation_seen_by_the_observer, "gpu-oom-preallocation", GW_SUPPORTED,
          .value = {{(double)(6 * gib), "bytes"}}, .says = {"PyTorch had", "XLA_PYTHON_CLIENT_PREALLOCATE"},
          .silent = {"JAX had"}),
    NOT_NAMED(preallocation_near_the_block_is_pytorchs, "gpu-oom-preallocation"),
    NOT_NAMED(preallocation_near_it_is_switched_off, "gpu-oom-preallocation"),
    TEST(test_a_pool_of_its_own),
    TEST(test_pytorchs_own_limit),
};

ROWS_MAIN(rows)
