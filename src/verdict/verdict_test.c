/* Tests each cause on a run with the cause, and on a run that differs a little and must get another verdict. */
#include "judge_testlib.h"

static const uint64_t kib = 1u << 10, mib = 1u << 20, gib = 1u << 30;
enum { STREAM = 0x5151, KERNEL = 0xf1f1 };

static gw_feed feed; /* too large for the stack */
static gw_verdict *verdict;

static void judge_open(void)
{
    verdict = judge_fed(&feed);
}

static void judge_close(void)
{
    gw_verdict_free(verdict);
    verdict = NULL;
}

static void expect_fault(const char *cause, gw_certainty certainty)
{
    judge_open();
    assert_string_equal(gw_verdict_status_text(verdict->status), "fault");
    assert_string_equal(verdict->cause, cause);
    assert_string_equal(gw_certainty_text(verdict->certainty), gw_certainty_text(certainty));
    assert_true(verdict->evidence_count > 0);
    assert_true(verdict->next.count > 0);
    if (verdict->where != NULL) { /* these runs have no call sites, so only a traceback shows a place */
        assert_string_equal(verdict->where->what, "the exception was raised here");
        return;
    }
    assert_non_null(verdict->where_reason);
}

static void expect_status(gw_verdict_status status)
{
    judge_open();
    assert_string_equal(gw_verdict_status_text(verdict->status), gw_verdict_status_text(status));
    assert_null(verdict->cause);
}

static bool says(const char *part)
{
    return why_has(verdict, part) || list_has(&verdict->next, part) || list_has(&verdict->advice, part);
}

static bool has_value(double value, const char *unit)
{
    for (size_t i = 0; i < verdict->evidence_count; i++) {
        const gw_evidence *it = &verdict->evidence[i];
        if (it->has_value && it->value == value && strcmp(it->unit, unit) == 0)
            return true;
    }
    return false;
}

static bool has_alternative(const char *cause)
{
    return certainty_of_alternative(verdict, cause) != GW_CERTAINTY_NONE;
}

/* ---- a training program ---- */

typedef struct run {
    uint64_t block[8], saved;
} run;

static const uint64_t weight_bytes[8] = {6912, 256, 294912, 512, 250880, 40, 300 * 1024, 77824};

static void run_begin(run *it)
{
    for (int i = 0; i < 8; i++)
        it->block[i] = gw_feed_alloc(&feed, weight_bytes[i]);
}

static void run_end(const run *it)
{
    for (int i = 0; i < 8; i++)
        gw_feed_free(&feed, it->block[i]);
    if (it->saved != 0)
        gw_feed_free(&feed, it->saved);
}

static void iterate(int count)
{
    for (int k = 0; k < count; k++) {
        uint64_t batch = gw_feed_alloc(&feed, 7 * mib), activation = gw_feed_alloc(&feed, 500 * mib);
        gw_feed_copy(&feed, 7 * mib);
        for (int i = 0; i < 10; i++)
            gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_sync(&feed);
        gw_feed_free(&feed, activation);
        gw_feed_free(&feed, batch);
    }
}

static void open_program(uint64_t total)
{
    gw_feed_open(&feed, total);
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, KERNEL, 0x77, GW_OWNER_MODULE, 0, "class_report");
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, STREAM, 0, 0, 0);
}

static void close_program(int code)
{
    if (code == 0)
        gw_feed_call(&feed, "cuDevicePrimaryCtxRelease_v2", GW_EV_CTX_RELEASE, 0, 0, 0, 0, 0);
    gw_feed_exit(&feed, code, 0);
}

/* ---- healthy ---- */

static void feed_healthy_run(void)
{
    open_program(16 * gib);
    run it = {0};
    run_begin(&it);
    iterate(20);
    run_end(&it);
    close_program(0);
}

static void also_healthy_run(void)
{
    assert_int_equal(verdict->advice.count, 0);
    assert_int_equal(verdict->alternative_count, 0);
}

static void feed_left_to_process_exit_is_no_leak(void)
{
    open_program(16 * gib);
    run it = {0};
    run_begin(&it);
    it.saved = gw_feed_alloc(&feed, gib);
    iterate(20);
    gw_feed_exit(&feed, 0, 0);
}

static void feed_leak_list_of_a_clean_run(void)
{
    open_program(16 * gib);
    run it = {0};
    run_begin(&it);
    for (int i = 0; i < 60; i++) {
        iterate(1);
        gw_feed_alloc(&feed, 16 * mib);
    }
    run_end(&it);
    close_program(0);
}

static void feed_pool_reuse_is_said(void)
{
    open_program(16 * gib);
    for (int i = 0; i < 30; i++) {
        gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, 0xa000, gib, 0, STREAM);
        gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_call(&feed, "cuMemFreeAsync", GW_EV_FREE_ASYNC, 0, 0xa000, 0, 0, STREAM);
    }
    close_program(0);
}

static void feed_handled_failure_of_a_clean_run(void)
{
    open_program(16 * gib);
    uint64_t batch = gw_feed_alloc(&feed, gib);
    gw_feed_no_room(&feed, 20 * gib, 15 * gib, 16 * gib);
    gw_feed_free(&feed, batch);
    iterate(5);
    close_program(0);
}

static void feed_unobserved_is_never_clean(void)
{
    open_program(16 * gib);
    gw_feed_fact(&feed, "unobserved.driver", "pid 100 uses /opt/libcuda.so.1, and its calls were not recorded");
    close_program(0);
}

static void feed_program_without_cuda(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_exit(&feed, 0, 0);
}

static void feed_empty_recording(void)
{
    gw_feed_open_bare(&feed);
}

static void also_empty_recording(void)
{
    assert_false(verdict->exit_known);
}

/* ---- out of memory ---- */

static void feed_capacity(void)
{
    open_program(16 * gib);
    run it = {0};
    run_begin(&it);
    for (int i = 0; i < 5; i++)
        gw_feed_alloc(&feed, (2 + (uint64_t)i % 2) * gib + (uint64_t)i * mib);
    gw_feed_no_room(&feed, 5 * gib, 3 * gib, 16 * gib);
    close_program(1);
}

static void name_phase(const char *name)
{
    gw_feed_text_call(&feed, "", GW_EV_PHASE, 0, 0, 0, 0, name);
    gw_feed_wait(&feed, 1000000);
}

static void test_capacity_in_a_phase(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        open_program(16 * gib);
        name_phase("load");
        for (int i = 0; i < 5; i++)
            gw_feed_alloc(&feed, 3 * gib - (uint64_t)i * mib);
        name_phase(named ? "validation" : "");
        gw_feed_no_room(&feed, 5 * gib, gib, 16 * gib);
        gw_feed_exit(&feed, 1, 0);
        expect_fault("gpu-oom-capacity", GW_ESTABLISHED);
        assert_int_equal(says("this happened in phase validation"), named);
        assert_false(says("this happened in phase load"));
        judge_close();
    }
}

static void feed_capacity_near_the_failure_was_handled(void)
{
    open_program(16 * gib);
    uint64_t batch = gw_feed_alloc(&feed, 12 * gib);
    gw_feed_no_room(&feed, 5 * gib, 3 * gib, 16 * gib);
    gw_feed_free(&feed, batch);
    iterate(8);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nValueError: labels\n");
    close_program(1);
}

static void feed_one_block_holds_most(void)
{
    open_program(2 * gib);
    gw_feed_alloc(&feed, 1200 * mib);
    run it = {0};
    run_begin(&it);
    gw_feed_alloc(&feed, 300 * mib);
    gw_feed_no_room(&feed, 400 * mib, 20 * mib, 2 * gib);
    close_program(1);
}

static void feed_unchecked_allocation(void)
{
    open_program(8 * gib);
    gw_feed_alloc(&feed, 5 * gib);
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 8 * gib);
    for (int i = 0; i < 4; i++) { /* smaller blocks still fit */
        uint64_t workspace = gw_feed_alloc(&feed, 16 * mib);
        gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_free(&feed, workspace);
    }
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, STREAM, 0, 0, 0);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 700, 0, mib, 0, 0);
    close_program(1);
}

static void feed_unchecked_near_handled_then_an_unrelated_fault(void)
{
    open_program(8 * gib);
    uint64_t batch = gw_feed_alloc(&feed, 5 * gib);
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 8 * gib);
    gw_feed_free(&feed, batch);
    iterate(10);
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, STREAM, 0, 0, 0);
    close_program(1);
}

/* ---- refusals that the program survived ---- */

typedef enum after {
    AFTER_NOTHING,
    AFTER_RESULTS,  /* copy earlier results back */
    AFTER_COPIES,   /* copy input, launch, and copy the result back (blocking) */
    AFTER_FILLS,    /* fill memory, and wait for it with a blocking copy */
    AFTER_REQUESTS, /* very many further requests */
    AFTER_NULL      /* as AFTER_COPIES, then use the NULL pointer */
} after;

static void refuse_then(after what)
{
    open_program(8 * gib);
    gw_feed_alloc(&feed, 5 * gib);
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 8 * gib);
    bool works = what == AFTER_COPIES || what == AFTER_NULL;
    if (works || what == AFTER_FILLS)
        gw_feed_alloc(&feed, 16 * mib);
    if (works) {
        gw_feed_hot(&feed, "cuMemcpyHtoD_v2", GW_COUNT_COPY, 64, 0);
        gw_feed_launch(&feed, KERNEL, 0);
    }
    for (int i = 0; what == AFTER_FILLS && i < 10; i++)
        gw_feed_hot(&feed, "cuMemsetD8_v2", GW_COUNT_FILL, 64, 0);
    if (works || what == AFTER_FILLS || what == AFTER_RESULTS)
        gw_feed_hot(&feed, "cuMemcpyDtoH_v2", GW_COUNT_COPY, 64, 0);
    for (int i = 0; what == AFTER_REQUESTS && i < 2000; i++)
        gw_feed_free(&feed, gw_feed_alloc(&feed, mib));
    if (what == AFTER_NULL)
        gw_feed_call(&feed, "cuMemcpyHtoD_v2", GW_EV_COPY, 1, 0, 0x5000, 64, 0);
}

static void say_value_error(void)
{
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nValueError: labels\n");
    close_program(1);
}

static void say_illegal(void)
{
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, STREAM, 0, 0, 0);
    close_program(1);
}

static void test_an_exception_after_an_outlived_refusal(void **state)
{
    static const after good[] = {AFTER_COPIES, AFTER_FILLS, AFTER_REQUESTS};
    static const after bad[] = {AFTER_NOTHING, AFTER_RESULTS, AFTER_NULL};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        refuse_then(good[i]);
        say_value_error();
        /* Only a little work follows, so the program may have raised the exception because of the refusal. */
        expect_fault("script-exception", good[i] == AFTER_REQUESTS ? GW_ESTABLISHED : GW_SUPPORTED);
        assert_true(list_has(&verdict->advice, "handled: cuMemAlloc of 4.00 GiB"));
        judge_close();
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse_then(bad[i]);
        say_value_error();
        expect_fault("gpu-oom-capacity", GW_ESTABLISHED);
        assert_false(list_has(&verdict->advice, "handled"));
        judge_close();
    }
}

static void test_an_illegal_access_after_an_outlived_refusal(void **state)
{
    static const after good[] = {AFTER_COPIES, AFTER_FILLS, AFTER_REQUESTS};
    static const after bad[] = {AFTER_NOTHING, AFTER_RESULTS, AFTER_NULL};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        refuse_then(good[i]);
        say_illegal();
        expect_fault("illegal-address", good[i] == AFTER_REQUESTS ? GW_ESTABLISHED : GW_SUPPORTED);
        assert_true(has_alternative("gpu-oom-capacity"));
        assert_true(list_has(&verdict->advice, "handled: cuMemAlloc of 4.00 GiB"));
        judge_close();
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse_then(bad[i]);
        say_illegal();
        expect_fault("gpu-oom-capacity", GW_ESTABLISHED);
        assert_true(has_alternative("illegal-address"));
        judge_close();
    }
}

/* The program ended with only an exit code. Then a refusal is the root unless the program certainly handled it. */
static void test_an_exit_code_after_an_outlived_refusal(void **state)
{
    (void)state;
    refuse_then(AFTER_REQUESTS);
    close_program(3);
    expect_status(GW_VERDICT_UNDETERMINED);
    assert_true(list_has(&verdict->advice, "thousands of other requests succeeded"));
    judge_close();
    refuse_then(AFTER_COPIES);
    close_program(3);
    expect_fault("gpu-oom-capacity", GW_SUPPORTED);
    judge_close();
    refuse_then(AFTER_REQUESTS); /* a refused request at the end */
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 8 * gib);
    close_program(3);
    expect_fault("gpu-oom-capacity", GW_SUPPORTED);
    judge_close();
    refuse_then(AFTER_REQUESTS); /* the program itself reports a lack of memory */
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n"
                          "MemoryError: CUDA out of memory: cuMemAlloc of 4 GiB\n");
    close_program(1);
    judge_open();
    assert_non_null(verdict->cause);
    assert_string_equal(verdict->cause, "gpu-oom-capacity");
    judge_close();
}

/* A request of half the size at the same line is a search for a size that fits. At another line, it is just the next
 * request. */
static void test_a_retreat_without_a_free(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        open_program(8 * gib);
        uint32_t line = gw_feed_site(&feed, "grow /data/t.py 7"), other = gw_feed_site(&feed, "next /data/t.py 9");
        feed.site = line;
        gw_feed_no_room(&feed, 10 * gib, 8 * gib, 8 * gib);
        feed.site = same ? line : other;
        gw_feed_alloc(&feed, 5 * gib);
        gw_feed_hot(&feed, "cuMemsetD8_v2", GW_COUNT_FILL, 64, 0);
        gw_feed_hot(&feed, "cuMemcpyDtoH_v2", GW_COUNT_COPY, 64, 0);
        close_program(3);
        judge_open();
        assert_int_equal(verdict->status, same ? GW_VERDICT_UNDETERMINED : GW_VERDICT_FAULT);
        assert_int_equal(list_has(&verdict->advice, "handled"), same);
        judge_close();
    }
}

/* The program requests smaller and smaller sizes at one line until nothing fits. The last refusal ended it. */
static void feed_a_search_for_what_fits(void)
{
    open_program(8 * gib);
    feed.site = gw_feed_site(&feed, "grow /data/t.py 7");
    uint64_t left = 8 * gib;
    for (uint64_t bytes = 3 * gib; bytes >= 96 * mib; bytes /= 2) {
        for (; left >= bytes; left -= bytes)
            gw_feed_alloc(&feed, bytes);
        gw_feed_no_room(&feed, bytes, left, 8 * gib);
    }
    close_program(1);
}

static void also_a_search_for_what_fits(void)
{
    assert_int_equal(verdict->status, GW_VERDICT_FAULT);
}

/* A pool keeps so much of the card's 16 GiB that a plain block does not fit. */
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
    (void)state;
    refuse_beside_pool(12 * gib, gib, GW_EV_ALLOC, 0);
    assert_non_null(verdict->cause);
    assert_string_equal(verdict->cause, "gpu-oom-fragmentation");
    assert_int_equal(verdict->certainty, GW_ESTABLISHED);
    assert_true(says("pool 0xb001, the device's default pool, had reserved 12.00 GiB and used 1.00 GiB"));
    assert_true(says("never returns memory to the driver"));
    assert_true(list_has(&verdict->next, "cuMemPoolTrimTo"));
    assert_false(has_alternative("gpu-oom-other-process"));
    assert_false(has_alternative("gpu-hidden-driver-growth"));
    judge_close();
    refuse_beside_pool(12 * gib, gib, GW_EV_ALLOC_ASYNC, 0xb002); /* request from another pool */
    assert_string_equal(verdict->cause, "gpu-oom-fragmentation");
    judge_close();
    refuse_beside_pool(12 * gib, gib, GW_EV_ALLOC_ASYNC, 0xb001); /* request from the pool that keeps memory */
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, "gpu-oom-fragmentation") != 0);
    assert_false(has_alternative("gpu-oom-other-process"));
    judge_close();
    refuse_beside_pool(12 * gib, 12 * gib, GW_EV_ALLOC, 0); /* the program uses all memory of the pool */
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, "gpu-oom-fragmentation") != 0);
    assert_false(says("cuMemPoolTrimTo"));
    judge_close();
}

static void feed_handled_refusals_are_told_together(void)
{
    open_program(8 * gib);
    feed.site = gw_feed_site(&feed, "probe /data/t.py 7");
    for (int i = 0; i < 100; i++) {
        gw_feed_no_room(&feed, gib, 100 * mib, 8 * gib);
        iterate(1);
    }
    feed.site = gw_feed_site(&feed, "other /data/t.py 17");
    gw_feed_no_room(&feed, 3 * gib, 100 * mib, 8 * gib);
    gw_feed_wait(&feed, mib);
    gw_feed_no_room(&feed, 2 * gib, 100 * mib, 8 * gib);
    iterate(1);
    close_program(0);
}

static void train_twice(bool keep)
{
    run it[2] = {{{0}, 0}, {{0}, 0}};
    for (int k = 0; k < 2; k++) {
        run_begin(&it[k]);
        if (k == 0) {
            iterate(4);
            it[k].saved = gw_feed_alloc(&feed, 9 * gib);
            if (!keep)
                run_end(&it[k]);
        }
    }
}

static void feed_second_run_finds_the_first_ones_memory(void)
{
    open_program(16 * gib);
    train_twice(true);
    gw_feed_no_room(&feed, 8 * gib, 6 * gib, 16 * gib);
    close_program(1);
}

static void also_second_run_finds_the_first_ones_memory(void)
{
    uint64_t kept = 9 * gib;
    for (int i = 0; i < 8; i++)
        kept += weight_bytes[i];
    assert_true(has_value((double)kept, "bytes"));
}

static void feed_second_run_near_the_first_was_released(void)
{
    open_program(16 * gib);
    train_twice(false);
    gw_feed_no_room(&feed, 20 * gib, 15 * gib, 16 * gib);
    close_program(1);
}

enum { PARTS = 5, STAGING = PARTS, BATCH, PLACES };
static uint32_t place[PLACES];

static void open_loader(void)
{
    static const char *const names[PLACES] = {"load net.c 10", "load net.c 11", "load net.c 12", "load net.c 13",
                                              "load net.c 14", "stage net.c 4", "train net.c 30"};
    open_program(16 * gib);
    for (int i = 0; i < PLACES; i++)
        place[i] = gw_feed_site(&feed, names[i]);
}

static uint64_t take_at(int where, uint64_t bytes)
{
    feed.site = place[where];
    uint64_t block = gw_feed_alloc(&feed, bytes);
    feed.site = 0;
    return block;
}

static void refuse_at(int where, uint64_t bytes)
{
    feed.site = place[where];
    gw_feed_no_room(&feed, bytes, 40 * mib, 16 * gib);
    feed.site = 0;
}

/* Load a layer: stage, copy and wait for its parts, which stay live. `kept` receives their addresses; it may be
 * NULL. */
static void load_layer_of(uint64_t bytes, uint64_t *kept)
{
    for (int k = 0; k < PARTS; k++) {
        uint64_t staging = take_at(STAGING, 20 * mib), part = take_at(k, bytes + (uint64_t)k * mib);
        gw_feed_copy(&feed, bytes);
        gw_feed_free(&feed, staging);
        if (kept != NULL)
            kept[k] = part;
    }
    gw_feed_sync(&feed);
}

static void load_layer(void)
{
    load_layer_of(160 * mib, NULL);
}

static void train_batches(int steps, uint64_t bytes)
{
    for (int i = 0; i < steps; i++) {
        uint64_t batch = take_at(BATCH, bytes);
        gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_sync(&feed);
        gw_feed_free(&feed, batch);
    }
}

static void feed_second_run_near_layers_that_repeat(void)
{
    open_loader();
    for (int i = 0; i < 19; i++)
        load_layer();
    take_at(STAGING, 20 * mib);
    refuse_at(0, 160 * mib);
    close_program(1);
}

/* The program loads layers, trains, and loads the same layers again, while the first ones are still live. */
static void feed_second_run_of_loaded_layers(void)
{
    open_loader();
    for (int i = 0; i < 12; i++)
        load_layer();
    train_batches(10, 64 * mib);
    for (int i = 0; i < 7; i++)
        load_layer();
    take_at(STAGING, 20 * mib);
    refuse_at(0, 160 * mib);
    close_program(1);
}

/* Train twice, with different sizes at the same lines. The memory of the first training is kept, or freed before the
 * second. */
static void train_another_size(bool keep)
{
    enum { LAYERS = 8 };
    uint64_t kept[LAYERS][PARTS];
    open_loader();
    for (int i = 0; i < LAYERS; i++)
        load_layer_of(200 * mib, kept[i]);
    train_batches(12, 64 * mib);
    for (int i = 0; !keep && i < LAYERS * PARTS; i++)
        gw_feed_free(&feed, kept[i / PARTS][i % PARTS]);
    for (uint64_t i = 0; i < 5; i++)
        load_layer_of((keep ? 310 : 620) * mib + i * 8 * mib, NULL);
    take_at(STAGING, 20 * mib);
    refuse_at(0, 700 * mib);
    close_program(1);
    judge_open();
}

static void test_second_run_of_another_size(void **state)
{
    (void)state;
    train_another_size(true);
    assert_string_equal(verdict->cause, "gpu-oom-leak");
    assert_true(says("second run"));
    assert_true(says("the same call sites requested other sizes in the same order"));
    judge_close();
    train_another_size(false);
    assert_false(says("second run"));
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, "gpu-oom-leak") != 0);
    judge_close();
}

/* Layers of increasing size without iterations between them belong to one run. */
static void feed_second_run_near_layers_that_grow(void)
{
    open_loader();
    for (uint64_t i = 0; i < 12; i++)
        load_layer_of((100 + 28 * i) * mib, NULL);
    take_at(STAGING, 20 * mib);
    refuse_at(0, 440 * mib);
    close_program(1);
}

/* A thread loads parts of many sizes while another thread trains. By chance, the call sites of their requests
 * repeat. */
static void feed_second_run_near_two_threads(void)
{
    open_loader();
    for (uint64_t i = 0; i < 12; i++) {
        feed.tid = GW_FEED_PID + 1;
        take_at(0, (1200 + 3 * i) * mib);
        gw_feed_copy(&feed, mib);
        feed.tid = GW_FEED_PID;
        train_batches(i % 2 == 0 ? 4 : 3, (40 + i) * mib);
    }
    feed.tid = GW_FEED_PID + 1;
    refuse_at(0, 1300 * mib);
    close_program(1);
}

/* Several whole runs repeat each other. The newest run counts as the second or third, even if it failed in its training
 * steps. */
static void test_second_run_that_fails_in_its_steps(void **state)
{
    (void)state;
    open_loader();
    for (int runs = 0; runs < 2; runs++) {
        load_layer_of(900 * mib, NULL);
        train_batches(20, 512 * mib);
    }
    load_layer_of(900 * mib, NULL);
    train_batches(18, 512 * mib);
    refuse_at(BATCH, 512 * mib);
    close_program(1);
    judge_open();
    assert_string_equal(verdict->cause, "gpu-oom-leak");
    judge_close();
    open_loader(); /* a single run: its training steps repeat each other but keep no memory */
    load_layer_of(2700 * mib, NULL);
    train_batches(58, 512 * mib);
    refuse_at(BATCH, 512 * mib);
    close_program(1);
    judge_open();
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, "gpu-oom-leak") != 0);
    judge_close();
}

static void feed_leak_each_iteration(void)
{
    open_program(2 * gib);
    run it = {0};
    run_begin(&it);
    for (int i = 0; i < 300; i++) {
        gw_feed_alloc(&feed, 5 * mib);
        gw_feed_alloc(&feed, 2 * kib);
        iterate(1);
    }
    gw_feed_no_room(&feed, 5 * mib, 4 * mib, 2 * gib);
    close_program(1);
}

/* ---- the verdict's place ---- */

static void expect_place(const char *text, const char *what)
{
    assert_non_null(verdict->where);
    assert_string_equal(verdict->where->frame[verdict->where->user].text, text);
    assert_non_null(strstr(verdict->where->what, what));
}

static void feed_leak_names_its_line(void)
{
    open_program(2 * gib);
    uint32_t batch = gw_feed_site(&feed, "next loader.py 41, train train.py 12");
    uint32_t label = gw_feed_site(&feed, "next loader.py 42, train train.py 12");
    uint32_t refused = gw_feed_site(&feed, "forward model.py 7, train train.py 13");
    run it = {0};
    run_begin(&it);
    for (int i = 0; i < 300; i++) {
        feed.site = batch;
        gw_feed_alloc(&feed, 5 * mib);
        feed.site = label;
        gw_feed_alloc(&feed, 2 * kib);
        feed.site = 0;
        iterate(1);
    }
    feed.site = refused;
    gw_feed_no_room(&feed, 5 * mib, 4 * mib, 2 * gib);
    feed.site = 0;
    close_program(1);
}

static void also_leak_names_its_line(void)
{
    expect_place("loader.py:41 in next", "never freed");
    assert_null(verdict->where_reason);
}

static void feed_places_of_a_reset(void)
{
    open_program(2 * gib);
    uint32_t made = gw_feed_site(&feed, "build model.py 5"), reset = gw_feed_site(&feed, "restart main.py 9"),
             used = gw_feed_site(&feed, "clean main.py 20");
    feed.site = made;
    uint64_t block = gw_feed_alloc(&feed, 64 * mib);
    feed.site = reset;
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    feed.site = used;
    gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 1, block, 0, 0, 0);
    feed.site = 0;
    close_program(1);
}

static void also_places_of_a_reset(void)
{
    expect_place("main.py:9 in restart", "reset");
}

/* A call other than the launch reports the fault. The verdict must state that the place is that of the reporting
 * call. */
static void feed_place_of_a_late_report(void)
{
    open_program(2 * gib);
    uint32_t innocent = gw_feed_site(&feed, "validate train.py 50");
    gw_feed_sync(&feed);
    gw_feed_launch(&feed, KERNEL, STREAM);
    feed.site = innocent;
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 700, 0, mib, 0, 0);
    feed.site = 0;
    close_program(1);
}

static void also_place_of_a_late_report(void)
{
    expect_place("train.py:50 in validate", "reported the fault");
}

/* The stack is unreadable or has no frame of the user. The verdict then states the reason instead of a place. */
static void test_no_place_says_why(void **state)
{
    static const struct {
        const char *frames, *reason;
    } cases[] = {{NULL, "contains no call sites"},
                 {"", "none of the frames"},
                 {"wait /usr/lib/python3.11/threading.py 324", "none of the frames"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_program(2 * gib);
        feed.site = cases[i].frames == NULL ? 0 : gw_feed_site(&feed, cases[i].frames);
        gw_feed_no_room(&feed, 20 * gib, 2 * gib, 2 * gib);
        feed.site = 0;
        close_program(1);
        judge_open();
        assert_string_equal(verdict->cause, "gpu-oom-capacity");
        assert_null(verdict->where);
        assert_non_null(strstr(verdict->where_reason, cases[i].reason));
        judge_close();
    }
}

static void feed_leak_list_of_a_clean_run_has_lines(void)
{
    open_program(16 * gib);
    uint32_t kept = gw_feed_site(&feed, "workspace conv.py 8"), freed = gw_feed_site(&feed, "output conv.py 9"),
             stream = gw_feed_site(&feed, "request serve.py 3");
    for (uint64_t i = 0; i < 200; i++) {
        feed.site = kept;
        gw_feed_alloc(&feed, 16 * mib);
        feed.site = freed;
        gw_feed_free(&feed, gw_feed_alloc(&feed, 16 * mib)); /* same size and function, another line */
        feed.site = stream;
        gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, 0x10000 + i, 0, 0, 0);
    }
    feed.site = 0;
    close_program(0);
}

static void also_leak_list_of_a_clean_run_has_lines(void)
{
    assert_true(
        list_has(&verdict->advice, "3.12 GiB in 200 blocks of 16.00 MiB by cuMemAlloc at conv.py:8 in workspace"));
    assert_null(verdict->where);
}

static void feed_leak_near_activations_of_one_pass(void)
{
    open_program(2 * gib);
    for (int i = 0; i < 40; i++) /* weights of 40 layers */
        gw_feed_alloc(&feed, 64 * kib);
    gw_feed_copy(&feed, mib);
    for (int i = 0; i < 40; i++) {
        gw_feed_alloc(&feed, 50 * mib);
        gw_feed_launch(&feed, KERNEL, STREAM);
    }
    gw_feed_no_room(&feed, 50 * mib, 4 * mib, 2 * gib);
    close_program(1);
}

/* Only allocations were recorded. This may be a pool allocated in pieces, or a loop that keeps its blocks. */
static void feed_equal_blocks_without_work(void)
{
    open_program(2 * gib);
    for (int i = 0; i < 40; i++)
        gw_feed_alloc(&feed, 50 * mib);
    gw_feed_no_room(&feed, 50 * mib, 4 * mib, 2 * gib);
    close_program(1);
}

static void make_streams(int count)
{
    for (int i = 0; i < count; i++)
        gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, 0x100000 + (uint64_t)i, 0, 0, 0);
}

static void feed_stream_leak(void)
{
    open_program(3 * gib);
    make_streams(4000);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 2, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuMemGetInfo_v2", GW_EV_MEMORY_INFO, 0, mib, 3 * gib, 0, 2);
    close_program(1);
}

static void feed_stream_leak_near_memory_holds_it(void)
{
    open_program(3 * gib);
    make_streams(300);
    for (int i = 0; i < 5; i++)
        gw_feed_alloc(&feed, 500 * mib + (uint64_t)i * mib);
    gw_feed_no_room(&feed, gib, 300 * mib, 3 * gib);
    close_program(1);
}

static void feed_context_leak(void)
{
    open_program(3 * gib);
    for (uint64_t i = 0; i < 4; i++)
        gw_feed_call(&feed, "cuCtxCreate_v2", GW_EV_CTX_CREATE, 0, 0xa000 + i, 0, 0, GW_CONTEXT_PLAIN);
    gw_feed_call(&feed, "cuCtxCreate_v2", GW_EV_CTX_CREATE, 2, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuMemGetInfo_v2", GW_EV_MEMORY_INFO, 0, 400 * mib, 3 * gib, 0, 2);
    close_program(1);
}

/* Feed balanced steps, then a refusal that would not have happened without the `made` further contexts. */
static void train_in_contexts(int made)
{
    open_program(3 * gib);
    gw_feed_alloc(&feed, gib);
    for (int i = 0; i < 8; i++) {
        uint64_t batch = gw_feed_alloc(&feed, 200 * mib);
        gw_feed_launch(&feed, 0xf00, 0);
        gw_feed_sync(&feed);
        gw_feed_free(&feed, batch);
    }
    for (int i = 0; i < made; i++)
        gw_feed_call(&feed, "cuCtxCreate_v2", GW_EV_CTX_CREATE, 0, 0xa000 + (uint64_t)i, 0, 0, GW_CONTEXT_PLAIN);
    gw_feed_no_room(&feed, 200 * mib, 100 * mib, 3 * gib);
    close_program(1);
}

static void test_further_contexts_are_an_alternative(void **state)
{
    (void)state;
    train_in_contexts(2);
    judge_open();
    assert_null(verdict->cause);
    assert_true(has_alternative("gpu-oom-leak"));
    assert_true(has_alternative("gpu-oom-capacity"));
    assert_false(list_has(&verdict->ruled_out, "a leak"));
    judge_close();
    train_in_contexts(0);
    judge_open();
    assert_string_equal(verdict->cause, "gpu-oom-capacity");
    assert_true(list_has(&verdict->ruled_out, "a leak"));
    judge_close();
}

static void small_blocks(bool free_half)
{
    static uint64_t block[7000];
    for (int i = 0; i < 7000; i++)
        block[i] = gw_feed_alloc(&feed, mib);
    for (int i = 0; i < 7000 && free_half; i += 2)
        gw_feed_free(&feed, block[i]);
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

static void observe_oom(uint64_t wanted, uint64_t allocated, uint64_t reserved, uint64_t largest)
{
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, wanted, 0, 0);
    gw_feed_call(&feed, "cuMemGetInfo_v2", GW_EV_MEMORY_INFO, 0, 10 * mib, 4 * gib, 0, 2);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_OOM, 0, wanted, 4 * gib, 10 * mib, 0);
    const uint64_t fields[][2] = {{GW_ALLOCATOR_ALLOCATED, allocated},
                                  {GW_ALLOCATOR_RESERVED, reserved},
                                  {GW_ALLOCATOR_LARGEST_INACTIVE, largest},
                                  {GW_ALLOCATOR_SEGMENTS, 122}};
    for (size_t i = 0; i < 4; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, fields[i][0], fields[i][1], 0, 0);
}

static void open_torch(uint64_t total)
{
    open_program(total);
    gw_feed_map(&feed, "/venv/lib/torch/lib/libtorch_cuda.so");
    gw_feed_call(&feed, "?", GW_EV_NOTE, 0, GW_NOTE_OBSERVER_ATTACHED, 0, 0, 0);
}

static void torch_oom_message(void)
{
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"train.py\", line 9, in step\n"
                          "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 26.00 MiB.\n");
}

static void feed_framework_fragmentation(void)
{
    open_torch(4 * gib);
    gw_feed_alloc(&feed, 3600 * mib);
    observe_oom(26 * mib, 3287 * mib, 3598 * mib, 21 * mib);
    torch_oom_message();
    close_program(1);
}

/* PyTorch may use 2867 MiB of 140 GiB. It reports this limit if `is_told`. With `by_driver`, the driver runs out of
 * memory instead. */
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
    (void)state;
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
        judge_close();
        at_own_limit(told, true);
        assert_false(says("set_per_process_memory_fraction"));
        assert_true(says("10.00 MiB of 140.00 GiB was free"));
        judge_close();
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

/* ---- out of memory after events were lost ---- */

static void lose(uint64_t events)
{
    gw_item item = {.kind = GW_ITEM_LOST, .t_ns = feed.t_ns, .pid = GW_FEED_PID};
    item.lost.events = events;
    gw_error err;
    assert_int_equal(gw_model_feed(feed.model, &item, &err), GW_OK);
}

/* This process may have allocated the memory of unknown origin in the lost events. */
static void test_other_process_by_difference_and_lost_events(void **state)
{
    (void)state;
    for (uint64_t lost = 0; lost < 2; lost++) {
        open_program(16 * gib);
        gw_feed_alloc(&feed, 3 * gib);
        gw_feed_no_room(&feed, 4 * gib, 2 * gib, 16 * gib);
        lose(lost * 1000);
        close_program(1);
        if (lost == 0) {
            expect_fault("gpu-oom-other-process", GW_SUPPORTED);
        } else {
            expect_status(GW_VERDICT_UNDETERMINED);
            assert_true(has_alternative("gpu-oom-other-process"));
            assert_true(list_has(&verdict->advice, "1000 events were lost"));
        }
        judge_close();
    }
}

/* The driver's own numbers are missing, too, so it is not known whether this program filled the card. */
static void test_capacity_and_lost_events(void **state)
{
    (void)state;
    for (uint64_t lost = 0; lost < 2; lost++) {
        open_program(16 * gib);
        gw_feed_alloc(&feed, 9 * gib);
        gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, 2 * gib, 0, 0);
        lose(lost * 1000);
        close_program(1);
        if (lost == 0) {
            expect_fault("gpu-oom-capacity", GW_SUPPORTED);
        } else {
            expect_status(GW_VERDICT_UNDETERMINED);
            assert_true(has_alternative("gpu-oom-capacity"));
        }
        judge_close();
    }
}

/* A request larger than the card explains the failure by itself, even if the program keeps memory, and even if the
 * frees of that memory may have been lost. */
static void test_no_leak_explains_an_impossible_request(void **state)
{
    (void)state;
    for (uint64_t lost = 0; lost < 2; lost++) {
        open_program(16 * gib);
        for (int i = 0; i < 40; i++) {
            uint64_t batch = gw_feed_alloc(&feed, 8 * mib);
            gw_feed_alloc(&feed, 4 * mib);
            gw_feed_launch(&feed, KERNEL, STREAM);
            gw_feed_sync(&feed);
            gw_feed_free(&feed, batch);
        }
        lose(lost * 1000);
        gw_feed_no_room(&feed, 32 * gib, 15 * gib, 16 * gib);
        close_program(1);
        expect_fault("gpu-oom-capacity", lost == 0 ? GW_ESTABLISHED : GW_SUPPORTED);
        judge_close();
    }
}

/* A few blocks that seem to be kept are not a leak if events were lost, because a context takes more memory than these
 * blocks. */
static void test_few_blocks_and_lost_events(void **state)
{
    (void)state;
    open_program(4 * gib);
    for (int i = 0; i < 40; i++) {
        uint64_t batch = gw_feed_alloc(&feed, 8 * mib);
        gw_feed_alloc(&feed, 4 * mib);
        gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_sync(&feed);
        gw_feed_free(&feed, batch);
    }
    lose(1000);
    gw_feed_no_room(&feed, 3600 * mib, 3500 * mib, 4 * gib);
    close_program(1);
    judge_open();
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, "gpu-oom-leak") != 0);
    judge_close();
}

/* Blocks that seem to be kept may have been freed in the lost events, unless the driver has as much memory in use. */
static void test_leak_and_lost_events(void **state)
{
    (void)state;
    for (uint64_t unseen_gib = 0; unseen_gib <= 16; unseen_gib += 16) {
        open_program((16 + unseen_gib) * gib);
        for (int i = 0; i < 14; i++) {
            uint64_t batch = gw_feed_alloc(&feed, 512 * mib);
            gw_feed_alloc(&feed, gib);
            gw_feed_launch(&feed, KERNEL, STREAM);
            gw_feed_sync(&feed);
            gw_feed_free(&feed, batch);
        }
        lose(1000);
        gw_feed_no_room(&feed, 2 * gib, gib, (16 + unseen_gib) * gib);
        close_program(1);
        if (unseen_gib == 0) {
            expect_fault("gpu-oom-leak", GW_SUPPORTED);
        } else {
            expect_status(GW_VERDICT_UNDETERMINED);
            assert_true(has_alternative("gpu-oom-leak"));
        }
        judge_close();
    }
}

/* The driver has as much memory in use as the ledger counted, so the lost events do not matter. */
static void test_driver_fragmentation_and_lost_events(void **state)
{
    (void)state;
    for (uint64_t total_gib = 8; total_gib <= 16; total_gib += 8) {
        open_program(total_gib * gib);
        small_blocks(true);
        lose(1000);
        gw_feed_no_room(&feed, 2 * gib, 700 * mib, total_gib * gib);
        close_program(1);
        if (total_gib == 8) {
            expect_fault("gpu-oom-fragmentation", GW_SUPPORTED);
        } else {
            expect_status(GW_VERDICT_UNDETERMINED);
            assert_true(has_alternative("gpu-oom-fragmentation"));
        }
        judge_close();
    }
}

/* Train with a batch in each step, while another process uses the card. Each step leaves `keeps` bytes behind. */
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

/* One step that kept a quarter of the program's memory may be the start of a leak. Then the request would have failed
 * even without the other process. */
static void test_other_process_and_a_first_step_that_keeps(void **state)
{
    (void)state;
    train_beside_another(1, 512 * mib);
    expect_fault("gpu-oom-other-process", GW_SUPPORTED);
    judge_close();
    train_beside_another(1, 0);
    expect_fault("gpu-oom-other-process", GW_ESTABLISHED);
    judge_close();
    train_beside_another(6, 0);
    expect_fault("gpu-oom-other-process", GW_ESTABLISHED);
    judge_close();
}

/* The model does not track devices beyond its table. It must not compute with their memory, or with the memory of
 * device 0 instead. */
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

/* The request would have fitted without the unknown memory, but perhaps not without its part that is not in this
 * program's own context. */
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

static void feed_jax_says_it_itself(void)
{
    open_program(16 * gib);
    gw_feed_map(&feed, "/venv/jaxlib/libjax_common.so");
    gw_feed_alloc(&feed, 12 * gib);
    iterate(4);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 9, in step\n"
                          "jaxlib._jax.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
                          "2147483648 bytes.\n");
    close_program(1);
}

static void feed_torch_without_its_observer(void)
{
    open_torch(16 * gib);
    gw_feed_alloc(&feed, 12 * gib);
    gw_feed_no_room(&feed, 5 * gib, 3 * gib, 16 * gib);
    torch_oom_message();
    close_program(1);
}

static void feed_the_same_request_again(void)
{
    open_program(16 * gib);
    for (int i = 0; i < 5; i++)
        gw_feed_alloc(&feed, 3 * gib - (uint64_t)i * mib);
    gw_feed_no_room(&feed, 4 * gib, gib, 16 * gib);
    for (int i = 0; i < 100; i++)
        gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_sync(&feed);
    gw_feed_wait(&feed, 3000000000);
    gw_feed_no_room(&feed, 4 * gib, gib, 16 * gib);
    close_program(1);
}

static void observe_peaks(uint64_t flat, uint64_t last)
{
    for (uint64_t i = 0; i < 40; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_HISTORY, 0, GW_ACTION_LIVE_PEAK, 0,
                     i < 36 ? flat : flat + (last - flat) * (i - 35) / 4, (40 - i) * 1000);
}

static void feed_peak_phase(void)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 3900 * mib);
    observe_oom(200 * mib, 3890 * mib, 3900 * mib, 4 * mib);
    observe_peaks(gib, 3890 * mib);
    torch_oom_message();
    close_program(1);
}

static void feed_peak_phase_near_always_high(void)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 3900 * mib);
    observe_oom(200 * mib, 3890 * mib, 3900 * mib, 4 * mib);
    observe_peaks(3800 * mib, 3890 * mib);
    torch_oom_message();
    close_program(1);
}

/* A single request is too large for a nearly empty card. It is not a phase, even if memory use was level before. */
static void feed_peak_phase_near_one_large_request(void)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 300 * mib);
    observe_oom(3900 * mib, 290 * mib, 300 * mib, 4 * mib);
    observe_peaks(120 * mib, 290 * mib);
    torch_oom_message();
    close_program(1);
}

/* One step has a much larger batch. It fills the card with a few requests as large as the refused one. */
static void feed_peak_phase_near_one_larger_step(void)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 2600 * mib);
    observe_oom(2450 * mib, 2570 * mib, 2600 * mib, 4 * mib);
    observe_peaks(110 * mib, 2570 * mib);
    torch_oom_message();
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

static void feed_kept_exception(void)
{
    open_torch(8 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 6 * gib);
    observe_oom(3 * gib, 6 * gib, 6 * gib, mib);
    for (int i = 0; i < 100; i++)
        gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_sync(&feed);
    gw_feed_wait(&feed, 1000000000);
    observe_oom(2 * gib + mib, 6 * gib, 6 * gib, mib);
    for (int i = 0; i < 6; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x1000 * (uint64_t)i, gib - (uint64_t)i * mib, 1500000000,
                     GW_BLOCK_LIVE);
    torch_oom_message();
    close_program(1);
}

static void observe_blocks(uint64_t first_bytes, size_t count, uint64_t age_ns)
{
    for (size_t i = 0; i < count; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x100000000 + 0x1000 * (age_ns + i), first_bytes - i * mib,
                     age_ns, GW_BLOCK_LIVE);
}

/* A step fails immediately: a library's requests for two workspaces are refused, then the program's request for a
 * tensor. The program catches the exception. A smaller step uploads its batch, and its request of the same size is
 * refused within milliseconds. With `kept`, the memory of the first step is still live. */
static void fail_twice(bool kept, bool second)
{
    open_torch(7 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 6 * gib);
    gw_feed_launch(&feed, KERNEL, STREAM);
    observe_oom(614 * mib, 6 * gib, 6 * gib, mib);
    gw_feed_launch(&feed, KERNEL, STREAM);
    observe_oom(1843 * mib, 6 * gib, 6 * gib, mib);
    gw_feed_wait(&feed, 1000000);
    observe_oom(1226 * mib, 6 * gib, 6 * gib, mib);
    if (!second)
        observe_blocks(gib, 6, 50000000);
    if (second) {
        gw_feed_copy(&feed, 60 * mib);
        gw_feed_sync(&feed);
        gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_wait(&feed, 10000000);
        observe_oom(1226 * mib, 6 * gib, 6 * gib, mib);
        observe_blocks(gib, 6, kept ? 50000000 : 5000000);
    }
    torch_oom_message();
    close_program(1);
}

static void feed_kept_exception_fails_at_once(void)
{
    fail_twice(true, true);
}

static void also_kept_exception_fails_at_once(void)
{
    bool is_hypothesis = false; /* not judged while the first step is kept */
    for (size_t i = 0; i < verdict->alternative_count; i++)
        is_hypothesis = is_hypothesis || (strcmp(verdict->alternatives[i].cause, "gpu-oom-capacity") == 0 &&
                                          verdict->alternatives[i].certainty == GW_HYPOTHESIS);
    assert_true(is_hypothesis);
}

static void feed_kept_exception_near_a_dropped_one(void)
{
    fail_twice(false, true);
}

static void feed_kept_exception_near_a_library_that_tries(void)
{
    fail_twice(false, false);
}

/* ---- faults on the device ---- */

static void fault_with(uint16_t result)
{
    open_program(16 * gib);
    run it = {0};
    run_begin(&it);
    iterate(5);
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_wait(&feed, 50000000);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, result, 0, mib, 0, 0);
}

static void feed_illegal_address(void)
{
    fault_with(700);
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 700, 0, 0, 0, GW_CONTEXT_PRIMARY);
    close_program(1);
}

static void feed_illegal_address_is_a_fault_even_with_exit_0(void)
{
    fault_with(700);
    gw_feed_exit(&feed, 0, 0);
}

static void feed_illegal_address_near_lost_events(void)
{
    fault_with(700);
    lose(7);
    close_program(1);
}

static void feed_misaligned_access(void)
{
    fault_with(716);
    close_program(1);
}

static void feed_kernel_fault_other(void)
{
    fault_with(719);
    close_program(1);
}

static void test_device_faults_near_another_code(void **state)
{
    (void)state;
    fault_with(304); /* the operating system refused a call: not a cause in the catalogue */
    close_program(1);
    expect_status(GW_VERDICT_UNDETERMINED);
    assert_true(says("304"));
    judge_close();
    fault_with(220);
    close_program(1);
    expect_fault("nvlink-fault", GW_SUPPORTED);
    judge_close();
    fault_with(702);
    close_program(1);
    expect_fault("launch-timeout", GW_ESTABLISHED);
    judge_close();
    fault_with(911); /* fault of an external device: not a cause in the catalogue */
    close_program(1);
    expect_status(GW_VERDICT_UNDETERMINED);
    assert_true(says("911"));
    judge_close();
}

static void feed_device_assert_without_its_text(void)
{
    fault_with(710);
    close_program(1);
}

static void launch_refused(uint64_t threads, uint32_t shared, int exit_code)
{
    open_program(16 * gib);
    const uint64_t limits[][2] = {{1, 1024}, {2, 1024}, {5, 2147483647}, {6, 65535}, {8, 49152}, {97, 232448}};
    for (size_t i = 0; i < 6; i++)
        gw_feed_call(&feed, "?", GW_EV_DEVICE_ATTRIBUTE, 0, 0, limits[i][0], limits[i][1], 0);
    gw_feed_extra_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, 1, shared, KERNEL, 1 | 1ull << 32 | 1ull << 48,
                       threads | 1ull << 21 | 1ull << 42, STREAM);
    if (exit_code != 0)
        gw_feed_stderr(&feed, "program: cuLaunchKernel: CUDA_ERROR_INVALID_VALUE\n");
    close_program(exit_code);
}

static void test_launch_config(void **state)
{
    (void)state;
    launch_refused(4096, 0, 1);
    expect_fault("launch-config-invalid", GW_ESTABLISHED);
    assert_true(has_value(4096, "count"));
    assert_true(has_value(1024, "count"));
    assert_true(says("not sticky"));
    judge_close();
    launch_refused(32, 400000, 1);
    expect_fault("launch-config-invalid", GW_ESTABLISHED);
    assert_true(has_value(400000, "bytes"));
    judge_close();
}

static void test_launch_config_near_nothing_is_over(void **state)
{
    (void)state;
    launch_refused(32, 0, 1); /* refused for another reason, such as an invalid handle */
    expect_status(GW_VERDICT_UNDETERMINED);
    judge_close();
    launch_refused(4096, 0, 0); /* the program ended well, so the launch was a probe */
    expect_status(GW_VERDICT_CLEAN);
    judge_close();
}

/* ---- contexts, processes, the host ---- */

enum { OLD_EVENT = 0xe7e7e7 };

static uint64_t reset_with_things_kept(void)
{
    open_program(16 * gib);
    uint64_t weights = gw_feed_alloc(&feed, 4 * mib);
    gw_feed_call(&feed, "cuEventCreate", GW_EV_EVENT_CREATE, 0, OLD_EVENT, 0, 0, 0);
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_sync(&feed);
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc0de, 0, 0, GW_CONTEXT_PRIMARY);
    return weights;
}

static void test_context_destroyed(void **state)
{
    (void)state;
    uint64_t weights = reset_with_things_kept();
    gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 1, weights, 0, 0, 0);
    gw_feed_stderr(&feed, "program: cuMemFree: CUDA_ERROR_INVALID_VALUE\n"); /* a failed free rarely ends a program */
    close_program(1);
    expect_fault("context-destroyed", GW_ESTABLISHED);
    assert_true(says("reset"));
    assert_true(has_value((double)(4 * mib), "bytes"));
    judge_close();

    reset_with_things_kept();
    gw_feed_call(&feed, "cuEventRecord", GW_EV_EVENT_RECORD, 201, OLD_EVENT, 0, 0, 0);
    gw_feed_stderr(&feed, "program: cuEventRecord: CUDA_ERROR_INVALID_CONTEXT\n");
    close_program(1);
    expect_fault("context-destroyed", GW_ESTABLISHED);
    assert_true(says("event"));
    judge_close();

    reset_with_things_kept();
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    close_program(1);
    expect_fault("context-destroyed", GW_SUPPORTED);
    assert_true(has_alternative("illegal-address"));
    judge_close();

    reset_with_things_kept();
    gw_feed_inside(&feed, "cuLaunchKernel");
    gw_feed_exit(&feed, 0, 11);
    expect_fault("context-destroyed", GW_SUPPORTED);
    assert_true(has_alternative("host-crash-of-process"));
    judge_close();
}

/* Use each kind of object by its handle, or by a pointer into it, after its context was destroyed. The last call
 * fails. */
static void test_context_destroyed_by_kind(void **state)
{
    (void)state;
    enum { HANDLE = 0x7f120000, OWNER = 0x7f130000 };
    static const struct {
        const char *make, *use, *said;
        gw_event_kind made, used;
        uint16_t result;
        uint64_t into;
    } rows[] = {
        {"cuMemAlloc_v2", "cuMemcpyHtoD_v2", "the block of 1.00 MiB allocated at", GW_EV_ALLOC, GW_EV_COPY, 1, 4096},
        {"cuMemAllocAsync", "cuMemFreeAsync", "the block of 1.00 MiB allocated at", GW_EV_ALLOC_ASYNC, GW_EV_FREE_ASYNC,
         1, 0},
        {"cuStreamCreate", "cuStreamQuery", "the stream created at", GW_EV_STREAM_CREATE, GW_EV_SYNC, 400, 0},
        {"cuEventCreate", "cuEventRecord", "the event created at", GW_EV_EVENT_CREATE, GW_EV_EVENT_RECORD, 201, 0},
        {"cuModuleLoadData", "cuModuleUnload", "the module created at", GW_EV_MODULE_LOAD, GW_EV_MODULE_UNLOAD, 400, 0},
        {"cuModuleGetFunction", "cuLaunchKernel", "the function created at", GW_EV_FUNCTION, GW_EV_LAUNCH, 400, 0},
        {"cuGraphInstantiateWithFlags", "cuGraphLaunch", "the executable graph created at", GW_EV_GRAPH_EXEC_CREATE,
         GW_EV_GRAPH_LAUNCH, 400, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int anew = 0; anew < 2; anew++) { /* 1: created again with the same handle, so not this cause */
            open_program(16 * gib);
            feed.site = gw_feed_site(&feed, "build model.py 5");
            uint64_t bytes = rows[i].made == GW_EV_FUNCTION ? OWNER : mib;
            gw_feed_call(&feed, rows[i].make, rows[i].made, 0, HANDLE, bytes, 0, 0);
            feed.site = 0;
            gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
            gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc0de, 0, 0, GW_CONTEXT_PRIMARY);
            if (anew)
                gw_feed_call(&feed, rows[i].make, rows[i].made, 0, HANDLE, bytes, 0, 0);
            /* another object with the same handle must not explain the failure */
            if (rows[i].made != GW_EV_STREAM_CREATE)
                gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, HANDLE, 0, 0, 0);
            feed.tid++;
            gw_feed_call(&feed, rows[i].use, rows[i].used, rows[i].result, HANDLE + rows[i].into, 0, 0, 0);
            close_program(1);
            judge_open();
            bool found = verdict->cause != NULL && strcmp(verdict->cause, "context-destroyed") == 0;
            if (found == (anew != 0))
                fail_msg("%s, %d: %s", rows[i].use, anew, verdict->headline);
            if (found && !(says(rows[i].said) && says("at model.py:5 in build") && says("still used it")))
                fail_msg("%s: not said", rows[i].use);
            judge_close();
        }
    }
}

/* The thread's current context was destroyed. The verdict shows where that context was created. */
static void feed_context_destroyed_and_still_current(void)
{
    gw_feed_open_bare(&feed);
    feed.site = gw_feed_site(&feed, "start main.py 3");
    gw_feed_begin_cuda(&feed, 2 * gib);
    feed.site = gw_feed_site(&feed, "close lib.py 9");
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    feed.site = 0;
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 709, 0, mib, 0, 0);
    close_program(1);
}

static void also_context_destroyed_and_still_current(void)
{
    expect_place("lib.py:9 in close", "reset");
}

static void feed_context_destroyed_near_nothing_kept(void)
{
    open_program(16 * gib);
    uint64_t weights = gw_feed_alloc(&feed, 4 * mib);
    gw_feed_free(&feed, weights);
    gw_feed_call(&feed, "cuStreamDestroy_v2", GW_EV_STREAM_DESTROY, 0, STREAM, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc0de, 0, 0, GW_CONTEXT_PRIMARY);
    gw_feed_launch(&feed, KERNEL, 0);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    close_program(1);
}

static void pinned(uint16_t result, int exit_code)
{
    open_program(16 * gib);
    gw_feed_call(&feed, "cuMemHostRegister_v2", GW_EV_HOST_REGISTER, 0, 0x1000, gib, 0, 0);
    gw_feed_call(&feed, "cuMemHostRegister_v2", GW_EV_HOST_REGISTER, result, 0x1000, gib, 0, 0);
    if (exit_code != 0)
        gw_feed_stderr(&feed, "program: cuMemHostRegister failed\n");
    close_program(exit_code);
}

static void test_pinned_memory(void **state)
{
    (void)state;
    pinned(712, 1);
    expect_fault("pinned-memory-failure", GW_ESTABLISHED);
    assert_true(says("already registered"));
    judge_close();
    pinned(2, 1);
    expect_fault("pinned-memory-failure", GW_ESTABLISHED);
    assert_true(list_has(&verdict->ruled_out, "GPU memory"));
    judge_close();
}

static void feed_pinned_memory_near_it_was_a_probe(void)
{
    pinned(712, 0);
}

static void forked_child_asks(bool parent_had_initialised, const char *call, gw_event_kind kind)
{
    gw_feed_open_bare(&feed);
    if (parent_had_initialised)
        gw_feed_begin_cuda(&feed, 16 * gib);
    else
        gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
    uint32_t site = gw_feed_site(&feed, "start main.py 8"); /* fork site in the parent */
    feed.pid = feed.tid = 300;
    feed.context = 0;
    gw_feed_process(&feed, 300, GW_FEED_PID, "/usr/bin/program");
    gw_feed_call(&feed, "?", GW_EV_FORK, 0, GW_FEED_PID, parent_had_initialised, site, 0);
    gw_feed_call(&feed, call, kind, 3, 0, mib, 0, 0);
}

static void forked_child_calls(bool parent_had_initialised, const char *call, gw_event_kind kind, int end_of_child)
{
    forked_child_asks(parent_had_initialised, call, kind);
    gw_feed_exit_of(&feed, 300, end_of_child, 0);
}

static void forked(bool parent_had_initialised)
{
    forked_child_calls(parent_had_initialised, "cuMemAlloc_v2", GW_EV_ALLOC, 1);
    gw_feed_exit(&feed, 1, 0);
}

/* In the child, the runtime's cudaMalloc() fails at a query. The parent ends well or with status 1. */
static void test_fork_after_init_by_a_question(void **state)
{
    (void)state;
    for (int end = 0; end < 2; end++) {
        forked_child_calls(true, "cuCtxGetCurrent", GW_EV_CALL, 1);
        gw_feed_exit(&feed, end, 0);
        expect_fault("fork-after-init", end == 0 ? GW_SUPPORTED : GW_ESTABLISHED);
        judge_close();
    }
}

/* The child called the driver and continued without a GPU. It was killed, or exited much later. */
static void test_fork_near_the_child_worked_on(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        forked_child_asks(true, "cuCtxGetCurrent", GW_EV_CALL);
        gw_feed_wait(&feed, i == 0 ? 0 : 100000000000u);
        gw_feed_exit_of(&feed, 300, i == 2 ? 77 : 0, i == 2 ? 0 : 9);
        gw_feed_exit(&feed, 0, 0);
        expect_status(GW_VERDICT_CLEAN);
        judge_close();
    }
}

static void feed_fork_near_the_child_did_without(void)
{
    forked_child_calls(true, "cuCtxGetCurrent", GW_EV_CALL, 0);
    gw_feed_exit(&feed, 0, 0);
}

static void feed_fork_after_init(void)
{
    forked(true);
}

static void feed_fork_near_the_parent_had_not_initialised(void)
{
    forked(false);
}

/* PyTorch itself refuses to start in the child, so the child makes no driver call. */
static void told_of_a_fork(const char *last)
{
    gw_feed_open_bare(&feed);
    gw_feed_begin_cuda(&feed, 16 * gib);
    gw_feed_stderr(&feed,
                   "Process Process-1:\nTraceback (most recent call last):\n"
                   "  File \"/project/train.py\", line 7, in worker\n"
                   "  File \"/venv/lib/python3.12/site-packages/torch/cuda/__init__.py\", line 398, in _lazy_init\n"
                   "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
                   "you must use the 'spawn' start method\n");
    gw_feed_stderr(&feed, last);
    gw_feed_exit(&feed, 1, 0);
}

static void test_fork_after_init_told(void **state)
{
    (void)state;
    told_of_a_fork("");
    expect_fault("fork-after-init", GW_ESTABLISHED);
    assert_true(says("train.py\", line 7, in worker"));
    assert_true(says("initialised CUDA"));
    judge_close();
    told_of_a_fork("Traceback (most recent call last):\n  File \"/project/train.py\", line 30, in <module>\n"
                   "KeyError: 'labels'\n");
    expect_fault("script-exception", GW_ESTABLISHED); /* the program continued after the refusal */
    judge_close();
}

static void feed_script_exception(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_stderr(&feed,
                   "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nValueError: no\n");
    gw_feed_exit(&feed, 1, 0);
}

static void also_script_exception(void)
{
    assert_int_equal(verdict->alternative_count, 0);
}

static void feed_script_exception_near_cuda_words(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n"
                          "RuntimeError: CUDA error: no kernel image is available for execution on the device\n");
    gw_feed_exit(&feed, 1, 0);
}

static void feed_silent_exit_is_undetermined(void)
{
    open_program(16 * gib);
    iterate(3);
    gw_feed_exit(&feed, 3, 0);
}

static void also_silent_exit_is_undetermined(void)
{
    assert_int_equal(verdict->exit_code, 3);
}

static void end_by(int signal, bool after_failure)
{
    open_program(16 * gib);
    iterate(3);
    if (after_failure)
        gw_feed_no_room(&feed, 20 * gib, 15 * gib, 16 * gib);
    gw_feed_exit(&feed, 0, signal);
}

static void test_host_crash(void **state)
{
    (void)state;
    end_by(11, false);
    expect_fault("host-crash-of-process", GW_ESTABLISHED);
    judge_close();
    end_by(6, false);
    expect_fault("host-crash-of-process", GW_ESTABLISHED);
    judge_close();
}

static void feed_host_crash_near_an_allocation_failed(void)
{
    end_by(6, true); /* an uncaught exception after the refusal */
}

static void test_killed(void **state)
{
    (void)state;
    end_by(15, false);
    expect_fault("killed-by-scheduler-or-user", GW_ESTABLISHED);
    judge_close();
    end_by(9, false);
    expect_fault("killed-by-scheduler-or-user", GW_SUPPORTED); /* the kernel may have sent SIGKILL */
    judge_close();
}

static void feed_killed_near_a_lost_context(void)
{
    fault_with(700);
    gw_feed_exit(&feed, 0, 15);
}

static void feed_address_space_limit(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_meta(&feed, "rlimit.as", "4294967296");
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
    gw_feed_call(&feed, "cuInit", GW_EV_INIT, 2, 0, 0, 0, 0);
    gw_feed_exit(&feed, 1, 0);
}

static void test_address_space_limit_at_the_first_context(void **state)
{
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        gw_feed_open_bare(&feed);
        gw_feed_meta(&feed, "rlimit.as", limited ? "4294967296" : "unlimited");
        gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
        gw_feed_call(&feed, "cuInit", GW_EV_INIT, 0, 0, 0, 0, 0);
        gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 2, 0, 0, 0, GW_CONTEXT_PRIMARY);
        gw_feed_exit(&feed, 1, 0);
        expect_status(GW_VERDICT_UNDETERMINED);
        assert_int_equal(says("address-space limit of 4.00 GiB"), limited);
        assert_int_equal(has_alternative("gpu-oom-capacity"), !limited);
        judge_close();
    }
}

static void feed_a_childs_death_is_a_fault(void)
{
    open_program(16 * gib);
    feed.pid = feed.tid = 200;
    gw_feed_begin_cuda(&feed, 16 * gib);
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    gw_feed_exit_of(&feed, 200, 1, 0);
    feed.pid = feed.tid = GW_FEED_PID;
    gw_feed_exit(&feed, 0, 0);
}

static void feed_a_live_run_with_a_failure(void)
{
    open_program(16 * gib);
    for (int i = 0; i < 5; i++)
        gw_feed_alloc(&feed, 3 * gib - (uint64_t)i * mib);
    gw_feed_no_room(&feed, 5 * gib, gib, 16 * gib);
    gw_feed_drain(&feed);
}

static void also_a_live_run_with_a_failure(void)
{
    assert_false(verdict->exit_known);
}

static void feed_the_guards_refusal(void)
{
    open_program(140 * gib);
    for (int i = 0; i < 5; i++)
        gw_feed_alloc(&feed, 3 * gib - (uint64_t)i * mib);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_GUARD_REFUSED, 0, 5 * gib, 16 * gib, 15 * gib, 0);
    gw_event event = {.t_ns = feed.t_ns,
                      .pid = feed.pid,
                      .tid = feed.tid,
                      .kind = GW_EV_ALLOC,
                      .flags = GW_EVF_GUARD,
                      .result = 2,
                      .context = feed.context,
                      .arg = {0, 5 * gib, 0, 0}};
    gw_feed_event(&feed, &event);
    /* another process on the same card, which the guard's limit does not count */
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=13958643712 cmd=python notebook.py");
    close_program(1);
}

static void also_the_guards_refusal(void)
{
    assert_int_equal(verdict->gpus[0].bytes_limit, 16 * gib);
}

/* Random calls and results of four processes: judge_fed() checks that each verdict is sound. A random sequence must not
 * establish most verdicts, and the kinds of verdict must differ. */
static void test_hostile_events(void **state)
{
    (void)state;
    unsigned faults = 0, established = 0;
    static const char *const names[] = {"cuMemAlloc_v2", "cuLaunchKernel", "cuStreamSynchronize", "cuMemFree_v2"};
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 40; round++) {
        gw_feed_open_bare(&feed);
        for (int i = 0; i < 3000; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            feed.pid = 100 + (uint32_t)(random >> 20 & 3);
            feed.tid = feed.pid;
            feed.context = random >> 33 & 3;
            const char *name = names[random >> 5 & 3];
            static const uint16_t results[] = {0, 0, 0, 0, 1, 2, 2, 3, 700, 709, 201, 710, 719, 500, 600, 0};
            uint16_t result = results[random >> 50 & 15];
            if ((random >> 40 & 15) == 0)
                gw_feed_launch(&feed, random >> 8 & 255, random >> 16 & 7);
            else
                gw_feed_call(&feed, name, (gw_event_kind)(random % GW_EV_COUNT), result, random >> 8 & 255,
                             (random >> 16 & 1) ? random : random >> 44, random >> 24 & 31, random >> 32 & 15);
        }
        gw_feed_fact(&feed, "card.holder", round & 1 ? "pid= bytes=x cmd=" : "nonsense");
        gw_feed_stderr(&feed,
                       "Traceback (most recent call last):\nX: tried to allocate 99999999999999999999999 bytes\n");
        gw_feed_exit(&feed, round & 3, round & 4 ? 11 : 0);
        judge_open();
        faults += verdict->status == GW_VERDICT_FAULT;
        established += verdict->certainty == GW_ESTABLISHED;
        judge_close();
    }
    print_message("of 40 random runs %u are faults, %u of them established\n", faults, established);
    assert_true(faults > 0);
}

/* ---- the catalogue ---- */

static void test_catalogue(void **state)
{
    (void)state;
    size_t count;
    const gw_cause_info *causes = gw_causes(&count);
    assert_true(count >= 19);
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(causes[i].summary) > 10 && strlen(causes[i].proof) > 10 && strlen(causes[i].fixes) > 10);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(causes[i].id, causes[k].id);
        assert_string_not_equal(causes[i].id, "template");
    }
}

/* ---- cases found in real runs ---- */

/* Feed the maximum and minimum of live bytes in one span of 1 ms. Calls must be in order of time. */
static void observe_span(uint64_t ago_ms, uint64_t peak, uint64_t low)
{
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_HISTORY, 0, GW_ACTION_LIVE_PEAK, 0, peak, ago_ms * 1000000);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_HISTORY, 0, GW_ACTION_LIVE_LOW, 0, low, ago_ms * 1000000);
}

static void observe_block(uint64_t address, uint64_t bytes, uint64_t ago_ms)
{
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, address, bytes, ago_ms * 1000000, GW_BLOCK_LIVE);
}

/* Feed the blocks that one training keeps: weights, and two blocks for each of `kept` steps, 300 MiB and 76 MiB. */
static void observe_training(uint64_t ago_ms, uint64_t kept, uint64_t address)
{
    static const uint64_t weights[] = {7168, 512, 294912, 1024, 250880, 1536};
    for (uint64_t i = 0; i < 6; i++)
        observe_block(address + i * 0x100000, weights[i], ago_ms);
    for (uint64_t i = 0; i < kept; i++) {
        observe_block(address + 0x80000000 * (i + 1), 300 * mib, ago_ms - 20 * (i + 1));
        observe_block(address + 0x80000000 * (i + 1) + 0x40000000, 76 * mib, ago_ms - 20 * (i + 1));
    }
}

/* Feed steps that each allocate 900 MiB in addition to the kept memory, and free them. */
static void observe_steps(uint64_t ago_ms, uint64_t count, uint64_t base)
{
    for (uint64_t i = 0; i < count; i++)
        observe_span(ago_ms - i, base + (i % 2 == 0 ? 900 : 100) * mib, base + (i % 2 == 0 ? 50 : 0) * mib);
}

static void judge_two_trainings(bool first_is_kept)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 2000000000);
    gw_feed_alloc(&feed, 3900 * mib);
    /* as much memory is cached as requested, which does not prove fragmentation */
    observe_oom(154 * mib, 3730 * mib, 3887 * mib, 40 * mib);
    if (first_is_kept)
        observe_training(900, 6, 0x100000000);
    observe_training(400, first_is_kept ? 3 : 9, 0x900000000);
    for (uint64_t step = 0; step < 45; step++)
        observe_steps(900 - step * 18, 18, (first_is_kept ? 376 * mib * (step / 5) : step < 25 ? 0 : 376 * mib));
    torch_oom_message();
    close_program(1);
}

static void feed_a_leak_is_no_fragmentation(void)
{
    judge_two_trainings(true);
}

static void feed_a_leak_near_nothing_is_kept_of_the_first_run(void)
{
    judge_two_trainings(false);
}

/* The program copies its weights after some training, to compute an average. The sizes repeat, but this is not a second
 * run. */
static void feed_a_leak_near_a_copy_of_the_weights(void)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 2000000000);
    gw_feed_alloc(&feed, 3900 * mib);
    observe_oom(154 * mib, 3730 * mib, 3887 * mib, 40 * mib);
    for (uint64_t copy = 0; copy < 2; copy++) {
        for (uint64_t i = 0; i < 8; i++)
            observe_block(0x100000000 * (copy + 1) + i * 0x1000, (200 + 7 * i) * mib, copy == 0 ? 900 : 100);
    }
    observe_steps(880, 700, 1824 * mib);
    torch_oom_message();
    close_program(1);
}

/* Judge a loop that keeps some memory every few steps, as reported only by the observer. */
static void judge_kept_steps(bool later_phase)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 2000000000);
    gw_feed_alloc(&feed, 3900 * mib);
    observe_oom(154 * mib, 3600 * mib, 3630 * mib, 20 * mib);
    for (uint64_t i = 0; i < 12; i++)
        observe_block(0x100000000 + 0x80000000 * i, 290 * mib, later_phase ? 12 - i : 600 - 50 * i);
    if (later_phase) {
        observe_steps(800, 780, 0);
        for (uint64_t i = 0; i < 12; i++)
            observe_span(12 - i, 290 * mib * (i + 1), 290 * mib * i);
    } else {
        observe_steps(800, 200, 0);
        for (uint64_t i = 0; i < 12; i++)
            observe_steps(600 - 50 * i, 50, 290 * mib * (i + 1));
    }
    torch_oom_message();
    close_program(1);
}

static void feed_kept_steps_by_the_observer(void)
{
    judge_kept_steps(false);
}

static void feed_kept_steps_near_a_late_phase(void)
{
    judge_kept_steps(true);
}

/* Judge 12 kept blocks. The history begins 800 ms before the failure, so the first 3 blocks have no age. The process
 * first allocated memory `earlier_ns` before the history. */
static void judge_kept_steps_with_undated(uint64_t earlier_ns)
{
    open_torch(4 * gib);
    gw_feed_alloc(&feed, 3900 * mib);
    gw_feed_wait(&feed, earlier_ns + 800000000);
    observe_oom(154 * mib, 3600 * mib, 3630 * mib, 20 * mib);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_HISTORY_AGE, 800000000, 0, 0);
    for (uint64_t i = 0; i < 12; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x100000000 + 0x80000000 * i, 290 * mib,
                     i < 3 ? GW_AGE_UNKNOWN : (600 - 50 * i) * 1000000, GW_BLOCK_LIVE);
    observe_steps(800, 200, 0);
    for (uint64_t i = 0; i < 12; i++)
        observe_steps(600 - 50 * i, 50, 290 * mib * (i + 1));
    torch_oom_message();
    close_program(1);
}

static void feed_kept_steps_of_which_some_have_no_age(void)
{
    judge_kept_steps_with_undated(1000000);
}

/* All known steps keep memory, but the history covers only the end of the run. */
static void feed_kept_steps_near_a_history_that_began_late(void)
{
    judge_kept_steps_with_undated(5000000000);
}

/* Judge a run like kept_exception in which no block has an age. `history_ms` is the length of the history; 0: there is
 * none. */
static void judge_kept_exception_without_ages(uint64_t history_ms)
{
    open_torch(8 * gib);
    gw_feed_wait(&feed, 1000000000);
    gw_feed_alloc(&feed, 6 * gib);
    observe_oom(3 * gib, 6 * gib, 6 * gib, mib);
    for (int i = 0; i < 100; i++)
        gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_sync(&feed);
    gw_feed_wait(&feed, 1000000000);
    observe_oom(2 * gib + mib, 6 * gib, 6 * gib, mib);
    for (uint64_t i = 0; i < 6; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x1000 * i, gib - i * mib, GW_AGE_UNKNOWN, GW_BLOCK_LIVE);
    if (history_ms != 0)
        observe_span(history_ms, 6 * gib, 6 * gib);
    torch_oom_message();
    close_program(1);
    judge_open();
}

static void test_kept_exception_of_blocks_older_than_the_history(void **state)
{
    (void)state;
    judge_kept_exception_without_ages(1500);
    assert_string_equal(verdict->cause, "gpu-oom-leak");
    assert_true(says("exception"));
    judge_close();
}

static void test_kept_exception_near_ages_that_are_not_known(void **state)
{
    (void)state;
    const uint64_t too_short[] = {500, 0};
    for (size_t i = 0; i < 2; i++) {
        judge_kept_exception_without_ages(too_short[i]);
        assert_string_equal(verdict->cause, "gpu-oom-capacity");
        assert_string_equal(gw_certainty_text(verdict->certainty), "supported"); /* it may be a leak */
        assert_false(list_has(&verdict->ruled_out, "leak"));
        judge_close();
    }
}

/* The first pass of a deep model keeps a block of the same size for each layer. Its workspaces are freed. */
static void feed_kept_steps_near_a_first_pass(void)
{
    open_torch(4 * gib);
    gw_feed_wait(&feed, 2000000000);
    gw_feed_alloc(&feed, 3900 * mib);
    observe_oom(154 * mib, 3600 * mib, 3630 * mib, 20 * mib);
    for (uint64_t i = 0; i < 12; i++)
        observe_block(0x100000000 + 0x80000000 * i, 290 * mib, 600 - 50 * i);
    for (uint64_t i = 0; i < 12; i++)
        observe_steps(600 - 50 * i, 50, 290 * mib * (i + 1));
    torch_oom_message();
    close_program(1);
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

static const char xla_message[] = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6.00GiB.\n";

static void judge_told(const char *between, const char *exception)
{
    open_program(4 * gib);
    gw_feed_map(&feed, "/venv/jaxlib/libjax_common.so");
    iterate(4);
    gw_feed_stderr(&feed, xla_message);
    gw_feed_stderr(&feed, between);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 9, in <module>\n");
    gw_feed_stderr(&feed, exception);
    close_program(1);
}

static void feed_told_and_unwritten(void)
{
    judge_told("", "TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'\n");
}

static void feed_told_near_an_unrelated_exception(void)
{
    judge_told("", "ValueError: no entry for epoch 3\n");
}

static void feed_told_near_work_went_on(void)
{
    judge_told("epoch 1\nepoch 2\nepoch 3\n", "TypeError: 'NoneType' object is not iterable\n");
}

static void judge_on_virtual_card(const char *fn, uint16_t result, int code)
{
    gw_feed_open_bare(&feed);
    gw_feed_meta(&feed, "option.gpu", "virtual:h200");
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
    gw_feed_begin_cuda(&feed, 16 * gib);
    gw_feed_call(&feed, fn, GW_EV_CALL, result, 0, 0, 0, 0);
    gw_feed_exit(&feed, code, 0);
    expect_status(GW_VERDICT_UNDETERMINED);
}

static void test_runtime_api_on_a_virtual_card(void **state)
{
    (void)state;
    for (int code = 0; code < 2; code++) {
        judge_on_virtual_card("cuGetExportTable", 1, code);
        assert_true(says("runtime API"));
        assert_int_equal(verdict->ruled_out.count, 0);
        judge_close();
    }
}

static void test_a_virtual_card_lacks_a_call(void **state)
{
    (void)state;
    judge_on_virtual_card("cuTensorMapEncodeTiled", 801, 1);
    assert_true(says("cuTensorMapEncodeTiled"));
    assert_int_equal(verdict->ruled_out.count, 0);
    judge_close();
}

static void feed_runtime_api_near_a_real_card(void)
{
    open_program(16 * gib);
    gw_feed_call(&feed, "cuGetExportTable", GW_EV_CALL, 1, 0, 0, 0, 0);
    close_program(0);
}

static void judge_no_context(const char *data_limit, const char *gpu)
{
    gw_feed_open_bare(&feed);
    gw_feed_meta(&feed, "rlimit.as", "unlimited");
    gw_feed_meta(&feed, "rlimit.data", data_limit);
    gw_feed_meta(&feed, "option.gpu", gpu);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
    gw_feed_call(&feed, "cuInit", GW_EV_INIT, 0, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 2, 0, 0, 0, GW_CONTEXT_PRIMARY);
    gw_feed_exit(&feed, 1, 0);
}

static void feed_no_context_fits(void)
{
    judge_no_context("unlimited", "real");
}

static void test_no_context_near_a_host_limit(void **state)
{
    (void)state;
    judge_no_context("1000000", "real");
    expect_status(GW_VERDICT_UNDETERMINED);
    assert_true(has_alternative("gpu-oom-other-process"));
    judge_close();
    judge_no_context("unlimited", "virtual:h200");
    expect_status(GW_VERDICT_UNDETERMINED);
    judge_close();
}

static void feed_no_context_near_memory_is_free(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_meta(&feed, "rlimit.as", "unlimited");
    gw_feed_meta(&feed, "rlimit.data", "unlimited");
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/program");
    gw_feed_call(&feed, "cuInit", GW_EV_INIT, 0, 0, 0, 0, 0);
    gw_feed_text_call(&feed, "cuInit", GW_EV_DEVICE, 0, 16 * gib, 15 * gib, 0, "Test card");
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 2, 0, 0, 0, GW_CONTEXT_PRIMARY);
    gw_feed_exit(&feed, 1, 0);
}

/* Feed calls that also fail in healthy programs, at their start and end. */
static void ask_harmless(void)
{
    gw_feed_call(&feed, "cuCtxGetDevice_v2", GW_EV_CALL, 201, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 800, 0, 2 * mib, 0, 1);
    iterate(3);
    gw_feed_call(&feed, "cuLibraryUnload", GW_EV_CALL, 4, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRelease_v2", GW_EV_CTX_RELEASE, 4, 0, 0, 0, 0);
}

static void test_harmless_failures(void **state)
{
    (void)state;
    open_program(16 * gib);
    ask_harmless();
    gw_feed_exit(&feed, 0, 0);
    expect_status(GW_VERDICT_CLEAN);
    assert_int_equal(verdict->alternative_count, 0);
    judge_close();
    open_program(16 * gib);
    ask_harmless();
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\nValueError: no\n");
    gw_feed_exit(&feed, 1, 0);
    expect_fault("script-exception", GW_ESTABLISHED);
    assert_true(list_has(&verdict->ruled_out, "the GPU"));
    judge_close();
}

static void feed_a_childs_end_is_not_known(void)
{
    open_program(4 * gib);
    feed.pid = feed.tid = 200;
    gw_feed_begin_cuda(&feed, 4 * gib);
    gw_feed_alloc(&feed, 3 * gib);
    gw_feed_no_room(&feed, 2 * gib, gib, 4 * gib);
    feed.pid = feed.tid = GW_FEED_PID;
    gw_feed_exit(&feed, 0, 0);
}

static void also_a_childs_end_is_not_known(void)
{
    assert_string_equal(gw_certainty_text(verdict->certainty), "supported");
}

/* ---- the table ---- */

enum { PARTS_MAX = 4, VALUES_MAX = 2 };

/* What the verdict on a run must contain, and what it must not contain. Unused entries of a list are NULL. */
typedef struct row {
    const char *name;
    void (*feed)(void);
    const char *cause, *not_cause; /* NULL: not checked; not_cause "": any cause */
    gw_certainty certainty;        /* NONE: not checked */
    gw_verdict_status status;      /* only if `cause` and `not_cause` are NULL */
    struct {
        double value;
        const char *unit;
    } value[VALUES_MAX];                             /* values in the evidence */
    const char *says[PARTS_MAX], *silent[PARTS_MAX]; /* texts in headline, evidence, next steps or advice */
    const char *alternative[PARTS_MAX], *no_alternative[PARTS_MAX];
    const char *advice[PARTS_MAX], *no_advice[PARTS_MAX];
    const char *ruled_out[PARTS_MAX], *not_ruled_out[PARTS_MAX];
    const char *then[PARTS_MAX]; /* consequences */
    void (*also)(void);          /* further checks; NULL: none */
} row;

/* FAULT: a cause with this certainty. NO_FAULT: no cause. NAMED: a cause of any certainty. NOT_NAMED: another cause, or
 * none. */
#define FAULT(run, which, how, ...)                                                                                    \
    {                                                                                                                  \
        .name = #run, .feed = feed_##run, .cause = which, .certainty = how, __VA_ARGS__                                \
    }
#define NO_FAULT(run, end, ...)                                                                                        \
    {                                                                                                                  \
        .name = #run, .feed = feed_##run, .status = end, __VA_ARGS__                                                   \
    }
#define NAMED(run, which, ...)                                                                                         \
    {                                                                                                                  \
        .name = #run, .feed = feed_##run, .cause = which, __VA_ARGS__                                                  \
    }
#define NOT_NAMED(run, which, ...)                                                                                     \
    {                                                                                                                  \
        .name = #run, .feed = feed_##run, .not_cause = which, __VA_ARGS__                                              \
    }

static const row rows[] = {
    NO_FAULT(healthy_run, GW_VERDICT_CLEAN, .also = also_healthy_run),
    NO_FAULT(left_to_process_exit_is_no_leak, GW_VERDICT_CLEAN, .advice = {"was not freed before"},
             .no_advice = {"leak"}),
    NO_FAULT(leak_list_of_a_clean_run, GW_VERDICT_CLEAN, .advice = {"960.00 MiB", "60 blocks"}),
    NO_FAULT(pool_reuse_is_said, GW_VERDICT_CLEAN, .advice = {"reused"}),
    NO_FAULT(handled_failure_of_a_clean_run, GW_VERDICT_CLEAN, .advice = {"handled"}),
    NO_FAULT(unobserved_is_never_clean, GW_VERDICT_UNDETERMINED, .says = {"not observed"}),
    NO_FAULT(program_without_cuda, GW_VERDICT_CLEAN),
    NO_FAULT(empty_recording, GW_VERDICT_UNDETERMINED, .also = also_empty_recording),
    /* a leak is not ruled out, because there were no balanced iterations */
    FAULT(capacity, "gpu-oom-capacity", GW_ESTABLISHED, .value = {{(double)(5 * gib), "bytes"}},
          .not_ruled_out = {"a leak"}),
    FAULT(capacity_near_the_failure_was_handled, "script-exception", GW_ESTABLISHED,
          .alternative = {"gpu-oom-capacity"}),
    FAULT(one_block_holds_most, "gpu-oom-capacity", GW_ESTABLISHED, .value = {{(double)(1200 * mib), "bytes"}},
          .says = {"copy one batch at a time"}),
    FAULT(unchecked_allocation, "gpu-oom-capacity", GW_ESTABLISHED, .says = {"cuMemAlloc", "NULL"},
          .alternative = {"illegal-address"}, .then = {"700"}),
    FAULT(unchecked_near_handled_then_an_unrelated_fault, "illegal-address", GW_ESTABLISHED,
          .alternative = {"gpu-oom-capacity"}),
    NOT_NAMED(a_search_for_what_fits, "", .says = {"cuMemAlloc of 96.00 MiB failed"},
              .silent = {"cuMemAlloc of 3.00 GiB failed"}, .also = also_a_search_for_what_fits),
    NO_FAULT(
        handled_refusals_are_told_together, GW_VERDICT_CLEAN,
        .advice =
            {"handled: cuMemAlloc at t.py:7 in probe was refused 100 times for lack of memory (1.00 GiB each, ",
             "handled: cuMemAlloc at t.py:17 in other was refused 2 times for lack of memory (2.00 GiB to 3.00 GiB, "}),
    FAULT(second_run_finds_the_first_ones_memory, "gpu-oom-leak", GW_SUPPORTED, .ruled_out = {"fragmentation"},
          .also = also_second_run_finds_the_first_ones_memory),
    FAULT(second_run_near_the_first_was_released, "gpu-oom-capacity", GW_ESTABLISHED,
          .no_alternative = {"gpu-oom-leak"}),
    NOT_NAMED(second_run_near_layers_that_repeat, "gpu-oom-leak", .silent = {"second run"}),
    NAMED(second_run_of_loaded_layers, "gpu-oom-leak", .says = {"second run"}),
    NOT_NAMED(second_run_near_layers_that_grow, "", .silent = {"second run"}),
    NOT_NAMED(second_run_near_two_threads, "", .silent = {"second run"}),
    FAULT(leak_each_iteration, "gpu-oom-leak", GW_ESTABLISHED, .value = {{(double)(5 * mib), "bytes"}, {300, "count"}}),
    NAMED(leak_names_its_line, "gpu-oom-leak", .says = {"failed at model.py:7 in forward", "at loader.py:41 in next"},
          .also = also_leak_names_its_line),
    NAMED(places_of_a_reset, "context-destroyed",
          .says = {"cuMemFree at main.py:20 in clean returned 1",
                   "at model.py:5 in build, which was destroyed with the context"},
          .also = also_places_of_a_reset),
    NAMED(place_of_a_late_report, "illegal-address", .also = also_place_of_a_late_report),
    NO_FAULT(leak_list_of_a_clean_run_has_lines, GW_VERDICT_CLEAN,
             .advice = {"200 streams created at serve.py:3 in request, 200 of them never destroyed"},
             .no_advice = {"conv.py:9"}, .also = also_leak_list_of_a_clean_run_has_lines),
    FAULT(leak_near_activations_of_one_pass, "gpu-oom-capacity", GW_SUPPORTED, .not_ruled_out = {"a leak"}),
    FAULT(equal_blocks_without_work, "gpu-oom-capacity", GW_SUPPORTED),
    FAULT(stream_leak, "gpu-oom-leak", GW_ESTABLISHED, .value = {{4001, "count"}}, .says = {"stream"}),
    FAULT(stream_leak_near_memory_holds_it, "gpu-oom-capacity", GW_ESTABLISHED),
    /* the count excludes the primary context */
    FAULT(context_leak, "gpu-oom-leak", GW_ESTABLISHED, .value = {{4, "count"}}, .says = {"context"}),
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
    FAULT(other_process_by_difference, "gpu-oom-other-process", GW_SUPPORTED, .says = {"its own contexts are included"},
          .silent = {"but not by this program"}),
    NOT_NAMED(other_process_by_difference_near_its_own_context, "gpu-oom-other-process",
              .no_alternative = {"gpu-oom-other-process"}),
    FAULT(preallocation, "gpu-oom-preallocation", GW_SUPPORTED, .says = {"XLA_PYTHON_CLIENT_PREALLOCATE"}),
    NAMED(preallocation_near_jax_alone, "gpu-oom-capacity"),
    FAULT(library_handle, "gpu-oom-library-handle", GW_SUPPORTED),
    FAULT(library_handle_near_a_device_assert, "device-assert-index", GW_ESTABLISHED, .says = {"n_classes"},
          .no_alternative = {"gpu-oom-library-handle"}),
    FAULT(jax_says_it_itself, "gpu-oom-capacity", GW_SUPPORTED, .value = {{(double)(2 * gib), "bytes"}}),
    /* live memory is not known, because the driver only sees segments */
    NO_FAULT(torch_without_its_observer, GW_VERDICT_UNDETERMINED, .alternative = {"gpu-oom-capacity"}),
    FAULT(the_same_request_again, "gpu-oom-capacity", GW_ESTABLISHED, .says = {"refused 2 times, first at 0.00 s"}),
    FAULT(peak_phase, "gpu-oom-peak-phase", GW_SUPPORTED, .says = {"no_grad"}),
    FAULT(peak_phase_near_always_high, "gpu-oom-capacity", GW_SUPPORTED),
    FAULT(peak_phase_near_one_large_request, "gpu-oom-capacity", GW_SUPPORTED),
    FAULT(peak_phase_near_one_larger_step, "gpu-oom-capacity", GW_SUPPORTED),
    FAULT(context_pileup, "gpu-context-pileup", GW_ESTABLISHED, .value = {{4, "count"}}, .says = {"GPU 1"}),
    FAULT(context_pileup_near_no_card_is_idle, "gpu-oom-other-process", GW_ESTABLISHED,
          .no_alternative = {"gpu-context-pileup"}),
    FAULT(kept_exception, "gpu-oom-leak", GW_SUPPORTED, .says = {"exception"}),
    FAULT(kept_exception_fails_at_once, "gpu-oom-leak", GW_SUPPORTED, .value = {{(double)(1226 * mib), "bytes"}},
          .says = {"exception"}, .also = also_kept_exception_fails_at_once),
    /* all live memory is newer than the first failure */
    FAULT(kept_exception_near_a_dropped_one, "gpu-oom-capacity", GW_SUPPORTED, .no_alternative = {"gpu-oom-leak"}),
    /* the program did not wait for anything between the refusals, so they belong to one step */
    FAULT(kept_exception_near_a_library_that_tries, "gpu-oom-capacity", GW_SUPPORTED,
          .value = {{(double)(1226 * mib), "bytes"}}, .no_alternative = {"gpu-oom-leak"}),
    FAULT(illegal_address, "illegal-address", GW_ESTABLISHED,
          .says = {"class_report", "a reset does not help", "50.01 ms"}, .then = {"cuDevicePrimaryCtxRetain"}),
    FAULT(illegal_address_is_a_fault_even_with_exit_0, "illegal-address", GW_ESTABLISHED),
    /* a lost event could contradict the cause */
    FAULT(illegal_address_near_lost_events, "illegal-address", GW_SUPPORTED, .advice = {"7 events were lost"}),
    FAULT(misaligned_access, "misaligned-access", GW_ESTABLISHED),
    FAULT(kernel_fault_other, "kernel-fault-other", GW_ESTABLISHED),
    FAULT(device_assert_without_its_text, "device-assert-index", GW_SUPPORTED),
    NAMED(context_destroyed_and_still_current, "context-destroyed",
          .says = {"at main.py:3 in start is still current there"}, .also = also_context_destroyed_and_still_current),
    FAULT(context_destroyed_near_nothing_kept, "illegal-address", GW_ESTABLISHED,
          .no_alternative = {"context-destroyed"}),
    NO_FAULT(pinned_memory_near_it_was_a_probe, GW_VERDICT_CLEAN),
    FAULT(fork_after_init, "fork-after-init", GW_ESTABLISHED,
          .says = {"300", "100", "the fork was at main.py:8 in start"}),
    NO_FAULT(fork_near_the_child_did_without, GW_VERDICT_CLEAN),
    NO_FAULT(fork_near_the_parent_had_not_initialised, GW_VERDICT_UNDETERMINED, .no_alternative = {"fork-after-init"}),
    /* the GPU is not ruled out, because no driver call was recorded */
    FAULT(script_exception, "script-exception", GW_ESTABLISHED, .says = {"no CUDA driver call was observed"},
          .not_ruled_out = {"the GPU"}, .also = also_script_exception),
    NO_FAULT(script_exception_near_cuda_words, GW_VERDICT_UNDETERMINED),
    NO_FAULT(silent_exit_is_undetermined, GW_VERDICT_UNDETERMINED, .ruled_out = {"the GPU"},
             .also = also_silent_exit_is_undetermined),
    FAULT(host_crash_near_an_allocation_failed, "gpu-oom-capacity", GW_ESTABLISHED,
          .alternative = {"host-crash-of-process"}),
    FAULT(killed_near_a_lost_context, "illegal-address", GW_ESTABLISHED,
          .alternative = {"killed-by-scheduler-or-user"}),
    NO_FAULT(address_space_limit, GW_VERDICT_UNDETERMINED, .says = {"address-space limit of 4.00 GiB"},
             .no_alternative = {"gpu-oom-capacity"}),
    FAULT(a_childs_death_is_a_fault, "illegal-address", GW_ESTABLISHED),
    FAULT(a_live_run_with_a_failure, "gpu-oom-capacity", GW_ESTABLISHED, .also = also_a_live_run_with_a_failure),
    FAULT(the_guards_refusal, "gpu-oom-capacity", GW_ESTABLISHED, .says = {"limit set by gpuwhy", "16.00 GiB"},
          .silent = {"4711"}, .also = also_the_guards_refusal),
    FAULT(a_leak_is_no_fragmentation, "gpu-oom-leak", GW_SUPPORTED, .says = {"second run"}),
    NOT_NAMED(a_leak_near_nothing_is_kept_of_the_first_run, "gpu-oom-fragmentation", .silent = {"second run"}),
    NAMED(a_leak_near_a_copy_of_the_weights, "gpu-oom-capacity", .alternative = {"gpu-oom-leak"}),
    FAULT(kept_steps_by_the_observer, "gpu-oom-leak", GW_SUPPORTED, .value = {{12, "count"}}),
    FAULT(kept_steps_near_a_late_phase, "gpu-oom-peak-phase", GW_SUPPORTED),
    FAULT(kept_steps_near_a_first_pass, "gpu-oom-capacity", GW_SUPPORTED, .no_alternative = {"gpu-oom-leak"}),
    /* blocks without an age are not counted */
    FAULT(kept_steps_of_which_some_have_no_age, "gpu-oom-leak", GW_SUPPORTED,
          .value = {{(double)(9 * 290 * mib), "bytes"}}),
    /* not established, because it may be a leak */
    FAULT(kept_steps_near_a_history_that_began_late, "gpu-oom-capacity", GW_SUPPORTED, .not_ruled_out = {"leak"}),
    NAMED(fragmentation_near_a_small_margin, "gpu-oom-capacity", .alternative = {"gpu-oom-fragmentation"}),
    FAULT(preallocation_seen_by_the_observer, "gpu-oom-preallocation", GW_SUPPORTED,
          .value = {{(double)(6 * gib), "bytes"}}, .says = {"PyTorch had", "XLA_PYTHON_CLIENT_PREALLOCATE"},
          .silent = {"JAX had"}),
    NOT_NAMED(preallocation_near_the_block_is_pytorchs, "gpu-oom-preallocation"),
    NOT_NAMED(preallocation_near_it_is_switched_off, "gpu-oom-preallocation"),
    FAULT(told_and_unwritten, "gpu-oom-capacity", GW_SUPPORTED, .says = {"never been written"},
          .alternative = {"script-exception"}),
    FAULT(told_near_an_unrelated_exception, "script-exception", GW_SUPPORTED, .alternative = {"gpu-oom-capacity"},
          .not_ruled_out = {"the GPU"}),
    FAULT(told_near_work_went_on, "script-exception", GW_SUPPORTED),
    NO_FAULT(runtime_api_near_a_real_card, GW_VERDICT_CLEAN),
    FAULT(no_context_fits, "gpu-oom-other-process", GW_SUPPORTED),
    NO_FAULT(no_context_near_memory_is_free, GW_VERDICT_UNDETERMINED, .no_alternative = {"gpu-oom-other-process"}),
    NO_FAULT(a_childs_end_is_not_known, GW_VERDICT_CLEAN, .says = {"not handled"},
             .also = also_a_childs_end_is_not_known),
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static void expect_parts(const gw_string_list *list, const char *const *part, bool there)
{
    for (size_t i = 0; i < PARTS_MAX && part[i] != NULL; i++)
        if (list_has(list, part[i]) != there)
            fail_msg("%s: %s", there ? "not there" : "there", part[i]);
}

static void expect_cause(const row *it)
{
    if (it->cause != NULL && it->certainty != GW_CERTAINTY_NONE) {
        expect_fault(it->cause, it->certainty);
    } else if (it->cause != NULL) {
        judge_open();
        assert_string_equal(verdict->cause, it->cause);
    } else if (it->not_cause != NULL) {
        judge_open();
        assert_string_not_equal(verdict->cause == NULL ? "none" : verdict->cause, it->not_cause);
    } else {
        expect_status(it->status);
    }
}

static void test_row(void **state)
{
    const row *it = *state;
    it->feed();
    expect_cause(it);
    for (size_t i = 0; i < PARTS_MAX; i++) {
        assert_true(it->says[i] == NULL || says(it->says[i]));
        assert_false(it->silent[i] != NULL && says(it->silent[i]));
        assert_true(it->alternative[i] == NULL || has_alternative(it->alternative[i]));
        assert_false(it->no_alternative[i] != NULL && has_alternative(it->no_alternative[i]));
    }
    for (size_t i = 0; i < VALUES_MAX; i++)
        assert_true(it->value[i].unit == NULL || has_value(it->value[i].value, it->value[i].unit));
    expect_parts(&verdict->advice, it->advice, true);
    expect_parts(&verdict->advice, it->no_advice, false);
    expect_parts(&verdict->ruled_out, it->ruled_out, true);
    expect_parts(&verdict->ruled_out, it->not_ruled_out, false);
    expect_parts(&verdict->consequences, it->then, true);
    if (it->also != NULL)
        it->also();
    judge_close();
}

/* Tests that judge several runs each. */
static const struct CMUnitTest others[] = {
    cmocka_unit_test(test_capacity_in_a_phase),
    cmocka_unit_test(test_an_exception_after_an_outlived_refusal),
    cmocka_unit_test(test_an_illegal_access_after_an_outlived_refusal),
    cmocka_unit_test(test_an_exit_code_after_an_outlived_refusal),
    cmocka_unit_test(test_a_retreat_without_a_free),
    cmocka_unit_test(test_a_pool_of_its_own),
    cmocka_unit_test(test_second_run_of_another_size),
    cmocka_unit_test(test_second_run_that_fails_in_its_steps),
    cmocka_unit_test(test_no_place_says_why),
    cmocka_unit_test(test_further_contexts_are_an_alternative),
    cmocka_unit_test(test_pytorchs_own_limit),
    cmocka_unit_test(test_other_process_and_a_first_step_that_keeps),
    cmocka_unit_test(test_other_process_by_difference_and_lost_events),
    cmocka_unit_test(test_capacity_and_lost_events),
    cmocka_unit_test(test_no_leak_explains_an_impossible_request),
    cmocka_unit_test(test_few_blocks_and_lost_events),
    cmocka_unit_test(test_leak_and_lost_events),
    cmocka_unit_test(test_driver_fragmentation_and_lost_events),
    cmocka_unit_test(test_device_faults_near_another_code),
    cmocka_unit_test(test_launch_config),
    cmocka_unit_test(test_launch_config_near_nothing_is_over),
    cmocka_unit_test(test_context_destroyed),
    cmocka_unit_test(test_context_destroyed_by_kind),
    cmocka_unit_test(test_pinned_memory),
    cmocka_unit_test(test_fork_after_init_by_a_question),
    cmocka_unit_test(test_fork_near_the_child_worked_on),
    cmocka_unit_test(test_fork_after_init_told),
    cmocka_unit_test(test_host_crash),
    cmocka_unit_test(test_killed),
    cmocka_unit_test(test_address_space_limit_at_the_first_context),
    cmocka_unit_test(test_kept_exception_of_blocks_older_than_the_history),
    cmocka_unit_test(test_kept_exception_near_ages_that_are_not_known),
    cmocka_unit_test(test_runtime_api_on_a_virtual_card),
    cmocka_unit_test(test_a_virtual_card_lacks_a_call),
    cmocka_unit_test(test_no_context_near_a_host_limit),
    cmocka_unit_test(test_harmless_failures),
    cmocka_unit_test(test_hostile_events),
    cmocka_unit_test(test_catalogue),
};

enum { OTHER_COUNT = sizeof others / sizeof others[0] };

int main(void)
{
    struct CMUnitTest tests[ROW_COUNT + OTHER_COUNT];
    for (size_t i = 0; i < ROW_COUNT; i++)
        tests[i] = (struct CMUnitTest){.name = rows[i].name, .test_func = test_row, .initial_state = (void *)&rows[i]};
    memcpy(tests + ROW_COUNT, others, sizeof others);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
