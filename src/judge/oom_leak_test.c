/* Tests refused requests in programs where iterations, or an earlier run of the same work, kept memory. */
#include "run_testlib.h"

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

static void feed_second_run_with_a_known_problem(void)
{
    open_program(16 * gib);
    gw_feed_text_call(&feed, "?", GW_EV_NOTE, GW_NOTE_OBSERVER_ATTACHED, 0, 0, 0, "PyTorch 2.9.0+cu128; history on");
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, 0xf1f1, 0x77, GW_OWNER_MODULE, 0, "vol2col_kernel");
    feed.site = gw_feed_site(&feed, "convolve net.c 10");
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH_SITE, 0, 0xf1f1, 0, 0, 0);
    feed.site = 0;
    train_twice(true);
    gw_feed_no_room(&feed, 8 * gib, 6 * gib, 16 * gib);
    close_program(1);
}

/* The leak explains the refusal, so the library's problem is only possible, and its cure is the last step. */
static void also_second_run_with_a_known_problem(void)
{
    assert_int_equal(verdict->known_count, 1);
    assert_int_equal(verdict->known[0].certainty, GW_HYPOTHESIS);
    assert_string_equal(verdict->next.item[verdict->next.count - 1], verdict->known[0].cure);
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

/* Load a layer in PARTS parts, which stay live. Each part is copied through a staging block, which is freed. Stores
 * the parts' addresses in `kept`, unless it is NULL. */
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

/* Train twice; the second run requests other sizes at the same lines. With `keep`, the memory of the first run is
 * not freed before the second. */
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
    train_another_size(true);
    assert_string_equal(verdict->cause, "gpu-oom-leak");
    assert_true(says("second run"));
    assert_true(says("the same call sites requested other sizes in the same order"));
    train_another_size(false);
    assert_false(says("second run"));
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, "gpu-oom-leak") != 0);
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

/* A thread loads parts of many sizes while another thread trains. The call sites of all requests happen to repeat in
 * the same order. */
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

/* Two complete runs, and a third one that fails in its training steps. The third run counts as a repetition, although
 * it is not complete. */
static void test_second_run_that_fails_in_its_steps(void **state)
{
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
    open_loader(); /* a single run: its training steps repeat each other but keep no memory */
    load_layer_of(2700 * mib, NULL);
    train_batches(58, 512 * mib);
    refuse_at(BATCH, 512 * mib);
    close_program(1);
    judge_open();
    assert_true(verdict->cause == NULL || strcmp(verdict->cause, "gpu-oom-leak") != 0);
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

/* Only allocations were recorded. So the blocks may be a pool that is allocated in pieces, or blocks that a loop
 * keeps. */
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

/* Feed a program that fails when 46 equal JAX arrays fill the card. It read `reads` results before the failure. */
static void judge_jax_arrays(int reads)
{
    open_program(4 * gib);
    gw_feed_map(&feed, "/venv/jaxlib/libjax_common.so");
    gw_feed_alloc(&feed, 3 * gib);
    for (int i = 0; i < reads; i++) {
        gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_read(&feed, 4);
    }
    gw_feed_text_call(&feed, "?", GW_EV_ARRAYS_OOM, 64 * mib, 3 * gib, 3 * gib, 3 * gib, "JAX");
    gw_feed_text_call(&feed, "?", GW_EV_ARRAYS, 64 * mib, 46, 0, 0, "float32[128,64,64,32]");
    gw_feed_text_call(&feed, "?", GW_EV_ARRAYS, mib, 100, 1, 0, "");
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"t.py\", line 9, in <module>\n"
                          "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
                          "64.00MiB with allocator GPU_0_bfc on device 0.\n");
    close_program(1);
}

static void feed_jax_arrays_kept(void)
{
    judge_jax_arrays(46);
}

static void feed_jax_arrays_near_a_model_of_equal_layers(void)
{
    judge_jax_arrays(2);
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

/* Feed steps that free everything, then `made` more contexts, then a refused request for 200 MiB that might have
 * fitted without them. */
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

/* Feed `captured` captures of 10 MiB each, `made` executable graphs from the first of them, and a refused request for
 * 200 MiB. */
static void capture_graphs(int captured, int made)
{
    open_program(4 * gib);
    gw_feed_alloc(&feed, 200 * mib);
    for (uint64_t i = 0; i < (uint64_t)captured; i++) {
        gw_feed_call(&feed, "cuStreamBeginCapture_v2", GW_EV_CAPTURE_BEGIN, 0, 0, 0, 0, STREAM);
        gw_feed_captured(&feed, 0xa0000 + i, 10 * mib, STREAM);
        gw_feed_call(&feed, "cuStreamEndCapture", GW_EV_CAPTURE_END, 0, 0x60000 + i, 0, 0, STREAM);
        if (i < (uint64_t)made)
            gw_feed_call(&feed, "cuGraphInstantiate", GW_EV_GRAPH_EXEC_CREATE, 0, 0x90000 + i, 0x60000 + i, 0, 0);
    }
    gw_feed_no_room(&feed, 200 * mib, 100 * mib, 4 * gib);
    close_program(1);
}

static void feed_graph_leak(void)
{
    capture_graphs(360, 360);
}

/* Most of the captured requests belong to graphs that were never instantiated, so they take no memory. */
static void feed_graph_leak_near_graphs_that_only_were_captured(void)
{
    capture_graphs(200, 20);
}

static void test_further_contexts_are_an_alternative(void **state)
{
    train_in_contexts(2);
    judge_open();
    assert_null(verdict->cause);
    assert_true(has_alternative("gpu-oom-leak"));
    assert_true(has_alternative("gpu-oom-capacity"));
    assert_false(list_has(&verdict->ruled_out, "a leak"));
    train_in_contexts(0);
    judge_open();
    assert_string_equal(verdict->cause, "gpu-oom-capacity");
    assert_true(list_has(&verdict->ruled_out, "a leak"));
}

static const row rows[] = {
    FAULT(second_run_finds_the_first_ones_memory, "gpu-oom-leak", GW_SUPPORTED, .ruled_out = {"fragmentation"},
          .also = also_second_run_finds_the_first_ones_memory),
    FAULT(second_run_with_a_known_problem, "gpu-oom-leak", GW_SUPPORTED, .also = also_second_run_with_a_known_problem),
    FAULT(second_run_near_the_first_was_released, "gpu-oom-capacity", GW_ESTABLISHED,
          .no_alternative = {"gpu-oom-leak"}),
    NOT_NAMED(second_run_near_layers_that_repeat, "gpu-oom-leak", .silent = {"second run"}),
    NAMED(second_run_of_loaded_layers, "gpu-oom-leak", .says = {"second run"}),
    NOT_NAMED(second_run_near_layers_that_grow, "", .silent = {"second run"}),
    NOT_NAMED(second_run_near_two_threads, "", .silent = {"second run"}),
    FAULT(leak_each_iteration, "gpu-oom-leak", GW_SUPPORTED, .value = {{(double)(5 * mib), "bytes"}, {300, "count"}}),
    FAULT(leak_near_activations_of_one_pass, "gpu-oom-capacity", GW_SUPPORTED, .not_ruled_out = {"a leak"}),
    FAULT(equal_blocks_without_work, "gpu-oom-capacity", GW_SUPPORTED),
    FAULT(jax_arrays_kept, "gpu-oom-leak", GW_SUPPORTED, .value = {{(double)(46 * 64 * mib), "bytes"}},
          .says = {"float32[128,64,64,32]"}),
    FAULT(jax_arrays_near_a_model_of_equal_layers, "gpu-oom-capacity", GW_SUPPORTED),
    FAULT(stream_leak, "gpu-oom-leak", GW_ESTABLISHED, .value = {{4001, "count"}}, .says = {"stream"}),
    FAULT(stream_leak_near_memory_holds_it, "gpu-oom-capacity", GW_ESTABLISHED),
    /* the count excludes the primary context */
    FAULT(context_leak, "gpu-oom-leak", GW_ESTABLISHED, .value = {{4, "count"}}, .says = {"context"}),
    FAULT(graph_leak, "gpu-oom-leak", GW_SUPPORTED, .value = {{360, "count"}, {(double)(3600 * mib), "bytes"}},
          .says = {"executable graph"}),
    NOT_NAMED(graph_leak_near_graphs_that_only_were_captured, "gpu-oom-leak", .silent = {"executable graph"}),
    TEST(test_second_run_of_another_size),
    TEST(test_second_run_that_fails_in_its_steps),
    TEST(test_further_contexts_are_an_alternative),
};

ROWS_MAIN(rows)
